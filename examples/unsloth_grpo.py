"""The form of Unsloth's notebooks: TRL's GRPOTrainer subclassed around curro's port, on one GPU.

Unsloth rewrites TRL's trainer as it is imported, so this subclass of thirty lines touches only two of its
methods: pip install unsloth. It gives up what CurriculumGRPOTrainer adds: gates and allocations,
several processes, checkpoints of the curriculum, run folders.

    python examples/unsloth_grpo.py --max-steps 2                    # the lab's model on the CPU, plain TRL
    python examples/unsloth_grpo.py --unsloth unsloth/Qwen3-0.6B     # with Unsloth, which needs a GPU
"""

import argparse
import sys
from typing import Any

if "--unsloth" in sys.argv:
    from unsloth import FastLanguageModel  # first: it exchanges parts of TRL as it is imported
import torch
from trl import GRPOConfig, GRPOTrainer

from curro import Curriculum, lab
from curro.data import load_prompts

parser = argparse.ArgumentParser()
parser.add_argument("--unsloth", metavar="MODEL")
parser.add_argument("--max-steps", type=int, default=100)
parser.add_argument("--output-dir", default="runs/unsloth")
options = parser.parse_args()


class WithCurriculum(GRPOTrainer):
    """TRL's trainer; the curriculum chooses the prompts of each generation, and gives the advantages."""

    curriculum: Curriculum
    latest: torch.Tensor

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        rewards = super()._calculate_rewards(*args, **kwargs)
        self.latest = (rewards * self.reward_weights.to(rewards)).sum(dim=1)
        return rewards

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        if not self.model.training:
            return super()._generate_and_score_completions(inputs)
        size = self.num_generations
        draw = self.curriculum.select(len(inputs) // size, step=self.state.global_step)
        rows = [self.train_dataset[i] for i in draw.prompts.tolist() for _ in range(size)]
        output = super()._generate_and_score_completions(rows)
        verdict = self.curriculum.observe(draw.tickets, self.latest.double().view(-1, size).cpu().numpy())
        credit = torch.from_numpy(self.curriculum.credit(verdict).ravel())
        output["advantages"] = credit.to(output["advantages"])
        return output


def correct(completions: list[str], answer: list[str], **_: Any) -> list[float]:
    return [float(text.strip() == right) for text, right in zip(completions, answer, strict=True)]


prompts = load_prompts("lab:chains")
if options.unsloth:
    model, tokenizer = FastLanguageModel.from_pretrained(
        options.unsloth, max_seq_length=512, load_in_4bit=True
    )
    model = FastLanguageModel.get_peft_model(model, r=16, lora_alpha=16)
else:
    model, tokenizer = lab.load("chains")
trainer = WithCurriculum(
    model=model,
    processing_class=tokenizer,
    reward_funcs=correct,
    train_dataset=prompts.to_hf(),
    args=GRPOConfig(
        output_dir=options.output_dir, max_steps=options.max_steps, max_completion_length=16,
        per_device_train_batch_size=64, num_generations=8, learning_rate=3e-4, logging_steps=1,
        save_strategy="no", report_to=[], use_cpu=not options.unsloth, bf16=bool(options.unsloth),
    ),
)  # fmt: skip
trainer.curriculum = Curriculum("frontier", prompts, advantage="group", seed=0)
trainer.train()
