"""Writes a run down, groups, kept rollouts and steps, for whoever looks at it: `curro watch`, the report."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from curro.core.bases import Reason
from curro.core.errors import ConfigError, RunError
from curro.core.prompts import PromptTable
from curro.core.text import content_text
from curro.core.verdicts import Draw, Verdict
from curro.runs.folder import HOSTED, PREDICTED, RunFolder
from curro.runs.lock import KeptFolder, keep_out_others

if TYPE_CHECKING:
    from curro.core.curriculum import Curriculum

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
    """

    per_group: int = 0
    megabytes: float = 1000.0

    def __post_init__(self) -> None:
        is_size = isinstance(self.megabytes, int | float) and self.megabytes >= 0
        if type(self.per_group) is not int or self.per_group < 0 or not is_size:
            raise ConfigError("the rollouts to keep are 0 or more a group, in 0 or more megabytes")


_READ: dict[str, Callable[[], float]] = {"seconds": time.perf_counter, "cpu_seconds": time.process_time}


class Clock:
    """The wall-clock seconds and the processor seconds of a run, while the clock is not stopped."""

    def __init__(self) -> None:
        self._before = dict.fromkeys(_READ, 0.0)
        self._since: dict[str, float] | None = None

    @property
    def spent(self) -> dict[str, float]:
        """Both, by the names `seconds` and `cpu_seconds`."""
        if self._since is None:
            return dict(self._before)
        return {name: before + _READ[name]() - self._since[name] for name, before in self._before.items()}

    def start(self) -> None:
        """Count from now on."""
        self._since = {name: read() for name, read in _READ.items()}

    def stop(self) -> None:
        """Count no more."""
        self._before, self._since = self.spent, None

    def leave_out(self, seconds: float) -> None:
        """Do not count so many of the seconds since `start`."""
        if self._since is not None:
            self._since["seconds"] += seconds

    def set_to(self, spent: Mapping[str, Any]) -> None:
        """Go on from what a line of metrics says."""
        self._before = {name: float(spent.get(name, 0.0)) for name in _READ}
        if self._since is not None:
            self.start()


