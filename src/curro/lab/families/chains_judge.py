"""Chains of look-ups for a model that also judges how uncertain it is of one."""

from __future__ import annotations

import math

from curro.lab.families.chains import ERROR_RATES, Chains
from curro.lab.family import Row
from curro.lab.judging import JudgeWarm, JudgingFamily


class ChainsJudge(Chains, JudgingFamily):
    """The problems of `chains`; a chain is right as often as all of its letters are."""

    name = "chains_judge"
    describe = "chains, with a warm model that predicts the variance of its rewards, for METIS"
    warm = JudgeWarm(width=64, layers=2, steps=700, batch=128, learning_rate=5e-3, judgments=32)

    def reliability(self, row: Row) -> float:
        return math.prod(1 - ERROR_RATES[letter] for letter in row["prompt"][1:-1])
