"""What a prompt can teach, in nats: the divergence between the policy and the best one in reach of it.

Source: "Online Difficulty Filtering for Reasoning Oriented Reinforcement Learning", sections 3 and 6.3;
equation numbers are its. pi_init is the policy that rolled out, pi* proportional to pi_init exp(r / beta)
the optimum of E[r] - beta KL(pi || pi_init), and the learnability of a prompt is D = KL(pi_init || pi*).
A temperature `beta` is in the units of the reward it divides, a variance in their square. Arguments
broadcast, results are float64.
"""

from curro.theory.distributions import cumulant_expansion, finite_kl, gaussian_kl, sample_kl, sample_variance
from curro.theory.learnability import (
    BINS,
    LearnabilitySummary,
    crossing,
    learnability,
    most_learnable,
    reverse_kl,
    variance_approximation,
    variance_bounds,
)

__all__ = [
    "BINS",
    "LearnabilitySummary",
    "crossing",
    "cumulant_expansion",
    "finite_kl",
    "gaussian_kl",
    "learnability",
    "most_learnable",
    "reverse_kl",
    "sample_kl",
    "sample_variance",
    "variance_approximation",
    "variance_bounds",
]
