"""What runs look like: one page, still or live, tables in the terminal, comparisons of several runs."""
