"""The one selector for all that predict: highest or nearest of m B candidates, ties and shares at random."""

import numpy as np
import pytest

from curro import ConfigError, Curriculum, Predictor, Reason
from curro.core import registry
from curro.core.policy import PolicyUse
from curro.methods.selection.predicted import Predicted


class Told(Predictor):
    """Predicts p / N for prompt p, as rate and as informativeness."""

    def informativeness(self, prompts, step):
        return prompts / self.table.size

    def success_rate(self, prompts, step):
        return prompts / self.table.size

    def selected(self, prompts):
        self.chosen = prompts.tolist()

    def release(self, prompts):
        self.returned = prompts.tolist()


class Variances(Predictor):
    def informativeness(self, prompts, step):
        return np.zeros(len(prompts))


class Asks(Variances):
    policy_use = PolicyUse.ASKED


def curriculum_of(size, predictor="Told", seed=0, exploration=0.0, **options):
    selection = Predicted(predictor=f"{__name__}:{predictor}", exploration=exploration, **options)
    return Curriculum(selection, size, seed=seed)


@pytest.fixture(autouse=True)
def _importable(monkeypatch, request):
    monkeypatch.setitem(__import__("sys").modules, __name__, request.module)


def test_the_highest_of_all_prompts_where_all_are_candidates():
    curriculum = curriculum_of(8, candidates=4)
    draw = curriculum.select(2, step=0)
    assert draw.prompts.tolist() == [7, 6]
    assert curriculum.selection.predictor.chosen == [7, 6]
    assert (draw.reasons == Reason.PRIORITY).all()
    assert curriculum.select(2, step=0).prompts.tolist() == [5, 4]
    curriculum.drop(draw.tickets)
    assert curriculum.selection.predictor.returned == [7, 6]
    np.testing.assert_array_equal(curriculum.table["predicted_variance"][4:], np.float32([4, 5, 6, 7]) / 8)
    assert np.isnan(curriculum.table["predicted_variance"][:4]).all()


def test_the_nearest_to_a_target():
    assert curriculum_of(8, candidates=8, target=0.4).select(3, step=0).prompts.tolist() == [3, 4, 2]


def test_candidates_are_drawn_uniformly():
    seen = np.zeros(10)
    curriculum = curriculum_of(10, candidates=2)
    for _ in range(400):
        draw = curriculum.select(1, step=0)
        seen[draw.prompts] += 1
        curriculum.drop(draw.tickets)
    # the higher of 2 distinct prompts of 10 is p with probability p / 45
    np.testing.assert_allclose(seen / 400, np.arange(10) / 45, atol=0.06)


def test_an_exponent_draws_in_proportion_to_a_power_of_what_is_predicted():
    seen = np.zeros(4)
    curriculum = curriculum_of(4, candidates=4, exponent=2)
    for _ in range(2000):
        draw = curriculum.select(1, step=0)
        seen[draw.prompts] += 1
        curriculum.drop(draw.tickets)
    # squares of 0, 1, 2 and 3 quarters
    np.testing.assert_allclose(seen / 2000, np.array([0, 1, 4, 9]) / 14, atol=0.04)


def test_ties_are_broken_at_random():
    first = {int(curriculum_of(6, "Variances", seed=s).select(1, step=0).prompts[0]) for s in range(60)}
    assert first == set(range(6))


def test_explored_places_are_a_uniform_sample():
    curriculum = curriculum_of(1000, candidates=10, exploration=0.5)
    draw = curriculum.select(40, step=0)
    explored = draw.prompts[draw.reasons == Reason.EXPLORATION]
    assert 10 < len(explored) < 30
    assert explored.mean() == pytest.approx(500, abs=200)
    best = draw.prompts[draw.reasons == Reason.PRIORITY]
    assert (np.diff(best) < 0).all()
    assert best.min() > 900
    everything = curriculum_of(6, exploration=1.0).select(6, step=0)
    assert sorted(everything.prompts.tolist()) == list(range(6))
    assert (everything.reasons == Reason.EXPLORATION).all()


