"""TRL's `environment_factory`: games with a tool, with gates, allocations and METIS, and games that fail."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from tests.hosts.trl.judging import value_of
from tests.hosts.trl.setup import Diary, config, generated_by, generators_of

from curro.hosts.trl import CurriculumGRPOTrainer
from curro.lab.model import build_model
from curro.methods.prediction.metis import predictor

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
from higher_lower import HigherLower
from trl_environment import solved, tokenizer_of_words

TOKENIZER = tokenizer_of_words()
WORD = TOKENIZER.get_vocab()
pytestmark = pytest.mark.filterwarnings(
    "ignore:You are using 'environment_factory'", "ignore:All reward functions"
)


class Scripted(CurriculumGRPOTrainer):
    """Guesses a digit that the context and the place among like contexts decide, until the game is over."""

    def _generate_single_turn(self, contexts: list[list[int]], *_: Any, **__: Any) -> tuple[Any, None]:
        written = []
        for ids, rng in zip(contexts, generators_of(contexts), strict=True):
            is_over = {WORD["right"], WORD["over"]}.intersection(ids)
            word = "over" if is_over else str(rng.integers(10))
            written.append([WORD[word], TOKENIZER.eos_token_id])
        return written, None


def played(folder: Path, game: Any = HigherLower, **options: Any) -> Scripted:
    torch.manual_seed(0)
    rows = [
        {"prompt": [{"role": "user", "content": str(top)}], "secret": top // 2, "top": top}
        for top in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] * 2
    ]
    arguments = {"reward_funcs": solved, "curriculum": "uniform", "signal": "solved"} | options
    return Scripted(
        model=build_model(TOKENIZER, width=32, layers=1),
        processing_class=TOKENIZER,
        environment_factory=game,
        train_dataset=Dataset.from_list(rows),
        args=config(
            folder, max_completion_length=30, reward_weights=[0.0], max_tool_calling_iterations=5,
            loss_type="dr_grpo", scale_rewards="none",
        ),
        **arguments,
    )  # fmt: skip


@pytest.mark.parametrize(
    "parts",
    [
        {"admission": "signal"},
        {"allocation": "knapsack", "advantage": "leave-one-out", "admission": "signal"},
        {"allocation": {"name": "knapsack"}, "advantage": "leave-one-out"},
    ],
    ids=["gate", "gate and allocation", "allocation"],
)
def test_games_are_chosen_gated_and_allotted_by_whether_they_were_won(tmp_path, parts):
    diary = Diary()
    host = played(tmp_path, curriculum="frontier", on_groups=diary, **parts)
    batches = generated_by(host)
    host.train()
    metrics = host.curriculum.metrics()
    assert metrics["selected"] == metrics["observed"] + metrics["dropped"]
    assert metrics["in_flight"] == 0
    for record in diary.records:
        won_P, variance_P = record.verdict.mean, record.verdict.informativeness
        np.testing.assert_allclose(variance_P, won_P * (1 - won_P), atol=1e-9)  # of 0 and 1
        if "admission" in parts:
            np.testing.assert_array_equal(record.verdict.admitted, (won_P > 0) & (won_P < 1))
    assert max(np.nanmax(record.rewards) for record in diary.records) > 1  # the turns' rewards are added
    for batch in batches:
        assert len(batch["advantages"]) == 16
        said = batch["completion_ids"][batch["completion_mask"].bool() & ~batch["tool_mask"].bool()]
        assert set(TOKENIZER.convert_ids_to_tokens(said)) <= {
            "[tool]",
            "higher",
            "lower",
            "right",
            "over",
            "guess",
        }
        wrote = batch["completion_ids"][batch["completion_mask"].bool() & batch["tool_mask"].bool()]
        assert (wrote == TOKENIZER.eos_token_id).sum() * 2 == len(wrote)
    assert host.state.log_history[0]["tools/call_frequency"] > 1


def test_the_turns_rewards_are_trained_on_and_the_win_is_the_signal(tmp_path):
    """By hand: secret 2 of 0 to 5; guessing 0, 4, 1, 2 is four possible guesses, the last of them right."""
    game = HigherLower()
    game.reset(secret=2, top=5)
    assert [game.guess(number) for number in (0, 4, 1, 2)] == ["higher", "lower", "higher", "right"]
    assert game.turn_rewards == pytest.approx([0.1, 0.1, 0.1, 1.1])
    game.reset(secret=2, top=5)
    assert [game.guess(number) for number in (4, 5, 4, 3, 2)] == ["lower", "lower", "lower", "lower", "over"]
    assert game.get_reward() == pytest.approx(0.2)
    host = played(tmp_path)
    host.train()
    for line in host.state.log_history[:3]:
        assert line["reward"] == pytest.approx(line["rewards/HigherLower/mean"])
        assert line["rewards/HigherLower/mean"] > line["rewards/solved/mean"]


class Failing(HigherLower):
    """The games of one row fail."""

    def get_reward(self) -> float | None:
        return None if self.secret == 2 else super().get_reward()


def test_a_game_that_failed_has_no_reward_and_teaches_nothing(tmp_path):
    diary = Diary()
    host = played(tmp_path, Failing, curriculum="least-visited", on_groups=diary)
    host.train()
    failed = {4, 5, 14, 15}
    for record in diary.records:
        for prompt, rewards, advantages in zip(
            record.draw.prompts, record.rewards, record.verdict.advantages, strict=True
        ):
            assert np.isnan(rewards).all() == (prompt in failed)
            assert prompt not in failed or not advantages.any()
    drawn = {prompt for draw in diary.draws() for prompt in draw}
    assert drawn & failed
    assert host.curriculum.metrics()["in_flight"] == 0


def test_metis_judges_the_games_prompts(tmp_path, monkeypatch):
    monkeypatch.setattr(predictor, "read_prediction", value_of)
    host = played(tmp_path, curriculum={"name": "metis", "candidates": 2, "max_tokens": 3})
    host.train()
    assert host.state.log_history[0]["judge/loss"] != 0
    assert host.curriculum.metrics()["observed"] == 12


class MakesPrompts(HigherLower):
    """Has a game for every level, and one of its own without a data set."""

    def reset(self, level: int = 2, **_: Any) -> str:
        return str(super().reset(secret=level, top=4))


@pytest.mark.parametrize(
    "rows", [None, Dataset.from_dict({"level": [1, 2, 2, 3]})], ids=["no data set", "what reset takes"]
)
def test_environments_may_make_the_prompts(tmp_path, rows):
    """Rows are told apart by what `reset` takes, and alike ones by their places."""
    host = CurriculumGRPOTrainer(
        model=build_model(TOKENIZER, width=32, layers=1),
        processing_class=TOKENIZER,
        environment_factory=MakesPrompts,
        train_dataset=rows,
        args=config(tmp_path),
        curriculum="uniform",
    )
    assert host.curriculum.table.size == 4
    host.train()
    assert host.curriculum.metrics()["observed"] == 12
