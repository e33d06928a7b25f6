"""The port: what a verdict says, what is refused, what is counted."""

import dataclasses

import numpy as np
import pytest

from curro import (
    Advantage,
    Allocation,
    CheckpointError,
    Choice,
    ConfigError,
    Curriculum,
    ExhaustedError,
    Gate,
    Reason,
    RewardError,
    Selection,
)
from curro.core.identity import DatasetRows
from curro.core.policy import AuxiliarySamples, PolicyUse
from curro.methods.selection.uniform import Uniform

SELECTIONS = ["uniform", "prioritized-replay", "prioritized-replay:variant=published,draw=proportional"]


def test_a_verdict_worked_by_hand():
    curriculum = Curriculum("uniform", ["a", "b", "c"])
    draw = curriculum.select(3, step=0)
    nan = np.nan
    verdict = curriculum.observe(draw.tickets, [[1, 0, 0, 0], [3, nan, -1, nan], [nan] * 4])
    # group 0: mean 1/4, v = 1/4 * 3/4; group 1: 3 and -1 count, mean 1, v = (4 + 4)/2; group 2: none
    np.testing.assert_array_equal(
        verdict.advantages, [[0.75, -0.25, -0.25, -0.25], [2, 0, -2, 0], [0, 0, 0, 0]]
    )
    np.testing.assert_array_equal(verdict.informativeness, [0.1875, 4.0, 0.0])
    assert verdict.admitted.tolist() == [True, True, False]
    metrics = curriculum.metrics()
    assert (metrics["observed"], metrics["dropped"], metrics["in_flight"]) == (2, 1, 0)
    assert curriculum.table["visits"][draw.prompts].tolist() == [1, 1, 0]
    assert curriculum.table["last_step"][draw.prompts].tolist() == [0, 0, -1]


class OnAGpu:
    """A tensor that NumPy cannot read, as one on a GPU."""

    def __init__(self, values):
        self.values = values

    def __array__(self, *arguments, **options):
        raise TypeError("can't convert a tensor on a GPU")

    def tolist(self):
        return self.values


def test_rewards_of_a_tensor_are_read_wherever_it_is():
    curriculum = Curriculum("uniform", 4, seed=0)
    draw = curriculum.select(2, step=0)
    verdict = curriculum.observe(draw.tickets, OnAGpu([[1.0, 0.0], [1.0, 1.0]]))
    assert verdict.informativeness.tolist() == [0.25, 0]


def test_equal_rewards_have_no_variance_at_all():
    curriculum = Curriculum("uniform", 1)
    # 0.1 + 0.1 + 0.1 = 0.30000000000000004, so sums of the rewards themselves would leave some
    verdict = curriculum.observe(curriculum.select(1, step=0).tickets, [[0.1, 0.1, 0.1]])
    assert verdict.informativeness[0] == 0.0
    assert not verdict.advantages.any()


def test_credit_of_a_batch_from_several_verdicts_of_other_group_sizes():
    class Weighted(Selection):
        """Prompts 0, 1, 2, ... in turn, with weights 1, 1/2, 1/4, ...; a batch divides by its largest."""

        has_weights = True

        def select(self, n, step):
            choice = Choice.of(np.flatnonzero(~self.table["in_flight"])[:n], Reason.PRIORITY)
            return dataclasses.replace(choice, weights=0.5**choice.prompts)

        def batch_weights(self, weights_P):
            return weights_P / weights_P.max(initial=0.0)

    curriculum = Curriculum(Weighted(), 4)
    draw = curriculum.select(4, step=0)
    pairs = curriculum.observe(draw.tickets[:2], [[1, 0], [0, 1]])
    triples = curriculum.observe(draw.tickets[2:], [[1, 1, 0], [0, 0, 1]])
    # prompts 3, 2 and 1, of weights 1/8, 1/4 and 1/2: 1/4, 1/2 and 1 of the largest; prompt 0 is left out
    credit_PG = curriculum.credit([triples.take([1, 0]), pairs.take(np.array([False, True]))])
    expected = [[-1 / 12, -1 / 12, 2 / 12], [1 / 6, 1 / 6, -2 / 6], [-0.5, 0.5, 0]]
    np.testing.assert_allclose(credit_PG, expected, rtol=1e-12)
    np.testing.assert_allclose(curriculum.credit(pairs), [[0.5, -0.5], [-0.25, 0.25]])
    assert curriculum.credit([]).shape == (0, 0)