def test_prompts_whose_latest_group_had_a_signal_are_candidates_again():
    curriculum = curriculum_of(1000, candidates=1, remembered=1)
    # 996 to 999 were rolled out: 996 and 998 had a signal, 997 and 999 had none
    curriculum.table.visit(np.arange(996, 1000), np.zeros(4), np.full(4, 0.5), np.array([0.25, 0, 0.1, 0]))
    draw = curriculum.select(2, step=1)
    assert draw.prompts.tolist() == [998, 996]  # of 2 random ones and these 2, predicted to be 0.998 and 0.996
    others = curriculum.select(2, step=1)  # these are in flight
    assert others.prompts.max() < 996
    curriculum.drop(draw.tickets[1:])
    curriculum.observe(draw.tickets[:1], [[1, 1]])
    assert curriculum.select(2, step=2).prompts.tolist()[0] == 996  # 998 has had a group without a signal since


def test_remembered_prompts_are_no_part_of_the_estimate_for_uniform_sampling():
    curriculum = curriculum_of(1000, candidates=1, remembered=1, exploration=1.0)
    curriculum.table.visit(np.arange(996, 1000), np.zeros(4), np.full(4, 0.5), np.full(4, 0.25))
    draw = curriculum.select(4, step=1)
    assert draw.prompts.max() < 996
    choice = curriculum.selection.prediction_offsets(draw)
    # the 4 random candidates are all chosen, so their predictions have their own mean
    assert choice.sum() == pytest.approx(0, abs=1e-9)
    assert choice.any()


def test_quality_of_the_prediction():
    curriculum = curriculum_of(4, candidates=4, target=0.5)
    draw = curriculum.select(4, step=0)
    # 4 of 4, 3, 2 and 1 succeed in prompts 0 to 3, of which 0, 1/4, 1/2 and 3/4 were predicted
    curriculum.observe(draw.tickets, np.arange(4) < 4 - draw.prompts[:, None])
    metrics = curriculum.metrics()
    assert metrics["prediction/rank_correlation"] == pytest.approx(-1)
    # errors -1, -1/2, 0, 1/2
    assert metrics["prediction/mean_error"] == pytest.approx(-1 / 4)
    assert metrics["prediction/mean_absolute_error"] == pytest.approx(1 / 2)


def test_a_predictor_that_asks_the_policy_needs_one():
    curriculum = curriculum_of(4, "Asks")
    with pytest.raises(ConfigError, match="Asks asks the policy, and no host has lent it"):
        curriculum.select(1, step=0)
    curriculum.attach(object())
    assert len(curriculum.select(1, step=0)) == 1


def test_posterior_takes_what_succeeds_half_of_the_time():
    curriculum = Curriculum("posterior:thompson=false,exploration=0", 6, seed=0)
    draw = curriculum.select(6, step=0)
    # prompt p succeeds p times of 6
    curriculum.observe(draw.tickets, np.arange(6) < draw.prompts[:, None])
    assert curriculum.select(1, step=1).prompts.tolist() == [3]
    assert "posterior/half_life" in curriculum.metrics()


@pytest.mark.parametrize(
    ("spec", "chosen"), [("posterior:exploration=0", 0), ("posterior:target=none,exploration=0", 1)]
)
def test_a_target_is_of_the_success_rate_and_none_is_the_variance(spec, chosen):
    # means 1/2 and 1/6, variances 0 and 5/36
    options = {**registry.parse("selection", spec), "thompson": False}
    curriculum = Curriculum(options, 2, seed=0)
    draw = curriculum.select(2, step=0)
    rewards = np.array([[0.5] * 6, [0, 0, 1, 0, 0, 0]])
    curriculum.observe(draw.tickets, rewards[draw.prompts])
    assert curriculum.select(1, step=1).prompts.tolist() == [chosen]
