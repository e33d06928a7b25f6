"""The policy judges candidates by its recent results, and learns from how right it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.errors import ConfigError
from curro.group_order import by_prompt
from curro.groups import Groups
from curro.policy import AuxiliarySamples
from curro.prediction.base import Predictor
from curro.prediction.metis.judgment import LARGEST, judgment_reward, read_prediction
from curro.prediction.metis.memory import CalibrationMemory
from curro.prediction.metis.pending import Judgment, PendingJudgments
from curro.prediction.metis.statements import Statements
from curro.prediction.metis.template import DEFAULT, read_template
from curro.prompts import PromptTable
from curro.saved_state import require, require_prompts

FAILED = ("lowest", "zero", "skip")


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

    needs_policy = True

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
        self.failed, self.max_tokens = failed, max_tokens
        self.template = read_template(template or DEFAULT, exemplars=exemplars > 0)
        self.statements = Statements(strip, cut)
        self.memory = CalibrationMemory(exemplars, spread=spread)

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        super().bind(table, rng)
        self.pending = PendingJudgments()
        self.candidates: dict[int, Judgment] = {}
        self.fresh = np.empty((2, 0))
        self.rewards = np.empty(0)
        self.baseline, self.step = 0.0, -1
        self.judgments = self.failures = 0
        self.predicted = np.empty(0)

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
        fresh = by_prompt(self.fresh)
        prompts, variances = fresh[:, self.rng.permutation(fresh.shape[1])]
        self.memory.add(prompts.astype(np.int64), variances)
        self.fresh = self.fresh[:, :0]
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
        self.fresh = np.concatenate([self.fresh, [outcome.prompts, realised_P]], axis=1)
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
        """Of the latest choice's candidates, of this training step's rewards, and of all judgments so far."""
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
            "fresh": self.fresh.copy(),
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
        require_prompts(state["memory"]["prompts"], self.table.size, "metis/memory/prompts")
        require_prompts(state["pending"]["prompts"], self.table.size, "metis/pending/prompts")
        require(len(state["fresh"]) == 2, "metis/fresh", "is not of pairs")
        require_prompts(state["fresh"][0], self.table.size, "metis/fresh")
        for name in ("fresh", "rewards", "predicted"):
            setattr(self, name, state[name].copy())
        for name in ("baseline", "step", "judgments", "failures"):
            setattr(self, name, state[name])
