"""Held-out accuracy: several samples a prompt, pass@k without bias."""

from curro.evaluation.pass_at_k import pass_at_k

__all__ = ["pass_at_k"]
