"""The engines' fixtures: a server and models."""

from tests.rollout.conftest import saved_models, serve

__all__ = ["saved_models", "serve"]
