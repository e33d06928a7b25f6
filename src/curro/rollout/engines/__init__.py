"""Engines: what generates rollouts, here or on a server."""
