"""METIS: the policy says which prompts it will learn from, and is trained to say it better."""

from curro.methods.prediction.metis.predictor import Metis

__all__ = ["Metis"]
