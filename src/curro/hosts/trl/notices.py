"""Warnings in TRL's log, each once, at the first step that shows what is wrong."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from curro.core.curriculum import Curriculum
from curro.core.errors import RunError
from curro.core.groups import Feedback
from curro.runs.reader import read_history
from curro.runs.report.advice import advise
from curro.runs.writer import RunWriter

WATCHED = 16
"""Groups whose summed reward varies after which a part of the reward that does not vary is named."""

FIRST_LOOK = 64
"""Groups after which the run folder is read for advice; each further look comes after half as many more."""


class Notices:
    """Watches a run and says what is wrong. Runs on the main process.

    Args:
        names, weights: reward functions' names, and their weights (functions,).
        writer: of the run folder, from which the advice of `curro watch` is taken; None: without advice.
    """

    def __init__(
        self,
        curriculum: Curriculum,
        names: Sequence[str],
        weights: Sequence[float],
        *,
        writer: RunWriter | None,
    ) -> None:
        self._curriculum, self._writer = curriculum, writer
        self._parts = [name for name, weight in zip(names, weights, strict=True) if weight]
        # nobody has said which part of the reward is the signal
        self._watches_parts = "signal" not in curriculum.config and not curriculum.signal_parts
        self._watches_parts &= len(self._parts) > 1
        self._said: set[str] = set()
        self._groups, self._next_look = 0, FIRST_LOOK
        self._varying, self._flat = 0, dict.fromkeys(self._parts, 0)
        self._is_binary = dict.fromkeys(self._parts, True)

    def say(self, sentence: str, name: str | None = None) -> None:
        """Warn in the log, once for each name, or for each sentence without one."""
        if sentence and (name or sentence) not in self._said:
            self._said.add(name or sentence)
            logging.getLogger("curro.hosts.trl").warning(sentence)

    def visits(self, groups: int) -> None:
        """Warn of a run of so few groups that a method would choose prompts by outcomes that they lack."""
        size = self._curriculum.table.size
        if self._curriculum.selection.needs_second_visits and 0 < groups < size:
            self.say(
                f"the selection chooses prompts by their own earlier outcomes, and this run visits each of "
                f"{size:,} prompts {groups / size:.2g} times: most never come back. Take frontier, which "
                "predicts prompts that were never visited, or fewer prompts"
            )

    def context(self, tokens: int, completion: int, config: Any) -> None:
        """Warn of prompts of so many tokens that leave no room for a completion."""
        room = getattr(config.get_text_config(), "max_position_embeddings", None)
        if room and tokens + completion > room:
            self.say(
                f"a prompt of {tokens:,} tokens and max_completion_length {completion:,} exceed the model's "
                f"context of {room:,}: leave such prompts out, or lower max_completion_length",
                "context",
            )

    def groups(self, feedback: Feedback) -> None:
        """Look at finished groups, and at the run folder now and then."""
        self._groups += len(feedback.tickets)
        if self._watches_parts:
            self._watch_parts(feedback)
        if self._writer is not None and self._groups >= self._next_look:
            self._next_look = self._groups * 3 // 2
            with suppress(RunError):  # no training step is finished yet: the next look tells
                for advice in advise(read_history(self._writer.folder)):
                    self.say(f"{advice.problem} {advice.advice}", advice.name)

    def _watch_parts(self, feedback: Feedback) -> None:
        """Say which part varies where the sum of several parts ranks and gates.

        A shaped sum, as of accuracy and length, varies in every group. Ranked by it, all prompts look alike,
        and a gate on it admits groups in which no answer differs.
        """
        table = self._curriculum.table
        varies_P = ~table.is_flat(feedback.variances)
        self._varying += int(varies_P.sum())
        for name in self._parts:
            part_PG = feedback.named[name]
            self._is_binary[name] &= bool(np.isin(part_PG[~np.isnan(part_PG)], (0.0, 1.0)).all())
            part_varies_P = Feedback(feedback.tickets, part_PG).variances > 0
            self._flat[name] += int((varies_P & ~part_varies_P).sum())
        if self._varying < WATCHED:
            return
        self._watches_parts = False
        flat = [name for name in self._parts if self._flat[name] > self._varying / 2]
        binary = [name for name in self._parts if self._is_binary[name]]
        offered = [name for name in binary if name in flat] or binary or flat
        if not flat and (not binary or len(binary) == len(self._parts)):
            return
        varying = [name for name in self._parts if name not in flat]
        about = (
            f"in most of {self._varying} groups whose summed reward varies, {' and '.join(flat)} does not "
            f"vary and {' and '.join(varying) or 'no part alone'} does"
            if flat
            else f"{' and '.join(binary)} has rewards of 0 and 1 alone, beside graded parts"
        )
        self.say(
            f"{about}, and prompts are ranked by the sum: set signal={'+'.join(offered)!r} if that part says "
            "whether the answer is right, or signal='sum' to keep the sum"
        )
