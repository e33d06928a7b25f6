"""Trinity-RFT: a curriculum in place of its task selectors, and the operator that reports the rewards to it.

Tested with the scheduler and the reader of tasksets of Trinity-RFT 0.6.0; its explorer and its trainer, which
need GPUs, were not started.

Trinity finds both by their address, in the file of its configuration:

    buffer:
      explorer_input:
        tasksets:
          - name: problems
            data_selector:
              selector_type: curro.contrib.trinity.CurriculumSelector
              seed: 0
              kwargs: {curriculum: frontier, prompt_column: question}
    data_processor:
      experience_pipeline:
        operators:
          - name: curro.contrib.trinity.GroupRewards

Trinity's own operator for selectors (`pass_rate_calculator`) reports mean rewards, which do not tell
whether a group's rewards differ. `GroupRewards` reports them all.
"""

from __future__ import annotations

import base64
import math
import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from trinity.buffer.operators.experience_operator import ExperienceOperator
from trinity.buffer.selector.selector import BaseSelector
from trinity.common.constants import SELECTOR_METRIC

from curro.core import checkpoint, registry
from curro.core.bases import refuse
from curro.core.curriculum import Curriculum
from curro.core.errors import CheckpointError, ConfigError, RewardError
from curro.core.groups import Feedback, MissingRewards
from curro.core.identity import DatasetRows


