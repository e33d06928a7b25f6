"""The folder of a run: its layout, what writes into it and what reads it."""