def test_a_selection_that_trains_the_policy_says_so():
    """Its tickets stay open: hosts report them again once the attribute is set."""

    class Teaches(Uniform):
        def observe(self, outcome):
            return AuxiliarySamples(((1,),), ((2,),), np.ones(1), 0.1)

    curriculum = Curriculum(Teaches(), 4)
    draw = curriculum.select(2, step=0)
    with pytest.raises(ConfigError, match=r"Teaches.observe returned samples .* policy_use lacks"):
        curriculum.observe(draw.tickets, [[1, 0], [0, 1]])
    Teaches.policy_use = PolicyUse.TRAINED
    assert curriculum.observe(draw.tickets, [[1, 0], [0, 1]]).auxiliary_samples.weight == 0.1


def test_nothing_to_observe_is_no_error_nor_a_ticket_alone():
    curriculum = Curriculum("prioritized-replay", 5)
    assert not curriculum.observe(int(curriculum.select(1, step=0).tickets[0]), [[np.nan]]).admitted[0]
    assert len(curriculum.observe([], np.empty((0, 4))).admitted) == 0
    curriculum.drop([])
    assert len(curriculum.select(5, step=0)) == 5


@pytest.mark.parametrize("spec", SELECTIONS)
@pytest.mark.parametrize(
    ("rewards", "words"),
    [
        ([[1, 0], [0, -np.inf]], "rollout 1 of prompt '{}' has the reward -inf"),
        ([[1, 0], [np.inf, 1]], "rollout 0 of prompt '{}' has the reward inf"),
        ([[1, 0], [1e16, 1]], "rollout 0 of prompt '{}' has the reward 1e\\+16"),
        ([[1, 0], [np.nan, np.inf]], "rollout 1 of prompt '{}' has the reward inf"),
        ([[1, 0]], r"shape \(1, 2\); 2 tickets need \(2, G\)"),
        ([1, 0], r"shape \(2,\)"),
        ([[], []], r"shape \(2, 0\)"),
        ([[1, 0], [1]], "groups of one length"),
        ([["yes", "no"], ["yes", "no"]], "a number a rollout"),
    ],
)
def test_rewards_that_cannot_be_learnt_from_change_nothing(spec, rewards, words):
    curriculum = Curriculum(spec, [f"key{i}" for i in range(7)])
    curriculum.observe(curriculum.select(2, step=0).tickets, [[1, 0], [0, 0]])
    draw = curriculum.select(2, step=1)
    before = curriculum.state_dict()
    with pytest.raises(RewardError, match=words.format(f"key{draw.prompts[1]}")):
        curriculum.observe(draw.tickets, rewards)
    np.testing.assert_equal(curriculum.state_dict(), before)
    assert curriculum.observe(draw.tickets, [[1, 0], [0, 1]]).admitted.all()


@pytest.mark.parametrize("spec", SELECTIONS)
def test_too_few_free_prompts(spec):
    curriculum = Curriculum(spec, 4)
    first = curriculum.select(3, step=0)
    with pytest.raises(ExhaustedError, match="2 prompts were asked for and 1 of 4 are free, 3 are in flight"):
        curriculum.select(2, step=0)
    last = curriculum.select(1, step=0)
    assert set(first.prompts) | set(last.prompts) == set(range(4))


@pytest.mark.parametrize(
    ("n", "step", "words"),
    [
        *((n, 5, "n is a whole number from 1, not") for n in (0, 1.5, None, "2")),
        *((1, step, "step is a whole number, not") for step in (5.5, None, 2**70)),
        (1, 4, "step 4 is before step 5"),
    ],
)
def test_counts_are_whole_numbers_and_steps_only_grow(n, step, words):
    curriculum = Curriculum("uniform", 4)
    curriculum.select(1, step=np.int64(5))
    with pytest.raises(ConfigError, match=words):
        curriculum.select(n, step=step)
    assert curriculum.free == 3


def test_late_feedback_is_dated_by_the_step_that_asked():
    curriculum = Curriculum("uniform", 4)
    early = curriculum.select(1, step=3)
    curriculum.select(1, step=9)
    curriculum.observe(early.tickets, [[0.0, 1.0]])
    assert curriculum.table["last_step"][early.prompts[0]] == 3


