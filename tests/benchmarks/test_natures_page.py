"""The page of pools of five natures: what it computes from rows, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.learning import natures_page as page

ROLLOUTS = [0, 512, 1024, 1536, 2048]


def row(method: str, seed: int, rights: list[int], groups=None) -> dict:
    """A run on ten held-out problems with two samples each, so many of them right at each evaluation."""
    items = ["2" * (right // 2) + "1" * (right % 2) + "0" * (10 - (right + 1) // 2) for right in rights]
    return {
        "pool": "one",
        "method": method,
        "seed": seed,
        "device": "CPU",
        "rollouts": ROLLOUTS,
        "pass@1": [right / 20 for right in rights],
        "items": items,
        "kinds": {"a": 10},
        "item_kinds": "0" * 10,
        "guess": 0.1,
        "groups": groups or {"a": [[10, 5, 1]] * 4, "b": [[6, 0, 0]] * 4},
        "cpu_seconds": 60.0,
        "prompt_tokens": 100,
        "completion_tokens": 50,
    }


@pytest.fixture
def rows():
    starving = {"a": [[4, 4, 0], *[[16, 8, 0]] * 3], "b": [[12, 0, 0]] * 4}
    return [
        row("uniform", 0, [2, 4, 6, 8, 10]),
        row("uniform", 1, [2, 4, 6, 8, 10]),
        row("ours", 0, [2, 6, 10, 12, 12], starving),
        row("ours", 1, [2, 6, 10, 12, 14]),
    ]


def test_gains_and_the_share_of_rollouts(rows):
    pairs = page.Pairs.of(page.runs_of(rows, "one"), "ours")
    assert pairs.seeds == 2
    assert page.end(pairs) == pytest.approx(0.15)
    assert page.mean_gain(pairs) == pytest.approx((0.1 + 0.2 + 0.2 + 0.15) / 4)
    assert page.share(pairs) == pytest.approx(0.5)  # .5 after 1,024 rollouts instead of 2,048


def test_a_seed_is_compared_on_the_same_device_where_both_ran_on_it(rows):
    """Another device begins otherwise with the same seed."""
    elsewhere = {**rows[0], "device": "a card", "items": [*rows[0]["items"][:-1], "2" * 10]}
    apart = page.Pairs.of(page.runs_of([elsewhere, *rows[1:]], "one"), "ours")
    assert (apart.seeds, page.end(apart)) == (2, pytest.approx((0.6 - 1 + 0.7 - 0.5) / 2))
    both = page.Pairs.of(page.runs_of([elsewhere, *rows], "one"), "ours")
    assert (both.seeds, page.end(both)) == (2, pytest.approx((0.6 - 0.5 + 0.7 - 0.5) / 2))


def test_the_interval_counts_problems_as_well_as_seeds(rows):
    """Both seeds gain alike here, so that what is uncertain is which problems were asked."""
    same = [{**line, "seed": seed} for line in (rows[0], rows[3]) for seed in (0, 1)]
    pairs = page.Pairs.of(page.runs_of(same, "one"), "ours")
    value, low, high = pairs.interval(page.end)
    assert low < value < high


def test_a_sigmoid_is_found_again():
    rollouts = np.array(ROLLOUTS, float)
    curve = 0.1 + 0.4 * rollouts / (rollouts + 1000)
    assert page.saturation(rollouts, curve) == pytest.approx((0.5, 1000), rel=0.03)


def test_a_family_with_less_than_half_the_groups_is_named(rows):
    runs = page.runs_of(rows, "one")
    assert page.starved(runs, "ours") == ["a with seed 0 (4 groups, uniform sampling 10)"]


def test_a_family_is_evaluated_by_its_own_problems(rows):
    mixed = {**rows[0], "kinds": {"a": 4, "b": 6}, "item_kinds": "0000111111"}
    assert page.of_family(mixed, "a") == pytest.approx([0.25, 0.5, 0.75, 1, 1])
    assert page.of_family(mixed, "b") == pytest.approx([0, 0, 0, 0, 2 / 12])


def test_the_page_begins_with_the_pool_that_gains_least(rows):
    worse = [{**line, "pool": "two"} for line in [*rows[:2], row("ours", 0, [2, 2, 2, 2, 2])]]
    text = page.page({"Pools": ([*rows, *worse], {"one": "easy", "two": "hard"})}, ["ours"])
    table = text[text.index("## Pools: ours") :]
    assert table.index("`two` (hard)") < table.index("`one` (easy)")
    assert "not reached" in table


def test_the_picture_has_a_panel_for_each_pool(rows, tmp_path):
    colours = {"uniform": "#000000", "ours": "#ff0000"}
    page.draw(rows, {"one": "easy"}, "ours", colours, tmp_path / "picture.svg")
    drawn = (tmp_path / "picture.svg").read_text()
    assert 'id="axes_1"' in drawn
    assert 'id="axes_2"' not in drawn
