"""Writes a run down, groups, kept rollouts and steps, for whoever looks at it: `curro watch`, the report."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from curro.errors import ConfigError
from curro.prompts import PromptTable
from curro.runs.folder import HOSTED, PREDICTED, RunFolder
from curro.selection.base import Reason
from curro.verdicts import Draw, Verdict

MOST_TEXT = 200_000
"""Characters of a prompt or a completion that are kept."""


@dataclass(frozen=True)
class Completion:
    """What was generated in one rollout: its hostile text, its tokens, and whether the limit cut it."""

    text: str
    tokens: int
    is_cut: bool


@dataclass(frozen=True)
class KeepRollouts:
    """How many rollouts are kept to be read.

    Attributes:
        per_group: of every group; 0 keeps none.
        megabytes: of the file in which they are kept; when it is full, no more are kept.

    Raises:
        ConfigError: a negative number, or none.
    """

    per_group: int = 0
    megabytes: float = 1000.0

    def __post_init__(self) -> None:
        is_size = isinstance(self.megabytes, int | float) and self.megabytes >= 0
        if type(self.per_group) is not int or self.per_group < 0 or not is_size:
            raise ConfigError("the rollouts to keep are 0 or more a group, in 0 or more megabytes")


class RunWriter:
    """A run's lines in its folder.

    Attributes:
        rollouts: how many there were, rejected groups included.
        rewards, signal: of the rollouts and the groups since the last step's line.
    """

    def __init__(self, folder: RunFolder, table: PromptTable, keep: KeepRollouts = KeepRollouts()) -> None:
        self.folder, self.table, self.keep = folder, table, keep
        self.rollouts, self.seconds = 0, 0.0
        self.rewards: list[float] = []
        self.signal: list[bool] = []
        self._since = time.perf_counter()

    @classmethod
    def of_host(
        cls,
        output: Path,
        config: Mapping[str, Any],
        table: PromptTable,
        step: int,
        keep: KeepRollouts = KeepRollouts(),
    ) -> Self:
        """The writer of a host adapter's run in its trainer's output folder.

        A run that begins leaves the lines of an earlier run there under another name; one that resumes goes
        on with them.

        Args:
            config: what the run was started with.
            step: the last finished training step; 0 for a run that begins.
        """
        path = output / HOSTED
        if step == 0 and path.exists():
            number = next(n for n in itertools.count(1) if not (output / f"{HOSTED}-{n}").exists())
            path.rename(output / f"{HOSTED}-{number}")
        if (path / "config.json").exists():
            writer = cls(RunFolder.open(path), table, keep)
            writer.resume(step)
            return writer
        return cls(RunFolder.create(path, config), table, keep)

    def resume(self, step: int) -> None:
        """Go on after a step: forget what was written of later ones, count on from there."""
        self.folder.truncate_after(step)
        last = self.folder.latest()
        if last is not None:
            self.rollouts, self.seconds = int(last["rollouts"]), float(last.get("seconds", 0.0))
        self._since = time.perf_counter()

    def groups(
        self,
        step: int,
        reasons_P: np.ndarray,
        rewards_PG: np.ndarray,
        verdict: Verdict,
        sizes_P: np.ndarray,
        completions: Sequence[Sequence[Completion]] = (),
    ) -> None:
        """Write down finished groups.

        Args:
            step: the training step that they are for, from 1.
            reasons_P: why each was drawn.
            rewards_PG: NaN where a rollout was not scored; rows of smaller groups end in NaN.
            sizes_P: how many rollouts were generated of each, scored or not.
            completions: of each group, in the order of its rewards; empty where the host does not know them.
        """
        table, prompts = self.table, verdict.prompts.tolist()
        predicted = {name: table[name][verdict.prompts] for name in PREDICTED if name in table.columns}
        lines = []
        for i, prompt in enumerate(prompts):
            group = completions[i] if completions else ()
            lines.append(
                {
                    "step": step,
                    "prompt": prompt,
                    "key": table.key(prompt),
                    **_text(table, prompt),
                    "reason": int(reasons_P[i]),
                    "mean": verdict.mean[i],
                    "variance": verdict.informativeness[i],
                    "admitted": bool(verdict.admitted[i]),
                    "rollouts": int(sizes_P[i]),
                    **_source(table, prompt),
                    **_lengths(group),
                    **{name: values[i] for name, values in predicted.items()},
                }
            )
        self.folder.append_groups(lines)
        if completions and self.keep.per_group:
            self._keep(step, prompts, rewards_PG, completions)
        self.rollouts += int(sizes_P.sum())
        self.rewards += rewards_PG[~np.isnan(rewards_PG)].tolist()
        self.signal += (~table.is_flat(verdict.informativeness)).tolist()

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write down a training step, with these metrics beside its rewards and its time."""
        now = time.perf_counter()
        self.seconds, self._since = self.seconds + now - self._since, now
        self.folder.append_metrics(
            {"step": step, "rollouts": self.rollouts, "seconds": self.seconds, **self.take_means(), **metrics}
        )

    def evaluated(self, step: int, scores: Mapping[str, float], seconds: float) -> None:
        """Write down held-out scores, in a line of their own.

        Args:
            step: the last finished training step.
            scores: by the names `eval/...`.
            seconds: what the evaluation took, which does not count as training.
        """
        self._since += seconds
        line = {"step": step, "rollouts": self.rollouts, "seconds": self.seconds}
        self.folder.append_metrics(line | dict(scores))

    def take_means(self) -> dict[str, float]:
        """The mean reward and the share of groups with a signal since the last call."""
        found = {
            "reward": float(np.mean(self.rewards)) if self.rewards else np.nan,
            "signal_share": float(np.mean(self.signal)) if self.signal else np.nan,
        }
        self.rewards, self.signal = [], []
        return found

    def _keep(
        self,
        step: int,
        prompts: Sequence[int],
        rewards_PG: np.ndarray,
        completions: Sequence[Sequence[Completion]],
    ) -> None:
        path = self.folder.rollouts_file
        if (path.stat().st_size if path.exists() else 0) >= 1e6 * self.keep.megabytes:
            return
        self.folder.append_rollouts(
            {
                "step": step,
                "prompt": prompt,
                "text": _prompt_text(self.table, prompt)[:MOST_TEXT],
                "rollouts": [
                    {
                        "reward": None if np.isnan(rewards_PG[i, j]) else float(rewards_PG[i, j]),
                        "tokens": completions[i][j].tokens,
                        "cut": completions[i][j].is_cut,
                        "text": completions[i][j].text[:MOST_TEXT],
                    }
                    for j in spread(rewards_PG[i, : len(completions[i])], self.keep.per_group)
                ],
            }
            for i, prompt in enumerate(prompts)
        )


