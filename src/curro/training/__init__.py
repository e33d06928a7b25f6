"""What `curro train` does: settings, the run, what it records."""
