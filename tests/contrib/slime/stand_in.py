"""slime's classes and its loop, as small as the hooks see them.

After THUDM/slime 624b824a and radixark/miles 31f1ca96.
"""

import copy
import json
import sys
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace


class Status(Enum):
    PENDING = "pending"
    COMPLETED = "completed"
    TRUNCATED = "truncated"
    ABORTED = "aborted"
    FAILED = "failed"


@dataclass
class Sample:
    group_index: int | None = None
    index: int | None = None
    prompt: str = ""
    label: str | None = None
    response: str = ""
    response_length: int = 0
    reward: float | dict | None = None
    status: Status = Status.PENDING
    metadata: dict = field(default_factory=dict)
    remove_sample: bool = False

    def get_reward_value(self, args):
        return self.reward if not args.reward_key else self.reward[args.reward_key]


@dataclass
class DynamicFilterOutput:
    keep: bool
    reason: str | None = None


class Dataset:
    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return len(self.samples)


class RolloutDataSource:
    """`get_samples` and `save` are slime's, without its tokenizer and torch."""

    def __init__(self, args):
        self.args, self.sample_group_index, self.sample_index, self.sample_offset = args, 0, 0, 0
        self.dataset = None
        if args.rollout_global_dataset:
            self.dataset = Dataset([Sample(prompt=f"p{i}", label=str(i)) for i in range(args.prompts)])

    def get_samples(self, num_samples):
        end = self.sample_offset + num_samples
        assert end <= len(self.dataset)
        prompt_samples = self.dataset.samples[self.sample_offset : end]
        self.sample_offset = end
        samples = []
        for prompt_sample in prompt_samples:
            group = []
            for _ in range(self.args.n_samples_per_prompt):
                sample = copy.deepcopy(prompt_sample)
                sample.group_index, sample.index = self.sample_group_index, self.sample_index
                self.sample_index += 1
                group.append(sample)
            self.sample_group_index += 1
            samples.append(group)
        return samples

    def save(self, rollout_id):
        path = self._state(self.args.save, rollout_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([self.sample_offset, self.sample_group_index, self.sample_index]))

    def load(self, rollout_id=None):
        path = self._state(self.args.load, rollout_id)
        if path.exists():
            state = json.loads(path.read_text())
            self.sample_offset, self.sample_group_index, self.sample_index = state

    def _state(self, folder, rollout_id):
        return Path(folder) / "rollout" / f"global_dataset_state_dict_{rollout_id}.pt"


def install(name):
    """The modules of slime or miles."""
    parts = {
        "rollout.data_source": {"RolloutDataSource": RolloutDataSource},
        "rollout.filter_hub.base_types": {"DynamicFilterOutput": DynamicFilterOutput},
    }
    for path, attributes in parts.items():
        names = [name, *path.split(".")]
        for end in range(1, len(names) + 1):
            sys.modules.setdefault(".".join(names[:end]), ModuleType(".".join(names[:end])))
        vars(sys.modules[f"{name}.{path}"]).update(attributes)


HOOKS = "curro.contrib.slime"


def arguments(folder, **options):
    return SimpleNamespace(
        **{
            "rollout_global_dataset": True, "prompts": 24, "n_samples_per_prompt": 4, "rollout_batch_size": 3,
            "over_sampling_batch_size": 3, "partial_rollout": False, "rollout_shuffle": False,
            "reward_key": None,
            "data_source_path": f"{HOOKS}.CurriculumDataSource",
            "dynamic_sampling_filter_path": f"{HOOKS}.dynamic_filter",
            "rollout_all_samples_process_path": f"{HOOKS}.all_samples_process",
            "custom_reward_post_process_path": f"{HOOKS}.reward_post_process",
            "custom_rollout_log_function_path": f"{HOOKS}.log_rollout",
            "save": str(folder), "load": str(folder), "curro": {"selection": "uniform", "seed": 7},
        }
        | options
    )  # fmt: skip


def by_prompt(prompt, rollout):
    return float((prompt * 7 + rollout * 5) % 13 < 6)


def number(group):
    return int(group[0].prompt[1:])


def finish(group, rewards=by_prompt):
    for rollout, sample in enumerate(group):
        sample.reward, sample.status = rewards(number(group), rollout), Status.COMPLETED
    return group


def generate(args, source, load, *, rewards=by_prompt):
    """One rollout, as slime's `generate_rollout`: groups that were asked for too many are cut off.

    Returns the batch, and the prompts in the order in which they were rolled out.
    """
    keep, process = load(args.dynamic_sampling_filter_path), load(args.rollout_all_samples_process_path)
    data, every, pending, asked, dropped = [], [], [], [], 0
    while len(data) < args.rollout_batch_size:
        while len(pending) + len(data) < args.rollout_batch_size:
            pending += source.get_samples(args.over_sampling_batch_size)
        group = finish(pending.pop(0), rewards)
        asked.append(number(group))
        every.append(group)
        output = keep(args, group)
        assert isinstance(output, DynamicFilterOutput)
        if output.keep:
            data.append(group)
        else:
            dropped += output.reason == "curro"
    process(args, every, source.get_samples)
    if args.partial_rollout and pending:
        source.add_samples(pending)
    return data, asked
