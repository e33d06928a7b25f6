"""What a run's log says once, at the first step that shows it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.hosts.trl.setup import first_token_is_even, trainer

import curro


def never_right(completions: list[str], **_: Any) -> list[float]:
    return [0.0] * len(completions)


def graded(completion_ids: list[list[int]], **_: Any) -> list[float]:
    return [(ids[0] % 7) / 10 + (ids[1] % 5) / 100 for ids in completion_ids]


@pytest.mark.parametrize(("signal", "says"), [(None, True), ("sum", False), ("never_right", False)])
def test_a_part_that_does_not_vary_under_a_sum_that_does_is_named(tmp_path, caplog, signal, says):
    host = trainer(tmp_path, reward_funcs=[never_right, graded], signal=signal, max_steps=6)
    host.train()
    assert caplog.text.count("never_right does not vary and graded does") == says
    assert ("signal='never_right'" in caplog.text) == says


def test_a_part_of_zeros_and_ones_is_offered_beside_a_graded_one(tmp_path, caplog):
    trainer(tmp_path, reward_funcs=[first_token_is_even, graded], max_steps=6).train()
    assert "signal='first_token_is_even'" in caplog.text


def test_groups_without_any_reward_do_not_count_as_varying(tmp_path, caplog):
    def for_some(prompts: list[str], **_: Any) -> list[float | None]:
        return [None if sum(map(ord, prompt)) % 4 else 0.5 for prompt in prompts]

    def never(completions: list[str], **_: Any) -> list[float | None]:
        return [None] * len(completions)

    trainer(tmp_path, reward_funcs=[for_some, never], max_steps=16).train()
    assert "not vary" not in caplog.text


def test_a_run_too_short_for_second_visits_and_prompts_beyond_the_context(tmp_path, caplog):
    host = trainer(tmp_path)
    assert "visits each of 24 prompts 0.5 times" in caplog.text
    host.model.config.max_position_embeddings = 8
    host.train()
    assert caplog.text.count("exceed the model's context of 8") == 1


def test_a_band_that_no_group_can_meet(tmp_path, caplog):
    """Of 4 rollouts, 1 in 4 and 2 in 4 lie beside the band."""
    trainer(tmp_path, admission="band:0.3,0.45")
    assert "no group of 4 rollouts" in caplog.text

    def exact(completions: list[str], **_: Any) -> list[float]:
        return [0.0] * len(completions)

    with pytest.raises(curro.ConfigError, match="no group of 4 rollouts"):
        trainer(tmp_path, admission="band:0.3,0.45", reward_funcs=exact)
