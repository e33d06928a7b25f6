"""Groups without signal run without a graph: gradients, metrics and optimizer steps are what they were."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.hosts.trl.setup import trainer

from curro.hosts.trl.fast import accelerated
from curro.hosts.trl.fast.flat_groups import LOSSES_SCALED_BY_ADVANTAGE, join_rows, rows_with_gradient
from curro.training.saved_model import lora_config


def some_groups_are_flat(completions: list[str], row: list[int], **_: Any) -> list[float]:
    """Every rollout of two rows in three is right; of the others, those of an even number of characters."""
    return [
        float(number % 3 > 0 or len(text) % 2 == 0) for text, number in zip(completions, row, strict=True)
    ]


def trained(folder: Any, monkeypatch: Any, *, whole: bool, **options: Any) -> tuple[Any, int, int]:
    """A trainer after three steps, and how many tokens its loss has read with a graph and without.

    Args:
        whole: give every rollout a graph, as TRL does.
    """
    if whole:
        monkeypatch.setattr(accelerated, "only_advantages_teach", lambda trainer: False)
    lora = options.pop("lora", None)
    if lora is not None:
        options["peft_config"] = lora_config(lora)
    made = trainer(
        folder, **{"reward_funcs": some_groups_are_flat, "optim": "sgd", "learning_rate": 0.1} | options
    )
    tokens = {True: 0, False: 0}
    is_loss = False

    def count(module: Any, arguments: Any, output: torch.Tensor) -> None:
        if is_loss:
            tokens[torch.is_grad_enabled()] += output[..., 0].numel()

    compute_loss = made._compute_loss

    def watched(model: Any, inputs: Any) -> Any:
        nonlocal is_loss
        is_loss = True
        loss = compute_loss(model, inputs)
        is_loss = False
        return loss

    made._compute_loss = watched
    hook = made.model.get_input_embeddings().register_forward_hook(count)
    made.train()
    hook.remove()
    monkeypatch.undo()
    return made, tokens[True], tokens[False]


def weights(made: Any) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in made.model.parameters()])


def assert_same_training(found: Any, expected: Any) -> None:
    """Weights within 1e-6 of each other, and the same lines in the log."""
    torch.testing.assert_close(weights(found), weights(expected), atol=1e-6, rtol=1e-6)
    for line, other in zip(found.state.log_history, expected.state.log_history, strict=True):
        assert line.keys() == other.keys()
        for name, value in line.items():
            if name not in DURATIONS:  # what is not known yet is None
                near = other[name] if value is None else pytest.approx(other[name], rel=1e-4, abs=1e-6)
                assert value == near, name


DURATIONS = {"step_time", "train_runtime", "train_samples_per_second", "train_steps_per_second"}
SEVERAL = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2}
LOSSES: dict[str, dict[str, Any]] = {
    "grpo": {"importance_sampling_level": "sequence", "mask_truncated_completions": True},
    "luspo": {"importance_sampling_level": "sequence", "num_iterations": 2},
    "dapo": {"off_policy_mask_threshold": 1e-3, "num_iterations": 2, "delta": 1.5},
    "cispo": {"num_iterations": 2, **SEVERAL},
    "bnpo": {"gradient_checkpointing": True, **SEVERAL},
    "dr_grpo": {"lora": 4},
    "sapo": {"share_prompts": False},
    "vespo": {"top_entropy_quantile": 0.5},
}
"""Every loss that is scaled by the advantage, each with other options."""
SPLIT = {"steps_per_generation": 2, "per_device_train_batch_size": 8}
ALLOTTED = {"allocation": "knapsack", "advantage": "leave-one-out", "reward_range": (0, 1)}


def test_every_loss_is_trained_here():
    assert LOSSES.keys() == LOSSES_SCALED_BY_ADVANTAGE


@pytest.mark.parametrize(
    "options",
    [*({"loss_type": name} | options for name, options in LOSSES.items()), SPLIT | ALLOTTED],
    ids=str,
)
def test_a_flat_group_has_no_graph_and_changes_nothing(tmp_path, monkeypatch, options):
    expected, all_tokens, _ = trained(tmp_path / "whole", monkeypatch, whole=True, **options)
    found, tokens, others = trained(tmp_path / "flat", monkeypatch, whole=False, **options)
    assert 0 < tokens < all_tokens
    # sampling has just computed the others, unless the policy has moved since or the loss reads them all
    is_later = {"num_iterations", "steps_per_generation", "top_entropy_quantile"} & options.keys()
    assert (others > 0) == bool(is_later)
    assert_same_training(found, expected)


@pytest.mark.parametrize("options", [{"beta": 0.1, "lora": 4}, {"entropy_coef": 0.01}], ids=str)
def test_where_a_flat_group_has_a_gradient_of_its_own_it_keeps_its_graph(tmp_path, monkeypatch, options):
    expected, all_tokens, _ = trained(tmp_path / "whole", monkeypatch, whole=True, **options)
    found, tokens, others = trained(tmp_path / "flat", monkeypatch, whole=False, **options)
    assert (tokens, others) == (all_tokens, 0)
    assert_same_training(found, expected)


@pytest.mark.parametrize("options", [{}, SEVERAL | {"lora": 4}], ids=str)
def test_adamw_goes_on_in_steps_without_signal_as_it_did(tmp_path, monkeypatch, options):
    """Only the first of three steps has a signal; AdamW moves the weights in the other two by its memory."""
    made = {}
    for whole in (True, False):
        calls = 0

        def reward(completions: list[str], row: list[int], **_: Any) -> list[float]:
            nonlocal calls
            calls += 1
            return some_groups_are_flat(completions, row) if calls == 1 else [1.0] * len(completions)

        made[whole], _, _ = trained(
            tmp_path / str(whole), monkeypatch, whole=whole, reward_funcs=reward, curriculum="uniform",
            optim="adamw_torch", learning_rate=1e-3, **options,
        )  # fmt: skip
    assert_same_training(made[False], made[True])
    norms = [line["grad_norm"] for line in made[False].state.log_history if "grad_norm" in line]
    assert norms[0] > 0
    assert norms[1:] == [0, 0]
    states = made[False].optimizer.state.values()
    assert {int(state["step"]) for state in states} == {3}


def test_products_of_16_bits_learn_the_same(tmp_path, monkeypatch):
    """A weight that was rounded without a graph would get no gradient."""
    expected, _, _ = trained(tmp_path / "whole", monkeypatch, whole=True, bf16=True, max_steps=1)
    found, _, _ = trained(tmp_path / "flat", monkeypatch, whole=False, bf16=True, max_steps=1)
    start = trainer(tmp_path / "start")
    moved, wanted = weights(found) - weights(start), weights(expected) - weights(start)
    assert wanted.norm() > 0
    assert (moved - wanted).norm() < 0.01 * wanted.norm()
    for name, weight in found.model.named_parameters():
        assert weight.grad is None or bool(weight.grad.isfinite().all()), name


@pytest.mark.parametrize("options", [{"top_p": 0.9}, {"repetition_penalty": 1.2}, {"top_k": 20}], ids=str)
def test_where_sampling_drew_from_something_else_flat_groups_are_read(tmp_path, monkeypatch, options):
    _, tokens, others = trained(tmp_path, monkeypatch, whole=False, **options)
    assert min(tokens, others) > 0


def inputs(prompts: list[list[int]], lengths: list[int], advantages: list[float]) -> dict[str, torch.Tensor]:
    width, longest = max(map(len, prompts)), max(lengths)
    return {
        "prompt_ids": torch.tensor([[0] * (width - len(row)) + row for row in prompts]),
        "prompt_mask": torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in prompts]),
        "completion_mask": torch.tensor([[1] * n + [0] * (longest - n) for n in lengths]),
        "advantages": torch.tensor(advantages),
    }


def test_rows_of_a_prompt_with_signal_stay_together():
    made = inputs([[5], [6, 7], [5], [6, 7], [8], [8]], [2] * 6, [0.0, 0.5, 0.0, 0.0, 0.0, -0.0])
    assert rows_with_gradient(made).tolist() == [False, True, False, True, False, False]
    by_token = made | {"advantages": made["advantages"][:, None].repeat(1, 2)}
    assert rows_with_gradient(by_token).tolist() == [False, True, False, True, False, False]


def test_an_advantage_that_is_no_number_is_not_passed_over():
    made = inputs([[5], [6]], [2, 2], [0.0, float("nan")])
    assert rows_with_gradient(made).tolist() == [False, True]


def test_without_signal_the_shortest_row_with_a_token_keeps_its_graph():
    # 3 + 2, 1 + 0, which has nothing to learn from, and 1 + 3 tokens
    made = inputs([[5, 6, 7], [8], [9]], [2, 0, 3], [0.0, 0.0, 0.0])
    assert rows_with_gradient(made).tolist() == [False, False, True]


def test_rows_come_back_in_their_order():
    values = torch.arange(8.0).view(4, 2).requires_grad_()
    rows = torch.tensor([False, True, False, True])
    calls = []

    def compute(numbers: torch.Tensor, has_graph: bool) -> tuple[torch.Tensor | None, ...]:
        calls.append((numbers.tolist(), has_graph, torch.is_grad_enabled()))
        return values[numbers] * 2, None

    joined, nothing = join_rows(rows, compute)
    assert calls == [([1, 3], True, True), ([0, 2], False, False)]
    assert joined.tolist() == (values * 2).tolist()
    assert nothing is None
    joined.sum().backward()
    assert values.grad.tolist() == [[0, 0], [2, 2], [0, 0], [2, 2]]
