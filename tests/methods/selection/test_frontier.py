"""Frontier: outcomes carry over by text, own outcomes correct it, and nothing depends on order or resumes."""

import numpy as np
import pytest

from curro import ConfigError, Curriculum
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
    rng = np.random.default_rng(3)
    words = rng.integers(4, size=(400, 2))
    rates = np.array([0.02, 0.3, 0.9, 0.98])[words[:, 0]]
    return (
        [f"{WORDS[a]} {('round', 'flat')[b % 2]} {i % 7}" for i, (a, b) in enumerate(words)],
        rates,
        words[:, 0],
    )


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
    curriculum, drawn = trained("frontier:half_life=10,prior_rollouts=4", texts, rates)
    posterior = curriculum.selection.predictor.posterior
    posterior.learn()
    prompt = np.array(drawn[-1][:1])
    mu, t, k = posterior.prior_of(prompt)
    assert t == pytest.approx(mu * (1 - mu))  # rewards are 0/1
    assert k == PRIOR_ROLLOUTS
    n, m = posterior.count[prompt], posterior.mean[prompt]
    visit = int(curriculum.table["last_step"][prompt[0]])
    concentration, mean, variance, kept = posterior.combine(prompt, visit + 10)
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


def test_without_texts_it_is_the_posterior_of_own_outcomes():
    own = Curriculum("posterior:target=none,thompson=false", 60, seed=5)
    frontier = Curriculum("frontier", 60, seed=5)
    rates = np.random.default_rng(2).random(60)
    for step in range(20):
        draws = own.select(6, step=step), frontier.select(6, step=step)
        assert draws[0].prompts.tolist() == draws[1].prompts.tolist()
        for curriculum, draw in zip((own, frontier), draws, strict=True):
            curriculum.observe(draw.tickets, rewards_of(draw.prompts, step, rates))


@pytest.mark.parametrize(
    "order",
    [lambda n: [[i] for i in range(n)], lambda n: [np.arange(n)[::-1]], lambda n: [[4, 1], [0, 5, 2], [3]]],
)
def test_the_order_of_feedback_changes_nothing(told, order):
    texts, rates, _ = told
    together, drawn = trained("frontier", texts, rates, n=6)
    otherwise, same = trained("frontier", texts, rates, n=6, order=order)
    assert drawn == same
    together.select(3, step=20)
    otherwise.select(3, step=20)
    for part in ("selection", "table", "rng"):
        np.testing.assert_equal(otherwise.state_dict()[part], together.state_dict()[part])


def test_a_resume_changes_nothing(told, tmp_path):
    texts, rates, _ = told
    _, expected = trained("frontier", texts, rates, steps=24)
    curriculum, drawn = Curriculum("frontier", prompts_of(texts), seed=0), []

    def resumed(curriculum):
        curriculum.save(tmp_path / "state")
        fresh = Curriculum("frontier", prompts_of(texts), seed=0)
        fresh.load(tmp_path / "state")
        return fresh

    for step in range(24):
        curriculum = resumed(curriculum)
        draw = curriculum.select(16, step=step)
        curriculum = resumed(curriculum)
        curriculum.observe(draw.tickets, rewards_of(draw.prompts, step, rates))
        drawn.append(draw.prompts.tolist())
    assert drawn == expected


@pytest.mark.parametrize("kind", ["negative", "continuous", "huge", "one outlier", "single rollout"])
def test_rewards_of_any_real_value(told, kind):
    texts, _, _ = told
    curriculum, rng = Curriculum("frontier", prompts_of(texts[:50]), seed=4), np.random.default_rng(5)
    for step in range(30):
        draw = curriculum.select(8, step=step)
        rewards = {
            "negative": -rng.exponential(size=(8, 6)),
            "continuous": rng.random((8, 6)),
            "huge": rng.choice([-1e15, 0.0, 1e15], (8, 6)),
            "one outlier": np.where(step == 15, 1e9, 1.0) * rng.integers(0, 2, (8, 6)),
            "single rollout": rng.integers(0, 2, (8, 1)),
        }[kind]
        curriculum.observe(draw.tickets, rewards)
    predictor = curriculum.selection.predictor
    for value in (predictor.informativeness(draw.prompts, 30), predictor.success_rate(draw.prompts, 30)):
        assert np.isfinite(value).all()


def test_other_scales_of_reward_change_nothing(told):
    texts, rates, _ = told

    def scaled(scale, reward_range):
        curriculum = Curriculum("frontier", prompts_of(texts), seed=0, reward_range=reward_range)
        drawn = []
        for step in range(12):
            draw = curriculum.select(16, step=step)
            curriculum.observe(draw.tickets, scale(rewards_of(draw.prompts, step, rates)))
            drawn.append(draw.prompts.tolist())
        return drawn

    assert scaled(lambda r: 2 * r - 1, (-1, 1)) == scaled(lambda r: r, (0, 1))


def test_rows_without_a_prompt_are_no_texts():
    prompts = prompts_of("ab")
    assert prompts.fingerprint
    prompts.rows = [{"question": "?"}] * 2
    assert len(Curriculum("frontier", prompts).select(2, step=0)) == 2


def test_wrong_options():
    with pytest.raises(ConfigError, match="half_life is a number of training steps above 0, not -1"):
        Curriculum("frontier:half_life=-1", 3)
    with pytest.raises(ConfigError, match="frontier' has no option 'target'"):
        Curriculum("frontier:target=0.5", 3)


def test_entropies_need_a_host():
    with pytest.raises(ConfigError, match="frontier asks the policy, and no host has lent it"):
        Curriculum("frontier:features=entropy", 40).select(2, step=0)
