"""Problems without end: what an arm is, which problem a ticket has, and that resumes repeat every problem."""

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curro import ConfigError, Curriculum
from curro.core import registry
from curro.core.checkpoint import load_state, save_state
from curro.data import DataError, load_levels, load_prompts
from curro.data.levels import Levels, split_of
from curro.reward import resolve_reward


class Sums:
    """Sums of one-digit numbers, of 2, 3 or 4 terms."""

    name = "sums"
    levels = ({"terms": 2}, {"terms": 3}, {"terms": 4})

    def problem(self, level, rng):
        terms = [rng.randrange(10) for _ in range(level + 2)]
        return {
            "prompt": "+".join(map(str, terms)),
            "answer": sum(terms),
            "metadata": {"terms": tuple(terms)},
        }

    def score(self, completion, row):
        return float(completion.strip() == row["answer"])


class Words:
    """Two levels whose parameters do not move together."""

    name = "words"
    levels = ({"length": 3, "rare": 1}, {"length": 9, "rare": 0})

    def problem(self, level, rng):
        letters = [rng.choice("abcdefgh") for _ in range((4, 10)[level])]
        return {"prompt": [{"role": "user", "content": "".join(letters)}], "answer": None}


@pytest.fixture
def levels():
    return Levels([Sums(), Words()])


def test_an_arm_is_a_family_at_a_level_and_its_row_an_example(levels):
    assert levels.keys == ["sums/0", "sums/1", "sums/2", "words/0", "words/1"]
    assert [row["source"] for row in levels] == ["sums"] * 3 + ["words"] * 2
    assert [row["difficulty"] for row in levels] == [0.0, 0.5, 1.0, 0.0, 1.0]
    assert [row["prompt"].count("+") for row in levels[:3]] == [1, 2, 3]


def test_features_are_the_family_how_hard_it_is_and_its_own_parameters(levels):
    assert levels.blocks == (2, 1, 3)
    assert levels.features_ND.tolist() == [
        [1, 0, 0.0, 0.0, 0, 0],
        [1, 0, 0.5, 0.5, 0, 0],
        [1, 0, 1.0, 1.0, 0, 0],
        [0, 1, 0.0, 0, 0, 1],
        [0, 1, 1.0, 0, 1, 0],
    ]


def test_a_ticket_has_one_problem_whose_columns_are_the_same_for_every_family(levels):
    first, again = levels.problem(1, 7, seed=3), levels.problem(1, 7, seed=3)
    assert first == again
    assert first["key"] == "sums/1/7"
    assert sum(first["metadata"]["terms"]) == int(first["answer"])
    assert json.loads(json.dumps(first)) == first
    assert list(levels.problem(3, 7, seed=3)) == list(first)
    others = {levels.problem(1, number, seed)["prompt"] for number in range(20) for seed in (3, 4)}
    assert len(others) > 30


def test_known_problems(levels):
    """A change of these changes every resumed run."""
    assert [levels.problem(2, ticket, seed=0)["prompt"] for ticket in range(3)] == GOLDEN


def test_problems_to_train_on_and_those_held_out_never_overlap(levels):
    held_out = levels.held_out(50)
    assert {row["key"].rpartition("/held-out")[0] for row in held_out} == set(levels.keys)
    assert {split_of(row["prompt"]) for row in held_out} == {"test"}
    assert len({json.dumps(row["prompt"]) for row in held_out}) == len(held_out)
    trained = [levels.problem(arm, ticket, 0)["prompt"] for arm in range(5) for ticket in range(40)]
    assert {split_of(prompt) for prompt in trained} == {"train"}


def test_each_level_holds_out_equally_many_also_where_the_number_does_not_divide(levels):
    keys = [row["key"].rpartition("/held-out")[0] for row in levels.held_out(17)]
    assert [keys.count(key) for key in levels.keys] == [4, 4, 3, 3, 3]


class Broken(Sums):
    levels = ()


class Single(Sums):
    def problem(self, level, rng):
        return {"prompt": "1+1", "answer": 2}


class Silent(Sums):
    def problem(self, level, rng):
        return {"question": "1+1"}