@pytest.mark.parametrize(
    ("selection", "prompts", "seed", "words"),
    [
        *((wrong, 3, 0, "selection") for wrong in ("fractions:Fraction", Reason, Selection, 3, None)),
        ("uniform", [{"question": "a"}], 0, "no column 'prompt'"),
        ("uniform", [{"prompt": "a"}, "b"], 0, "row 1 is 'b'"),
        ("uniform", [{"a", "b"}], 0, "`prompt`"),
        ("uniform", [[{"role": "user", "content": "a"}]], 0, "`prompt`"),
        ("uniform", "problems.jsonl", 0, "not 'problems.jsonl'"),
        *(("uniform", size, 0, "at most 2,147,483,647 prompts") for size in (10**12, 1 << 31)),
        *(("uniform", 4, wrong, "seed") for wrong in ("x", -1, 1.5, None)),
    ],
)
def test_a_curriculum_that_cannot_be_is_refused(selection, prompts, seed, words):
    with pytest.raises(ConfigError, match=words):
        Curriculum(selection, prompts, seed=seed)


def test_settings_from_a_dict():
    curriculum = Curriculum.from_config({"selection": {"name": "uniform"}, "seed": 5}, 3)
    assert curriculum.config["seed"] == 5
    with pytest.raises(ConfigError, match="no setting 'sed'; there are: selection, advantage"):
        Curriculum.from_config({"selection": "uniform", "sed": 5}, 3)
    with pytest.raises(ConfigError, match="lacks `selection`"):
        Curriculum.from_config({}, 3)
    with pytest.raises(ConfigError, match="settings by their names, not 5"):
        Curriculum.from_config(5, 3)


def test_advantages_are_credited_only_where_asked_for():
    assert not Curriculum("uniform", 3).has_advantage
    curriculum = Curriculum("uniform", 3, advantage="group:divide_by_std=true,epsilon=0")
    assert curriculum.has_advantage
    verdict = curriculum.observe(curriculum.select(1, step=0).tickets, [[1, 1, 1, 0]])
    # mean 3/4, deviation sqrt(3)/4: (1/4) / (sqrt(3)/4) = 1/sqrt(3), (-3/4) / (sqrt(3)/4) = -sqrt(3)
    np.testing.assert_allclose(verdict.advantages, [[3**-0.5] * 3 + [-(3**0.5)]], rtol=1e-12)


class Unbound(Selection):
    """Forgets what the base class keeps."""

    def bind(self, table, rng):
        self.own = table

    def select(self, n, step):
        return Choice.of(np.arange(n), Reason.UNIFORM)


def test_a_method_whose_bind_leaves_out_that_of_its_base_is_told(tmp_path):
    with pytest.raises(ConfigError, match=r"Unbound.bind has to call super\(\).bind with its arguments"):
        Curriculum(Unbound(), 4)


class Chooses(Selection):
    """Chooses what it is told to."""

    def __init__(self, choice):
        self.choice = choice

    def select(self, n, step):
        return self.choice() if callable(self.choice) else self.choice


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (Choice.of([0, 1, 1, 2], Reason.UNIFORM), "chose 1 twice: choose distinct"),
        (Choice.of([0, -1, 1, 2], Reason.UNIFORM), "chose -1, which is no prompt of 0..4"),
        (Choice.of([0, 3, 1, 5], Reason.UNIFORM), "chose 5, which is no prompt of 0..4"),
        (Choice.of([0, 4, 1, 2], Reason.UNIFORM), "chose 4, which is in flight"),
        (Choice.of([0, 1, 2], Reason.UNIFORM), r"returned prompts, int64 of shape \(3,\)"),
        (np.arange(4), "returned ndarray: return a curro.Choice"),
        (lambda: Choice.of([0, 1.5, 2, 3], Reason.UNIFORM), "numbers, which are whole, not float64"),
        (
            Choice(np.arange(4.0), *np.zeros((3, 4))),
            "prompts, float64 .*: return whole numbers",
        ),
        (
            Choice(np.arange(4), np.zeros(4), np.zeros(1), np.ones(4)),
            "probabilities, float64",
        ),
        (
            Choice(np.arange(4), np.zeros(4), np.ones(4), np.full(4, 0.5)),
            "other than 1 although its has_weights is False",
        ),
        (Choice.of([0, 1, 2, 3], 7), r"reasons \[7 7 7 7\]: take them from curro.Reason"),
    ],
)
def test_a_method_that_chooses_no_prompts_is_refused_and_nothing_is_selected(choice, words):
    curriculum = Curriculum(Chooses(Choice.of([4], Reason.UNIFORM)), 5)
    curriculum.select(1, step=0)
    curriculum.selection.choice = choice
    with pytest.raises(ConfigError, match=words):
        curriculum.select(4, step=0)
    assert curriculum.table["in_flight"].tolist() == [False] * 4 + [True]
    assert curriculum.metrics()["selected"] == 1


