"""Conversations of several turns with function calls: the multi-turn part of BFCL, as an environment."""

from curro.reward.environments.bfcl.environment import Bfcl

__all__ = ["Bfcl"]
