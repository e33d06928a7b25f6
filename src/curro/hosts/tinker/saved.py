"""The curriculum's states beside the checkpoints of Tinker's loop."""

from __future__ import annotations

from pathlib import Path

from tinker_cookbook.checkpoint_utils import load_checkpoints_file

from curro.curriculum import Curriculum
from curro.errors import CheckpointError

RECENT = 10
"""States that are kept although no checkpoint has their number yet: the loop saves some of them later."""


class SavedCurricula:
    """One file a batch, `curro/000012.npz`: the curriculum as it was when batches 0 to 11 had ended.

    Args:
        log_path: the loop's own folder.
    """

    def __init__(self, log_path: Path) -> None:
        self.log_path, self.folder = log_path, log_path / "curro"

    def save(self, curriculum: Curriculum, batch: int) -> None:
        """Save, and remove the files that the loop cannot go back to."""
        curriculum.save(self._file(batch))
        kept = {record.batch for record in load_checkpoints_file(str(self.log_path))}
        for number, file in self._files().items():
            if number <= batch - RECENT and number not in kept:
                file.unlink()

    def restore(self, curriculum: Curriculum, batch: int) -> None:
        """Go on at this batch: with its state, or in the asynchronous loop with the latest one before it.

        Tickets that were in flight are dropped, and the files of later batches removed: the loop forgets
        those batches too.

        Raises:
            CheckpointError: there is no such state, or it is of another curriculum.
        """
        files = self._files()
        for number in [number for number in files if number > batch]:
            files.pop(number).unlink()
        if files and batch:
            curriculum.load(files[max(files)])
            curriculum.drop(curriculum.ledger.tickets)
        elif batch:
            raise CheckpointError(
                f"the loop goes on at batch {batch}, and {self.folder} has no curriculum of it or of one "
                "before: pass the log_path of train.Config, or start in an empty one"
            )

    def _file(self, batch: int) -> Path:
        return self.folder / f"{batch:06d}.npz"

    def _files(self) -> dict[int, Path]:
        return {int(file.stem): file for file in self.folder.glob("*.npz") if file.stem.isdecimal()}