def spread(rewards_G: np.ndarray, n: int) -> list[int]:
    """At most n rollouts of a group, with the lowest and the highest reward among them, in their order."""
    order = np.argsort(rewards_G, kind="stable")
    places = np.linspace(0, len(order) - 1, min(n, len(order))).round().astype(np.int64)
    return sorted(order[np.unique(places)].tolist())


def _text(table: PromptTable, prompt: int) -> dict[str, str]:
    text = table.text(prompt)
    return {"text": text} if text else {}


def _source(table: PromptTable, prompt: int) -> dict[str, str]:
    found = table.source(prompt)
    return {} if found is None else {"source": found}


def _lengths(group: Sequence[Completion]) -> dict[str, int]:
    if not group:
        return {}
    return {"tokens": sum(one.tokens for one in group), "cut": sum(one.is_cut for one in group)}


def _prompt_text(table: PromptTable, prompt: int) -> str:
    """A row's prompt as text; of a conversation all messages, each after its role."""
    asked = None if table.rows is None else table.rows[prompt].get("prompt")
    if not isinstance(asked, list):
        return "" if asked is None else str(asked)
    return "\n\n".join(f"{message.get('role')}: {message.get('content')}" for message in asked)


class TicketWriter(RunWriter):
    """A `RunWriter` that remembers why the prompts in flight were drawn.

    After a resume nothing is known of those that were in flight before; they count as drawn by priority.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._reasons: dict[int, int] = {}

    def state_dict(self) -> dict[str, Any]:
        """Where the files end, and what counts towards the next step's line."""
        reasons = np.array(list(self._reasons.items()), np.int64).reshape(-1, 2)
        return {
            "sizes": self.folder.sizes(), "rollouts": self.rollouts, "seconds": self.seconds,
            "rewards": np.array(self.rewards, np.float64), "signal": np.array(self.signal, np.bool_),
            "reasons": reasons,
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take files and counts back to where `state_dict` was taken; an empty state: to the start."""
        self.folder.truncate_to(state.get("sizes", {}))
        self.rollouts, self.seconds = state.get("rollouts", 0), state.get("seconds", 0.0)
        self.rewards = state["rewards"].tolist() if state else []
        self.signal = state["signal"].tolist() if state else []
        self._reasons = dict(state["reasons"].tolist()) if state else {}

    def drawn(self, draw: Draw) -> None:
        """Note what is in flight now."""
        self._reasons |= dict(zip(draw.tickets.tolist(), draw.reasons.tolist(), strict=True))

    def dropped(self, tickets: Iterable[int]) -> None:
        """Forget tickets that were settled without an outcome."""
        for ticket in tickets:
            self._reasons.pop(int(ticket), None)

    def observed(
        self,
        step: int,
        tickets: Sequence[int] | np.ndarray,
        rewards_PG: np.ndarray,
        verdict: Verdict,
        sizes_P: np.ndarray,
        completions: Sequence[Sequence[Completion]] = (),
    ) -> None:
        """Write down the finished groups of these tickets; the rest as `RunWriter.groups` takes it."""
        reasons_P = np.array([self._reasons.pop(int(one), Reason.PRIORITY) for one in tickets], np.int64)
        self.groups(step, reasons_P, rewards_PG, verdict, sizes_P, completions)
