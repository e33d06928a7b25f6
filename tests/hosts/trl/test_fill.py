"""Admission in TRL: every batch is full of admitted groups, and trained on as TRL alone would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig
from tests.hosts.trl.setup import PROMPTS, Diary, dataset, generators_of, trainer

import curro
from curro.core.checkpoint import load_state
from curro.hosts.trl import CurriculumGRPOTrainer, FillSettings


class Scripted:
    """A trainer mixin whose completions are a function of the prompt and the place in the group."""

    def _generate_single_turn(self, prompt_ids: list[list[int]], *_: Any, **__: Any) -> tuple[Any, None]:
        rngs = generators_of(prompt_ids)
        return [rng.integers(5, 40, rng.integers(1, 5)).tolist() for rng in rngs], None


class ScriptedCurriculum(Scripted, CurriculumGRPOTrainer):
    pass


class Recorded(Diary):
    """The groups of each batch, admitted ones first come first in."""

    def admitted(self, batch: int = 4) -> list[list[int]]:
        kept = [
            prompt
            for record in self.records
            for prompt, fine in zip(record.draw.prompts.tolist(), record.verdict.admitted, strict=True)
            if fine
        ]
        return [kept[i : i + batch] for i in range(0, len(kept), batch)]


class TheSame(curro.Selection):
    """The prompts that were trained on elsewhere, batch by batch."""

    def __init__(self, batches: list[list[int]]) -> None:
        self.batches = batches

    def select(self, n: int, step: int) -> curro.Choice:
        return curro.Choice.of(np.array(self.batches[step]), curro.Reason.UNIFORM)


def assert_trained_alike(ours: Any, plain: Any, prefixes: tuple[str, ...], least: int) -> None:
    """Both have the same weights and, in three steps, the same metrics of these prefixes."""
    for mine, theirs in zip(ours.model.parameters(), plain.model.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)
    described = [name for name in plain.state.log_history[0] if name.startswith(prefixes)]
    assert len(described) >= least
    for mine, theirs in zip(ours.state.log_history[:3], plain.state.log_history[:3], strict=True):
        for name in described:
            assert mine[name] == pytest.approx(theirs[name], rel=1e-4, abs=1e-6), name


@pytest.mark.parametrize(
    "options",
    [
        {"loss_type": "dapo"},
        {"loss_type": "grpo"},
        {"loss_type": "bnpo", "scale_rewards": "batch"},
        {"loss_type": "grpo", "multi_objective_aggregation": "normalize_then_sum"},
        # the reference of a LoRA model is the model without it
        {"loss_type": "dr_grpo", "beta": 0.1, "peft_config": LoraConfig(r=2, target_modules=["q_proj"])},
    ],
    ids=["dapo", "grpo", "scaled by the batch", "parts normalized", "lora with KL"],
)
def test_the_same_groups_are_trained_on_as_trl_alone_trains_on_them(tmp_path, options):
    diary = Recorded()
    options = {"epsilon_high": 0.28} | options
    ours = trainer(
        tmp_path,
        ScriptedCurriculum,
        curriculum="least-visited",
        admission="band:0.2,0.8",
        on_groups=diary,
        **options,
    )
    ours.train()
    batches = diary.admitted()
    assert [len(batch) for batch in batches] == [4, 4, 4]
    assert len(diary.records) > 3  # some were rejected

    plain = trainer(tmp_path, ScriptedCurriculum, curriculum=TheSame(batches), **options)
    plain.train()
    described = ("reward", "completions/", "loss", "frac_", "entropy")
    assert_trained_alike(ours, plain, described, least=12)
    for name in ("prompt", "completion", "advantages"):
        np.testing.assert_array_equal(list(ours._logs[name]), list(plain._logs[name]))
    assert list(ours._logs["rewards"]["first_token_is_even"]) == list(
        plain._logs["rewards"]["first_token_is_even"]
    )


def test_rejected_work_has_its_own_metrics(tmp_path):
    diary = Recorded()
    host = trainer(tmp_path, curriculum="uniform", admission="band:0.4,0.6", on_groups=diary, max_steps=2)
    host.train()
    groups = sum(len(record.draw) for record in diary.records)
    rejected = sum((~record.verdict.admitted).sum() for record in diary.records)
    history = [entry for entry in host.state.log_history if "fill/draws" in entry]
    assert sum(entry["fill/given_out"] for entry in history) == groups
    assert sum(entry["fill/rejected"] for entry in history) == rejected > 0
    assert sum(entry["fill/draws"] for entry in history) == len(diary.records)
    assert history[-1]["curriculum/observed"] == groups
    assert history[-1]["curriculum/admitted"] == groups - rejected == 8
    # admitted groups of 4 have a rate of 1/2
    assert [entry["reward"] for entry in history] == [0.5, 0.5]
    assert all(entry["frac_reward_zero_std"] == 0 for entry in history)


def test_at_the_limit_the_most_informative_rejected_groups_top_up(tmp_path):
    def reward(row: list[int], **_: Any) -> list[float]:
        # prompts 0..3 succeed in 1 of 4, the others never
        return [float(prompt < 4 and i % 4 == 0) for i, prompt in enumerate(row)]

    class InOrder(curro.Selection):
        def select(self, n: int, step: int) -> curro.Choice:
            first = int(self.table["visits"].sum())
            return curro.Choice.of(np.arange(first, first + n)[::-1] % PROMPTS, curro.Reason.UNIFORM)

    diary = Recorded()
    options = {"reward_funcs": reward, "curriculum": InOrder(), "admission": "band:0.5,1", "max_steps": 1}
    host = trainer(tmp_path, on_groups=diary, fill=FillSettings(limit=3), **options)
    host.train()
    assert sum(len(record.draw) for record in diary.records) == 12
    assert not any(record.verdict.admitted.any() for record in diary.records)
    history = host.state.log_history[0]
    assert history["fill/topped_up"] == 4
    assert history["reward"] == 0.25
    strict = FillSettings(limit=3, when_short="error")
    with pytest.raises(curro.CurroError, match="the limit of 3 batches was reached, and 0 of 16 rollouts"):
        trainer(tmp_path, fill=strict, **options).train()


def test_no_prompt_comes_twice_for_a_batch(tmp_path):
    """Of every method `tests/rollout/test_fill.py` has the property."""
    diary = Recorded()
    host = trainer(
        tmp_path, curriculum="pspo", admission="band:0.4,0.6", on_groups=diary, max_steps=4,
        save_strategy="steps", save_steps=4,
    )  # fmt: skip
    host.train()
    for step in range(4):
        had = [record.draw.prompts for record in diary.records if record.step == step]
        assert len(had) > 1
        assert len(np.unique(np.concatenate(had))) == sum(map(len, had))
    history = [entry for entry in host.state.log_history if "fill/repeats" in entry]
    repeats = sum(entry["fill/repeats"] for entry in history)
    assert repeats > 0  # some were drawn again, and given back
    assert history[-1]["curriculum/dropped"] == repeats
    assert history[-1]["curriculum/in_flight"] == 0
    saved = load_state(tmp_path / "checkpoint-4" / "curro" / "curriculum.npz")
    assert len(saved["ledger"]["tickets"]) == 0


def test_a_fill_that_breaks_off_gives_back_what_it_holds(tmp_path):
    rounds: list[int] = []

    def reward(row: list[int], **_: Any) -> list[float]:
        rounds.append(len(row))
        if len(rounds) == 3:
            curriculum.select(1, step=0)  # as of a prompt that came again
            raise RuntimeError("broken")
        return [0.0] * len(row)

    curriculum = curro.Curriculum("prioritized-replay:variant=published", 5, admission="signal", seed=0)
    host = trainer(
        tmp_path, curriculum=curriculum, reward_funcs=reward, train_dataset=dataset().select(range(5)),
        per_device_train_batch_size=8, fill=FillSettings(limit=3),
    )  # fmt: skip
    with pytest.raises(RuntimeError, match="broken"):
        host.train()
    assert len(curriculum.ledger) == 0


def test_importance_weights_are_related_to_the_batch_that_is_trained_on(tmp_path):
    """Not to the largest of each round: a round of one prompt would always have the weight 1."""
    diary = Recorded()
    curriculum = curro.Curriculum("pspo", PROMPTS, advantage="smoothed", admission="band:0.4,0.6", seed=1)
    host = trainer(tmp_path, curriculum=curriculum, on_groups=diary, max_steps=3)
    given: list[list[float]] = []
    prepare = host._prepare_inputs

    def keep(batch: Any) -> Any:
        inputs = prepare(batch)
        given.append(sorted(inputs["advantages"].tolist()))
        return inputs

    host._prepare_inputs = keep
    host.train()
    largest = []
    for step in range(3):
        verdicts = [record.verdict for record in diary.records if record.step == step]
        verdicts = [verdict.take(verdict.admitted) for verdict in verdicts]
        weights_P = np.concatenate([verdict.weights for verdict in verdicts])
        advantages_PG = np.concatenate([verdict.advantages for verdict in verdicts])
        expected = advantages_PG * (weights_P / weights_P.max())[:, None]
        np.testing.assert_allclose(given[step], np.sort(expected.ravel()), rtol=1e-5)
        largest.append(weights_P.max())
    assert min(largest) < 0.99 * max(largest)
    logged = np.sort(list(host._logs["advantages"])[-16:])
    np.testing.assert_allclose(logged, np.sort(expected.ravel()), rtol=1e-5)


def test_what_a_reward_logs_of_a_rollout_stays_with_it(tmp_path):
    """Groups of even prompts are rejected, so that rows of several rounds make the batch."""

    def reward(row: list[int], log_extra: Any, **_: Any) -> list[float]:
        log_extra("row", row)
        return [float(prompt % 2 and i % 4 < 2) for i, prompt in enumerate(row)]

    diary = Recorded()
    host = trainer(tmp_path, reward_funcs=reward, admission="signal", on_groups=diary, max_steps=1)
    host.train()
    rows = list(host._logs["extra"]["row"])
    assert len(diary.records) > 1
    assert rows == [prompt for prompt in diary.admitted()[0] for _ in range(4)]
    assert list(host._logs["prompt"]) == [f"{row} + {row} =" for row in rows]
