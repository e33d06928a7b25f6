"""What is to be expected of a pool before a run: what a guesser gets, and how often prompts are visited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

NEAR = 1.5
"""A model is not better than a guesser where its rate is less than so many times the guesser's."""


@dataclass(frozen=True)
class Guesser:
    """What somebody gets who knows the answers of a pool, but not which prompt has which.

    Attributes:
        most_frequent: the share of prompts that the most frequent answer solves.
        answer: that answer.
        drawn: the share of rollouts that are right when answers are drawn from all prompts' answers.
        drawn_at_k: the share of prompts that one of k such draws solves.
        k: the number of draws.
    """

    most_frequent: float
    answer: str
    drawn: float
    drawn_at_k: float
    k: int

    @classmethod
    def of(cls, answers: Sequence[str | None], k: int) -> Guesser | None:
        """The guesser of these answers, one a prompt; None where a prompt has none.

        With p_a the share of prompts that have the answer a, a draw is right with the probability
        sum p_a^2, and one of k is right with sum p_a (1 - (1 - p_a)^k).
        """
        if not answers or any(answer is None for answer in answers):
            return None
        counts = Counter(str(answer).strip() for answer in answers)
        share_A = np.array(list(counts.values())) / len(answers)
        answer, count = counts.most_common(1)[0]
        return cls(
            count / len(answers),
            answer,
            float(np.square(share_A).sum()),
            float((share_A * (1 - (1 - share_A) ** k)).sum()),
            k,
        )

    def describe(self, rates: np.ndarray, solved: float) -> list[str]:
        """The sentences for a user.

        Args:
            rates: pass rates of the model (N,), NaN where a prompt has none.
            solved: the share of prompts that one of k rollouts of the model solves.
        """
        sentences = [
            f"a guesser who knows the pool's answers gets {self.drawn:.3f} by drawing one of them, "
            f"{self.drawn_at_k:.3f} at pass@{self.k}, and {self.most_frequent:.3f} with the most frequent "
            f"one, {self.answer!r:.30}"
        ]
        mean = float(np.nanmean(rates)) if (~np.isnan(rates)).any() else 0.0
        if solved < NEAR * self.drawn_at_k and mean < NEAR * max(self.drawn, self.most_frequent):
            sentences.append(
                f"the model's pass@{self.k} of {solved:.3f} is about what the guesser gets: a prompt that "
                "was solved once may have been guessed, and its pass rate says little of what can be learnt"
            )
        return sentences


def expected_visits(rollouts: int, group: int, prompts: int) -> float:
    """How many groups of a run each prompt gets on average."""
    return rollouts / group / prompts


def describe_visits(rollouts: int, group: int, prompts: int) -> str:
    """The sentence that says how often a prompt is visited, and which methods that suits."""
    visits = expected_visits(rollouts, group, prompts)
    sentence = (
        f"a run of {rollouts:,} rollouts in groups of {group} visits each of {prompts:,} prompts "
        f"{visits:{',.0f' if visits >= 10 else '.2g'}} times"
    )
    if visits >= 2:
        return sentence
    return (
        f"{sentence}: methods that need second visits (as prioritized-replay, pspo and posterior) have few; "
        "frontier predicts prompts that were never visited"
    )


def visits_warning(selection: str, rollouts: int, group: int, prompts: int) -> str | None:
    """The sentence for a run whose selection needs second visits; None where it will have them.

    Args:
        selection: its name.
    """
    visits = expected_visits(rollouts, group, prompts)
    if visits >= 1:
        return None
    return (
        f"{selection} chooses prompts by their own earlier outcomes, and this run visits a prompt "
        f"{visits:.2g} times on average: most prompts never come back. Take frontier, which predicts prompts "
        f"that were never visited, or at most {rollouts // group // 2:,} of the {prompts:,} prompts (--limit)"
    )
