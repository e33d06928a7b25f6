"""How much of a first token's entropy a server's likeliest tokens tell.

    python -m benchmarks.learning.likeliest_tokens MODEL POOL.jsonl ...

Compares `entropy_of_likeliest` with the exact entropies of the two tokens after 100 prompts of each pool, and
with the bound in which all other tokens count as one. SmolLM2-135M takes two minutes a pool on one core.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr

from curro.core.policy import entropy_of_likeliest
from curro.rollout.engines.models import load_model


@torch.no_grad()
def log_probs_of(model: torch.nn.Module, ids: list[int]) -> torch.Tensor:
    """Of the first token after a prompt and of the one after the likeliest, (2, V)."""
    first = model(input_ids=torch.tensor([ids])).logits[0, -1]
    second = model(input_ids=torch.tensor([[*ids, int(first.argmax())]])).logits[0, -1]
    return torch.stack([first, second]).double().log_softmax(-1)


def with_rest(log_probs_K: list[float]) -> float:
    """The bound in which the other tokens count as one."""
    return entropy_of_likeliest([*log_probs_K, np.log(max(1 - np.exp(log_probs_K).sum(), 1e-300))])


def main() -> None:
    model, tokenizer = load_model(sys.argv[1])
    rng = np.random.default_rng(0)
    exact, likeliest = [], []
    for path in sys.argv[2:]:
        rows = [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]
        for row in rng.choice(len(rows), 100, replace=False):
            log_probs = log_probs_of(model, tokenizer(rows[row]["prompt"])["input_ids"])
            exact.append(torch.special.entr(log_probs.exp()).sum(-1).tolist())
            likeliest.append(log_probs.topk(50).values.tolist())
    exact_N2 = np.array(exact)
    print(f"exact: {exact_N2.mean(axis=0).round(3)} nats")
    for k in (1, 2, 5, 10, 20, 50):
        for name, bound in {"as likely as the last": entropy_of_likeliest, "one token": with_rest}.items():
            found_N2 = np.array([[bound(place[:k]) for place in places] for places in likeliest])
            lacks = (exact_N2 - found_N2).mean(axis=0).round(3)
            ranks = [spearmanr(exact_N2[:, i], found_N2[:, i]).statistic.round(4) for i in (0, 1)]
            print(f"{k} tokens, the rest {name}: {lacks} nats lack, rank correlations {ranks}")


if __name__ == "__main__":
    main()
