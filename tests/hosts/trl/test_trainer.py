"""The TRL host on a real GRPOTrainer: what is rolled out, what is learnt, what is left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.hosts.trl.judging import weights
from tests.hosts.trl.setup import (
    PROMPTS,
    Diary,
    config,
    dataset,
    every_other,
    first_token_is_even,
    given_to_the_loss,
    trainer,
)
from trl import GRPOTrainer

import curro
from curro.runs.folder import RunFolder


def trained_advantages(host: Any) -> dict[int, list[float]]:
    """Train, and tell by the number that its prompt begins with which advantages the first loss had."""
    trained = given_to_the_loss(host)
    host.train()
    advantages: dict[int, list[float]] = {}
    for ids, mask, advantage in zip(
        *(trained[0][name] for name in ("prompt_ids", "prompt_mask", "advantages")), strict=True
    ):
        text = host.processing_class.decode(ids[mask.bool()], skip_special_tokens=True)
        advantages.setdefault(int(text.split(" ")[0]), []).append(advantage.item())
    return advantages


@pytest.mark.parametrize("admission", [None, "band:0,1,both"], ids=["drawn", "filled"])
def test_groups_without_credit_have_none_in_trls_own_advantages(tmp_path, admission):
    """The selection credits even prompts alone; half of each group's rewards are 1."""

    class Even(curro.Selection):
        def select(self, n: int, step: int) -> curro.Choice:
            free = np.flatnonzero(~self.table["in_flight"])
            return curro.Choice.of(free[:n], curro.Reason.UNIFORM)

        def without_update(self, groups: Any) -> np.ndarray:
            return groups.prompts % 2 == 1

    host = trainer(tmp_path, curriculum=Even(), admission=admission, reward_funcs=every_other, max_steps=1)
    advantages = trained_advantages(host)
    assert sorted(advantages) == [0, 1, 2, 3]
    for prompt, values in advantages.items():
        assert len(values) == 4
        assert all(value != 0 for value in values) is (prompt % 2 == 0), prompt
        assert any(value != 0 for value in values) is (prompt % 2 == 0), prompt


@pytest.mark.parametrize("admission", [None, "band:0,1,both"], ids=["drawn", "filled"])
def test_rollouts_without_the_signal_have_no_advantage_of_trls(tmp_path, admission):
    """Of each group the third rollout's answer cannot be checked; its form is good, as that of the first."""

    def answer(row: list[int], **_: Any) -> list[float | None]:
        return [(1.0, 0.0, None, 0.0)[i % 4] for i in range(len(row))]

    def form(row: list[int], **_: Any) -> list[float]:
        return [float(i % 2 == 0) for i in range(len(row))]

    host = trainer(
        tmp_path, curriculum="uniform", admission=admission, reward_funcs=[answer, form], signal="answer",
        max_steps=1,
    )  # fmt: skip
    advantages = trained_advantages(host)
    assert len(advantages) == 4
    signs = [sorted(np.sign(values)) for values in advantages.values()]  # TRL shuffles a step's rows
    assert signs == [[-1, -1, 0, 1]] * 4


def test_parts_that_vary_count_where_their_sum_is_flat(tmp_path):
    """The sum is 1 for every rollout. Normalized, the parts are n and -n, and their weighted sum is n / 2."""

    def second(row: list[int], **_: Any) -> list[float]:
        return [2.0 * ((i + 1) % 2) for i in range(len(row))]

    host = trainer(
        tmp_path, curriculum="uniform", reward_funcs=[every_other, second], reward_weights=[1.0, 0.5],
        max_steps=1, multi_objective_aggregation="normalize_then_sum",
    )  # fmt: skip
    advantages = trained_advantages(host)
    assert len(advantages) == 4
    assert all(value != 0 for values in advantages.values() for value in values)


