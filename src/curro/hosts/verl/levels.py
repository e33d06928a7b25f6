"""Problems without end in verl: a data set whose rows are made when they are drawn.

`data.train_files=levels:NAME` has the trainer choose `LevelRows` as verl's data set. A draw gives arms and
tickets, the sampler passes both on, and the data set makes the problem of each (`curro.data.levels`). verl's
data loader runs in the trainer's own process, so no other process has to know. The tickets count up and are
saved with the curriculum, so that a resumed run generates the problems that would have come.
`data.val_files=levels:NAME` gives held-out problems of all levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from verl.utils.dataset.rl_dataset import RLHFDataset

from curro.core.errors import ConfigError
from curro.data import load_levels
from curro.data.levels import HELD_OUT, Levels
from curro.hosts.verl.settings import PROBLEM, levels_source

Item = tuple[int, int, int]
"""What a drawn problem is made from: the arm, the ticket and the curriculum's seed."""


DRAWN = -2
"""The `max_samples` by which `LevelRows` knows the training data; verl has -1 for all, and numbers from 1."""


class LevelRows(RLHFDataset):
    """verl's data set of held-out problems, or of those that a curriculum draws; of files, verl's own.

    `max_samples` is how many problems are held out, 500 by default, equally many of each level.

    Attributes:
        levels: the arms; None where the data are files.
    """

    levels: Levels | None = None
    dataframe: Any

    def _download(self, use_origin_parquet: bool = False) -> None:
        if levels_source(self.original_data_files) is None:
            super()._download(use_origin_parquet)

    def _read_files_and_tokenize(self) -> None:
        source = levels_source(self.original_data_files)
        if source is None:
            super()._read_files_and_tokenize()
            return
        self.levels = load_levels(source)
        if self.max_samples == DRAWN:
            self.dataframe = DrawnProblems(self.levels, self.prompt_key)
            return
        number = self.max_samples if self.max_samples > 0 else HELD_OUT
        self.dataframe = HeldOutProblems(self.levels.held_out(number), self.prompt_key)


class HeldOutProblems:
    """Rows of held-out problems, by their number; every row is a new dict, because verl changes it."""

    def __init__(self, problems: Sequence[Mapping[str, Any]], prompt_key: str) -> None:
        self.problems, self.prompt_key = problems, prompt_key

    def __len__(self) -> int:
        return len(self.problems)

    def __getitem__(self, number: int) -> dict[str, Any]:
        return verl_row(self.problems[number], number, self.prompt_key)


class DrawnProblems:
    """Rows that are made when their item is asked for; there are as many arms as its length says."""

    def __init__(self, levels: Levels, prompt_key: str) -> None:
        self.levels, self.prompt_key = levels, prompt_key

    def __len__(self) -> int:
        return len(self.levels)

    def __getitem__(self, item: Item) -> dict[str, Any]:
        arm, ticket, seed = item
        return verl_row(self.levels.problem(arm, ticket, seed), ticket, self.prompt_key)


def verl_row(problem: Mapping[str, Any], number: int, prompt_key: str) -> dict[str, Any]:
    """A problem as a row of a data set of verl's; a prompt that is text becomes the message of a user.

    Args:
        number: verl's `index`, which tells a group's problem from others.
    """
    prompt = problem["prompt"]
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    return {
        prompt_key: [dict(message) for message in messages],
        "data_source": problem["source"],
        "reward_model": {"style": "rule", "ground_truth": problem["answer"]},
        "extra_info": {"index": number, PROBLEM: dict(problem)},
    }


def choose_data_set(data: Any) -> None:
    """Have verl make its data sets of `LevelRows`, where the training or the validation data are levels."""
    if levels_source(data.train_files) is None and levels_source(data.val_files) is None:
        return
    if data.custom_cls.get("path", None) is not None:
        raise ConfigError(
            "levels are a data set of curro's own, and data.custom_cls names another class: leave it out"
        )
    if levels_source(data.train_files) is not None:
        data.train_max_samples = DRAWN
    data.custom_cls.path, data.custom_cls.name = "pkg://curro.hosts.verl.levels", LevelRows.__name__
