"""The time that curro adds to a training step of verl.

    PYTHONPATH=.:tests/hosts/verl .venv-verl/bin/python -m benchmarks.hosts.verl_overhead

verl's own trainer, queue and FSDP worker train a small model on the CPU; the curriculum is
in an actor of Ray, as in every run. Times, in each step, the whole step and all that the trainer waits for
the curriculum: choosing prompts, reading finished groups from verl's queue, learning from them, credit, the
run folder. Gives up: rollouts are simulated and take no time, so that the step lacks its longest part.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import ray
import transfer_queue as tq
from cpu_workers import CPUSync, overrides
from ray_for_tests import FORKED
from setup_run import TRAINERS, run

import curro.hosts.verl.trainer
from curro.hosts.verl.owner import CurriculumClient
from curro.hosts.verl.replay import ReportingBuffer
from curro.lab.model import build_model, build_tokenizer
from curro.rollout.polled_fill import PolledFill


class Clock:
    """Adds up the seconds of calls that do not overlap."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def time(self, owner: Any, name: str, only: tuple[str, ...] = ()) -> None:
        """Time this function; only its calls with these first arguments, where there are any."""
        plain = getattr(owner, name)

        def timed(*arguments: Any, **options: Any) -> Any:
            since = time.perf_counter()
            answer = plain(*arguments, **options)
            if not only or arguments[1] in only:
                self.seconds += time.perf_counter() - since
            return answer

        setattr(owner, name, timed)


clock = Clock()


class Timed(CPUSync):
    """A trainer that notes in each step what the clock shows."""

    def _compute_metrics(self, *arguments: Any, **options: Any) -> None:
        super()._compute_metrics(*arguments, **options)
        self.history[-1]["curro"] = clock.seconds


def write(folder: Path, prompts: int) -> list[str]:
    """The overrides for a model and a data set in this folder."""
    tokenizer = build_tokenizer()
    for part in (build_model(tokenizer, width=128, layers=4), tokenizer):
        part.save_pretrained(folder / "model")
    rows = [
        {
            "data_source": "sums",
            "prompt": [{"role": "user", "content": f"problem {number}"}],
            "reward_model": {"ground_truth": str(number), "style": "rule"},
            "extra_info": {"index": number},
        }
        for number in range(prompts)
    ]
    datasets.Dataset.from_list(rows).to_parquet(folder / "train.parquet")
    return [*overrides(folder / "model"), f"data.train_files={folder / 'train.parquet'}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--selection", default="frontier")
    parser.add_argument("--prompts", type=int, default=1000, help="of the data set")
    parser.add_argument("--batch", type=int, default=64, help="prompts a step")
    parser.add_argument("--size", type=int, default=8, help="rollouts of a prompt")
    parser.add_argument("--steps", type=int, default=8)
    options = parser.parse_args()
    os.environ[FORKED] = sys.executable
    TRAINERS["curro_sync"] = Timed
    clock.time(PolledFill, "draw")
    clock.time(ReportingBuffer, "_look")
    clock.time(ReportingBuffer, "_report")
    clock.time(curro.hosts.verl.trainer, "withhold_credit")
    clock.time(curro.hosts.verl.trainer, "write_credit")
    clock.time(CurriculumClient, "_ask", only=("write_step",))
    with tempfile.TemporaryDirectory() as folder:
        done = run(
            Path(folder) / "run", *write(Path(folder), options.prompts),
            f"+curro.selection='{options.selection}'", f"data.train_batch_size={options.batch}",
            f"actor_rollout_ref.rollout.n={options.size}",
            f"actor_rollout_ref.actor.ppo_mini_batch_size={options.batch}",
            steps=options.steps, actor=True,
        )  # fmt: skip
    step = np.array([entry["timing_s/step"] for entry in done.history])[2:]
    added = np.diff([entry["curro"] for entry in done.history])[1:]
    print(
        f"{options.selection}, {options.batch} x {options.size} rollouts a step, {len(step)} steps: "
        f"step {np.median(step):.2f} s, curro {np.median(added) * 1e3:.0f} ms "
        f"= {np.median(added / step):.2%} (medians)"
    )
    tq.close()
    ray.shutdown()


if __name__ == "__main__":
    main()
