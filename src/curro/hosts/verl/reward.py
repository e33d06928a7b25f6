"""curro's rewards as verl wants a custom reward function."""

from __future__ import annotations

from typing import Any

from curro.reward.math import verify


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, **others: Any
) -> float:
    """1.0 where math-verify finds the answer equal to `ground_truth`, else 0.0.

    For `reward.custom_reward_function.path=pkg://curro.hosts.verl.reward`.

    Raises:
        RewardError: math-verify is not installed.
    """
    (score,) = verify([solution_str], [{"answer": ground_truth}])
    return score or 0.0
