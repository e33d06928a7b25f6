"""What makes TRL's GRPO faster, with or without a curriculum."""
