"""Every method's own prompts a step and learning rate, by one rule for all."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from curro.bench.plan import plan
from curro.bench.results import Results
from curro.bench.search import BROKEN, PROMPTS, Search, Setting
from curro.cli.bench import search_rounds as rounds_of


def search(rollouts=6400, seeds=5):
    (cell,) = plan(["locks/hard"], ["uniform"], seeds=1, rollouts=rollouts)
    return Search(cell, seeds)


def settings_of(asked, wanted):
    return {
        (setting, seed)
        for setting in wanted.grid()
        for seed in range(8)
        for cell in asked
        if cell.identity == wanted.at(setting, seed).identity
    }


def finish(wanted, value):
    """Make all runs that are asked for; returns the rounds."""
    scores, rounds = {}, []
    while asked := wanted.missing(scores):
        rounds.append(settings_of(asked, wanted))
        scores |= {wanted.at(setting, seed).identity: value(setting, seed) for setting, seed in rounds[-1]}
    return scores, rounds


def test_the_rate_grows_with_the_root_of_the_prompts():
    wanted = search()
    rates = {p: wanted.at(Setting(p, 1.0), 0).rate for p in PROMPTS}
    assert rates == {1: 0.5, 2: 0.707, 4: 1.0, 8: 1.41, 16: 2.0}
    assert wanted.at(Setting(1, 0.5), 0).rate == 0.25


def test_one_search_by_hand():
    best = Setting(2, 2.0)

    def value(setting, seed):  # seed 1 likes the neighbour of what seed 0 likes
        at = Setting(1, 2.0) if seed == 1 else best
        return -abs(math.log2(setting.prompts / at.prompts)) - abs(math.log2(setting.factor / at.factor))

    wanted = search()
    scores, rounds = finish(wanted, value)
    zero = [{setting for setting, seed in asked} for asked in rounds if {0} == {seed for _, seed in asked}]
    assert zero == [
        {(p, 1.0) for p in PROMPTS},
        {(2, 0.5), (2, 2.0)},
        {(1, 2.0), (4, 2.0), (2, 4.0)},
    ]
    assert rounds[3] == {((2, 2.0), 1), ((2, 1.0), 1), ((1, 2.0), 1)}
    assert wanted.chosen(scores) == (2, 2.0)  # means -.5, -1.5 and -.5: of equal ones that of seed 0
    assert rounds[4:] == [{((2, 2.0), seed) for seed in (2, 3, 4, 5, 6)}]
    assert len(wanted.tried(scores)) == 5 + 2 + 3 + 3


def test_the_command_makes_rounds_and_goes_on_from_the_rows_there_are(tmp_path):
    results, made = Results(tmp_path / "search.parquet", {}), []

    def make(cells):
        made.append(len(cells))
        for cell in cells:
            ends = 0.2 if cell.rate == 0.707 else 0.1
            row = {"budget": 8, "eval_rollouts": [0, 8], "pass_1": [0, ends]}
            results.rows[cell.identity] = row
        return {cells[0]: "it broke"} if len(made) == 1 else {}

    assert rounds_of([search(seeds=8)], results, 1, make) == ["it broke"]
    assert made == [5, 2, 3, 6, 2]  # no round has more than six runs
    assert rounds_of([search(seeds=8)], results, 1, make) == []


def test_a_small_budget_has_no_large_steps():
    assert {setting.prompts for setting in search(rollouts=40).grid()} == {1, 2, 4}


def test_a_run_that_fails_is_the_worst_and_the_search_goes_on():
    wanted = search()
    scores, _ = finish(wanted, lambda setting, seed: BROKEN if setting.prompts > 1 else 0.1)
    assert wanted.chosen(scores).prompts == 1


@given(st.integers(0, 2**32 - 1))
def test_no_neighbour_of_the_best_is_untried_and_it_ends(seed):
    wanted = search(seeds=1)
    values = dict(zip(wanted.grid(), np.random.default_rng(seed).permutation(25).tolist(), strict=True))
    scores, rounds = finish(wanted, lambda setting, seed: values[setting])
    first = {
        setting: scores[wanted.at(setting, 0).identity] for asked in rounds for setting, s in asked if not s
    }
    best = max(first, key=first.__getitem__)
    beside = [s for s in wanted.grid() if abs(math.log2(s.prompts / best.prompts))
              + abs(math.log2(s.factor / best.factor)) == 1]  # fmt: skip
    assert all(setting in first for setting in beside)
    assert wanted.chosen(scores) == best
    assert sum(map(len, rounds)) <= 25 + 3 + 1
