"""The lab's chains by a curriculum, trained by a service that speaks Tinker's protocol.

python examples/tinker_lab.py --base-url http://127.0.0.1:8000 --batches 4
"""

import argparse
import asyncio
from functools import partial

import chz
import tinker
from tinker_cookbook.rl import train
from tinker_cookbook.rl.problem_env import ProblemGroupBuilder
from tinker_cookbook.rl.types import Env, RLDatasetBuilder, StepResult

from curro import Curriculum, lab
from curro.data import load_prompts
from curro.hosts.tinker import CurriculumDataset, FilledGroups
from curro.lab.model import CHECKPOINTS


class Chain(Env):
    def __init__(self, tokenizer, row):
        self.tokenizer, self.row = tokenizer, row

    async def initial_observation(self):
        return tinker.ModelInput.from_ints(self.tokenizer.encode(self.row["prompt"])), [
            self.tokenizer.eos_token_id
        ]

    async def step(self, action, *, extra=None):
        text = self.tokenizer.decode(action, skip_special_tokens=True)
        right = float(text.strip() == self.row["answer"])
        return StepResult(right, True, tinker.ModelInput.empty(), [])


@chz.chz
class Chains(RLDatasetBuilder):
    log_path: str
    batches: int

    async def __call__(self):
        prompts, (_, tokenizer) = load_prompts("lab:chains"), lab.load("chains")

        def build(prompt, rollouts):
            return ProblemGroupBuilder(partial(Chain, tokenizer, prompts.rows[prompt]), rollouts)

        curriculum = Curriculum("frontier", prompts)
        made = CurriculumDataset(
            curriculum, build, groups_per_batch=8, group_size=8, batches=self.batches, log_path=self.log_path
        )
        return made, None


parser = argparse.ArgumentParser()
parser.add_argument("--base-url")
parser.add_argument("--batches", type=int, default=50)
parser.add_argument("--log-path", default="runs/tinker-lab")
options = parser.parse_args()
config = train.Config(
    dataset_builder=Chains(log_path=options.log_path, batches=options.batches),
    rollout_error_tolerance=FilledGroups(),
    model_name=str(CHECKPOINTS / "chains"), recipe_name="curro", base_url=options.base_url,
    log_path=options.log_path, learning_rate=1e-2, lora_rank=8, max_tokens=16, eval_every=0, save_every=2,
)  # fmt: skip
asyncio.run(train.main(config))
