"""Every method learns from shares of a chain that are right, 0 to 1, and is saved and resumed with them.

The problems and the reward are those of the lab's chains_share; the policy is a table of what each letter's
demonstrations get wrong, so what a prompt's rewards are like is known. Of a third of the prompts it does the
same every time: 0, 0.25, ... or 1 of the chain is right in all rollouts, and nothing can be learnt from them.
"""

import copy
import random
import re

import numpy as np
import pytest

from curro import Curriculum, Reason, Reply
from curro.data import PromptSet
from curro.lab import family, load
from curro.methods.prediction.metis.predictor import judgment_reward

TASK = family("chains_share")
N, BATCH, GROUP, STEPS = 160, 16, 8, 36


class Lent:
    """What a host lends: the lab's model of chains, and judgments that are right about the prompts."""

    def __init__(self, rows, variances):
        self.rows, self.variances = rows, variances
        self.model, self.tokenizer = load("chains")

    def prompt(self, number):
        return self.rows[number]["prompt"]

    def backbone(self):
        return copy.deepcopy(self.model.base_model), self.tokenizer

    def entropies(self, prompts):
        """The length of the chain."""
        return np.array([[len(self.prompt(number)) / 10, 1] for number in prompts])

    def answer(self, conversations, max_tokens):
        asked = [re.findall(r"\d[a-p]+=", talk[-1]["content"])[-1] for talk in conversations]
        number = {row["prompt"]: i for i, row in enumerate(self.rows)}
        return [Reply(f"\\boxed{{{self.variances[number[text]]:.3f}}}", (1,), (2, 3)) for text in asked]


@pytest.fixture(scope="module")
def world():
    """Rows with the length of each chain, 0 of settled ones; mean and variance of 400 rewards of each."""
    rows = [row | {"length": len(row["prompt"]) - 2} for row in TASK.problems(N, seed=0)]
    for i in range(0, N, 3):
        rows[i]["settled"], rows[i]["length"] = i % 5 / 4, 0
    shares = np.array([[share(row, i, k) for k in range(400)] for i, row in enumerate(rows)])
    return rows, shares.mean(axis=1), shares.var(axis=1)


def share(row, *seed):
    return row["settled"] if "settled" in row else TASK.score(TASK.worked(row, random.Random(str(seed))), row)


def curriculum_of(spec, rows, variances):
    curriculum = Curriculum(
        spec, PromptSet(rows), seed=0, advantage="smoothed" if "pspo" in spec else "group"
    )
    curriculum.attach(Lent(rows, variances))
    return curriculum


def run(spec, world, *, resume=lambda curriculum, step: curriculum, steps=STEPS):
    """Train; returns the curriculum, the prompts and reasons of each step and the auxiliary samples."""
    rows, _, variances = world
    curriculum, drawn, reasons, auxiliary_samples = curriculum_of(spec, rows, variances), [], [], []
    for step in range(steps):
        draw = curriculum.select(BATCH, step=step)
        curriculum = resume(curriculum, step)
        rewards = np.array([[share(rows[p], p, step, g) for g in range(GROUP)] for p in draw.prompts])
        assert ((rewards > 0) & (rewards < 1)).any()
        verdict = curriculum.observe(draw.tickets, rewards)
        auxiliary_samples.append((verdict.auxiliary_samples, rewards.var(axis=1)))
        drawn.append(draw.prompts.tolist())
        reasons.append(draw.reasons.tolist())
        curriculum = resume(curriculum, step)
    return curriculum, np.array(drawn), np.array(reasons), auxiliary_samples


BY_VARIANCE = [
    "prioritized-replay",
    "prioritized-replay:variant=published",
    "pspo",
    "posterior:target=none",
    "frontier",
    "frontier:features=text+entropy",
    "sec:column=length,temperature=0.02",
    "metis",
    "pcl:predicts=variance,learning_rate=3e-3",
]
BY_MEAN = ["posterior", "pcl:learning_rate=1e-3"]
OTHERS = ["adcl:chunks=4", "adcl:chunks=4,difficulty=variance"]


@pytest.mark.parametrize("spec", BY_VARIANCE)
def test_prompts_whose_shares_vary_are_chosen(world, spec):
    _, _, variances = world
    _, drawn, _, _ = run(spec, world)
    assert variances[drawn[-12:]].mean() > variances.mean() + 0.4 * variances.std()


@pytest.mark.parametrize("spec", BY_MEAN)
def test_prompts_near_a_mean_share_of_one_half_are_chosen(world, spec):
    _, means, _ = world
    _, drawn, _, _ = run(spec, world)
    assert np.abs(means[drawn[-12:]] - 0.5).mean() < 0.8 * np.abs(means - 0.5).mean()


@pytest.mark.parametrize(("spec", "sign"), [(OTHERS[0], -1), (OTHERS[1], 1)])
def test_adcl_goes_from_easy_to_hard_by_shares(world, spec, sign):
    _, means, variances = world
    # 10 batches of estimates, then 40 prompts to train on, 40 estimates, 40 to train on, ...
    _, drawn, reasons, _ = run(spec, world, steps=27)
    trained = drawn[reasons == Reason.PRIORITY]
    difficulty = (means if sign < 0 else variances)[trained] * sign
    chunks = [difficulty[start : start + 40].mean() for start in (0, 40, 80, 120)]
    assert len(trained) > 140
    assert chunks == sorted(chunks)


def test_auxiliary_samples_of_metis_are_paid_by_the_variance_of_shares(world):
    _, drawn, _, auxiliary_samples = run("metis", world, steps=1)
    _, _, variances = world
    made, realised = auxiliary_samples[0]
    expected = judgment_reward(np.round(variances[drawn[0]], 3), realised)
    assert 0.02 < realised.mean() < 0.25
    np.testing.assert_allclose(made.advantages, expected)
