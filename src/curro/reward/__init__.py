"""Verifiers: completions in, rewards out."""

from curro.reward.resolve import resolve_reward
from curro.reward.reward import Reward
from curro.reward.trl import trl_reward

__all__ = ["Reward", "resolve_reward", "trl_reward"]
