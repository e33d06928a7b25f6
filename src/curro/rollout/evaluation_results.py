"""The results of an evaluation, their intervals, and their tables for the terminal and the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.table import Table

from curro.core.errors import ConfigError
from curro.core.intervals import Z95, wilson
from curro.core.text import printable
from curro.reward.reward import ROUNDING


def interval_over_problems(values_P: np.ndarray, samples: int) -> tuple[float, float]:
    """The 95% interval of a mean over problems.

    The problems are taken for a sample of possible ones, so the variance between them is
    what counts, not that between the samples of one problem. For values between 0 and 1 it is Wilson's
    interval with the effective number of problems n = P m (1 - m) / s2, for the mean m and the variance s2 of
    the values: P where every value is 0 or 1, more where several samples of a problem make its value more
    exact, and never more than all samples (Korn and Graubard 1998). For other values it is
    m -+ 1.96 s / sqrt(P - 1).

    Args:
        values_P: each problem's share of samples that are right, its pass@k, or its mean reward.
        samples: how many each problem got.
    """
    values = np.asarray(values_P, np.float64)
    mean, variance = float(values.mean()), float(values.var())
    if values.min() < 0 or values.max() > 1:
        half = Z95 * np.sqrt(variance / (len(values) - 1)) if len(values) > 1 else np.inf
        return float(mean - half), float(mean + half)
    effective_samples = mean * (1 - mean) / variance if variance > 0 else 1.0
    return wilson(mean, len(values) * max(1.0, min(effective_samples, samples)))


def held_out_scores(
    rewards_PG: np.ndarray, reward_range: tuple[float, float], signal_PG: np.ndarray | None = None
) -> dict[str, float]:
    """The metrics of an evaluation that run folders hold.

    Args:
        rewards_PG: rewards of G samples of each prompt; NaN, which is as wrong as complete failure, for no
            reward.
        reward_range: the rewards of complete failure and of complete success.
        signal_PG: what says which samples are right, where that is a part of the reward, whose range is then
            its own, so that a missing reward counts as 0. None: the reward.

    Returns:
        `eval/pass@1`, `eval/pass@G`, and `eval/reward`, the mean reward.
    """
    low, high = reward_range
    samples = rewards_PG.shape[1]
    rewards = np.where(np.isnan(rewards_PG), low if signal_PG is None else 0.0, rewards_PG)
    judged = rewards_PG if signal_PG is None else signal_PG
    correct_P = (judged >= high - ROUNDING * (high - low)).sum(axis=1)  # NaN is not
    accuracy = {f"eval/pass@{k}": pass_at_k(correct_P, samples, k) for k in {1, samples}}
    return accuracy | {"eval/reward": float(rewards.mean())}


def pass_at_k_of_each(correct_P: np.ndarray, samples: int, k: int) -> np.ndarray:
    """The unbiased estimate 1 - C(n-c, k) / C(n, k) of each prompt, float64 (P,).

    Chen et al., "Evaluating Large Language Models Trained on Code" (2021), equation 1.

    Args:
        correct_P: how many of a prompt's samples are right, int (P,).
        samples: n, how many samples each prompt has.
        k: from 1 to n.
    """
    if not 1 <= k <= samples:
        raise ConfigError(f"pass@{k} needs at least {k} samples a prompt and k >= 1; there are {samples}")
    correct = np.asarray(correct_P)
    if correct.size == 0 or correct.min() < 0 or correct.max() > samples:
        raise ConfigError(f"counts of right samples are between 0 and {samples}, for at least one prompt")
    wrong = samples - correct
    none_right = np.ones(len(correct))
    for i in range(k):
        none_right *= np.maximum(wrong - i, 0) / (samples - i)
    return 1 - none_right


def pass_at_k(correct_P: np.ndarray, samples: int, k: int) -> float:
    """The mean of `pass_at_k_of_each` over prompts; arguments and errors as there."""
    return float(pass_at_k_of_each(correct_P, samples, k).mean())


@dataclass(frozen=True)
class Result:
    """One model on one suite.

    Attributes:
        suite, model: their names.
        samples: how many each problem got.
        correct_P: how many of them are right.
        rewards_P: their mean reward; a sample that is not scored has 0.
        truncated: the share of samples that the limit of tokens cut.
    """

    suite: str
    model: str
    samples: int
    correct_P: np.ndarray
    rewards_P: np.ndarray
    truncated: float


@dataclass(frozen=True)
class Sheet:
    """A table of texts: a title, the columns' names, and rows of cells."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def render(self) -> Table:
        """For the terminal."""
        table = Table(*self.columns, title=printable(self.title), title_justify="left", box=None)
        for row in self.rows:
            table.add_row(*(printable(cell) for cell in row))
        return table

    def markdown(self) -> str:
        """For the documentation, without the title; all columns but the first are aligned to the right."""
        head = f"| {' | '.join(self.columns)} |\n|---|{'--:|' * (len(self.columns) - 1)}\n"
        return head + "".join(f"| {' | '.join(row)} |\n" for row in self.rows)


def overview(results: Sequence[Result], ks: Sequence[int]) -> Sheet:
    """The accuracy of each model on each suite, by the k of pass@k; none where a suite has fewer samples."""
    columns = ("suite", "model", "problems", "samples", *(f"pass@{k}" for k in ks), "mean reward", "cut off")
    rows = []
    for result in results:
        correct_P, samples = result.correct_P, result.samples
        cells = [
            with_interval(pass_at_k_of_each(correct_P, samples, k), samples) if k <= samples else ""
            for k in ks
        ]
        reward = with_interval(result.rewards_P, samples)
        counts = [str(len(correct_P)), str(samples)]
        rows.append([result.suite, result.model, *counts, *cells, reward, f"{result.truncated:.1%}"])
    return Sheet("Accuracy", columns, rows)


def with_interval(values_P: np.ndarray, samples: int) -> str:
    """The mean of values of problems with its 95% interval, as `0.433 (0.301 to 0.577)`."""
    low, high = interval_over_problems(values_P, samples)
    return f"{values_P.mean():.3f} ({low:.3f} to {high:.3f})"
