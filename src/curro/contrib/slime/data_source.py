"""slime's data source, whose prompts a curriculum chooses."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from curro.core import registry
from curro.core.bases import refuse
from curro.core.curriculum import Curriculum
from curro.core.errors import CheckpointError, ConfigError, RewardError
from curro.core.groups import Feedback, number_of
from curro.core.identity import DatasetRows
from curro.core.verdicts import Verdict
from curro.rollout.fill_settings import FillSettings
from curro.rollout.polled_fill import PolledFill

TICKET, ROLLOUT = "curro_ticket", "curro_rollout"
"""The keys of a sample's metadata for the ticket of its group and for its number in the group."""

SlimeGroup = Sequence[Any]
"""The samples of a prompt, one for each of its G rollouts."""


def mark(group: SlimeGroup, ticket: int) -> None:
    """Write the ticket and the number of the rollout into the metadata of samples, which copies keep."""
    for rollout, sample in enumerate(group):
        sample.metadata = {**(sample.metadata or {}), TICKET: ticket, ROLLOUT: rollout}


def ticket_of(group: SlimeGroup) -> int | None:
    """The ticket of a group; None where the curriculum did not give the group out."""
    if any(isinstance(rollout, list) for rollout in group):
        raise ConfigError("a rollout was divided into several samples: return one sample for each rollout")
    tickets = list(dict.fromkeys((sample.metadata or {}).get(TICKET) for sample in group))
    if len(tickets) > 1:
        raise ConfigError(
            f"a group has samples of different prompts (their tickets are {', '.join(map(str, tickets))}): "
            "keep the groups that the data source gives out together, and `metadata` in every sample"
        )
    return tickets[0]


def rewards_of(args: Any, group: SlimeGroup) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The rewards (G,) and their parts, (G,) each; NaN where a rollout failed or has none."""
    rewards_G = np.array([_reward(args, sample) for sample in group])
    parts_G = [sample.reward if isinstance(sample.reward, dict) else {} for sample in group]
    numbers_G = [{name: number_of(part) for name, part in parts.items()} for parts in parts_G]
    names = {name: None for numbers in numbers_G for name, part in numbers.items() if part is not None}
    return rewards_G, {
        name: np.array([numbers.get(name) for numbers in numbers_G], np.float64) for name in names
    }


def replace_missing_rewards(args: Any, group: SlimeGroup) -> None:
    """Give samples without a reward the mean of their group's.

    slime's own advantages and metrics know no missing rewards: a NaN would make all advantages of a group
    NaN, and None ends the run. With the mean of its group a rollout's own advantage is 0, and the mean is
    what it was. In a group without any reward all become 0.
    """
    rewards_G, _ = rewards_of(args, group)
    is_missing_G = np.isnan(rewards_G)
    mean = 0.0 if is_missing_G.all() else float(rewards_G[~is_missing_G].mean())
    key = getattr(args, "reward_key", None)
    for sample, is_missing in zip(group, is_missing_G, strict=True):
        if is_missing:
            parts = sample.reward if isinstance(sample.reward, dict) else {}
            sample.reward = {**parts, key: mean} if key else mean


def _reward(args: Any, sample: Any) -> float:
    if sample.reward is None or sample.status.value in ("aborted", "failed"):
        return np.nan
    try:
        reward = sample.get_reward_value(args)
        return np.nan if reward is None else float(reward)
    except (KeyError, TypeError, ValueError) as error:
        raise RewardError(
            f"a sample's reward is {sample.reward!r:.100}, which has no number to train on: let the reward "
            "function return numbers, or name one of the dict's with --reward-key"
        ) from error


NAMES = ("slime", "miles")
"""The frameworks that have these hooks, in the order in which they are tried."""


def load(name: str) -> Any:
    """An object of the framework by its module and name, as "rollout.data_source:RolloutDataSource"."""
    running = [framework for framework in NAMES if framework in sys.modules]
    installed = running or [framework for framework in NAMES if find_spec(framework)]
    if not installed:
        raise ConfigError("curro.contrib.slime needs slime or miles: install one of them from its source")
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"{installed[0]}.{module}"), attribute)


HOOKS = "curro.contrib.slime"


def read(args: Any) -> tuple[dict[str, Any], float]:
    """What `Curriculum.from_config` takes, and `fill_limit`, from slime's `args`.

    `fill_limit` is how many groups may end for one batch, in batches, before the run ends with an error.

    Raises:
        ConfigError: a setting is missing, or one that cannot go with a curriculum is there.
    """
    section = getattr(args, "curro", None)
    if not isinstance(section, Mapping) or not {"selection", "curriculum"} & section.keys():
        raise ConfigError(
            "the configuration names no method: write `curro: {selection: prioritized-replay}`, say, into "
            "the file of --custom-config-path"
        )
    section = registry.expand_curriculum(section)
    if "allocation" in section:
        raise ConfigError(
            "--n-samples-per-prompt is the same for all prompts, so curro.allocation has no effect: "
            "leave it out"
        )
    if getattr(args, "rollout_shuffle", False):
        raise ConfigError("the curriculum chooses the order: leave --rollout-shuffle out")
    if getattr(args, "fully_async", False) or "fully_async" in str(
        getattr(args, "rollout_function_path", "")
    ):
        raise ConfigError(
            "fully asynchronous rollouts have no end of a batch that the curriculum is told: leave "
            "--fully-async, or that --rollout-function-path, out"
        )
    config = dict(section)
    limit = FillSettings(config.pop("fill_limit", 10.0)).limit
    _need(args, "rollout_all_samples_process_path", "all_samples_process")
    selection = registry.build("selection", config["selection"])
    refuse(selection.policy_use, "policy", "slime")
    if config.get("admission") is not None or selection.leaves_out == "groups":
        _need(args, "dynamic_sampling_filter_path", "dynamic_filter")
    if config.get("advantage") is None:
        remedy = ", or give curro.advantage: group:divide_by_std=true"
        refuse(selection.has_weights, "weights", "slime", remedy)
    else:
        _need(args, "custom_reward_post_process_path", "reward_post_process")
    return config, limit


def _need(args: Any, setting: str, hook: str) -> None:
    if getattr(args, setting, None) != f"{HOOKS}.{hook}":
        option = setting.replace("_", "-")
        raise ConfigError(f"the curriculum needs the hook {hook}: add --{option} {HOOKS}.{hook}")


SOURCES: dict[int, CurriculumDataSource] = {}
"""The data sources by `id(args)`, because `args` is all that slime's hooks get to find theirs by."""

