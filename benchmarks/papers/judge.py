"""What the lab's judge makes of its exemplars: failures, mean prediction and error, by how many it is shown.

    python -m benchmarks.papers.judge      # two minutes; prints the table of benchmarks/results/lab.md

Asks the warm model of chains_calibrated to judge 200 training problems, with results of a weak, a middling
and a strong learner as exemplars. The error is the root mean square against the variance to be expected of
that learner.
"""

from __future__ import annotations

import os
import random

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from curro.evaluation.sampling import sample
from curro.lab import family, load
from curro.lab.judging import JudgingFamily
from curro.prediction.metis.predictor import read_prediction
from curro.prediction.metis.template import read_template
from curro.rollout.engines.engine import SamplingSettings

SKILLS = {"weak": 2.0, "middling": 0.5, "strong": 0.25}


def main() -> None:
    torch.set_num_threads(1)
    judge = family("chains_calibrated")
    assert isinstance(judge, JudgingFamily)
    template, model = read_template("lab-compact", exemplars=True), load("chains_calibrated")
    rows = judge.problems(200, seed=3)
    print("| exemplars | failed | " + " | ".join(f"{name}: mean, error" for name in SKILLS) + " |")
    for shown in (0, 1, 3, 6, 9):
        cells, failed = [], []
        for skill in SKILLS.values():
            rng = random.Random(0)
            torch.manual_seed(0)
            conversations = [
                template.messages(
                    [
                        (other["prompt"], judge.realised_variance(other, rng, skill))
                        for other in rng.sample(rows, shown)
                    ],
                    row["prompt"],
                )
                for row in rows
            ]
            answers = sample(*model, conversations, n=1, settings=SamplingSettings(12))
            texts = model[1].batch_decode([ids for (ids,) in answers], skip_special_tokens=True)
            predicted = np.array([read_prediction(text) for text in texts])
            expected = np.array([judge.expected_variance(row, skill) for row in rows])
            failed.append(np.isnan(predicted))
            error = np.sqrt(np.nanmean((predicted - expected) ** 2))
            cells.append(f"{np.nanmean(predicted):.3f}, {error:.3f}")
        print(f"| {shown} | {np.mean(failed):.1%} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
