"""Three steps of a run of verl 0.7.1 as far as a sampler sees it, and a resumed one; prints what was drawn.

verl's own data set, `create_rl_sampler`, `StatefulDataLoader`, `collate_fn` and `DataProto`; to be run with
verl 0.7.1 in front of the other packages.
"""

from __future__ import annotations

import json
import sys
import uuid

import numpy as np
import torch
import verl
from omegaconf import OmegaConf
from torchdata.stateful_dataloader import StatefulDataLoader
from verl import DataProto
from verl.experimental.dataset.sampler import AbstractCurriculumSampler
from verl.trainer.main_ppo import create_rl_dataset, create_rl_sampler
from verl.utils.dataset.rl_dataset import collate_fn

files, cache, overrides = json.loads(sys.argv[1])
assert verl.__version__.startswith("0.7.1"), verl.__version__
module = "pkg://curro.hosts.verl.sampler_071"
data = OmegaConf.create(
    {
        "cache_dir": cache,
        "train_batch_size": 4,
        "dataloader_num_workers": 0,
        "filter_overlong_prompts": False,
        "shuffle": True,
        "custom_cls": {"path": module, "name": "NumberedRows"},
        "sampler": {"class_path": module, "class_name": "CurriculumSampler"},
        "curro": {"selection": "prioritized-replay", "seed": 5},
    }
)
data = OmegaConf.merge(data, OmegaConf.create(overrides))


def build():
    rows = create_rl_dataset(files, data, None, None)
    sampler = create_rl_sampler(data, rows)
    assert isinstance(sampler, AbstractCurriculumSampler)
    return sampler, StatefulDataLoader(
        dataset=rows, batch_size=4, num_workers=0, drop_last=True, collate_fn=collate_fn, sampler=sampler
    )


def reward(text, step, session):
    number = int(text.split()[-1])
    return float(np.random.default_rng([number, step, session]).random() < 1 - number / 24)


def take(sampler, batches, step):
    """A batch as verl 0.7.1 hands it to `update` at the end of a step; the last prompt was filtered."""
    rows = next(batches)
    rows["uid"] = np.array([str(uuid.uuid4()) for _ in rows["raw_prompt"]], dtype=object)
    drawn = [prompt[0]["content"] for prompt in rows.pop("raw_prompt")]
    batch = DataProto.from_single_dict(rows)[:3].repeat(4, interleave=True)
    scores = [reward(text, step, session) for text in drawn[:3] for session in range(4)]
    batch.batch["token_level_scores"] = torch.tensor(scores)[:, None] * torch.tensor([[0.0, 1.0]])
    batch.non_tensor_batch["prediction"] = np.array([1e20] * len(scores))  # what a model may write
    sampler.update(batch[np.random.default_rng(step).permutation(12)])
    return [int(text.split()[-1]) for text in drawn], scores


sampler, loader = build()
batches = iter(loader)
history = [take(sampler, batches, step) for step in range(2)]
saved = loader.state_dict()
history += [take(sampler, batches, step) for step in range(2, 4)]

resumed, again = build()
again.load_state_dict(saved)
batches = iter(again)
later = [take(resumed, batches, step) for step in range(2, 4)]
metrics = sampler.curriculum.metrics()
print(json.dumps({"history": history, "later": later, "metrics": metrics}))
