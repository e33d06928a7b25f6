"""Processes that call a function which may hang, crash, leak or eat the memory."""
