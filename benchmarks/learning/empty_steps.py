"""How far AdamW moves the weights for one gradient, when k steps without any follow each.

    python -m benchmarks.learning.empty_steps    # half a minute

Weights get independent normal gradients of variance 1, each followed by k steps of zero gradient, as where
every group of a step is flat. Counted are the root mean square of the move in the step that has the gradient,
and that of the whole way that a gradient moves a weight, then and in all later steps: the distance covered
after 500 gradients, divided by the root of 500. Both are multiples of the learning rate. It gives up that
real gradients are correlated from step to step.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import typer

EMPTY = (0, 1, 4, 9, 24)
"""Empty steps behind each gradient; 24 is a signal in 4% of the steps."""
RATE, WEIGHTS, GRADIENTS, COUNTED = 1e-3, 1_000, 1_000, 500


def moves(empty: int, betas: tuple[float, float], *, skip: bool) -> tuple[float, float]:
    """Mean move in a gradient's own step, and in all, over the last `COUNTED` gradients."""
    torch.manual_seed(0)
    weights = torch.zeros(WEIGHTS, requires_grad=True)
    optimizer = torch.optim.AdamW([weights], lr=RATE, betas=betas, weight_decay=0.0)
    own = []
    for number in range(GRADIENTS):
        before = weights.detach().clone()
        if number == GRADIENTS - COUNTED:
            start = before
        weights.grad = torch.randn(WEIGHTS)
        optimizer.step()
        own.append(_size(weights.detach() - before))
        for _ in range(empty):
            weights.grad = None if skip else torch.zeros(WEIGHTS)
            optimizer.step()
    return sum(own[-COUNTED:]) / COUNTED, _size(weights.detach() - start) / COUNTED**0.5


def _size(move: torch.Tensor) -> float:
    return float(move.square().mean().sqrt() / RATE)


def main() -> None:
    for betas in ((0.9, 0.99), (0.9, 0.999)):
        print(f"AdamW with betas {betas}; as multiples of the learning rate")
        print(f"{'empty steps':>12}{'own step':>10}{'whole way':>11}{'whole way, skipped':>20}")
        for empty in EMPTY:
            own, whole = moves(empty, betas, skip=False)
            skipped = moves(empty, betas, skip=True)[1]
            print(f"{empty:12}{own:10.2f}{whole:11.2f}{skipped:20.2f}")


if __name__ == "__main__":
    typer.run(main)
