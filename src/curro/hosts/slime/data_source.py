"""slime's data source, whose prompts a curriculum chooses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from curro.curriculum import Curriculum
from curro.data.identity import fingerprint
from curro.errors import CheckpointError, ConfigError
from curro.hosts.slime import framework, groups, settings
from curro.hosts.slime.groups import Group
from curro.rollout.polled_fill import PolledFill
from curro.ticket_writer import TicketWriter
from curro.verdicts import Verdict

SOURCES: dict[int, CurriculumDataSource] = {}
"""The data source of each `args`, by its identity: slime gives its hooks nothing else."""

ADVICE = {
    "rejected": "widen curro.admission",
    "failed": "look for their errors in the log",
    "stale": "",
    "filtered": "",
    "expired": "",
    "limit": f"raise curro.{settings.LIMIT}",
    "short": "",
}


class Rows:
    """What a curriculum is over: slime's prompts, with a number for a key."""

    def __init__(self, samples: list[Any]) -> None:
        self.keys = [str(number) for number in range(len(samples))]
        self.rows = [{"prompt": sample.prompt, "answer": sample.label} for sample in samples]
        answers = [sample.label for sample in samples]
        self.fingerprint = fingerprint([sample.prompt for sample in samples], answers)


class CurriculumDataSource(framework.load("rollout.data_source:RolloutDataSource")):  # type: ignore[misc]
    """Goes into `--data-source-path`; the other strings are those of `curro.hosts.slime.hooks`.

    Args:
        args: slime's; `args.curro`, from the file of `--custom-config-path`, has the settings of
            `Curriculum.from_config`, and those of `SlimeSettings`.

    Attributes:
        step: how many rollouts, in slime's sense of a whole batch, have ended.
        verdicts: on the groups of this rollout, by ticket.

    Raises:
        ConfigError: a setting is missing or cannot go with a curriculum; there is no global data set.
    """

    def __init__(self, args: Any) -> None:
        self.settings = settings.read(args)
        super().__init__(args)
        if self.dataset is None:
            raise ConfigError("a curriculum chooses among the rows of --prompt-data: give slime its data set")
        self.samples = list(self.dataset.samples)
        self.curriculum = Curriculum.from_config(self.settings.curriculum, Rows(self.samples))
        repeats = self.curriculum.selection.repeats
        self.fill = PolledFill(
            self.curriculum, self.settings.fill_limit, size=len(self.samples), may_repeat=repeats,
            advice=ADVICE,
        )  # fmt: skip
        self.step = 0
        self.buffer: list[Group] = []
        self.verdicts: dict[int, Verdict] = {}
        self.is_filling = False
        self._writer: TicketWriter | None = None
        SOURCES[id(args)] = self

    def __len__(self) -> int:
        return len(self.samples)

    def get_samples(self, num_samples: int) -> list[Group]:
        """So many groups: those that were cut off and came back, then newly drawn ones.

        Raises:
            FillError: the limit of the batch is reached.
        """
        if not self.is_filling:
            self.fill.begin(self.args.rollout_batch_size, self.step, waiting=())
            self.verdicts, self.is_filling = {}, True
        found, self.buffer = self.buffer[:num_samples], self.buffer[num_samples:]
        if missing := num_samples - len(found):
            self.fill.check()
            draw = self.fill.draw(missing, step=self.step)
            if self.writer is not None:
                self.writer.drawn(draw)
            # the base class makes groups of the next rows of its data set: these are they
            self.dataset.samples, self.sample_offset = [self.samples[prompt] for prompt in draw.prompts], 0
            new = super().get_samples(missing)
            for group, ticket in zip(new, draw.tickets.tolist(), strict=True):
                groups.mark(group, ticket)
            found = [*found, *new]
        return found

    def add_samples(self, samples: list[Group]) -> None:
        """Groups that were cut off, to be gone on with; their tickets stay in flight."""
        self.buffer += samples

    def get_buffer_length(self) -> int:
        return len(self.buffer)

    def observe(self, group: Group) -> Verdict | None:
        """Report a finished group, once; None where it is not the curriculum's."""
        ticket = groups.ticket_of(group)
        if ticket is None or ticket in self.verdicts:
            return None if ticket is None else self.verdicts[ticket]
        rewards_G, parts = groups.rewards_of(self.args, group)
        scored_G = ~np.isnan(rewards_G)
        verdict = self.curriculum.observe(
            [ticket], rewards_G[None], scored=scored_G[None],
            named={name: part_G[None] for name, part_G in parts.items()},
        )  # fmt: skip
        if scored_G.any():
            self.fill.observed([ticket], verdict, np.array([rewards_G[scored_G].mean()]), filtered=())
        else:
            self.fill.dropped([ticket], stale=())
        self.verdicts[ticket] = verdict
        if self.writer is not None:
            sizes, texts = np.array([len(rewards_G)]), [groups.completions_of(group)]
            self.writer.observed(self.step + 1, [ticket], rewards_G[None], verdict, sizes, texts)
        return verdict

    def end_rollout(self, finished: list[Group]) -> None:
        """A batch is full: observe what was not, and drop the groups that were cut off for good."""
        for group in finished:
            self.observe(group)
        if not getattr(self.args, "partial_rollout", False):
            self.fill.cancel()
        self.fill.end()
        self.step += 1
        if self.writer is not None:
            self.writer.step(self.step, self.curriculum.metrics() | self.fill.metrics())
        self.is_filling = False

    @property
    def writer(self) -> TicketWriter | None:
        """Of the run folder, where the settings name one."""
        folder, keep = self.settings.run_folder, self.settings.keep
        if self._writer is None and folder is not None:
            config = {"curriculum": self.curriculum.config}
            self._writer = TicketWriter.of_host(folder, config, self.curriculum.table, self.step, keep)
        return self._writer

    def save(self, rollout_id: int) -> None:
        """Write the curriculum beside the base class's own state."""
        super().save(rollout_id)
        self.curriculum.save(_file(self.args.save, rollout_id))

    def load(self, rollout_id: int | None = None) -> None:
        """Go on after this rollout; the groups that were in flight are lost, and their tickets dropped.

        Raises:
            CheckpointError: the folder has a checkpoint, and no curriculum in it.
        """
        if self.args.load is None or rollout_id is None or rollout_id < 0:
            return
        file = _file(self.args.load, rollout_id)
        if not file.exists():
            if not list(file.parent.glob("*.pt")):
                return
            raise CheckpointError(f"{file.parent} is of a run without a curriculum: start a new one")
        super().load(rollout_id)
        self.curriculum.load(file)
        self.curriculum.drop(self.curriculum.ledger.tickets)
        self.step, self.buffer = rollout_id + 1, []


def _file(folder: str, rollout_id: int) -> Path:
    return Path(folder) / "rollout" / f"curro_{rollout_id}.npz"
