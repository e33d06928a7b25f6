"""Held-out accuracy: several samples a prompt, pass@k without bias."""

from curro.rollout.evaluation_results import pass_at_k

__all__ = ["pass_at_k"]
