"""What a judge makes of its exemplars: failures, mean prediction and error, by how many it is shown.

    python -m benchmarks.papers.judge                      # two minutes; the first table of results/lab.md
    python -m benchmarks.papers.judge --model lab:chains_judge --data lab:chains_judge --template lab
    python -m benchmarks.papers.judge --model FOLDER --data FILE --template curro --tokens 64 --completion 6

Without --model, the lab's chains_calibrated judges training problems from results of a weak, a middling and
a strong learner; the error is the root mean square against the variance to be expected of that learner. With
--model, a model judges the problems of --data for itself, as METIS asks it to: it answers each one many
times, the exemplars are variances of groups of 8 of these answers, and the predictions are compared with the
variance to be expected of such a group. A judgment that failed counts as a prediction of 0 when the eighth
with the highest predictions is chosen, as in METIS, and is left out of the error and of the correlation.
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
from benchmarks.common import sampled_rewards
from benchmarks.learning.warm_models import Judge

from curro.data import load_prompts
from curro.lab import family
from curro.methods.prediction.metis.predictor import read_prediction
from curro.methods.prediction.metis.template import Template, read_template
from curro.methods.prediction.quality import rank_correlation
from curro.reward import resolve_reward
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.engines.models import load_model
from curro.rollout.sampling import sample

SKILLS = {"weak": 2.0, "middling": 0.5, "strong": 0.25}
GROUP = 8
"""Rollouts of a group, whose variance is predicted; and of so many problems one is chosen."""
Row = Mapping[str, Any]


def judgments(
    model: tuple[Any, Any],
    template: Template,
    rows: Sequence[Row],
    shown: int,
    variance: Callable[[int, random.Random], float],
    tokens: int,
) -> list[str]:
    """The texts of a judgment of every row, each with `shown` other rows as exemplars.

    Args:
        variance: that an exemplar shows, by the number of its row.
    """
    rng = random.Random(0)
    torch.manual_seed(0)
    numbers = range(len(rows))
    conversations = [
        template.messages(
            [
                (str(rows[other]["prompt"]), variance(other, rng))
                for other in rng.sample([i for i in numbers if i != number], shown)
            ],
            str(rows[number]["prompt"]),
        )
        for number in numbers
    ]
    answers = sample(*model, conversations, n=1, settings=SamplingSettings(tokens))
    return model[1].batch_decode([ids for (ids,) in answers], skip_special_tokens=True)


def of_learners(template: Template, problems: int, tokens: int, counts: Sequence[int], show: int) -> None:
    """The lab's judge with exemplars of three learners."""
    judge = Judge(family("chains_calibrated"))
    model, rows = load_model("lab:chains_calibrated"), judge.family.problems(problems, seed=3)
    print(f"| exemplars | failed | {' | '.join(f'{name}: mean, error' for name in SKILLS)} |")
    for shown in counts:
        cells, failed, texts = [], [], []
        for skill in SKILLS.values():

            def variance(number: int, rng: random.Random, skill: float = skill) -> float:
                return judge.realised_variance(dict(rows[number]), rng, skill)

            texts = judgments(model, template, rows, shown, variance, tokens)
            predicted = np.array([read_prediction(text) for text in texts])
            failed.append(np.isnan(predicted))
            expected = np.array([judge.expected_variance(dict(row), skill) for row in rows])
            error = np.sqrt(np.nanmean((predicted - expected) ** 2))
            cells.append("-" if failed[-1].all() else f"{np.nanmean(predicted):.3f}, {error:.3f}")
        print(f"| {shown} | {np.mean(failed):.1%} | {' | '.join(cells)} |", flush=True)
        _show(texts[:show])


def of_itself(
    model: tuple[Any, Any],
    template: Template,
    rows: Sequence[Row],
    rewards_PN: np.ndarray,
    tokens: int,
    counts: Sequence[int],
    show: int,
) -> None:
    """A model's judgments of its own results.

    Args:
        rewards_PN: of N answers to each of the P rows; whole groups.
    """
    expected = rewards_PN.var(axis=1, ddof=1) * (GROUP - 1) / GROUP
    groups_PM = rewards_PN.reshape(len(rows), -1, GROUP).var(axis=2)
    chosen = max(1, len(rows) // GROUP)
    error = np.abs(expected - np.median(expected)).mean()
    print(
        f"{len(rows)} problems, {rewards_PN.shape[1]} answers each: mean reward {rewards_PN.mean():.3f}, "
        f"variance of a group {expected.mean():.3f}, of the best eighth "
        f"{np.sort(expected)[-chosen:].mean():.3f}; always the median would err by {error:.3f}\n"
    )
    print("| exemplars | failed | mean | mean absolute error | rank correlation | variance of the chosen |")
    print("|--:|--:|--:|--:|--:|--:|")
    for shown in counts:
        texts = judgments(
            model, template, rows, shown, lambda number, rng: rng.choice(groups_PM[number].tolist()), tokens
        )
        predicted = np.array([read_prediction(text) for text in texts])
        read = ~np.isnan(predicted)
        cells = ["-"] * 3
        if read.any():
            cells[0] = f"{predicted[read].mean():.3f}"
            cells[1] = f"{np.abs(predicted - expected)[read].mean():.3f}"
        if len(set(predicted[read])) > 1:
            cells[2] = f"{rank_correlation(predicted[read], expected[read]):.2f}"
        ties = np.random.default_rng(0).random((200, len(rows)))
        ranked = np.lexsort([ties, np.broadcast_to(np.nan_to_num(predicted), ties.shape)])
        cells.append(f"{expected[ranked[:, -chosen:]].mean():.3f}")
        print(f"| {shown} | {(~read).mean():.1%} | {' | '.join(cells)} |", flush=True)
        _show(texts[:show])


def _show(texts: Sequence[str]) -> None:
    for text in texts:
        print(repr(text), flush=True)


def main(
    template: Annotated[str, typer.Option(help="Of the judgment prompt, as METIS takes it.")] = "lab-compact",
    model: Annotated[str | None, typer.Option(help="It judges its own results.")] = None,
    data: Annotated[str | None, typer.Option(help="With --model, the problems.")] = None,
    reward: Annotated[str, typer.Option(help="With --model, of the answers.")] = "auto",
    completion: Annotated[int, typer.Option(help="With --model, the most tokens of an answer.")] = 16,
    answers: Annotated[int, typer.Option(help="With --model, to each problem; whole groups of 8.")] = 64,
    problems: Annotated[int, typer.Option(help="How many are judged.")] = 200,
    tokens: Annotated[int, typer.Option(help="The most of a judgment.")] = 12,
    exemplars: Annotated[str, typer.Option(help="The numbers of exemplars.")] = "0,1,3,6,9",
    show: Annotated[int, typer.Option(help="Print so many judgments of each number.")] = 0,
) -> None:
    torch.set_num_threads(1)
    asked = read_template(template, exemplars=True)
    counts = [int(count) for count in exemplars.split(",")]
    if model is None:
        of_learners(asked, problems, tokens, counts, show)
        return
    if data is None or answers % GROUP:
        raise typer.BadParameter(f"--model needs --data, and --answers in whole groups of {GROUP}")
    loaded, prompts = load_model(model), load_prompts(data, limit=problems)
    torch.manual_seed(1)
    rewards = sampled_rewards(
        *loaded,
        prompts,
        resolve_reward(reward, prompts),
        samples=answers,
        settings=SamplingSettings(completion),
    )
    of_itself(loaded, asked, prompts, rewards, tokens, counts, show)


if __name__ == "__main__":
    typer.run(main)
