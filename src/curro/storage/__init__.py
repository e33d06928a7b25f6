"""What is written to disk: checkpoints, run folders, JSON lines."""
