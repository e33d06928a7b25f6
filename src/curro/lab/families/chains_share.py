"""Chains of look-ups with a reward for every digit: not right or wrong, but how much of it is right."""

from __future__ import annotations

from curro.lab.families.chains import Chains
from curro.lab.family import Row


class ChainsShare(Chains):
    """The problems and the warm model of `chains`; the reward is the share of the digits that are right.

    A digit counts in its place. Those after a mistake are seldom right, since each follows from the one
    before, and an answer longer than the chain is measured against its own length.
    """

    name = "chains_share"
    describe = "chains, rewarded by the share of right digits: a reward between 0 and 1"
    checkpoint = "chains"

    def score(self, completion: str, row: Row) -> float:
        given, answer = completion.strip(), row["answer"]
        right = sum(a == b for a, b in zip(given, answer, strict=False))
        return right / max(len(given), len(answer))
