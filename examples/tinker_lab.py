"""The lab's chains on a service of Tinker's protocol: tinker_lab.py base_url=http://127.0.0.1:8000"""

import asyncio

import chz
import tinker
from tinker_cookbook.rl import problem_env, train
from tinker_cookbook.rl.types import Env, RLDatasetBuilder, StepResult

from curro import Curriculum, lab
from curro.contrib.tinker import CurriculumDataset, FilledGroups
from curro.data import load_prompts

prompts, (_, tokenizer) = load_prompts("lab:chains"), lab.load("chains")


class Chain(Env):
    def __init__(self, row):
        self.row = row

    async def initial_observation(self):
        return tinker.ModelInput.from_ints(tokenizer.encode(self.row["prompt"])), [tokenizer.eos_token_id]

    async def step(self, action, *, extra=None):
        right = tokenizer.decode(action, skip_special_tokens=True).strip() == self.row["answer"]
        return StepResult(float(right), True, tinker.ModelInput.empty(), [])


@chz.chz
class Chains(RLDatasetBuilder):
    options: dict

    async def __call__(self):
        def build(prompt, rollouts):
            return problem_env.ProblemGroupBuilder(lambda: Chain(prompts.rows[prompt]), rollouts)

        return CurriculumDataset(Curriculum("frontier", prompts), build, **self.options), None


async def main(base_url: str, batches: int = 50, log_path: str = "runs/tinker-lab"):
    options = {"groups_per_batch": 8, "group_size": 8, "batches": batches, "log_path": log_path}
    await train.main(train.Config(
        dataset_builder=Chains(options=options), rollout_error_tolerance=FilledGroups(), base_url=base_url,
        model_name=str(lab.model.CHECKPOINTS / "chains"), recipe_name="curro", log_path=log_path,
        learning_rate=1e-2, lora_rank=8, max_tokens=16,
    ))  # fmt: skip


asyncio.run(chz.entrypoint(main))