@pytest.mark.parametrize(
    ("families", "words"),
    [
        ([Broken()], "'sums' has no levels"),
        ([Sums(), Sums()], "two families have one name"),
        ([Silent()], "level 0 of 'sums' gave a problem without a prompt"),
    ],
)
def test_families_that_cannot_be_used(families, words):
    with pytest.raises(DataError, match=words):
        Levels(families)


def test_a_level_with_too_few_problems_is_refused_where_none_is_left_for_the_split():
    split = split_of("1+1")
    levels = Levels.__new__(Levels)
    levels.families, levels.arms = {"sums": Single()}, [("sums", 0)]
    assert levels.problem(0, 1, 0, split)["prompt"] == "1+1"
    with pytest.raises(DataError, match="1000 draws gave none"):
        levels.problem(0, 1, 0, "test" if split == "train" else "train")


@pytest.mark.parametrize(
    "selection", ["pspo", "prioritized-replay", "least-visited", "sec", "adcl", "greso", "pcl", "metis"]
)
def test_methods_of_single_prompts_are_refused(levels, selection):
    with pytest.raises(ConfigError, match="levels have new problems in every group") as error:
        Curriculum(selection, levels)
    assert str(error.value).startswith(f"{selection} ")  # as it was typed


@pytest.mark.parametrize(
    "selection", ["frontier:known=rate", "frontier:features=entropy", "posterior:known=rate"]
)
def test_options_that_read_single_prompts_are_refused(levels, selection):
    with pytest.raises(ConfigError, match="leave `known` and `features` out"):
        Curriculum(selection, levels)


def test_an_advantage_with_a_memory_of_prompts_is_refused(levels):
    with pytest.raises(ConfigError, match="smoothed compares a group with earlier groups of its prompt"):
        Curriculum("uniform", levels, advantage="smoothed")


def test_the_advice_names_every_method_that_takes_levels(levels):
    for kind, other in (("selection", "greso"), ("advantage", "smoothed")):
        with pytest.raises(ConfigError) as error:
            Curriculum(**({"selection": "uniform"} | {kind: other}), prompts=levels)
        advised = set(re.split(r", | or ", str(error.value).rpartition(f"choose the {kind} ")[2]))
        taking = {name for name in registry.BUILTIN[kind] if _takes_levels(kind, name, levels)}
        assert advised == taking


def _takes_levels(kind, name, levels):
    spec = {"target": "target:difficulty"}.get(name, name)
    try:
        Curriculum(**({"selection": "uniform"} | {kind: spec}), prompts=levels)
    except ConfigError:
        return False
    return True


def test_a_host_with_a_fixed_data_set_is_refused_in_one_sentence(levels):
    curriculum = Curriculum("frontier", levels)
    with pytest.raises(ConfigError, match="draws levels, whose problems are generated, and rows is fixed"):
        curriculum.check_rows(load_prompts("lab:chains", limit=5), "rows")
    curriculum.check_rows(levels)


SELECTIONS = [
    "uniform",
    "uniform:replacement=true",
    "frontier",
    "frontier:thompson=true,exploration=0.3",
    "frontier:half_life=4",
    "posterior",
    "target:difficulty",
    "target:difficulty,by_source=true,width=0.3",
]


@pytest.mark.parametrize("selection", SELECTIONS)
@settings(deadline=None, max_examples=4)
@given(data=st.data())
def test_a_resumed_curriculum_draws_the_same_arms_tickets_and_problems(selection, data):
    """More prompts a step than arms, groups that come back late and out of order, and some never."""
    whole = Curriculum(selection, Levels([Sums(), Words()]), seed=5)
    resumed = Curriculum(selection, Levels([Sums(), Words()]), seed=5)
    rng, open_tickets = np.random.default_rng(0), []
    for step in range(6):
        state = resumed.state_dict()
        resumed = Curriculum(selection, Levels([Sums(), Words()]), seed=5)
        resumed.load_state_dict(state)
        draw, again = whole.select(8, step=step), resumed.select(8, step=step)
        assert draw.tickets.tolist() == again.tickets.tolist() == list(range(8 * step, 8 * step + 8))
        assert draw.prompts.tolist() == again.prompts.tolist()
        for arm, ticket in zip(draw.prompts.tolist(), draw.tickets.tolist(), strict=True):
            assert whole.row(arm, ticket) == resumed.row(arm, ticket)
        open_tickets += draw.tickets.tolist()
        done = data.draw(st.lists(st.sampled_from(open_tickets), unique=True, min_size=1))
        rewards = rng.integers(0, 2, (len(done), 4)).astype(float)
        order = data.draw(st.permutations(range(len(done))))
        if data.draw(st.booleans()):
            whole.observe(done, rewards)
            for row in order:  # one by one, in another order: nothing may depend on it
                resumed.observe([done[row]], rewards[[row]])
        else:
            whole.drop(done)
            resumed.drop(done)
        open_tickets = [ticket for ticket in open_tickets if ticket not in done]
    assert whole.select(8, step=6).prompts.tolist() == resumed.select(8, step=6).prompts.tolist()
    np.testing.assert_equal(whole.state_dict()["selection"], resumed.state_dict()["selection"])


