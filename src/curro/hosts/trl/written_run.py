"""The folder `curro` beside a trainer's checkpoints: what `curro watch` reads of its run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from curro.curriculum import Curriculum
from curro.hosts.trl.records import GroupRecord
from curro.run_writer import KeepRollouts, RunWriter


class WrittenRun:
    """A run's lines; the folder is made when there is a first one, as only then the run's step is known.

    Args:
        output: the trainer's output folder.
        curriculum: whose configuration and prompts are written down.
        keep: how many rollouts are kept to be read.
    """

    def __init__(self, output: Path, curriculum: Curriculum, keep: KeepRollouts) -> None:
        self.output, self.curriculum, self.keep = output, curriculum, keep
        self._writer: RunWriter | None = None

    @property
    def has_begun(self) -> bool:
        """Whether there is a first line."""
        return self._writer is not None

    def groups(self, record: GroupRecord) -> None:
        """Write down the groups of a generation."""
        self._at(record.step).groups(
            record.step + 1, record.draw.reasons, record.rewards, record.verdict, record.sizes,
            record.completions,
        )  # fmt: skip

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write down the generation after so many finished steps."""
        self._at(step).step(step + 1, metrics)

    def evaluated(self, step: int, scores: Mapping[str, float], seconds: float) -> None:
        """Write down an evaluation after so many finished steps."""
        self._at(step).evaluated(step, scores, seconds)

    def _at(self, step: int) -> RunWriter:
        if self._writer is None:
            config = {"curriculum": self.curriculum.config}
            self._writer = RunWriter.of_host(self.output, config, self.curriculum.table, step, self.keep)
        return self._writer
