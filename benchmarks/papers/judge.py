"""What a judge makes of its exemplars: failures, mean prediction and error, by how many it is shown.

    python -m benchmarks.papers.judge                      # two minutes; the first table of results/lab.md
    python -m benchmarks.papers.judge --template lab       # the same model, a text that it was not trained on
    python -m benchmarks.papers.judge --model FOLDER --data FILE --template paper --problems 24 --tokens 64

Asks a model to judge training problems. A model of the lab (chains_calibrated) sees results of a weak, a
middling and a strong learner as exemplars; the error is the root mean square against the variance to be
expected of that learner. Another model (--model) sees variances drawn at random: what counts there is whether
its judgments can be read.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import typer

from curro.data import load_prompts
from curro.evaluation.sampling import sample
from curro.lab import family
from curro.lab.judging import JudgingFamily
from curro.prediction.metis.predictor import read_prediction
from curro.prediction.metis.template import Template, read_template
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.engines.models import load_model

SKILLS = {"weak": 2.0, "middling": 0.5, "strong": 0.25}
Row = Mapping[str, Any]


def judgments(
    model: tuple[Any, Any],
    template: Template,
    rows: Sequence[Row],
    shown: int,
    variance: Callable[[Row, random.Random], float],
    tokens: int,
) -> list[str]:
    """The texts of a judgment of every row, each with `shown` other rows and their variances as exemplars."""
    rng = random.Random(0)
    torch.manual_seed(0)
    conversations = [
        template.messages(
            [(str(other["prompt"]), variance(other, rng)) for other in rng.sample(rows, shown)],
            str(row["prompt"]),
        )
        for row in rows
    ]
    answers = sample(*model, conversations, n=1, settings=SamplingSettings(tokens))
    return model[1].batch_decode([ids for (ids,) in answers], skip_special_tokens=True)


def main(
    template: Annotated[str, typer.Option(help="Of the judgment prompt, as METIS takes it.")] = "lab-compact",
    model: Annotated[str | None, typer.Option(help="A folder, in place of the lab's model.")] = None,
    data: Annotated[str | None, typer.Option(help="With --model, the problems.")] = None,
    problems: Annotated[int, typer.Option(help="How many are judged.")] = 200,
    tokens: Annotated[int, typer.Option(help="The most of a judgment.")] = 12,
    exemplars: Annotated[str, typer.Option(help="The numbers of exemplars.")] = "0,1,3,6,9",
    show: Annotated[int, typer.Option(help="Print so many judgments of each number.")] = 0,
) -> None:
    torch.set_num_threads(1)
    judge = family("chains_calibrated")
    assert isinstance(judge, JudgingFamily)
    asked, loaded = read_template(template, exemplars=True), load_model(model or "lab:chains_calibrated")
    skills: Mapping[str, float | None] = SKILLS if model is None else {"random variances": None}
    rows: list[Row] = judge.problems(problems, seed=3)
    if data is not None:
        rows = list(load_prompts(data, limit=problems))
    columns = [name if skill is None else f"{name}: mean, error" for name, skill in skills.items()]
    print(f"| exemplars | failed | {' | '.join(columns)} |")
    for shown in map(int, exemplars.split(",")):
        cells, failed = [], []
        for skill in skills.values():

            def variance(row: Row, rng: random.Random, skill: float | None = skill) -> float:
                if skill is None:
                    return rng.choice([0.0, 0.109, 0.188, 0.234, 0.25])  # of 0 to 4 of 8 rollouts
                return judge.realised_variance(dict(row), rng, skill)

            texts = judgments(loaded, asked, rows, shown, variance, tokens)
            predicted = np.array([read_prediction(text) for text in texts])
            failed.append(np.isnan(predicted))
            cell = "-" if failed[-1].all() else f"{np.nanmean(predicted):.3f}"
            if skill is not None and not failed[-1].all():
                expected = np.array([judge.expected_variance(dict(row), skill) for row in rows])
                cell += f", {np.sqrt(np.nanmean((predicted - expected) ** 2)):.3f}"
            cells.append(cell)
        print(f"| {shown} | {np.mean(failed):.1%} | {' | '.join(cells)} |", flush=True)
        for text in texts[:show]:
            print(repr(text), flush=True)


if __name__ == "__main__":
    typer.run(main)
