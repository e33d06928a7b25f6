"""METIS: the policy judges candidates by its recent results, and learns from how right it was."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from curro.core.bases import Predictor
from curro.core.checkpoint import check_prompt_numbers, check_state
from curro.core.errors import require
from curro.core.groups import Groups, UnlearnedGroups
from curro.core.policy import AuxiliarySamples, PolicyUse, Reply
from curro.core.prompts import PromptTable
from curro.methods.prediction.metis.template import DEFAULT, Statements, read_template

FAILED = ("lowest", "zero", "skip")
WINDOW = 64
"""The latest pairs among which `spread` chooses."""
LARGEST = 0.25
"""The largest variance of rewards in [0, 1] (METIS, section 3)."""
_NUMBER = re.compile(r"\s{0,8}([0-9]{1,3}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})\s{0,8}\}")


class Metis(Predictor):
    """The policy states the reward variance that it expects of a prompt, in its own words.

    Source: "Internalizing Curriculum Judgment for LLM Reinforcement Fine-Tuning" (METIS), section 4.

    Algorithm 1, with the defaults of table 5. What came back since the last choice enters the memory at the
    next one, in a random order; the baseline moves once a training step. So the order of feedback changes
    nothing.

    Args:
        exemplars: K, how many recent pairs of prompt and variance a judgment shows; 0 asks without any.
        spread: show pairs of low, middle and high variance among the latest 64, else the K latest.
        weight: lambda of (10); 0 judges without learning to.
        baseline_rate: how much the moving average b in (9), which starts at 0, keeps.
        failed: the reward of a selected prompt's judgment that failed: "lowest", 0, the least that (8) gives
            for variances in [0, 1/4]; "zero", what a prediction of 0 would get; "skip" does not train on it,
            and (9) still divides by the number of selected prompts.
        max_tokens: the most tokens of a judgment; a longer one ends there.
        template: a file with another text for the judgment prompt, or the name of one: "curro", "paper",
            "lab", "lab-compact" (`read_template`).
        cut: characters of a prompt's text that a judgment shows.
        strip: "module:function" from a prompt's text to the problem's statement alone.

    Raises:
        ConfigError: an option that is none of these, a template or a function that cannot be used.
    """

    remembered = (
        "memory", "rewards", "predicted", "unlearned", "baseline", "step", "judgments", "failures"
    )  # fmt: skip

    def __init__(
        self,
        *,
        exemplars: int = 3,
        spread: bool = False,
        weight: float = 0.01,
        baseline_rate: float = 0.95,
        failed: str = "lowest",
        max_tokens: int = 512,
        template: str | None = None,
        cut: int = 2000,
        strip: str | None = None,
    ) -> None:
        require(exemplars >= 0, "exemplars", "a number from 0", exemplars)
        require(0 <= weight < np.inf, "weight", "a finite number from 0", weight)
        require(0 <= baseline_rate <= 1, "baseline_rate", "in [0, 1]", baseline_rate)
        require(failed in FAILED, "failed", f"one of {', '.join(FAILED)}", failed)
        require(max_tokens >= 1, "max_tokens", "a number from 1", max_tokens)
        self.exemplars, self.weight, self.baseline_rate = exemplars, float(weight), baseline_rate
        self.policy_use = PolicyUse.ASKED | (PolicyUse.TRAINED if weight > 0 else PolicyUse.NONE)
        self.failed, self.max_tokens = failed, max_tokens
        self.template = read_template(template or DEFAULT, exemplars=exemplars > 0)
        self.statements = Statements(strip, cut)
        self.spread, self.window = spread, max(exemplars, WINDOW) if spread else exemplars

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        super().bind(table, rng)
        # the judgments of prompts in flight, and the latest pairs of prompt and variance, (2, M)
        self.pending: dict[int, Judgment] = {}
        self.memory = np.empty((2, 0))
        self.candidates: dict[int, Judgment] = {}
        self.unlearned = UnlearnedGroups(2, table.size)
        self.rewards = np.empty(0)
        self.baseline, self.step = 0.0, -1
        self.judgments = self.failures = 0
        self.predicted = np.empty(0)

    def trial(self, prompts: np.ndarray) -> float:
        """The share of judgments of these prompts (P,) that can be read; nothing is kept."""
        return float(np.mean([not np.isnan(read_prediction(r.text)) for r in self._ask(prompts, [])]))

    def _ask(self, prompts: np.ndarray, exemplars: list[tuple[str, float]]) -> list[Reply]:
        """The policy's judgments of prompts (P,), shown these exemplars."""
        statements = [self.statements.of(self.policy, prompt) for prompt in prompts.tolist()]
        messages = [self.template.messages(exemplars, statement) for statement in statements]
        return self.policy.answer(messages, self.max_tokens)

    def informativeness(self, prompts: np.ndarray, step: int) -> np.ndarray:
        """(7): the judgments of candidates (P,), 0 where one failed."""
        self._learn(step)
        pairs = self.memory[:, spread_rows(self.memory[1], self.exemplars)] if self.spread else self.memory
        examples = [
            (self.statements.of(self.policy, int(prompt)), variance) for prompt, variance in pairs.T.tolist()
        ]
        replies = self._ask(prompts, examples)
        self.predicted = np.array([read_prediction(reply.text) for reply in replies])
        judged = zip(prompts.tolist(), replies, self.predicted.tolist(), strict=True)
        self.candidates = {
            prompt: Judgment(reply.prompt_ids, reply.completion_ids, value) for prompt, reply, value in judged
        }
        self.judgments += len(replies)
        self.failures += int(np.isnan(self.predicted).sum())
        return np.nan_to_num(self.predicted, nan=0.0)

    def _learn(self, step: int) -> None:
        """Take in what came back since the last choice; move the baseline when a training step is over."""
        unlearned = self.unlearned.take()
        pairs = np.hstack([self.memory, unlearned[:, self.rng.permutation(unlearned.shape[1])]])
        self.memory = pairs[:, max(pairs.shape[1] - self.window, 0) :]
        if step > self.step:
            if len(self.rewards):
                keep = self.baseline_rate
                self.baseline = keep * self.baseline + (1 - keep) * float(np.sort(self.rewards).mean())
            self.rewards, self.step = self.rewards[:0], step

    def selected(self, prompts: np.ndarray) -> None:
        chosen = self.candidates.keys() & set(prompts.tolist())
        self.pending |= {prompt: self.candidates[prompt] for prompt in chosen}
        self.candidates = {}

    def observe(self, outcome: Groups) -> AuxiliarySamples | None:
        """The judgments of these prompts, their rewards (8) less the baseline as advantages."""
        realised_P = np.minimum(self.table.informativeness(outcome.variance), LARGEST)
        self.unlearned.add(outcome.prompts, realised_P)
        made = [self.pending.pop(prompt, None) for prompt in outcome.prompts.tolist()]
        judged_P = np.array([judgment is not None and bool(judgment.completion_ids) for judgment in made])
        judged = [judgment for judgment in made if judgment is not None and judgment.completion_ids]
        if not judged:
            return None
        predicted_J = np.array([judgment.predicted for judgment in judged])
        reward_J = judgment_reward(np.nan_to_num(predicted_J, nan=0.0), realised_P[judged_P])
        if self.failed == "lowest":
            reward_J[np.isnan(predicted_J)] = 0.0
        skipped_J = np.isnan(predicted_J) & (self.failed == "skip")
        self.rewards = np.concatenate([self.rewards, reward_J[~skipped_J]])
        if not self.weight or skipped_J.all():
            return None
        return AuxiliarySamples(
            tuple(judgment.prompt_ids for judgment in judged),
            tuple(judgment.completion_ids for judgment in judged),
            np.where(skipped_J, 0.0, reward_J - self.baseline),
            self.weight,
        )

    def release(self, prompts: np.ndarray) -> None:
        for prompt in prompts.tolist():
            self.pending.pop(prompt, None)

    def metrics(self) -> dict[str, float]:
        """Numbers on the latest candidates, this training step's rewards, and all judgments so far."""
        parsed = self.predicted[~np.isnan(self.predicted)]
        return {
            "judge/reward": float(self.rewards.mean()) if len(self.rewards) else np.nan,
            "judge/baseline": self.baseline,
            "judge/failure_rate": 1 - len(parsed) / len(self.predicted) if len(self.predicted) else np.nan,
            "judge/mean_prediction": float(parsed.mean()) if len(parsed) else np.nan,
            "judge/std_prediction": float(parsed.std()) if len(parsed) else np.nan,
            "judge/judgments": float(self.judgments),
            "judge/failures": float(self.failures),
        }

    def state_dict(self) -> Any:
        pending = [
            [prompt, list(made.prompt_ids), list(made.completion_ids), made.predicted]
            for prompt, made in sorted(self.pending.items())
        ]
        return super().state_dict() | {"pending": pending}

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        check_state(len(self.memory) == 2 and (self.memory[1] >= 0).all(), "metis/memory")
        check_prompt_numbers(self.memory[0], self.table.size, "metis/memory")
        self.pending = {
            prompt: Judgment(
                tuple(map(operator.index, asked)), tuple(map(operator.index, answered)), float(value)
            )
            for prompt, asked, answered, value in state["pending"]
        }
        check_prompt_numbers(np.array(list(self.pending), np.float64), self.table.size, "metis/pending")