class CurriculumSelector(BaseSelector):
    """Chooses a taskset's rows by a curriculum, and learns from the groups that the explorer has finished.

    Trinity reports whole steps in their order, so a report belongs to the earliest read with all its rows. It
    has no group whose rollouts all failed or came too late, and nothing is said of a step of which no group
    is left. So the groups of a read that its report lacks are dropped, and earlier reads' too. At most
    half of the rows are in flight: the oldest are dropped for new ones, and nothing is learned from a group
    that was dropped, of which the first give a warning. Its row may have been read again before it is
    reported.

    Args:
        data_source: Trinity's reader of the taskset, whose `dataset` has the rows.
        config: its `seed` is the curriculum's, unless `kwargs` has one. `kwargs` has the settings of
            `Curriculum.from_config`, or as `curriculum` the text that `curro train --curriculum` takes, and
            as `prompt_column` the name of the column with the prompts (`prompt`).

    Raises:
        ConfigError: wrong settings, or some that Trinity decides itself; no such column.
    """

    def __init__(self, data_source: Any, config: Any) -> None:
        super().__init__(data_source, config)
        settings = {"seed": config.seed, **config.kwargs}
        rows = DatasetRows(data_source.dataset, settings.pop("prompt_column", "prompt"))
        settings = registry.expand_curriculum(settings)
        if decided := [
            name for name in ("allocation", "advantage", "admission", "signal") if settings.get(name)
        ]:
            raise ConfigError(
                f"Trinity itself decides how many rollouts a task gets, which groups are trained on and how "
                f"they are credited, and reports one reward: leave {' and '.join(decided)} out of the "
                f"selector's kwargs"
            )
        self.curriculum = Curriculum.from_config(settings, rows)
        selection = self.curriculum.selection
        refuse(selection.policy_use, "policy", "Trinity")
        refuse(selection.has_weights, "weights", "Trinity")
        refuse(selection.leaves_out != "nothing", "leaving out", "Trinity")
        self.reads = 0
        self._unreported: deque[dict[int, int]] = deque()  # the tickets of each read, by row
        self._largest_read, self._missing_rewards = 0, MissingRewards()
        self._has_late_groups = False

    def get_indices(self, batch_size: int, return_extra_info: bool = False) -> Any:
        """Rows for the next training step; Trinity reads a taskset once a step."""
        most = self.curriculum.table.size // 2
        if batch_size > most:
            raise ConfigError(
                f"a step takes {batch_size} of the taskset's {self.curriculum.table.size} rows, and a "
                f"curriculum chooses at most half of them: make the batch smaller"
            )
        late = len(self.curriculum.ledger) + batch_size - most
        self.curriculum.drop(self.curriculum.ledger.tickets[: max(0, late)])
        draw = self.curriculum.select(batch_size, step=self.reads)
        self.reads += 1
        self._largest_read = max(self._largest_read, len(draw))
        self._unreported.append(dict(zip(draw.prompts.tolist(), draw.tickets.tolist(), strict=True)))
        return (draw.prompts.tolist(), {}) if return_extra_info else draw.prompts.tolist()

    def feedback(self, indices: Sequence[int], values: Sequence[Sequence[float]]) -> None:
        """Observe finished groups by the rewards of each row's rollouts, NaN where one was not scored.

        An error ends Trinity's explorer, which logs it, and the trainer after that.

        Raises:
            RewardError: mean rewards, as `pass_rate_calculator` reports them; or no group has ever had a
                reward, of as many as a read has.
        """
        for rewards_G in values:
            if np.ndim(rewards_G) != 1:
                raise RewardError(
                    "the selector was given a mean reward, which does not tell whether the group's rewards "
                    "differ: in experience_pipeline.operators, name curro.contrib.trinity.GroupRewards in "
                    "place of pass_rate_calculator"
                )
        rows = list(map(int, indices))
        tickets = next((read for read in self._unreported if read.keys() >= set(rows)), None)
        if tickets is None:
            return
        late = 0
        for row, rewards_G in zip(rows, values, strict=True):
            if tickets[row] in self.curriculum.ledger.tickets:
                self.curriculum.observe([tickets[row]], np.asarray(rewards_G, dtype=float)[None])
            else:
                late += 1
        if late and not self._has_late_groups:
            self._has_late_groups = True
            warnings.warn(
                f"nothing is learned from {late} groups of a step that was reported after its rows were "
                f"dropped, because half of the taskset's {self.curriculum.table.size} rows are the most that "
                "a curriculum has in flight: lower synchronizer.sync_interval or the batch, or take more "
                "rows",
                UserWarning,
                stacklevel=2,
            )
        ended: list[int] = []
        while True:
            read = self._unreported.popleft()
            ended += read.values()
            if read is tickets:
                break
        in_flight = self.curriculum.ledger.tickets
        self.curriculum.drop(in_flight[np.isin(in_flight, ended)])
        is_without_rewards = all(np.isnan(np.asarray(rewards_G, float)).all() for rewards_G in values)
        if is_without_rewards and not self.curriculum.ledger.observed:
            nothing = np.full((len(ended), 1), np.nan)
            self._missing_rewards.count(Feedback(np.array(ended), nothing), self._largest_read)

    def state_dict(self) -> dict[str, Any]:
        """The curriculum as text, because Trinity writes the states of its selectors as JSON."""
        saved = checkpoint.to_bytes({"curriculum": self.curriculum.state_dict(), "reads": self.reads})
        return {"curro": base64.b64encode(saved).decode("ascii")}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue; rows that were in flight are free again, because Trinity rolls them out no more.

        Trinity begins a new run with the state `{"current_index": 0}`, which changes nothing.

        Raises:
            CheckpointError: the state of another selector, of other rows or settings, or a damaged one.
        """
        if state_dict == {"current_index": 0}:
            return
        if "curro" not in state_dict:
            raise CheckpointError(
                "the checkpoint was saved with another selector than curro's: resume with that one, or start "
                "a new run"
            )
        try:
            saved = base64.b64decode(state_dict["curro"], validate=True)
        except (ValueError, TypeError) as error:
            raise CheckpointError(f"the selector's state is damaged: {error}") from error
        state = checkpoint.from_bytes(saved, "the selector's state")
        if set(state) != {"curriculum", "reads"} or type(state["reads"]) is not int or state["reads"] < 0:
            raise CheckpointError("the selector's state is damaged: it has no curriculum and number of reads")
        self.curriculum.load_state_dict(state["curriculum"])
        self.reads = state["reads"]
        self.curriculum.drop(self.curriculum.ledger.tickets)
        self._unreported.clear()


class GroupRewards(ExperienceOperator):
    """Reports all rewards of each group to the taskset's selector, and passes the experiences on unchanged.

    A rollout is a run of the workflow; its reward is the last step's. The operator belongs before
    operators that filter experiences, so that the curriculum also hears of those groups.
    """

    def process(self, exps: list[Any]) -> tuple[list[Any], dict[str, Any]]:
        last_step: dict[str, int] = {}
        for experience in exps:
            run = experience.eid.rid
            last_step[run] = max(experience.eid.step, last_step.get(run, 0))
        rewards: dict[int, dict[int, list[float]]] = {}
        for experience in exps:
            if experience.eid.step < last_step[experience.eid.rid]:
                continue
            task = experience.info["task_index"]
            group = rewards.setdefault(task["taskset_id"], {}).setdefault(task["index"], [])
            group.append(math.nan if experience.reward is None else float(experience.reward))
        metric = {
            taskset: {"indices": list(groups), "values": list(groups.values())}
            for taskset, groups in rewards.items()
        }
        return exps, {SELECTOR_METRIC: metric}