ADVICE = {
    "rejected": "widen curro.admission",
    "failed": "look for their errors in the log",
    "stale": "",
    "filtered": "",
    "expired": "",
    "limit": "raise curro.fill_limit",
    "short": "",
}


class CurriculumDataSource(load("rollout.data_source:RolloutDataSource")):  # type: ignore[misc]
    """The data source for `--data-source-path`: it gives out the prompts that a curriculum draws.

    The configuration's other strings name the functions of `curro.contrib.slime.hooks`.

    Args:
        args: slime's; `args.curro`, from the file of `--custom-config-path`, has the settings of
            `Curriculum.from_config`, and `fill_limit`.

    Attributes:
        step: how many batches have ended; slime calls a whole batch a rollout.
        verdicts: on the groups of this batch, by ticket.

    Raises:
        ConfigError: a setting is missing or cannot go with a curriculum; there is no global data set.
    """

    def __init__(self, args: Any) -> None:
        config, limit = read(args)
        super().__init__(args)
        if self.dataset is None:
            raise ConfigError("a curriculum chooses among the rows of --prompt-data: give slime its data set")
        self.samples = list(self.dataset.samples)
        rows = DatasetRows([{"prompt": sample.prompt, "answer": sample.label} for sample in self.samples])
        self.curriculum = Curriculum.from_config(config, rows)
        self.fill = PolledFill(self.curriculum, limit, size=len(self.samples), advice=ADVICE)
        self.step = 0
        self.buffer: list[SlimeGroup] = []
        self.verdicts: dict[int, Verdict] = {}
        self.is_filling = False
        SOURCES[id(args)] = self

    def __len__(self) -> int:
        return len(self.samples)

    def get_samples(self, num_samples: int) -> list[SlimeGroup]:
        """`num_samples` groups: first the ones that slime cut off and put back, then new ones."""
        if not self.is_filling:
            self.fill.begin(self.args.rollout_batch_size, self.step, waiting=())
            self.verdicts, self.is_filling = {}, True
        groups, self.buffer = self.buffer[:num_samples], self.buffer[num_samples:]
        if missing := num_samples - len(groups):
            self.fill.check()
            draw = self.fill.draw(missing, step=self.step)
            # the base class makes groups of the next rows of its data set, so these become its data set
            self.dataset.samples, self.sample_offset = [self.samples[prompt] for prompt in draw.prompts], 0
            new = super().get_samples(missing)
            for group, ticket in zip(new, draw.tickets.tolist(), strict=True):
                mark(group, ticket)
            groups = [*groups, *new]
        return groups

    def add_samples(self, samples: list[SlimeGroup]) -> None:
        """Take back groups that were cut off, to be continued; their tickets stay in flight."""
        self.buffer += samples

    def get_buffer_length(self) -> int:
        return len(self.buffer)

    def observe(self, group: SlimeGroup) -> Verdict | None:
        """The verdict on a finished group, which is reported once; None if the curriculum did not draw it."""
        ticket = ticket_of(group)
        if ticket is None or ticket in self.verdicts:
            return None if ticket is None else self.verdicts[ticket]
        mark(group, ticket)  # its credit is by the places that the rollouts have now
        rewards_G, parts = rewards_of(self.args, group)
        feedback = Feedback.of_group(ticket, rewards_G, parts)
        verdict = self.curriculum.observe(**feedback.arguments())
        self.verdicts[ticket] = verdict
        self.fill.observed(feedback, verdict)
        return verdict

    def end_rollout(self, finished: list[SlimeGroup]) -> None:
        """End a batch: observe the groups that no filter was asked about, drop the cut ones."""
        for group in finished:
            verdict = self.observe(group)
            if verdict is None:
                continue
            replace_missing_rewards(self.args, group)
            if self.curriculum.has_advantage:
                continue
            for rollout, sample in enumerate(group):
                if not verdict.credited[0, rollout]:
                    sample.remove_sample = True  # slime's mask of its loss is then 0
        if not getattr(self.args, "partial_rollout", False):
            self.fill.cancel()
        self.fill.end()
        self.step += 1
        self.is_filling = False

    def save(self, rollout_id: int) -> None:
        """Write the curriculum beside the base class's own state."""
        super().save(rollout_id)
        self.curriculum.save(_file(self.args.save, rollout_id))

    def load(self, rollout_id: int | None = None) -> None:
        """Continue after this rollout; the groups that were in flight are lost, and their tickets dropped.

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
        self.fill.has_reward = self.curriculum.ledger.observed > 0
        self.curriculum.drop(self.curriculum.ledger.tickets)
        self.step, self.buffer = rollout_id + 1, []


def _file(folder: str, rollout_id: int) -> Path:
    return Path(folder) / "rollout" / f"curro_{rollout_id}.npz"
