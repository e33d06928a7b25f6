"""Tasks of several turns: the model acts, an environment answers, the whole trajectory is rewarded."""

from curro.reward.environments.environment import Environment, Episode, resolve_environment

__all__ = ["Environment", "Episode", "resolve_environment"]
