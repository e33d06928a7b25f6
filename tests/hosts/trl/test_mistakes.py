"""What a newcomer gets wrong in a TRL script is answered with one sentence, and leaves nothing behind."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from datasets import Dataset, IterableDataset
from tests.hosts.trl.setup import PROMPTS, config, dataset, first_token_is_even, trainer
from transformers import TrainingArguments

import curro
from curro.hosts.trl import CurriculumGRPOTrainer, FillSettings
from curro.lab.model import build_tokenizer


class WithoutSelect(curro.Selection):
    """A method of one's own that chooses nothing."""


class NoSelection:
    """Derived from nothing."""

    def select(self, n: int, step: int) -> None:
        """Not a method of a curriculum."""


def fails(completions: list[str], **_: Any) -> list[float]:
    raise KeyError("solution")


def infinite(completions: list[str], **_: Any) -> list[float]:
    return [float("inf")] * len(completions)


def never(completions: list[str], **_: Any) -> list[None]:
    return [None] * len(completions)


def of_a_column(completions: list[str], level: list[int], **_: Any) -> list[float]:
    return [float(number) for number in level]


def messages(**part: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "text": "?"} | part]}]


def without(part: str) -> Any:
    tokenizer = build_tokenizer()
    setattr(tokenizer, part, None)
    return tokenizer


GATED: dict[str, Any] = {"admission": "signal"}
LARGE = curro.Curriculum(
    "uniform", PROMPTS, allocation="estimates:estimate=4,train=20", advantage="leave-one-out"
)

BUILT: tuple[tuple[dict[str, Any], str], ...] = (
    ({"keep": 2}, "KeepRollouts"),
    ({"fill": {"limit": 3}}, "FillSettings"),
    ({"peft_config": {"r": 2}}, "peft_config"),
    ({"processing_class": "gpt2"}, "processing_class"),
    ({"processing_class": without("eos_token")}, "eos_token"),
    ({"processing_class": without("chat_template"), "train_dataset": dataset(True)}, "chat template"),
    ({"model": "./no-such-model", "processing_class": None}, "'./no-such-model'"),
    ({"tools": print}, "tools is a list"),
    ({"tools": [print]}, "no calls of tools"),
    ({"environment_factory": {"game": WithoutSelect}, "train_dataset": dataset(True)}, "`reset`"),
    ({"args": TrainingArguments("x", use_cpu=True)}, "args is a GRPOConfig"),
    ({"seed": "x"}, "seed"),
    ({"seed": -1}, "seed"),
    ({"on_groups": "print"}, "on_groups"),
    ({"train_dataset": Dataset.from_dict({"question": ["a"] * 16, "answer": ["1"] * 16})}, "'prompt'"),
    ({"train_dataset": None}, "`train_dataset` is required"),
    ({"train_dataset": IterableDataset.from_generator(lambda: [{"prompt": "a"}])}, "train_dataset"),
    ({"train_dataset": dataset().select(range(3))}, "per_device_train_batch_size"),
    ({"curriculum": "fronteir"}, "'frontier'"),
    ({"curriculum": "frontier:explore=0.1"}, "'explore'"),
    ({"curriculum": None}, "selection"),
    ({"curriculum": WithoutSelect}, "WithoutSelect()"),
    ({"curriculum": WithoutSelect()}, "`select`"),
    ({"curriculum": NoSelection()}, "curro.Selection"),
    ({"admission": "band:0.2"}, "missing: high"),
    ({"admission": 0.2}, "admission"),
    ({"admission": (0.2, 0.8)}, "admission"),
    ({"admission": "bend:0.2,0.8"}, "'band'"),
    ({"curriculum": "uniform admission=signal", "admission": "signal"}, "admission is named twice"),
    ({"curriculum": curro.Curriculum("uniform", PROMPTS), "signal": "correct"}, "its own signal"),
    ({"curriculum": curro.Curriculum("uniform", dataset().shuffle(seed=4))}, "train_dataset"),
    ({"curriculum": curro.Curriculum("uniform", 5)}, "over 5 prompts"),
    ({"curriculum": LARGE}, "`first`"),
    ({"allocation": "knapsack"}, "advantage"),
    ({**GATED, "fill": FillSettings(when_short="finish")}, "when_short"),
    ({**GATED, "train_dataset": dataset().add_column("image", ["a picture"] * PROMPTS)}, "image"),
    ({"reward_range": (1, 0)}, "reward_range"),
    ({"signal": 3}, "signal"),
    ({"signal": "first_token_is_evn"}, "'first_token_is_even'"),
    ({"admission": "signal:reward=format"}, "no option 'reward'"),
    ({"reward_funcs": 3}, "reward_funcs has 3"),
    ({"reward_funcs": [NoSelection]}, "NoSelection"),
    ({"reward_funcs": "./no-such-model"}, "'./no-such-model'"),
    ({"reward_funcs": of_a_column}, "'level'"),
    ({"reward_funcs": operator.itemgetter("completions")}, "itemgetter"),
    ({"reward_funcs": (fails, never), "reward_weights": [1.0]}, "1 numbers for 2 reward functions"),
    ({"reward_weights": [float("nan")]}, "reward_weights has nan"),
    ({"num_iterations": 0}, "num_iterations=0"),
    ({"temperature": 0.0}, "temperature=0"),
    ({"eval_strategy": "steps", "eval_steps": 1}, "eval_dataset"),
    (
        {
            "reward_funcs": of_a_column,
            "train_dataset": dataset().add_column("level", [1] * PROMPTS),
            "eval_dataset": dataset(),
        },
        "'level'; eval_dataset has prompt, row",
    ),
    ({"eval_dataset": {"new": Dataset.from_dict({"question": ["a"]})}}, "eval_dataset['new'] has no column"),
    ({"train_dataset": dataset().add_column("completions", ["a"] * PROMPTS)}, "has the columns completions"),
    ({"train_dataset": Dataset.from_dict({"prompt": ["a"] * 23 + [None]})}, "row 23"),
    ({"train_dataset": Dataset.from_dict({"prompt": [messages(type="image")] * 24})}, "image in row 0"),
    ({"train_dataset": dataset().add_column("images", ["a.png"] * PROMPTS)}, "a tokenizer reads text alone"),
    ({"environment": object(), "rollout_func": print}, "rollout_func"),
    ({"environment": NoSelection()}, "has no method start"),
    ({"environment": NoSelection}, "is a class: give an object of it"),
    ({"output_dir": "/proc/x"}, "/proc/x"),
    ({"output_dir": f"{__file__}/x"}, "Not a directory"),
)