@pytest.mark.parametrize("admission", [None, "band:0,1,both"], ids=["drawn", "filled"])
@pytest.mark.parametrize("advantage", [None, "group"], ids=["TRL's", "the curriculum's"])
def test_importance_weights_multiply_the_advantages(tmp_path, admission, advantage):
    """Prompt q has the weight 2^-q at the draw, four times that in the batch, and rewards of 0 and 1."""

    class Weighted(curro.Selection):
        has_weights = True

        def select(self, n: int, step: int) -> curro.Choice:
            prompts = np.arange(n)
            return curro.Choice(prompts, np.zeros(n, np.uint8), np.full(n, np.nan), 0.5**prompts)

        def batch_weights(self, weights_P: np.ndarray) -> np.ndarray:
            return 4 * weights_P / weights_P.max()

    host = trainer(
        tmp_path, curriculum=Weighted(), admission=admission, advantage=advantage, reward_funcs=every_other,
        max_steps=1, scale_rewards="none",
    )  # fmt: skip
    advantages = trained_advantages(host)
    sizes = {prompt: {abs(value) for value in values} for prompt, values in advantages.items()}
    assert sizes == {0: {2.0}, 1: {1.0}, 2: {0.5}, 3: {0.25}}
    logged = np.abs(host._logs["advantages"]).reshape(4, 4)
    assert sorted(logged.tolist()) == [[0.25] * 4, [0.5] * 4, [1.0] * 4, [2.0] * 4]


@pytest.mark.parametrize(("ratio", "scale"), [(4.0, 0.5), (0.25, 1.0), (float("nan"), 1.0)])
def test_the_learning_rate_is_divided_by_how_much_larger_gradients_are(tmp_path, monkeypatch, ratio, scale):
    """A step of SGD moves the weights by the rate times the gradient, and the schedule goes on as without."""
    moved, sgd = [], {"optim": "sgd", "learning_rate": 1.0, "max_grad_norm": 0.0, "max_steps": 1}
    for scale_rate in (False, True):
        host = trainer(tmp_path, scale_rate=scale_rate, curriculum="uniform", **sgd)
        measured = host.curriculum.metrics
        monkeypatch.setattr(
            host.curriculum, "metrics", lambda measured=measured: measured() | {"signal/ratio": ratio}
        )
        before = weights(host.model)
        host.train()
        moved.append(before - weights(host.model))
        assert host.optimizer.param_groups[0]["lr"] == 1.0
    assert moved[0].abs().max() > 0
    torch.testing.assert_close(moved[1], scale * moved[0], rtol=1e-3, atol=1e-6)
    assert host.state.log_history[0]["rate_scale"] == scale


def test_the_curriculum_is_told_how_many_steps_the_run_has(tmp_path, monkeypatch):
    said: list[int] = []
    host = trainer(tmp_path, max_steps=2)
    monkeypatch.setattr(host.curriculum, "expect", said.append)
    host.train()
    assert said == [2, 2]


def test_the_curriculum_learns_the_rewards_that_were_given(tmp_path):
    diary = Diary()
    host = trainer(tmp_path, on_groups=diary)
    host.train()
    assert host.curriculum.metrics()["observed"] == 12
    last = diary.records[-1]
    np.testing.assert_allclose(
        host.curriculum.table["reward_mean"][last.draw.prompts], last.rewards.mean(axis=1), rtol=1e-6
    )
    np.testing.assert_allclose(last.verdict.informativeness, last.rewards.var(axis=1))
    logged = [entry for entry in host.state.log_history if "reward" in entry]
    assert [entry["reward"] for entry in logged] == pytest.approx(
        [record.rewards.mean() for record in diary.records], rel=1e-5
    )
    assert logged[-1]["curriculum/observed"] == 12


def test_uniform_without_credit_trains_as_trl_does_on_the_same_groups(tmp_path):
    """A curriculum that chooses TRL's own order changes nothing but the last bits of the weights."""
    order = _order_of_plain_trl(tmp_path)

    class Same(curro.Selection):
        def select(self, n: int, step: int) -> curro.Choice:
            return curro.Choice.of(np.array(order[step]), curro.Reason.UNIFORM)

    ours = trainer(tmp_path, curriculum=Same(), share_prompts=False)
    ours.train()
    plain, _ = _plain(tmp_path)
    plain.train()
    for mine, theirs in zip(ours.model.parameters(), plain.model.parameters(), strict=True):
        # each step of AdamW moves a weight by .01
        torch.testing.assert_close(mine, theirs, rtol=0, atol=2e-6)


