"""For verl 0.7, whose data loader asks a sampler: a curriculum as its `AbstractCurriculumSampler`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from verl.experimental.dataset.sampler import AbstractCurriculumSampler
from verl.utils.dataset.rl_dataset import RLHFDataset

from curro.curriculum import Curriculum
from curro.errors import ConfigError
from curro.hosts.verl.groups import Rollout, assemble
from curro.hosts.verl.identity import RowIdentity
from curro.hosts.verl.settings import VerlSettings

ROW = "curro_row"
"""The entry of a row's `extra_info` with the number of the row, which `index` is not."""


class NumberedRows(RLHFDataset):
    """verl's data set whose rows know their number: `data.custom_cls.name=NumberedRows`."""

    def __getitem__(self, item: int) -> dict[str, Any]:
        row = super().__getitem__(item)
        return row | {"extra_info": {**row["extra_info"], ROW: int(item)}}


class CurriculumSampler(AbstractCurriculumSampler):
    """Chooses prompts batch by batch; `data.sampler.class_name=CurriculumSampler`.

    verl 0.7 tells a sampler of a batch when it has been trained on, so admission and credit stay verl's. What
    was drawn and is not in the batch was filtered or failed, and is dropped. The state goes into verl's
    `data.pt`.

    Args:
        data_source: verl's data set, a `NumberedRows`.
        data_config: `config.data`, with the settings below `data.curro`.

    Raises:
        ConfigError: another data set, an advantage or an admission.
    """

    def __init__(self, data_source: Any, data_config: Any) -> None:
        settings = VerlSettings.read(data_config.get("curro", None), "data.curro")
        if settings.advantage is not None or settings.admission is not None:
            raise ConfigError(
                "verl 0.7 tells a sampler of batches that have been trained on: data.curro.advantage and "
                "data.curro.admission need verl 0.9 and trainer.v1.trainer_mode=curro_sync"
            )
        if not isinstance(data_source, NumberedRows):
            raise ConfigError(
                "the rows of the data set do not know their number: set "
                f"data.custom_cls.path=pkg://{__name__} and data.custom_cls.name=NumberedRows"
            )
        self.size = len(data_source)
        self.batch = data_config.get("gen_batch_size", None) or data_config.train_batch_size
        rows = RowIdentity(data_source, data_config.get("prompt_key", "prompt"))
        self.curriculum = Curriculum.from_config(settings.curriculum, rows)
        self.steps = 0

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[int]:
        """An epoch's worth of prompts; those of a batch are drawn when its first is asked for."""
        for _ in range(self.size // self.batch):
            yield from self.curriculum.select(self.batch, step=self.steps).prompts.tolist()

    def update(self, batch: Any) -> None:
        """Observe the groups of a batch that was trained on; what else is in flight will not come back."""
        fields = batch.non_tensor_batch
        scores = batch.batch["token_level_scores"].sum(dim=-1).tolist()
        rollouts: list[Rollout] = []
        sizes: dict[str, int] = {}
        rows: dict[str, int] = {}
        for i, uid in enumerate(fields["uid"]):
            rows[uid] = fields["extra_info"][i][ROW]
            rollouts.append(Rollout(uid, sizes.get(uid, 0), scores[i], {}))
            sizes[uid] = sizes.get(uid, 0) + 1
        groups = assemble(rows, rollouts, 1)
        self.curriculum.observe(self._tickets(rows.values()), groups.rewards, scored=groups.scored)
        self.curriculum.drop(self.curriculum.ledger.tickets)
        self.steps += 1

    def _tickets(self, rows: Iterable[int]) -> list[int]:
        """A ticket in flight for each row; methods that repeat prompts have several for one."""
        waiting: dict[int, list[int]] = {}
        ledger = self.curriculum.ledger
        for prompt, ticket in zip(ledger.prompts.tolist(), ledger.tickets.tolist(), strict=True):
            waiting.setdefault(prompt, []).append(ticket)
        return [waiting[row].pop(0) for row in rows]

    def state_dict(self) -> dict[str, Any]:
        return {"curriculum": self.curriculum.state_dict(), "steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.curriculum.load_state_dict(state["curriculum"])
        self.curriculum.drop(self.curriculum.ledger.tickets)
        self.steps = state["steps"]
