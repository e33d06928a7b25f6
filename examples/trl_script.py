"""A TRL script with a curriculum: two edits to a plain GRPO script, which docs/trl.md shows as a diff.

The model and the data are the lab's, so that it runs on one core; any model and any `datasets.Dataset`
with a column `prompt` take their place.

    python examples/trl_script.py                 # 100 steps, about half a minute
    python examples/trl_script.py --max-steps 2   # does it run?
"""

import argparse

from trl import GRPOConfig

from curro import lab
from curro.data import load_prompts
from curro.hosts.trl import CurriculumGRPOTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--max-steps", type=int, default=100)
parser.add_argument("--output-dir", default="runs/trl-script")
options = parser.parse_args()

model, tokenizer = lab.load("chains")
dataset = load_prompts("lab:chains").to_hf()


def correct(completions: list[str], answer: list[str], **_: object) -> list[float]:
    return [float(text.strip() == right) for text, right in zip(completions, answer, strict=True)]


config = GRPOConfig(
    output_dir=options.output_dir, max_steps=options.max_steps, max_completion_length=16,
    per_device_train_batch_size=256, num_generations=8, loss_type="dr_grpo", scale_rewards="none",
    learning_rate=3e-4, warmup_steps=30, lr_scheduler_type="constant_with_warmup", adam_beta2=0.99,
    logging_steps=10, save_strategy="no", report_to=[], use_cpu=True, bf16=False,
)  # fmt: skip
trainer = CurriculumGRPOTrainer(
    model=model,
    processing_class=tokenizer,
    reward_funcs=correct,
    train_dataset=dataset,
    curriculum="frontier",
    args=config,
)
trainer.train()
