"""Two processes train on the same choice: one owns the curriculum, both are told."""

from __future__ import annotations

import numpy as np
import pytest
from tests.hosts.trl.launch import folder_of, in_two_processes

import curro


@pytest.fixture(scope="module")
def ranks(made_once):
    return in_two_processes(made_once, "groups")


def test_each_process_rolls_out_its_part_of_one_choice(ranks):
    owner, other = ranks
    assert other["draws"] == []
    for draw, first_half, second_half in zip(owner["draws"], owner["rows"], other["rows"], strict=True):
        assert first_half + second_half == [prompt for prompt in draw for _ in range(4)]


def test_only_the_owner_learns_and_weights_are_equal(ranks):
    owner, other = ranks
    assert (owner["observed"], other["observed"]) == (12, 0)
    for name in ("weights", "filled_weights", "staged_weights", "seeing_weights", "resumed_weights"):
        assert owner[name] == other[name], name


def test_groups_without_signal_need_no_graph_where_the_other_process_has_some(ranks):
    owner, other = ranks
    assert owner["flat_weights"] == other["flat_weights"]
    assert owner["flat_difference"] == other["flat_difference"] <= 1e-6


def test_an_error_of_the_owner_stops_both(ranks):
    owner, other = ranks
    assert owner["error"] == other["error"]
    assert owner["error"].startswith("RewardError: rollout 0 of prompt")


def test_the_curriculum_is_saved_once(made_once):
    run = folder_of(made_once, "groups")
    assert [path.name for path in (run / "run" / "checkpoint-3" / "curro").iterdir()] == ["curriculum.npz"]


def test_the_rest_of_a_generation_is_trained_on_after_a_resume(ranks):
    owner, other = ranks
    assert (owner["resumed"], other["resumed"]) == ([2, 4, 0], [2, 0, 0])


def test_a_filled_batch_is_shared_out_equally(ranks):
    owner, other = ranks
    assert owner["filled_rows"] == other["filled_rows"] == [6, 6, 6]
    assert owner["filled_rewards_are_their_own"]
    assert other["filled_rewards_are_their_own"]
    for entry, also in zip(owner["filled_history"], other["filled_history"], strict=True):
        assert entry["reward"] == 0.5 == also["reward"]
    groups = sum(len(prompts) for prompts, _, _ in owner["groups"])
    assert sum(entry["fill/given_out"] for entry in owner["filled_history"]) == groups
    assert len(owner["groups"]) > 3


def test_groups_of_several_sizes_are_shared_out_equally(ranks):
    owner, other = ranks
    assert other["staged_groups"] == []
    sizes = [size for _, size, _, _ in owner["staged_groups"]]
    assert len(set(sizes)) > 1
    for step, (first, second) in enumerate(zip(owner["staged_rows"], other["staged_rows"], strict=True)):
        credit = [
            one for at, _, admitted, row in owner["staged_groups"] if at == step and admitted for one in row
        ]
        assert len(first) == len(second) == 8
        np.testing.assert_allclose(sorted(first + second), sorted(credit[:16]), atol=1e-6)


def test_smoothed_advantages_are_those_of_one_process_on_the_same_groups(ranks):
    owner, _ = ranks
    curriculum = curro.Curriculum("uniform", 24, advantage="smoothed")
    for prompts, rewards, advantages in owner["groups"]:
        tickets = {}
        while set(prompts) - set(tickets):
            draw = curriculum.select(1, step=0)
            tickets[int(draw.prompts[0])] = draw.tickets[0]
        verdict = curriculum.observe([tickets.pop(prompt) for prompt in prompts], rewards)
        np.testing.assert_array_equal(verdict.advantages, advantages)
        curriculum.drop(list(tickets.values()))


def test_the_owner_asks_the_policy_for_entropies_while_the_other_waits(ranks):
    owner, other = ranks
    assert owner["seeing"]
    assert not other["seeing"]


def test_the_gradient_of_both_processes_together_is_that_of_equation_9(made_once):
    owner, other = in_two_processes(made_once, "metis")
    assert len(owner) == 3
    for name, found in owner.items():
        assert found["weights"] == other[name]["weights"], name
        assert other[name]["auxiliary_samples"] == 0, "the curriculum is the owner's"
        assert found["auxiliary_samples"] >= 4, name
        assert found["size"] > 0.01, name
        assert found["error"] < 1e-3 * found["size"], name
        assert found["logged"], name
