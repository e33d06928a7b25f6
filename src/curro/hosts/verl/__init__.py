"""curro in verl: trainer modes whose prompts are chosen by a curriculum, found by verl as a plugin."""