class Answers:
    """A gate, an advantage or a predictor that gives one answer to everything."""

    def __init__(self, answer):
        self.answer = answer

    def __call__(self, groups):
        return self.answer


@pytest.mark.parametrize(
    ("part", "base", "answer", "words"),
    [
        ("admission", Gate, np.array([1, 0]), r"int64 of shape \(2,\), \[1 0\]: return bool of shape \(2,\)"),
        ("admission", Gate, np.array([True]), r"bool of shape \(1,\)"),
        ("advantage", Advantage, np.ones(2), r"return finite numbers of shape \(2, 3\)"),
        ("advantage", Advantage, np.full((2, 3), np.nan), r"\[\[nan nan nan\] \[nan nan nan\]\]"),
    ],
)
def test_an_answer_of_another_form_is_refused_and_nothing_is_settled(part, base, answer, words):
    own = type("Own", (Answers, base), {})(answer)
    curriculum = Curriculum("uniform", 5, **{part: own})
    draw = curriculum.select(2, step=0)
    with pytest.raises(ConfigError, match=f"^Own returned .*{words}"):
        curriculum.observe(draw.tickets, [[1, 0, 0], [1, 1, 0]])
    assert curriculum.ledger.tickets.tolist() == draw.tickets.tolist()


@pytest.mark.parametrize("answer", [[0.2], [float("nan")] * 40, 0.2, ["a"] * 40])
def test_predictions_of_another_form_are_refused(answer):
    curriculum = Curriculum("posterior:target=none", 40)
    curriculum.selection.predictor.informativeness = lambda prompts, step: answer
    with pytest.raises(ConfigError, match=r"return finite numbers of shape \(40,\)"):
        curriculum.select(5, step=0)


@pytest.mark.parametrize(
    ("part", "hook", "answer"),
    [
        ("selection", "uniform_weights", [1.0]),
        ("selection", "uniform_weights", np.full(3, np.inf)),
        ("selection", "prediction_offsets", None),
        ("selection", "prediction_offsets", np.full(3, np.nan)),
        ("allocation", "initial", np.ones(2, np.int64)),
        ("allocation", "initial", np.full(3, -1)),
        ("allocation", "initial", np.full(3, 2**63, np.uint64)),
        ("allocation", "initial", [[1], [1, 2], [3]]),
    ],
)
def test_a_draw_that_a_method_breaks_leaves_no_prompt_in_flight(part, hook, answer):
    curriculum = Curriculum("uniform", 5)
    method = getattr(curriculum, part)
    setattr(method, hook, lambda *_: answer)
    before = curriculum.state_dict()["ledger"]
    with pytest.raises(ConfigError, match=rf"^{type(method).__name__} (returned|allocated)"):
        curriculum.select(3, step=0)
    np.testing.assert_equal(curriculum.state_dict()["ledger"], before)
    assert not curriculum.table["in_flight"].any()
    delattr(method, hook)
    curriculum.select(5, step=0)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1.0, [1.0]], "weights, object"),
        (np.array(["a", "b"]), "weights, <U1"),
        (np.array([1, np.nan]), "weights, .*: return finite numbers"),
        (np.array([1, -1.0]), "weights below 0: importance weights are from 0$"),
    ],
)
def test_weights_that_no_checkpoint_could_hold_are_refused(weights, words):
    choice = Choice.of([0, 1], Reason.UNIFORM)
    selection = Chooses(Choice(choice.prompts, choice.reasons, choice.probabilities, weights))
    selection.has_weights = True
    with pytest.raises(ConfigError, match=words):
        Curriculum(selection, 5).select(2, step=0)


