"""prime-rl: a curriculum in place of the samplers and gates that its configuration knows.

Tested with stand-ins for its classes, and by hand with the orchestrator's own classes of prime-rl 559b4477.
"""