def _plain(folder: Any) -> tuple[GRPOTrainer, list[list[int]]]:
    host = trainer(folder)
    rows: list[list[int]] = []

    def reward(row: list[int], completion_ids: list[list[int]], **_: Any) -> list[float]:
        rows.append(row[::4])
        return first_token_is_even(completion_ids)

    torch.manual_seed(0)
    plain = GRPOTrainer(
        model=host.model,
        processing_class=host.processing_class,
        train_dataset=dataset(),
        reward_funcs=reward,
        args=config(folder),
    )
    return plain, rows


def _order_of_plain_trl(folder: Any) -> list[list[int]]:
    plain, rows = _plain(folder)
    plain.train()
    return rows


def test_several_rewards_with_weights_and_rollouts_without_reward(tmp_path):
    def sometimes(row: list[int], **_: Any) -> list[float | None]:
        return [None if i % 4 == 3 else float(i % 4) for i in range(len(row))]

    def never_for_the_fourth(row: list[int], **_: Any) -> list[float | None]:
        return [None if i % 4 == 3 else 1.0 for i in range(len(row))]

    diary = Diary()
    rewards = [sometimes, never_for_the_fourth]
    trainer(tmp_path, reward_funcs=rewards, reward_weights=[1.0, 0.5], on_groups=diary, max_steps=1).train()
    record = diary.records[0]
    np.testing.assert_allclose(record.rewards, np.tile([0.5, 1.5, 2.5, np.nan], (4, 1)))
    # of 0.5, 1.5, 2.5 the mean is 1.5 and the variance (1 + 0 + 1) / 3
    np.testing.assert_allclose(record.verdict.informativeness, np.full(4, 2 / 3))


def test_evaluation_is_untouched(tmp_path):
    def rows_of(evaluator: GRPOTrainer) -> dict[str, float]:
        torch.manual_seed(5)
        scores = evaluator.evaluate()
        return {name: scores[name] for name in ("eval_reward", "eval_completions/mean_length")}

    host = trainer(tmp_path, eval_dataset=dataset(), per_device_eval_batch_size=8)
    before = host.curriculum.state_dict()
    ours = rows_of(host)
    plain = GRPOTrainer(
        model=host.model,
        processing_class=host.processing_class,
        train_dataset=dataset(),
        eval_dataset=dataset(),
        reward_funcs=first_token_is_even,
        args=config(tmp_path, per_device_eval_batch_size=8),
    )
    assert ours == rows_of(plain)
    assert host.curriculum.metrics()["selected"] == 0
    assert before["rng"] == host.curriculum.state_dict()["rng"]


@pytest.mark.parametrize(
    "options",
    [
        {"curriculum": "uniform admission=band:0.2,0.8 advantage=leave-one-out"},
        {"curriculum": "uniform", "admission": "band:0.2,0.8", "advantage": "leave-one-out"},
        {"curriculum": {"selection": "uniform", "admission": "band:0.2,0.8"}, "advantage": "leave-one-out"},
        {"curriculum": {"name": "uniform"}, "admission": "band:0.2,0.8", "advantage": "leave-one-out"},
    ],
    ids=["text", "beside", "dict", "method's dict"],
)
def test_the_parts_of_a_curriculum_can_be_given_in_every_form(tmp_path, options):
    host = trainer(tmp_path, reward_range=(-1, 1), signal="sum", allocation="knapsack", **options)
    rows = dataset()
    expected = curro.Curriculum(
        "uniform", len(rows), admission="band:0.2,0.8", advantage="leave-one-out", reward_range=(-1, 1),
        allocation="knapsack", signal="sum", seed=3,
    )  # fmt: skip
    assert host.curriculum.config == expected.config


def test_groups_without_a_reward_count_neither_as_flat_nor_as_varied(tmp_path):
    def scores(prompts, completions, **columns):
        """The first of the generation's groups varies, the others have no reward."""
        return [float(i) if i < 2 else None for i in range(len(prompts))]

    host = trainer(tmp_path, reward_funcs=scores, max_steps=1, reward_range=(0, 1))
    host.train()
    assert host.state.log_history[0]["curriculum/signal_share"] == 1