def test_a_saved_file_gives_the_same_bytes_after_a_resume(tmp_path, levels):
    def play(curriculum, steps):
        for step in steps:
            draw = curriculum.select(6, step=step)
            succeeds = np.add.outer(draw.tickets, np.arange(4)) % 3 == 0
            curriculum.observe(draw.tickets, 1.0 * succeeds)

    whole = Curriculum("frontier", levels, seed=2)
    play(whole, range(8))
    save_state(tmp_path / "whole.npz", whole.state_dict())
    part = Curriculum("frontier", levels, seed=2)
    play(part, range(4))
    part.save(tmp_path / "part.npz")
    resumed = Curriculum("frontier", Levels([Sums(), Words()]), seed=2)
    resumed.load_state_dict(load_state(tmp_path / "part.npz"))
    play(resumed, range(4, 8))
    save_state(tmp_path / "resumed.npz", resumed.state_dict())
    assert (tmp_path / "whole.npz").read_bytes() == (tmp_path / "resumed.npz").read_bytes()


def test_a_generator_that_has_changed_is_another_data_set(levels):
    class Longer(Sums):
        def problem(self, level, rng):
            return super().problem(level + 1, rng)

    assert Levels([Longer(), Words()]).fingerprint != levels.fingerprint


def test_a_level_that_is_added_between_a_save_and_a_resume_leaves_what_is_known_of_the_others(levels):
    class More(Sums):
        levels = (*Sums.levels, {"terms": 5})

    before = Curriculum("frontier", levels, seed=0)
    for step in range(3):
        draw = before.select(5, step=step)
        before.observe(draw.tickets, 1.0 * (np.arange(4) <= draw.prompts[:, None]))
    after = Curriculum("frontier", Levels([More(), Words()]), seed=0)
    with pytest.warns(UserWarning, match="5 rows are known, 0 of them changed, 1 are new"):
        after.load_state_dict(before.state_dict())
    sums, known = after.selection.predictor.posterior.sums_3HN, before.selection.predictor.posterior.sums_3HN
    np.testing.assert_array_equal(sums[:, :, [0, 1, 2, 4, 5]], known)
    assert not sums[:, :, 3].any()
    assert after.select(5, step=3).tickets.tolist() == [15, 16, 17, 18, 19]


def test_known_draws(levels):
    """A change of these changes every run of everyone who fixed a seed."""
    curriculum = Curriculum("frontier", levels, seed=0)
    draws = []
    for step in range(4):
        draw = curriculum.select(6, step=step)
        rates = np.array([1.0, 0.5, 0.0, 1.0, 0.0])[draw.prompts]
        curriculum.observe(draw.tickets, 1.0 * (np.arange(4) < 4 * rates[:, None]))
        draws.append(draw.prompts.tolist())
    assert draws == KNOWN


def test_frontier_unlocks_what_lies_behind_the_solved_levels():
    """Levels 0 to 2 were never solved at first; once level 0 is solved, 1 promises most, and not 5."""

    class Six(Sums):
        levels = tuple({"terms": 2 + level} for level in range(6))

    curriculum = Curriculum("frontier", Levels([Six()]), seed=0)
    rng, drawn, solved = np.random.default_rng(1), [], 0.0
    for step in range(60):
        draw = curriculum.select(8, step=step)
        rates = 1 / (1 + np.exp(4 * (draw.prompts - solved)))
        curriculum.observe(draw.tickets, 1.0 * (rng.random((8, 8)) < rates[:, None]))
        solved += 0.08
        drawn.append(draw.prompts.mean())
    # half of the rollouts succeed at the level `solved`, which moves from 0 to 4.8
    assert np.mean(drawn[1:10]) < 1.5 < 3.0 < np.mean(drawn[-10:]) < 5.0


