"""prime-rl: a curriculum in place of the samplers and gates that its configuration knows."""