def test_few_metrics_are_logged_unless_all_are_asked_for(tmp_path):
    records: list[Any] = []
    host = trainer(
        tmp_path, max_steps=1, log_all_metrics=False, admission="band:0.1,0.9", on_groups=records.append
    )
    host.train()
    written = RunFolder.open(tmp_path).metrics()[0]
    share = np.mean(np.concatenate([record.verdict.informativeness for record in records]) > 0)
    assert host.state.log_history[0]["curriculum/signal_share"] == pytest.approx(share)
    assert written["signal_share"] == pytest.approx(share)
    assert len({len(record.draw) for record in records}) > 1
    assert 0 < share < 1
    logged = {name for name in host.state.log_history[0] if name.startswith(("curriculum/", "fill/"))}
    method = {f"curriculum/{name}" for name in host.curriculum.selection.metrics()}
    # after 4 groups nothing is known of uniform sampling
    assert logged - method == {
        "curriculum/signal/mean_square_advantage", "curriculum/signal_share", "curriculum/table/unseen",
        "curriculum/table/success_rate_mean", "curriculum/admitted", "fill/given_out", "fill/rejected",
        "fill/topped_up",
    }  # fmt: skip
    assert logged & method
    assert set(host.curriculum.metrics()) <= set(written)
    assert {"fill/draws", "fill/rejected"} <= set(written)


def test_a_curriculum_over_a_number_takes_over_the_rows(tmp_path):
    curriculum = curro.Curriculum("uniform", 24)
    trainer(tmp_path, curriculum=curriculum)
    assert curriculum.table.fingerprint == curro.Curriculum("uniform", dataset()).table.fingerprint


def test_a_group_without_any_reward_is_no_reason_to_stop(tmp_path):
    def first_prompt_alone(row: list[int], **_: Any) -> list[float | None]:
        return [float(i % 2) if prompt == row[0] else None for i, prompt in enumerate(row)]

    host = trainer(tmp_path, reward_funcs=first_prompt_alone)
    host.train()
    assert host.curriculum.metrics()["observed"] == 3


def test_counts_are_totals_over_the_logging_window(tmp_path):
    host = trainer(tmp_path, logging_steps=3, admission="everything", log_all_metrics=False)
    host.train()
    line = host.state.log_history[0]
    assert (line["curriculum/admitted"], line["fill/given_out"]) == (12, 12)


def accuracy_reward(completion_ids, **_):
    return [float(ids[0] % 2 == 0) for ids in completion_ids]


def format_reward(completion_ids, **_):
    return [0.5 * (len(ids) > 1 and ids[1] % 2 == 0) for ids in completion_ids]


@pytest.mark.parametrize("has_signal", [True, False])
def test_the_verifying_function_ranks_and_the_sum_is_credited(tmp_path, caplog, has_signal):
    """A sum of 1 or more is a right answer, so that the two rewards can be told from the sum."""
    diary = Diary()
    given = {} if has_signal else {"curriculum": curro.Curriculum("uniform", PROMPTS, signal="sum")}
    trained = trainer(tmp_path, reward_funcs=[accuracy_reward, format_reward], on_groups=diary, **given)
    assert ("ranked by accuracy_reward" in caplog.text) == has_signal
    trained.train()
    assert len(diary.records) == 3
    for record in diary.records:
        ranked_PG = record.rewards >= 1 if has_signal else record.rewards
        np.testing.assert_allclose(record.verdict.informativeness, ranked_PG.var(axis=1))
        centred_PG = record.rewards - record.rewards.mean(axis=1, keepdims=True)
        np.testing.assert_allclose(record.verdict.advantages, centred_PG)
    assert any((record.rewards % 1 > 0).any() for record in diary.records)


@pytest.mark.parametrize(
    "parts", [{}, {"admission": "everything"}, {"allocation": "equal", "advantage": "group"}]
)
def test_the_share_of_flat_groups_that_trl_logs_is_of_the_rewards_that_are_trained_on(tmp_path, parts):
    """No group's accuracy varies, so that each is flat for the curriculum; the sum with a format does."""

    def accuracy_reward(prompts, **_):
        return [0.0] * len(prompts)

    def form(prompts, **_):
        return [float(i < 8) * (i % 2) for i in range(len(prompts))]

    host = trainer(tmp_path, curriculum="uniform", reward_funcs=[accuracy_reward, form], max_steps=1, **parts)
    host.train()
    assert host.curriculum.metrics()["table/unsolved"] == 4
    assert host.state.log_history[0]["frac_reward_zero_std"] == 0.5
