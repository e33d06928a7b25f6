"""How many groups with a signal each method would find if the policy stood still at measured pass rates.

    curro estimate POOL.jsonl --model MODEL --reward math -k 16 --out FOLDER
    python -m benchmarks.learning.fixed_policy POOL.jsonl FOLDER

A group's rewards are drawn with the prompt's measured pass rate, so that a run takes a second and a method is
judged by what it finds alone. Printed are the shares of groups with a signal by quarter of the run, the mean
over seeds. "frontier, told the rates" knows each prompt's rate before its first rollout; "best" takes the
prompts with the highest chance of a signal again and again, which no method can exceed. What real runs have
less than this, the training itself has taken away: practised prompts are soon always solved.

Gives up: rates measured by few rollouts are noisy, and a prompt that was never solved in them counts as
hopeless.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow.parquet as pq
import typer
from benchmarks.papers.variants import mean_interval

from curro import Curriculum
from curro.data import PromptSet, load_prompts

METHODS = {
    "uniform": "uniform",
    "pspo": "pspo",
    "posterior": "posterior",
    "prioritized replay": "prioritized-replay",
    "frontier": "frontier",
    "frontier, told the rates": "frontier:known=rate",
}
QUARTERS = 4


def found(
    selection: str, prompts: PromptSet, rate_N: np.ndarray, seed: int, shape: tuple[int, int, int]
) -> np.ndarray:
    """The shares of groups with a signal, by quarter of the run; `shape` is steps, prompts and rollouts."""
    steps, count, size = shape
    rng, curriculum = np.random.default_rng(seed), Curriculum(selection, prompts, seed=seed)
    signal_T = np.empty(steps)
    for step in range(steps):
        draw = curriculum.select(count, step=step)
        rewards_PG = (rng.random((count, size)) < rate_N[draw.prompts, None]).astype(float)
        curriculum.observe(draw.tickets, rewards_PG)
        signal_T[step] = (np.ptp(rewards_PG, axis=1) > 0).mean()
    return np.array([part.mean() for part in np.array_split(signal_T, QUARTERS)])


def main(
    data: Annotated[str, typer.Argument(help="The prompts.")],
    folder: Annotated[Path, typer.Argument(help="Their `curro estimate`.")],
    prompts_per_step: Annotated[int, typer.Option(help="Prompts of a step.")] = 8,
    rollouts: Annotated[int, typer.Option(help="Rollouts of a prompt.")] = 4,
    steps: Annotated[int, typer.Option(help="Training steps of a run.")] = 120,
    seeds: Annotated[int, typer.Option(help="Runs of each method.")] = 5,
    method: Annotated[
        list[str] | None, typer.Option(help="A selection to simulate. [default: those of the page]")
    ] = None,
) -> None:
    table = pq.read_table(folder / "pass_rates.parquet").to_pydict()
    rate_N = np.array(table["mean"])
    loaded = load_prompts(data)
    prompts = PromptSet([{**loaded[prompt], "rate": rate} for prompt, rate in enumerate(rate_N.tolist())])
    chance_N = 1 - rate_N**rollouts - (1 - rate_N) ** rollouts
    print(
        f"{len(rate_N)} prompts, {(rate_N == 0).mean():.0%} never solved, {(rate_N == 1).mean():.0%} always"
    )
    for label, selection in (dict(zip(method, method, strict=True)) if method else METHODS).items():
        shape = (steps, prompts_per_step, rollouts)
        share_SQ = np.array([found(selection, prompts, rate_N, seed, shape) for seed in range(seeds)])
        by_quarter = "  ".join(f"{share:.3f}" for share in share_SQ.mean(axis=0))
        print(f"{label:26}{by_quarter}   mean {mean_interval(share_SQ.mean(axis=1))}", flush=True)
    print(f"{'best':26}{np.sort(chance_N)[-prompts_per_step:].mean():.3f}")


if __name__ == "__main__":
    typer.run(main)