TRAINED: tuple[tuple[dict[str, Any], type[Exception], str], ...] = (
    ({"reward_funcs": never}, curro.RewardError, r"none of the first 4 groups has a reward \(never\)"),
    ({"reward_funcs": never, **GATED}, curro.RewardError, "none of the first 4 groups"),
    ({"reward_funcs": [never, first_token_is_even], "signal": "never"}, curro.RewardError, "the signal"),
    ({"reward_funcs": infinite}, curro.RewardError, "rewards are finite"),
    ({"reward_funcs": fails}, KeyError, "solution"),
)


def words_alone(value: Any) -> str:
    return value if isinstance(value, str) else ""


@pytest.mark.parametrize(("options", "words"), BUILT, ids=words_alone)
def test_a_mistake_is_answered_when_the_trainer_is_built(tmp_path, options, words):
    output = tmp_path / "output"
    with pytest.raises(curro.CurroError) as error:
        trainer(output, **options)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert not (output / "curro").exists()


@pytest.mark.parametrize(("options", "kind", "words"), TRAINED, ids=words_alone)
def test_a_mistake_in_a_reward_stops_the_first_step(tmp_path, options, kind, words):
    host = trainer(tmp_path, **options)
    with pytest.raises(kind, match=words):
        host.train()
    assert host.curriculum.free == PROMPTS
    trainer(tmp_path, max_steps=1).train()
    assert len((tmp_path / "curro" / "metrics.jsonl").read_text().splitlines()) == 1


def test_a_resume_of_other_data_names_both_by_eight_digits(tmp_path):
    trainer(tmp_path, max_steps=1, save_strategy="steps", save_steps=1).train()
    other = dataset().select(range(PROMPTS)).map(lambda row: {"prompt": f"{row['prompt']} ?"})
    host = trainer(tmp_path, max_steps=2, train_dataset=other)
    with pytest.raises(curro.CheckpointError, match=r"it has '[0-9a-f]{8}', this curriculum '[0-9a-f]{8}'"):
        host.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))


def test_an_argument_of_a_trainer_may_stand_without_its_name(tmp_path):
    rows = Dataset.from_dict({"question": ["a"] * 16})
    hidden = Dataset.from_dict({"prompt": ["a"] * 16, "question": ["a"] * 16}).with_format(
        columns=["question"]
    )
    for data in (rows, hidden):
        with pytest.raises(curro.ConfigError, match="no column 'prompt'"):
            CurriculumGRPOTrainer("m", first_token_is_even, config(tmp_path), data, curriculum="uniform")
