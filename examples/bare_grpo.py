"""GRPO in plain PyTorch around curro's port: no trainer, no framework.

Trains the lab's `chains` model on the prompts that a curriculum chooses and prints held-out pass@1 before
and after. Every step is: select prompts, roll out a group of each, score, observe, update.

It gives up whatever a trainer adds: checkpoints, several devices, logging, evaluation on the way. Each
rollout is used for one update, so there is no ratio to clip and no reference model.

    python examples/bare_grpo.py                                          # 200 steps, about a minute
    python examples/bare_grpo.py --curriculum uniform                     # the same without a curriculum
    python examples/bare_grpo.py --steps 3                                # does it run?
"""

import argparse
from typing import Any

import torch

from curro import Curriculum, lab
from curro.data import load_prompts
from curro.reward import resolve_reward
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.sampling import evaluate


def main(steps: int, selection: str, seed: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    recipe = lab.family("chains").recipe
    model, tokenizer = lab.load("chains")
    prompts = load_prompts("lab:chains", limit=recipe.train_prompts)
    held_out = load_prompts("lab:chains", split="test", limit=recipe.held_out_prompts)
    reward = resolve_reward("lab", prompts)
    curriculum = Curriculum(selection, prompts, advantage="group", seed=seed)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=recipe.learning_rate, betas=recipe.adam_betas, weight_decay=0.0
    )
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / recipe.warmup_steps, 1.0, recipe.warmup_steps)
    group, length = recipe.rollouts_per_prompt, recipe.max_completion_length

    def pass_at_1() -> float:
        settings, samples = SamplingSettings(length), recipe.held_out_samples
        scores = evaluate(model, tokenizer, held_out, reward, samples=samples, settings=settings)
        return scores["eval/pass@1"]

    print(f"held-out pass@1 before: {pass_at_1():.3f}")
    for step in range(steps):
        draw = curriculum.select(recipe.prompts_per_step, step=step)
        rows = [prompts[i] for i in draw.prompts.tolist() for _ in range(group)]
        ids, mask, counted, texts = roll_out(model, tokenizer, [row["prompt"] for row in rows], length)
        rewards = torch.tensor(reward.score(texts, rows)).view(len(draw), group).numpy()
        verdict = curriculum.observe(draw.tickets, rewards)

        credit = torch.from_numpy(curriculum.credit(verdict).ravel()).float()
        logp = token_logp(model, ids, mask, counted.shape[1])
        # a sum over tokens with a constant divisor, as in Dr. GRPO: no bias by length
        loss = -(credit[:, None] * logp * counted).sum() / (len(rows) * length)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.max_grad_norm)
        optimizer.step()
        warmup.step()
        signal = 1 - curriculum.table.is_flat(verdict.informativeness).mean()
        print(f"step {step + 1:4}  reward {rewards.mean():.3f}  groups with signal {signal:.2f}")
    print(f"held-out pass@1 after:  {pass_at_1():.3f}")


def roll_out(
    model: Any, tokenizer: Any, texts: list[str], length: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, list[str]]:
    """A completion of T tokens for each of B texts.

    Returns the ids and mask of prompt and completion, which completion tokens count (up to the first
    `<eos>`), (B, T), and the completions' texts.
    """
    inputs = tokenizer(texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        ids = model.generate(**inputs, do_sample=True, top_k=0, max_new_tokens=length)
    completions = ids[:, inputs["input_ids"].shape[1] :]
    ends = (completions == tokenizer.eos_token_id).long()
    counted = (ends.cumsum(dim=1) - ends == 0).long()
    mask = torch.cat([inputs["attention_mask"], counted], dim=1)
    return ids, mask, counted, tokenizer.batch_decode(completions, skip_special_tokens=True)


def token_logp(model: Any, ids: torch.Tensor, mask: torch.Tensor, new: int) -> torch.Tensor:
    """Log-probabilities of the last `new` tokens, (B, new)."""
    logits = model(input_ids=ids, attention_mask=mask, logits_to_keep=new + 1).logits[:, :-1]
    return logits.log_softmax(-1).gather(-1, ids[:, -new:, None]).squeeze(-1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--curriculum", default="frontier", help="a name, or module:Class")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    main(options.steps, options.curriculum, options.seed)