@pytest.mark.parametrize("answer", [np.ones(3, np.bool_), np.array([1, 0]), [[True], [True, False]]])
def test_groups_without_an_update_are_named_by_a_bool_each(answer):
    selection = Chooses(Choice.of([0, 1], Reason.UNIFORM))
    selection.leaves_out, selection.without_update = "credit", lambda groups: answer
    curriculum = Curriculum(selection, 2)
    tickets = curriculum.select(2, step=0).tickets
    with pytest.raises(ConfigError, match=r"^Chooses returned .*return bool of shape \(2,\)"):
        curriculum.observe(tickets, [[1, 0], [1, 0]])
    assert len(curriculum.ledger) == 2


def test_weights_of_a_batch_are_a_number_a_group():
    curriculum = Curriculum("uniform", 2)
    verdict = curriculum.observe(curriculum.select(2, step=0).tickets, [[1, 0], [1, 0]])
    curriculum.selection.batch_weights = lambda weights: weights[:1]
    with pytest.raises(ConfigError, match=r"return finite numbers of shape \(2,\)"):
        curriculum.credit(verdict)


def test_no_estimator_credits_a_rollout_without_a_reward():
    class Ones(Advantage):
        def __call__(self, groups):
            return np.ones_like(groups.rewards)

    curriculum = Curriculum("uniform", 5, advantage=Ones())
    verdict = curriculum.observe(curriculum.select(2, step=0).tickets, [[1, np.nan], [np.nan, np.nan]])
    assert verdict.advantages.tolist() == curriculum.credit(verdict).tolist() == [[1, 0], [0, 0]]


def test_an_estimator_that_writes_to_its_array_again_changes_no_verdict():
    class Reuses(Advantage):
        kept = np.zeros((2, 2))

        def __call__(self, groups):
            self.kept[:] = groups.centred()
            return self.kept

    curriculum = Curriculum("uniform", 4, advantage=Reuses())
    draw = curriculum.select(4, step=0)
    verdict = curriculum.observe(draw.tickets[:2], [[1, 0], [1, 0]])
    curriculum.observe(draw.tickets[2:], [[1, 1], [0, 1]])
    assert verdict.advantages.tolist() == [[0.5, -0.5], [0.5, -0.5]]


@pytest.mark.parametrize(("part", "hook"), [("allocation", "observe"), ("selection", "release")])
def test_an_error_after_the_selection_has_learnt_leaves_all_tickets_open(part, hook):
    def fail(*_):
        raise ZeroDivisionError("of the user's")

    curriculum = Curriculum("uniform", 5)
    tickets, rewards = curriculum.select(3, step=0).tickets, [[1, 0], [np.nan, np.nan], [1, 1]]
    before = curriculum.state_dict()
    method = getattr(curriculum, part)
    setattr(method, hook, fail)
    with pytest.raises(ZeroDivisionError):
        curriculum.observe(tickets, rewards)
    np.testing.assert_equal(curriculum.state_dict(), before)
    delattr(method, hook)
    assert curriculum.observe(tickets, rewards).admitted.tolist() == [True, False, True]
    assert curriculum.table["visits"].sum() == curriculum.metrics()["observed"] == 2


@pytest.mark.parametrize("method", ["observe", "without_update", "release"])
def test_an_error_in_a_method_of_the_users_leaves_the_tickets_open(method):
    class Fails(Selection):
        """Takes the first free prompts, and fails once where it is told to."""

        fails = False

        def select(self, n, step):
            return Choice.of(np.flatnonzero(~self.table["in_flight"])[:n], Reason.PRIORITY)

        def _fail(self, *_):
            if self.fails:
                raise ZeroDivisionError("of the user's")

    setattr(Fails, method, Fails._fail)
    curriculum = Curriculum(Fails(), 5, advantage="smoothed", allocation="knapsack")
    curriculum.observe(curriculum.select(2, step=0, rollouts=4).tickets, [[1, 0], [0, 0]])
    draw = curriculum.select(3, step=1, rollouts=6)
    before = curriculum.state_dict()
    curriculum.selection.fails = True
    settle = curriculum.drop if method == "release" else lambda t: curriculum.observe(t, [[1, 0], [1, 1]])
    with pytest.raises(ZeroDivisionError):
        settle(draw.tickets[1:])
    np.testing.assert_equal(curriculum.state_dict(), before)
    curriculum.selection.fails = False
    settle(draw.tickets[1:])
    assert curriculum.ledger.tickets.tolist() == draw.tickets[:1].tolist()
    assert curriculum.metrics()["selected"] == 5


