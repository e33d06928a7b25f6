"""Verifiers: completions in, rewards out."""

from curro.reward.resolve import resolve_reward
from curro.reward.reward import Reward
from curro.reward.scorer import group_scorer
from curro.reward.trl import trl_reward

__all__ = ["Reward", "group_scorer", "resolve_reward", "trl_reward"]