class RunWriter:
    """Writes a run's lines into its folder: groups, kept rollouts, steps and evaluations.

    A run that begins leaves the lines of an earlier run there under another name; one that resumes goes on
    with them. The host may not know which of the two it is before the first draw, so the folder is opened
    with the first line: a line of step s comes after s - 1 finished steps.

    Args:
        config: what the run was started with, for a folder that is made by the first line, or resumed. None:
            the folder is there, and belongs to this run.
        clock: counts the time of the run; by default one that runs from now on.

    Attributes:
        has_begun: whether the folder was opened.
        rollouts: how many there were, rejected groups included.
        rewards, signal: since the last step's line, of each rollout, and of each group whether it has a
            signal: 1, 0, or NaN for a group without a reward.
        lengths: likewise, of groups whose completions are known, mean tokens and whether it is trained on.
    """

    def __init__(
        self,
        folder: RunFolder,
        table: PromptTable,
        keep: KeepRollouts = KeepRollouts(),
        *,
        config: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.folder, self.table, self.keep = folder, table, keep
        self.has_begun = config is None
        self.rollouts = 0
        self.rewards: list[float] = []
        self.signal: list[float] = []
        self.lengths: list[tuple[float, bool]] = []
        self.clock = Clock() if clock is None else clock
        if clock is None:
            self.clock.start()
        self._config = config
        self._kept: KeptFolder | None = None
        self._reasons: dict[int, int] = {}

    @classmethod
    def of_host(cls, output: Path, curriculum: Curriculum, keep: KeepRollouts = KeepRollouts()) -> Self:
        """The writer of a host adapter's run, in the folder `curro` of its trainer's output folder."""
        config = {"curriculum": curriculum.config}
        return cls(RunFolder(output / HOSTED), curriculum.table, keep, config=config)

    def begin(self, step: int) -> None:
        """Open the folder after this last finished step; 0 for a run that begins.

        Raises:
            RunError: the folder is a link, or holds something else.
            LockedError: another process writes its run there.
        """
        path = self.folder.path
        if not path.is_symlink() and (path / "config.json").exists():
            self._kept = keep_out_others(path)
        if step == 0 and path.exists():
            numbered = (path.with_name(f"{path.name}-{n}") for n in itertools.count(1))
            path.rename(next(other for other in numbered if not other.exists()))
        if path.is_symlink():
            raise RunError(f"{path} is a link, and nothing is written through one: remove it")
        if (path / "config.json").exists():
            self.resume(step)
        else:
            self.folder = RunFolder.create(path, self._config or {})
            self._kept = keep_out_others(path)
        self.has_begun = True

    def resume(self, step: int) -> None:
        """Go on after a step: forget what was written of later ones, count on from there."""
        self.folder.truncate_after(step)
        last = self.folder.latest()
        if last is not None:
            self.rollouts = int(last["rollouts"])
            self.clock.set_to(last)

    def _begin_after(self, step: int) -> None:
        if not self.has_begun:
            self.begin(step)

    def drawn(self, draw: Draw) -> None:
        """Note why the prompts that are in flight now were drawn.

        The reasons of prompts in flight before a resume are not known; they count as drawn by priority.
        """
        self._reasons |= dict(zip(draw.tickets.tolist(), draw.reasons.tolist(), strict=True))

    def dropped(self, tickets: Iterable[int]) -> None:
        """Forget tickets that were settled without an outcome."""
        for ticket in tickets:
            self._reasons.pop(int(ticket), None)

    def groups(
        self,
        step: int,
        tickets: Sequence[int] | np.ndarray,
        prompts: Sequence[int] | np.ndarray,
        rewards_PG: np.ndarray,
        verdict: Verdict,
        sizes_P: np.ndarray | None = None,
        completions: Sequence[Sequence[Completion | None]] = (),
    ) -> None:
        """Write down finished groups.

        Args:
            step: the training step that they are for, from 1.
            tickets, prompts: of the groups, which `drawn` has noted.
            rewards_PG: NaN where a rollout was not scored; rows of smaller groups end in NaN.
            sizes_P: how many rollouts each group has, scored or not; by default as many as completions.
            completions: of each group, in the order of its rewards, None for a rollout that failed; empty
                where the host does not know them.
        """
        self._begin_after(step - 1)
        reasons_P = [self._reasons.pop(int(ticket), int(Reason.PRIORITY)) for ticket in tickets]
        table, prompts = self.table, [int(prompt) for prompt in prompts]
        predicted = {name: table[name][prompts] for name in PREDICTED if name in table.columns}
        generated = [
            [(reward, made) for reward, made in zip(rewards_G, group, strict=False) if made is not None]
            for rewards_G, group in zip(rewards_PG.tolist(), completions, strict=False)
        ]
        if sizes_P is None:
            sizes_P = np.array(list(map(len, generated)), np.int64)
        lines = []
        for i, prompt in enumerate(prompts):
            lines.append(
                {
                    "step": step,
                    "prompt": prompt,
                    "ticket": int(tickets[i]),
                    "key": table.key(prompt),
                    **({"text": text} if (text := table.text(prompt)) else {}),
                    "reason": reasons_P[i],
                    "mean": verdict.mean[i],
                    "variance": verdict.informativeness[i],
                    "admitted": bool(verdict.admitted[i]),
                    "rollouts": int(sizes_P[i]),
                    **({} if (source := table.source(prompt)) is None else {"source": source}),
                    **(_lengths(generated[i]) if generated else {}),
                    **{name: values[i] for name, values in predicted.items()},
                }
            )
        self.folder.append_groups(lines)
        if completions and self.keep.per_group:
            self._keep(step, prompts, generated, tickets)
        self.rollouts += int(sizes_P.sum())
        self.rewards += rewards_PG[~np.isnan(rewards_PG)].tolist()
        has_signal_P = np.where(verdict.dropped, np.nan, ~table.is_flat(verdict.informativeness))
        self.signal += has_signal_P.tolist()
        for made, is_admitted in zip(generated, verdict.admitted.tolist(), strict=False):
            if made:
                self.lengths.append((_lengths(made)["tokens"] / len(made), is_admitted))

    def step(self, step: int, metrics: Mapping[str, float]) -> dict[str, Any]:
        """Write down a training step, counted from 1, with these metrics beside its rewards and its time."""
        self._begin_after(step - 1)
        line = {"step": step, "rollouts": self.rollouts, **self.clock.spent, **self.take_means(), **metrics}
        self.folder.append_metrics(line)
        return line

    def evaluated(self, step: int, scores: Mapping[str, float], seconds: float = 0.0) -> dict[str, Any]:
        """Write down held-out scores, in a line of their own.

        Args:
            step: the last finished training step.
            scores: by the names `eval/...`.
            seconds: what the evaluation took, which does not count as training.

        Returns:
            the line.
        """
        self._begin_after(step)
        self.clock.leave_out(seconds)
        line = {"step": step, "rollouts": self.rollouts, **self.clock.spent, **scores}
        self.folder.append_metrics(line)
        return line

    def write_table(self) -> None:
        """Save the prompt table, if a run has begun."""
        if self.has_begun:
            self.folder.write_table(self.table)

    def take_means(self) -> dict[str, float]:
        """The mean reward and the share of groups with a signal since the last call.

        Groups without a reward were dropped: they count neither as flat nor as varied. Where completions are
        known, their mean lengths too, over all groups and over those that are trained on.
        """
        judged = [has_signal for has_signal in self.signal if not np.isnan(has_signal)]
        means = {
            "reward": float(np.mean(self.rewards)) if self.rewards else np.nan,
            "signal_share": float(np.mean(judged)) if judged else np.nan,
        }
        trained = [length for length, is_admitted in self.lengths if is_admitted]
        for name, lengths in (("drawn", [length for length, _ in self.lengths]), ("trained", trained)):
            if lengths:
                means[f"{name}/completion_length"] = float(np.mean(lengths))
        self.rewards, self.signal, self.lengths = [], [], []
        return means

    def _keep(
        self,
        step: int,
        prompts: Sequence[int],
        generated: Sequence[Sequence[tuple[float, Completion]]],
        tickets: Sequence[int] | np.ndarray,
    ) -> None:
        path = self.folder.rollouts_file
        if (path.stat().st_size if path.exists() else 0) >= 1e6 * self.keep.megabytes:
            return
        self.folder.append_rollouts(
            {
                "step": step,
                "prompt": prompt,
                "ticket": int(tickets[i]),
                "text": _prompt_text(self.table, prompt)[:MOST_TEXT],
                "rollouts": [
                    {
                        "reward": None if np.isnan(generated[i][j][0]) else generated[i][j][0],
                        "tokens": generated[i][j][1].tokens,
                        "cut": generated[i][j][1].is_cut,
                        "text": generated[i][j][1].text[:MOST_TEXT],
                    }
                    for j in spread(np.array([reward for reward, _ in generated[i]]), self.keep.per_group)
                ],
            }
            for i, prompt in enumerate(prompts)
        )


def spread(rewards_G: np.ndarray, n: int) -> list[int]:
    """At most n rollouts of a group, with the lowest and the highest reward among them, in their order.

    Rollouts without a reward (NaN) are taken only if there are fewer than n others.
    """
    order, scored = np.argsort(rewards_G, kind="stable"), int(np.count_nonzero(~np.isnan(rewards_G)))
    ranks = np.linspace(0, scored - 1, min(n, scored)).round().astype(np.int64)
    return sorted([*order[np.unique(ranks)].tolist(), *order[scored : scored + max(0, n - scored)].tolist()])


def _lengths(generated: Sequence[tuple[float, Completion]]) -> dict[str, int]:
    if not generated:
        return {}
    return {
        "tokens": sum(completion.tokens for _, completion in generated),
        "cut": sum(completion.is_cut for _, completion in generated),
    }


def _prompt_text(table: PromptTable, prompt: int) -> str:
    """A row's prompt as text; of a conversation all messages, each after its role."""
    text = None if table.rows is None else table.rows[prompt].get("prompt")
    if not isinstance(text, list):
        return "" if text is None else str(text)
    return "\n\n".join(f"{message.get('role')}: {content_text(message.get('content'))}" for message in text)
