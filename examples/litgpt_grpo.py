"""curro's port in a loop around LitGPT's model, with no trainer: pip install litgpt.

LitGPT's own function converts the lab's model, which is small enough for one core. LitGPT's model takes no
padding, so each group is a batch. The loop gives up a cache for generation.

    python examples/litgpt_grpo.py                # 60 steps
    python examples/litgpt_grpo.py --steps 2      # does it run?
"""

import argparse
from typing import Any

import torch
from litgpt.config import Config
from litgpt.model import GPT
from litgpt.scripts.convert_hf_checkpoint import copy_weights_qwen_3

from curro import Curriculum, lab
from curro.data import load_prompts
from curro.reward import resolve_reward

GROUP, LENGTH = 8, 14


def converted(model: Any) -> GPT:
    """The lab's model, a small Qwen3, as LitGPT's."""
    c = model.config
    config = Config(
        name="lab", block_size=256, vocab_size=c.vocab_size, padded_vocab_size=c.vocab_size, bias=False,
        n_layer=c.num_hidden_layers, n_head=c.num_attention_heads, n_query_groups=c.num_key_value_heads,
        n_embd=c.hidden_size, head_size=c.head_dim, intermediate_size=c.intermediate_size, norm_qk=True,
        norm_class_name="RMSNorm", norm_eps=c.rms_norm_eps, mlp_class_name="LLaMAMLP", rotary_percentage=1.0,
        rope_base=int(c.rope_parameters["rope_theta"]), parallel_residual=False,
    )  # fmt: skip
    weights: dict[str, torch.Tensor] = {}
    copy_weights_qwen_3(config, {}, weights, dict(model.state_dict()))
    gpt = GPT(config)
    gpt.load_state_dict(weights)
    gpt.lm_head.weight = gpt.transformer.wte.weight  # tied, as in the lab's model
    return gpt


@torch.no_grad()
def roll_out(gpt: GPT, prompt: list[int]) -> torch.Tensor:
    """The ids of the prompt and of LENGTH sampled tokens, (GROUP, prompt + LENGTH)."""
    ids = torch.tensor([prompt] * GROUP)
    for _ in range(LENGTH):
        ids = torch.cat([ids, torch.multinomial(gpt(ids)[:, -1].softmax(-1), 1)], dim=1)
    return ids


def main(steps: int, selection: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, tokenizer = lab.load("chains")
    gpt, prompts = converted(model), load_prompts("lab:chains", limit=1000)
    reward = resolve_reward("lab", prompts)
    curriculum = Curriculum(selection, prompts, advantage="group", seed=0)
    optimizer = torch.optim.AdamW(gpt.parameters(), lr=3e-4, weight_decay=0.0)
    for step in range(steps):
        draw = curriculum.select(16, step=step)
        rows = [prompts[i] for i in draw.prompts.tolist()]
        asked = [tokenizer(row["prompt"])["input_ids"] for row in rows]
        groups = [roll_out(gpt, ids) for ids in asked]
        written = [ids[:, len(prompt) :] for ids, prompt in zip(groups, asked, strict=True)]
        ends = [(ids == tokenizer.eos_token_id).long() for ids in written]
        counted = [end.cumsum(1) - end == 0 for end in ends]  # up to the first end of sequence
        texts = [
            tokenizer.decode(ids[mask], skip_special_tokens=True)
            for group, masks in zip(written, counted, strict=True)
            for ids, mask in zip(group, masks, strict=True)
        ]
        scores = reward.score(texts, [row for row in rows for _ in range(GROUP)])
        rewards_PG = torch.tensor(scores, dtype=torch.float64).view(len(rows), GROUP).numpy()
        verdict = curriculum.observe(draw.tickets, rewards_PG)
        credit_PG = torch.from_numpy(curriculum.credit(verdict)).float()
        for ids, mask, credit in zip(groups, counted, credit_PG, strict=True):
            if credit.any():  # a group without a signal has no gradient
                logp = (
                    gpt(ids)[:, -LENGTH - 1 : -1].log_softmax(-1).gather(-1, ids[:, -LENGTH:, None])[..., 0]
                )
                (-(credit[:, None] * logp * mask).sum() / (credit_PG.numel() * LENGTH)).backward()
        optimizer.step()
        optimizer.zero_grad()
        signal = (credit_PG != 0).any(1).sum()
        print(f"step {step + 1:4}  reward {rewards_PG.mean():.3f}  groups with signal {signal}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--curriculum", default="frontier")
    options = parser.parse_args()
    main(options.steps, options.curriculum)