def test_each_is_one_line_to_read():
    curriculum = Curriculum("prioritized-replay:candidates=2", 9, admission="band:0.2,0.8", seed=0)
    draw = curriculum.select(4, step=2)
    curriculum.observe(draw.tickets[:3], [[1, 0]] * 3)
    assert repr(curriculum) == (
        "Curriculum(selection=prioritized-replay, admission=band: 9 prompts, 3 seen, 1 in flight, step 2)"
    )
    assert repr(draw) == "Draw(4 prompts at step 2: 3 unseen, 1 exploration)"
    assert repr(draw.take([])) == "Draw(0 prompts at step 2)"
    assert repr(curriculum.table).startswith("PromptTable(9 prompts, 3 seen: visits, last_step, ")


def test_the_text_of_a_curriculum_names_all_parts():
    text = Curriculum("frontier admission=band:0.2,0.8 signal=math", prompts=9, advantage="group")
    parts = Curriculum("frontier", prompts=9, admission="band:0.2,0.8", signal="math", advantage="group")
    assert text.config == parts.config
    with pytest.raises(ConfigError, match="admission"):
        Curriculum("uniform admission=signal", 9, admission="signal")


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        ("posterior:half_life=1" + "0" * 400, {}),
        ("sec:temperature=9223372036854775808", {}),
        ("uniform admission=variance:low=-1" + "0" * 400, {}),
        ("ucb:window=1000000000000", {}),
        ("uniform", {"reward_range": (0, 10**400)}),
        ("uniform", {"source_weights": {"a": 10**400}}),
    ],
)
def test_an_option_that_no_table_or_float_holds_is_refused(spec, options):
    rows = [{"prompt": str(number), "source": "a"} for number in range(4)]
    with pytest.raises(ConfigError, match=r"half_life|temperature|low|window|reward_range|source_weights"):
        Curriculum(spec, rows, **options)


@pytest.mark.parametrize(("leaves_out", "admitted"), [("credit", [True, True]), ("groups", [False, True])])
def test_a_group_that_the_selection_leaves_out_moves_no_weight(leaves_out, admitted):
    selection = Chooses(Choice.of([0, 1], Reason.UNIFORM))
    selection.leaves_out, selection.without_update = leaves_out, lambda groups: np.array([True, False])
    curriculum = Curriculum(selection, 2)
    verdict = curriculum.observe(curriculum.select(2, step=0).tickets, [[1, 0], [1, 0]])
    assert verdict.advantages.tolist() == [[0, 0], [0.5, -0.5]]
    assert verdict.credited.tolist() == [[False, False], [True, True]]
    assert verdict.admitted.tolist() == admitted


def test_admitted_groups_are_counted():
    curriculum = Curriculum("uniform", 3, admission="band:0,1")
    curriculum.observe(curriculum.select(3, step=0).tickets, [[1, 0], [1, 1], [0, 1]])
    assert curriculum.admitted == 2


def test_a_prompt_without_rollouts_is_not_drawn_and_free_again():
    class Uneven(Allocation):
        def __call__(self, prompts, budget, step):
            return np.array([2, 0, 2])

    selection, released = Chooses(Choice.of([4, 0, 2], Reason.UNIFORM)), []
    selection.release = lambda prompts: released.extend(prompts.tolist())
    curriculum = Curriculum(selection, 5, allocation=Uneven())
    draw = curriculum.select(3, step=0, rollouts=4)
    assert (draw.prompts.tolist(), draw.rollouts.tolist(), released) == ([4, 2], [2, 2], [0])
    assert curriculum.free == 3


def test_what_was_saved_before_a_curriculum_met_its_rows_is_loaded_after(tmp_path):
    Curriculum("uniform", 2).save(tmp_path / "saved")
    curriculum = Curriculum("uniform", 2)
    curriculum.check_rows(DatasetRows([{"prompt": "a"}, {"prompt": "b"}]))
    curriculum.load(tmp_path / "saved")
    other = Curriculum("uniform", [{"prompt": "a"}, {"prompt": "b"}])
    with pytest.raises(CheckpointError, match="another data set"):
        other.load(tmp_path / "saved")
