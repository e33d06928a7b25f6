"""The time that curro adds to a training step of the lab.

    python -m benchmarks.hosts.overhead [--data lab:chains] [--steps 60]

Trains with TRL and `frontier` and times, in each step, the whole of the step, TRL's own
generation and scoring, and what the curriculum does around it: choosing, fetching rows, learning,
metrics. Gives up: what a curriculum changes in the lengths of completions is not counted.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from trl import GRPOTrainer

from curro.hosts.trl import CurriculumGRPOTrainer
from curro.runs.folder import RunFolder
from curro.training.plan import plan
from curro.training.run import train
from curro.training.settings import TrainSettings


class Clock:
    """Adds up the time spent in a method."""

    def __init__(self, owner: type, name: str) -> None:
        self.seconds: list[float] = []
        method = getattr(owner, name)

        def timed(*args: object, **kwargs: object) -> object:
            since = time.perf_counter()
            result = method(*args, **kwargs)
            self.seconds.append(time.perf_counter() - since)
            return result

        setattr(owner, name, timed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", default="lab:chains")
    parser.add_argument("--curriculum", default="frontier")
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()

    inner = Clock(GRPOTrainer, "_generate_and_score_completions")
    outer = Clock(CurriculumGRPOTrainer, "_generate_and_score_completions")
    whole = Clock(CurriculumGRPOTrainer, "training_step")
    settings = TrainSettings(data=options.data, curriculum=options.curriculum, eval_every=0)
    batch = plan(settings)
    rollouts = (batch.settings.prompts_per_step or 1) * (batch.settings.rollouts_per_prompt or 1)
    settings = TrainSettings(
        data=options.data,
        curriculum=options.curriculum,
        rollouts=options.steps * rollouts,
        eval_every=0,
        eval_prompts=1,
    )
    with tempfile.TemporaryDirectory() as folder:
        train(plan(settings), RunFolder.create(Path(folder) / "run", {}))
    # the first steps compile and fill caches
    added = np.array(outer.seconds)[5:] - np.array(inner.seconds)[5:]
    step = np.array(whole.seconds)[5:]
    print(
        f"{options.data}, {options.curriculum}, {rollouts} rollouts a step, {len(step)} steps: "
        f"step {np.median(step) * 1e3:.1f} ms, curro {np.median(added) * 1e3:.2f} ms "
        f"= {np.median(added) / np.median(step):.2%} (medians)"
    )


if __name__ == "__main__":
    main()
