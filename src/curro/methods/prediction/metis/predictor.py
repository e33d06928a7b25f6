"""METIS: the policy judges candidates by its recent results, and learns from how right it was.

`Metis` is the predictor. Below it stand what the policy's answer says and earns, the judgments of prompts in
flight (made, and not yet compared with the prompts' outcomes), and the memory of outcomes that judgments are
shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from curro.core.bases import Predictor
from curro.core.checkpoint import check_prompt_numbers, check_state
from curro.core.errors import ConfigError
from curro.core.groups import Groups, UnlearnedGroups
from curro.core.policy import AuxiliarySamples, PolicyUse
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

    Zheng et al., "Internalizing Curriculum Judgment for LLM Reinforcement Fine-Tuning", section 4 and
    algorithm 1; defaults of table 5. Before the first outcome the memory is empty, and candidates are judged
    without exemplars, as algorithm 1 does. What came back since the last choice enters the memory at the next
    one, in a random order; the baseline moves once a training step. So the order in which feedback comes
    changes nothing.

    Args:
        exemplars: K, how many recent pairs of prompt and variance a judgment shows; 0 asks without any.
        spread: show pairs of low, middle and high variance among the latest 64, else the K latest.
        weight: lambda of (10); 0 judges without learning to.
        baseline_rate: of the moving average b in (9), which starts at 0.
        failed: the reward of a selected prompt's judgment that failed: "lowest", 0, the least that (8) gives
            for variances in [0, 1/4]; "zero", that of a prediction of 0; "skip" does not train on it, and (9)
            still divides by the number of selected prompts.
        max_tokens: of a judgment; one that is longer ends there.
        template: a file with another text for the judgment prompt, or the name of one: "curro", "paper",
            "lab", "lab-compact" (`read_template`).
        cut: characters of a prompt's text that a judgment shows.
        strip: "module:function" from a prompt's text to the problem's statement alone.

    Raises:
        ConfigError: an option that is none of these, a template or a function that cannot be used.
    """

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
        if exemplars < 0:
            raise ConfigError(f"exemplars is a number from 0, not {exemplars}")
        if not 0 <= weight < np.inf:
            raise ConfigError(f"weight is a finite number from 0, not {weight}")
        if not 0 <= baseline_rate <= 1:
            raise ConfigError(f"baseline_rate is in [0, 1], not {baseline_rate}")
        if failed not in FAILED:
            raise ConfigError(f"failed is one of {', '.join(FAILED)}, not {failed!r}")
        if max_tokens < 1:
            raise ConfigError(f"max_tokens is a number from 1, not {max_tokens}")
        self.exemplars, self.weight, self.baseline_rate = exemplars, float(weight), baseline_rate
        self.policy_use = PolicyUse.ASKED | (PolicyUse.TRAINED if weight > 0 else PolicyUse.NONE)
        self.failed, self.max_tokens = failed, max_tokens
        self.template = read_template(template or DEFAULT, exemplars=exemplars > 0)
        self.statements = Statements(strip, cut)
        self.memory = CalibrationMemory(exemplars, spread=spread)

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        super().bind(table, rng)
        self.pending = PendingJudgments()
        self.candidates: dict[int, Judgment] = {}
        self.unlearned = UnlearnedGroups(2)
        self.rewards = np.empty(0)
        self.baseline, self.step = 0.0, -1
        self.judgments = self.failures = 0
        self.predicted = np.empty(0)

    def trial(self, prompts: np.ndarray) -> float:
        """The share of judgments of these prompts (P,) that can be read; nothing is kept."""
        messages = [
            self.template.messages([], self.statements.of(self.policy, prompt)) for prompt in prompts.tolist()
        ]
        replies = self.policy.answer(messages, self.max_tokens)
        return float(np.mean([not np.isnan(read_prediction(reply.text)) for reply in replies]))

    def informativeness(self, prompts: np.ndarray, step: int) -> np.ndarray:
        """(7): the judgments of candidates (P,), 0 where one failed."""
        self._learn(step)
        self.candidates = {}
        shown = list(zip(*(column.tolist() for column in self.memory.exemplars()), strict=True))
        examples = [(self.statements.of(self.policy, prompt), variance) for prompt, variance in shown]
        replies = self.policy.answer(
            [
                self.template.messages(examples, self.statements.of(self.policy, prompt))
                for prompt in prompts.tolist()
            ],
            self.max_tokens,
        )
        self.predicted = np.array([read_prediction(reply.text) for reply in replies])
        for prompt, reply, value in zip(prompts.tolist(), replies, self.predicted.tolist(), strict=True):
            self.candidates[prompt] = Judgment(reply.prompt_ids, reply.completion_ids, value)
        self.judgments += len(replies)
        self.failures += int(np.isnan(self.predicted).sum())
        return np.nan_to_num(self.predicted, nan=0.0)

    def _learn(self, step: int) -> None:
        """Take in what came back since the last choice; move the baseline when a training step is over."""
        unlearned = self.unlearned.take()
        prompts, variances = unlearned[:, self.rng.permutation(unlearned.shape[1])]
        self.memory.add(prompts.astype(np.int64), variances)
        if step > self.step:
            if len(self.rewards):
                keep = self.baseline_rate
                self.baseline = keep * self.baseline + (1 - keep) * float(np.sort(self.rewards).mean())
            self.rewards, self.step = self.rewards[:0], step

    def selected(self, prompts: np.ndarray) -> None:
        for prompt in prompts.tolist():
            if prompt in self.candidates:
                self.pending.keep(prompt, self.candidates[prompt])
        self.candidates = {}

    def observe(self, outcome: Groups) -> AuxiliarySamples | None:
        """The judgments of these prompts, their rewards (8) less the baseline as advantages."""
        low, high = self.table.reward_range
        realised_P = np.minimum(outcome.variance / (high - low) ** 2, LARGEST)
        self.unlearned.add(outcome.prompts, realised_P)
        made = [self.pending.take(prompt) for prompt in outcome.prompts.tolist()]
        judged = [
            (judgment, realised)
            for judgment, realised in zip(made, realised_P.tolist(), strict=True)
            if judgment is not None and judgment.completion_ids
        ]
        if not judged:
            return None
        predicted_J = np.array([judgment.predicted for judgment, _ in judged])
        reward_J = judgment_reward(np.nan_to_num(predicted_J, nan=0.0), np.array([v for _, v in judged]))
        if self.failed == "lowest":
            reward_J[np.isnan(predicted_J)] = 0.0
        skipped_J = np.isnan(predicted_J) & (self.failed == "skip")
        self.rewards = np.concatenate([self.rewards, reward_J[~skipped_J]])
        if not self.weight or skipped_J.all():
            return None
        return AuxiliarySamples(
            tuple(judgment.prompt_ids for judgment, _ in judged),
            tuple(judgment.completion_ids for judgment, _ in judged),
            np.where(skipped_J, 0.0, reward_J - self.baseline),
            self.weight,
        )

    def release(self, prompts: np.ndarray) -> None:
        for prompt in prompts.tolist():
            self.pending.take(prompt)

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

    def state_dict(self) -> dict[str, Any]:
        return {
            "pending": self.pending.state_dict(),
            "memory": self.memory.state_dict(),
            "fresh": self.unlearned.groups.copy(),
            "rewards": self.rewards.copy(),
            "predicted": self.predicted.copy(),
            "baseline": self.baseline,
            "step": self.step,
            "judgments": self.judgments,
            "failures": self.failures,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.pending.load_state_dict(state["pending"])
        self.memory.load_state_dict(state["memory"])
        check_prompt_numbers(state["memory"]["prompts"], self.table.size, "metis/memory/prompts")
        check_prompt_numbers(state["pending"]["prompts"], self.table.size, "metis/pending/prompts")
        self.unlearned.load(state["fresh"], "metis/fresh", self.table.size)
        for name in ("rewards", "predicted"):
            setattr(self, name, state[name].copy())
        for name in ("baseline", "step", "judgments", "failures"):
            setattr(self, name, state[name])


def read_prediction(text: str) -> float:
    """The number in the last `\\boxed{}` of an answer; NaN where the judgment failed.

    "METIS", section 4.1: an answer fails without a boxed number, or with one outside [0, 1/4]. The last box
    decides, also where an earlier one would do (appendix B.4). The text is hostile: it is only matched.
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


class PendingJudgments:
    """At most one judgment a prompt, as many as there are prompts in flight."""

    def __init__(self) -> None:
        self._judgments: dict[int, Judgment] = {}

    def __len__(self) -> int:
        return len(self._judgments)

    def keep(self, prompt: int, judgment: Judgment) -> None:
        """Hold the judgment of a prompt that goes into flight."""
        self._judgments[prompt] = judgment

    def take(self, prompt: int) -> Judgment | None:
        """The judgment of a prompt that came back, which is then forgotten; None if there is none."""
        return self._judgments.pop(prompt, None)

    def state_dict(self) -> dict[str, Any]:
        """Arrays: prompts and predictions (J,), the tokens one after the other, and their counts (J,)."""
        made = [self._judgments[prompt] for prompt in sorted(self._judgments)]
        return {
            "prompts": np.array(sorted(self._judgments), np.int64),
            "predicted": np.array([judgment.predicted for judgment in made], np.float64),
            "asked": _flat([judgment.prompt_ids for judgment in made]),
            "asked_lengths": np.array([len(judgment.prompt_ids) for judgment in made], np.int64),
            "answered": _flat([judgment.completion_ids for judgment in made]),
            "answered_lengths": np.array([len(judgment.completion_ids) for judgment in made], np.int64),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name in ("asked", "answered"):
            lengths = state[f"{name}_lengths"]
            add_up = (lengths >= 0).all() and lengths.sum() == len(state[name])
            check_state(add_up, f"metis/pending/{name}", "are not of the judgments")
        asked = _parts(state["asked"], state["asked_lengths"])
        answered = _parts(state["answered"], state["answered_lengths"])
        prompts, predicted = state["prompts"].tolist(), state["predicted"].tolist()
        self._judgments = {
            prompt: Judgment(*fields)
            for prompt, *fields in zip(prompts, asked, answered, predicted, strict=True)
        }


def _flat(sequences: Sequence[Sequence[int]]) -> np.ndarray:
    return np.array([token for sequence in sequences for token in sequence], np.int64)


def _parts(flat: np.ndarray, lengths: np.ndarray) -> list[tuple[int, ...]]:
    ends = np.cumsum(lengths)
    return [tuple(flat[end - length : end].tolist()) for end, length in zip(ends, lengths, strict=True)]


class CalibrationMemory:
    """The latest pairs of prompt and variance, of which K are shown (METIS, section 4.1).

    Args:
        size: K.
        spread: show, of the latest `WINDOW` pairs, those nearest to K variances spaced evenly from the
            lowest to the highest, as in the examples of appendix B.3; else the K latest.
    """

    def __init__(self, size: int, *, spread: bool) -> None:
        self.size, self.spread = size, spread
        self.prompts = np.empty(0, np.int64)
        self.variances = np.empty(0)

    def add(self, prompts: np.ndarray, variances: np.ndarray) -> None:
        """Add pairs (P,), the latest last."""
        window = max(self.size, WINDOW) if self.spread else self.size
        kept = max(len(self.prompts) + len(prompts) - window, 0)
        self.prompts = np.concatenate([self.prompts, prompts])[kept:]
        self.variances = np.concatenate([self.variances, variances])[kept:]

    def exemplars(self) -> tuple[np.ndarray, np.ndarray]:
        """Prompts and variances (K,) to show; fewer while there are fewer.

        The latest stands last; with `spread` they ascend by variance.
        """
        rows = self._spread() if self.spread else np.arange(len(self.prompts))
        return self.prompts[rows], self.variances[rows]

    def _spread(self) -> np.ndarray:
        chosen: list[int] = []
        k = min(self.size, len(self.prompts))
        if k:
            low, high = self.variances.min(), self.variances.max()
            for target in np.linspace(low, high, k) if k > 1 else [(low + high) / 2]:
                distance = np.abs(self.variances - target)
                distance[chosen] = np.inf
                # of equally near pairs the latest
                chosen.append(len(distance) - 1 - int(distance[::-1].argmin()))
        rows = np.array(chosen, np.int64)
        return rows[np.argsort(self.variances[rows], kind="stable")]

    def state_dict(self) -> dict[str, Any]:
        return {"prompts": self.prompts.copy(), "variances": self.variances.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        prompts, variances = state["prompts"], state["variances"]
        check_state(prompts.shape == variances.shape, "metis/memory", "is not of pairs")
        check_state((variances >= 0).all(), "metis/memory", "has variances below 0")
        self.prompts, self.variances = prompts.copy(), variances.copy()
