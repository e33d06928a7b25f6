"""How hard a data set's prompts are for a model, and smaller data sets made of the answer."""
