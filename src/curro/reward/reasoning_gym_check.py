"""One reasoning-gym scorer on one answer; runs in a process of its own, with a restricted `eval`."""

from __future__ import annotations

import json
import sys

import reasoning_gym
from reasoning_gym.factory import DATASETS

from curro.core.errors import RewardError
from curro.reward.restricted_eval import restricted_eval

for _name, _module in list(sys.modules.items()):
    if _name.startswith("reasoning_gym.") or _name == "sympy.parsing.sympy_parser":
        _module.eval = restricted_eval  # type: ignore[attr-defined]


def check(text: str) -> float:
    """The scorer's number for a job in JSON: an `answer` to the `entry` of the data set `data_set`."""
    job = json.loads(text)
    name = job["data_set"]
    if name not in DATASETS:
        raise RewardError(f"reasoning-gym has no data set {name!r}: see the column `metadata`")
    entry = job["entry"]
    if name in ("arc_agi", "rearc"):  # their scorers compare with tuples, which JSON has not
        entry["metadata"]["output"] = tuple(map(tuple, entry["metadata"]["output"]))
    if name == "complex_arithmetic" and "nan" in job["answer"].lower():
        return 0.0  # its scorer gives min(1, exp(-nan)), which is 1
    return float(reasoning_gym.get_score_answer_fn(name)(job["answer"], entry))