def read_prediction(text: str) -> float:
    """The number in the last `\\boxed{}` of an answer; NaN where the judgment failed.

    "METIS", section 4.1: an answer fails without a boxed number, or with one outside [0, 1/4]. The last box
    decides (appendix B.4). The text is hostile: it is only matched.
    """
    _, box, rest = text.rpartition("\\boxed{")
    number = _NUMBER.match(rest) if box else None
    value = float(number[1]) if number else np.nan
    return value if value <= LARGEST else np.nan


def judgment_reward(predicted: np.ndarray, realised: np.ndarray) -> np.ndarray:
    """(8): R = 1 - (4 (v_hat - v))^2, in [0, 1] for variances in [0, 1/4]; arrays of one shape."""
    return 1 - np.square(4 * (predicted - realised))


@dataclass(frozen=True)
class Judgment:
    """The tokens of a judgment and the variance read from it, NaN if it failed."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    predicted: float


def spread_rows(variances: np.ndarray, k: int) -> np.ndarray:
    """The rows (K,) of pairs whose variances are nearest to K spaced evenly from the lowest to the highest.

    They ascend by variance, as in the examples of appendix B.3; of equally near pairs the latest is taken.
    """
    chosen: list[int] = []
    k = min(k, len(variances))
    low, high = variances.min(initial=LARGEST), variances.max(initial=0.0)
    for target in np.linspace(low, high, k) if k > 1 else [(low + high) / 2] * k:
        distance = np.abs(variances - target)
        distance[chosen] = np.inf
        chosen.append(len(distance) - 1 - int(distance[::-1].argmin()))
    rows = np.array(chosen, np.int64)
    return rows[np.argsort(variances[rows], kind="stable")]
