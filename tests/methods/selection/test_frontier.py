"""Frontier: outcomes carry over by text, own outcomes correct it, and nothing depends on order or resumes."""

import numpy as np
import pytest

from curro import Curriculum
from curro.data import PromptSet
from curro.methods.prediction.frontier import PRIOR_ROLLOUTS, REFIT
from curro.methods.prediction.logistic_regression import LogisticRegression

WORDS = ("apple", "bread", "cider", "dough")


def prompts_of(texts):
    return PromptSet([{"key": str(i), "prompt": text, "answer": None} for i, text in enumerate(texts)])


def rewards_of(prompts, step, rates, group=8):
    return np.array([np.random.default_rng([step, p]).random(group) < rates[p] for p in prompts]) + 0.0


def trained(spec, texts, rates, *, steps=20, n=16, seed=0, order=None, **options):
    """A curriculum after some steps, and what it drew."""
    curriculum, drawn = Curriculum(spec, prompts_of(texts), seed=seed, **options), []
    for step in range(steps):
        draw = curriculum.select(n, step=step)
        rewards = rewards_of(draw.prompts, step, rates)
        for rows in [np.arange(n)] if order is None else order(n):
            curriculum.observe(draw.tickets[rows], rewards[rows])
        drawn.append(draw.prompts.tolist())
    return curriculum, drawn


@pytest.fixture(scope="module")
def told():
    """400 prompts of three words each, the first of which decides."""
    words = np.random.default_rng(3).integers(4, size=(400, 2))
    texts = [f"{WORDS[a]} {('round', 'flat')[b % 2]} {i % 7}" for i, (a, b) in enumerate(words)]
    return texts, np.array([0.02, 0.3, 0.9, 0.98])[words[:, 0]], words[:, 0]


def test_what_was_never_tried_is_known_by_its_text(told):
    texts, rates, kind = told
    curriculum, _ = trained("frontier:candidates=1", texts, rates, steps=15)
    posterior = curriculum.selection.predictor.posterior
    new = np.flatnonzero(curriculum.table["visits"] == 0)
    assert len(new) > 100
    mean = posterior.combine(new, 15)[1]
    for which, rate in enumerate((0.02, 0.3, 0.9, 0.98)):
        assert mean[kind[new] == which].mean() == pytest.approx(rate, abs=0.06)


def test_what_texts_expect_to_be_informative_is_chosen(told):
    texts, rates, kind = told
    curriculum, drawn = trained("frontier", texts, rates)
    # the second kind is a quarter of the prompts
    assert (kind[np.array(drawn[5:])] == 1).mean() > 0.6
    assert curriculum.table["predicted_variance"][drawn[-1]].max() <= 0.25


def test_prior_and_evidence_are_added(told):
    texts, rates, _ = told
    curriculum, drawn = trained("frontier:prior_rollouts=4", texts, rates)
    posterior = curriculum.selection.predictor.posterior
    posterior.learn()
    prompt = np.array(drawn[-1][:1])
    mu, t, k = posterior.prior_of(prompt)
    assert t == pytest.approx(mu * (1 - mu))  # rewards are 0/1
    assert k == PRIOR_ROLLOUTS
    n, m = posterior.count[prompt], posterior.mean[prompt]
    visit = int(curriculum.table["last_step"][prompt[0]])
    concentration, mean, variance, kept = posterior.combine(prompt, visit + int(posterior.half_life))
    np.testing.assert_allclose(kept, 1 / 2, rtol=1e-12)
    np.testing.assert_allclose(concentration, k + n / 2, rtol=1e-6)
    np.testing.assert_allclose(mean, (k * mu + n / 2 * m) / (k + n / 2), rtol=1e-6)
    np.testing.assert_allclose(variance, mean * (1 - mean), rtol=1e-5)


def test_groups_count_as_trials_by_strength_and_recency(told, monkeypatch):
    texts, rates, _ = told
    curriculum, _ = trained("frontier:prior_rollouts=4", texts, rates, steps=2)
    posterior = curriculum.selection.predictor.posterior
    seen = []
    monkeypatch.setattr(LogisticRegression, "fit", lambda self, features, rate, trials: seen.append(trials))
    posterior.learn()
    trials = 8 / (1 + 7 / (PRIOR_ROLLOUTS + 1))  # of groups of 8
    np.testing.assert_allclose(seen[0], trials * np.arange(481, 513) / 512)
    assert len(seen[0]) == 32 > REFIT


def test_regressions_are_fitted_after_the_same_group_after_a_resume(told):
    texts, rates, _ = told
    steady, resumed = (Curriculum("frontier", prompts_of(texts)) for _ in range(2))

    def step(curriculum, number):
        draw = curriculum.select(1, step=number)
        curriculum.observe(draw.tickets, rewards_of(draw.prompts, number, rates))
        return curriculum.selection.predictor.posterior.is_fitted

    for number in range(REFIT - 1):
        step(steady, number)
    resumed.load_state_dict(steady.state_dict())
    after = [[step(curriculum, REFIT - 1 + more) for more in range(3)] for curriculum in (steady, resumed)]
    assert after == [[False, True, True]] * 2


def test_without_texts_it_is_the_posterior_of_own_outcomes():
    own = Curriculum("posterior:target=none,thompson=false", 60, seed=5)
    frontier = Curriculum("frontier:exponent=none", 60, seed=5)
    rates = np.random.default_rng(2).random(60)
    for step in range(20):
        draws = own.select(6, step=step), frontier.select(6, step=step)
        assert draws[0].prompts.tolist() == draws[1].prompts.tolist()
        for curriculum, draw in zip((own, frontier), draws, strict=True):
            curriculum.observe(draw.tickets, rewards_of(draw.prompts, step, rates))