def test_the_variance_that_counts_is_that_within_groups():
    """Level 0 has easy and impossible problems, each group all right or all wrong; level 1 splits groups."""
    curriculum = Curriculum("frontier", Levels([Sums()]), seed=0)
    for step in range(10):
        draw = curriculum.select(12, step=step)
        rewards = np.zeros((12, 4))
        rewards[(draw.prompts == 0) & (draw.tickets % 2 == 0)] = 1.0
        rewards[draw.prompts == 1, :1] = 1.0
        curriculum.observe(draw.tickets, rewards)
    assert (curriculum.select(12, step=10).prompts == 1).all()


def test_target_moves_every_familys_level_by_its_own_rewards(levels):
    curriculum = Curriculum("target:difficulty,by_source=true,rate=0.5", levels, seed=0)
    for step in range(12):
        draw = curriculum.select(8, step=step)
        is_sum = draw.prompts < 3
        curriculum.observe(draw.tickets, np.repeat(1.0 * is_sum[:, None], 4, axis=1))
    assert set(draw.prompts.tolist()) == {2, 3}  # the hardest sums, the easiest words


def test_the_labs_families_have_levels_from_solved_to_out_of_reach():
    levels = load_levels("levels:lab/chains,lab/locks")
    assert levels.keys[:2] == ["chains/0", "chains/1"]
    assert len(levels) == 14 + 5
    assert [len(levels.problem(arm, 0, 0)["prompt"]) for arm in range(3)] == [3, 4, 5]
    assert len(levels.problem(14, 0, 0)["metadata"]["panels"]) == 1


def test_reasoning_gyms_own_curricula():
    levels = load_levels("levels:chain_sum")
    assert levels.families["chain_sum"].levels[3] == {"num_terms": 5.0, "num_digits": 4.0}
    row = levels.problem(3, 0, 0)
    numbers = row["metadata"]["expression"].split()[::2]
    assert [len(number) for number in numbers] == [4] * 5
    reward = resolve_reward("auto", levels)
    assert reward.score([row["answer"], "none"], [row, row]) == [1.0, 0.0]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("levels:chain_sun", "no such data set.*chain_sum"),
        ("levels:lab/chainz", "the lab has no family 'chainz'"),
        ("lab:chains", "names no levels"),
        ("levels:json:dumps", "module of Python itself"),
    ],
)
def test_sources_that_name_no_levels(source, words):
    with pytest.raises(DataError, match=words):
        load_levels(source)


def test_a_fixed_data_set_is_not_made_of_levels():
    with pytest.raises(DataError, match="levels have no fixed problems"):
        load_prompts("levels:lab/chains")
    held_out = load_prompts("levels:lab/chains", split="test", limit=28)
    assert len(held_out) == 28


def test_a_family_of_ones_own_scores_its_problems(user_module):
    name = user_module(
        "class Mine:\n"
        "    name = 'mine'\n"
        "    levels = [{'n': 1}, {'n': 2}]\n"
        "    def problem(self, level, rng):\n"
        "        return {'prompt': f'{level} {rng.random()}', 'answer': level}\n"
        "    def score(self, completion, row):\n"
        "        return float(completion == row['answer'])\n"
        "class Lacks:\n"
        "    name = 'lacks'\n"
    )
    levels = load_levels(f"levels:{name}:Mine,lab/chains")
    reward = resolve_reward("auto", levels)
    mine, chain = levels.problem(1, 0, 0), levels.problem(5, 0, 0)
    assert reward.score(["1", chain["answer"], "2"], [mine, chain, mine]) == [1.0, 1.0, 0.0]
    with pytest.raises(DataError, match="no levels and no problem"):
        load_levels(f"levels:{name}:Lacks")


GOLDEN = ["3+4+6+7", "3+6+5+0", "0+1+4+4"]
KNOWN = [[4, 3, 2, 1, 1, 0], [1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1], [1, 1, 1, 4, 4, 4]]
