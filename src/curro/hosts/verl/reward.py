"""curro's rewards as verl wants a custom reward function."""

from __future__ import annotations

from functools import cache
from typing import Any

from curro.reward import Reward, resolve_reward


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Any = None,
    *,
    reward: str = "math",
    **others: Any,
) -> float | dict[str, float]:
    """The score of a response; a response that cannot be scored has 0.0.

    For `reward.custom_reward_function.path=pkg://curro.hosts.verl.reward`. Rewards that ask whether the
    response was cut cannot be used: verl does not tell.

    Args:
        ground_truth: the answer, or what else the reward takes for one: of `code` the tests, as JSON.
        reward: as `curro.reward.resolve_reward` takes it; from
            `reward.custom_reward_function.reward_kwargs.reward`. Of a weighted sum the parts are returned by
            name beside `score`, where a gate finds them.

    Raises:
        RewardError: what the reward needs is not installed, or it needs more than verl tells.
    """
    found = _resolved(reward)
    row = {"answer": ground_truth, "prompt": "", "key": data_source}
    parts = {name: scores[0] or 0.0 for name, scores in found.named([solution_str], [row]).items()}
    score = sum(found.weights[name] * value for name, value in parts.items())
    return score if len(parts) == 1 else {"score": score, **parts}


@cache
def _resolved(spec: str) -> Reward:
    return resolve_reward(spec)
