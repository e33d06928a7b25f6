"""The families of tasks, one a file."""
