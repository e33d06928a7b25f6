"""Verifiers: completions in, rewards out."""

from curro.reward.adapters import group_scorer, trl_reward
from curro.reward.resolve import resolve_reward
from curro.reward.reward import Reward

__all__ = ["Reward", "group_scorer", "resolve_reward", "trl_reward"]
