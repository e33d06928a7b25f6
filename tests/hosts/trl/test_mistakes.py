"""What a newcomer gets wrong in a TRL script is answered with one sentence, and leaves nothing behind."""

from __future__ import annotations

from typing import Any

import pytest
from datasets import Dataset
from tests.hosts.trl.setup import PROMPTS, config, dataset, first_token_is_even, trainer

import curro
from curro.hosts.trl import CurriculumGRPOTrainer, FillSettings


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


BUILT: dict[str, tuple[dict[str, Any], str]] = {
    "keep=2": ({"keep": 2}, "keep is a curro.hosts.trl.KeepRollouts, as KeepRollouts(2), not 2"),
    "keep=-1": ({"keep": -1}, "keep is a curro.hosts.trl.KeepRollouts"),
    "fill=3": ({"fill": 3}, "fill is a curro.hosts.trl.FillSettings, as FillSettings(limit=10), not 3"),
    "fill as a dict": ({"fill": {"limit": 3}}, "fill is a curro.hosts.trl.FillSettings"),
    "seed='x'": ({"seed": "x"}, "seed must be a whole number of 0 or more, not 'x'"),
    "seed=-1": ({"seed": -1}, "seed must be a whole number of 0 or more, not -1"),
    "no function": ({"on_groups": "print"}, "on_groups is a function that is called with a GroupRecord"),
    "no prompt column": (
        {"train_dataset": Dataset.from_dict({"question": ["a"] * 16, "answer": ["1"] * 16})},
        "train_dataset has no column 'prompt'; it has question, answer: rename the column",
    ),
    "few prompts": ({"train_dataset": dataset().select(range(3))}, "a batch takes 4 prompts and the data"),
    "a typo": ({"curriculum": "fronteir"}, "did you mean 'frontier'?"),
    "a typo in an option": ({"curriculum": "frontier:explore=0.1"}, "no option 'explore'"),
    "no method": ({"curriculum": None}, "selection is a name, or a dict of `name` and options, not None"),
    "a class": ({"curriculum": WithoutSelect}, "is a class: pass an object of it, WithoutSelect()"),
    "without select": ({"curriculum": WithoutSelect()}, "WithoutSelect has no method `select`: define"),
    "no Selection": ({"curriculum": NoSelection()}, "is not a curro.Selection: derive its class from that"),
    "band:0.2": ({"admission": "band:0.2"}, "admission 'band' needs low and high; missing: high"),
    "a number": ({"admission": 0.2}, "admission is a name, or a dict of `name` and options, not 0.2"),
    "an interval": ({"admission": (0.2, 0.8)}, "admission is a name, or a dict"),
    "a gate typo": ({"admission": "bend:0.2,0.8"}, "did you mean 'band'?"),
    "a part twice": (
        {"curriculum": "uniform admission=signal", "admission": "signal"}, "admission stands in `curriculum`",
    ),
    "a part beside": (
        {"curriculum": curro.Curriculum("uniform", PROMPTS), "signal": "correct"},
        "the curriculum has its own signal",
    ),
    "other rows": (
        {"curriculum": curro.Curriculum("uniform", dataset().shuffle(seed=4))},
        "another data set than train_dataset, or in another order",
    ),
    "other number": (
        {"curriculum": curro.Curriculum("uniform", 5)}, "the curriculum is over 5 prompts",
    ),
    "an allocation alone": ({"allocation": "knapsack"}, "need groups of one size: give the curriculum"),
    "a scale": (
        {"admission": "signal", "scale_rewards": "batch"}, "divides by the deviation of rejected groups too",
    ),
    "rewards normalised apart": (
        {"admission": "signal", "multi_objective_aggregation": "normalize_then_sum"},
        'deviation of rejected groups too: choose "sum_then_normalize"',
    ),
    "when_short": (
        {"admission": "signal", "fill": FillSettings(when_short="finish")}, "choose when_short=",
    ),
    "a range": ({"reward_range": (1, 0)}, "reward_range is (failure, success) with failure < success"),
    "a signal": ({"signal": 3}, "signal names parts of the reward"),
    "an unknown signal": (
        {"signal": "first_token_is_evn"},
        "signal 'first_token_is_evn': no reward function has this name (did you mean 'first_token_is_even'?)",
    ),
    "a gate by another part": (
        {"admission": "signal:reward=format"}, "admission 'format': no reward function has this name",
    ),
    "two players": (
        {"environment": object(), "rollout_func": print}, "give it or rollout_func, not both",
    ),
    "an output folder": ({"output_dir": "/proc/x"}, "/proc/x cannot be used (No such file"),
    "a file as output": ({"output_dir": f"{__file__}/x"}, "/x cannot be used (Not a directory)"),
}  # fmt: skip

TRAINED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "never a reward": ({"reward_funcs": never}, curro.RewardError, "none of the first 4 groups has a reward"),
    "an infinite reward": ({"reward_funcs": infinite}, curro.RewardError, "rewards are finite"),
    "a reward that fails": ({"reward_funcs": fails}, KeyError, "solution"),
}  # fmt: skip


@pytest.mark.parametrize(("options", "sentence"), BUILT.values(), ids=BUILT)
def test_a_mistake_is_answered_when_the_trainer_is_built(tmp_path, options, sentence):
    output = tmp_path / "output"
    with pytest.raises(curro.CurroError) as error:
        trainer(output, **options)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
    assert not (output / "curro").exists()
    trainer(output, max_steps=1).train()
    assert [path.name for path in output.iterdir()] == ["curro"]


@pytest.mark.parametrize(("options", "kind", "sentence"), TRAINED.values(), ids=TRAINED)
def test_a_mistake_in_a_reward_stops_the_first_step(tmp_path, options, kind, sentence):
    host = trainer(tmp_path, **options)
    with pytest.raises(kind, match=sentence):
        host.train()
    assert host.curriculum.metrics()["in_flight"] == 0
    trainer(tmp_path, max_steps=1).train()
    assert len((tmp_path / "curro" / "metrics.jsonl").read_text().splitlines()) == 1


def test_nothing_is_written_where_a_curriculum_cannot_be_saved(tmp_path):
    curriculum = curro.Curriculum("uniform", 4)
    with pytest.raises(
        curro.CheckpointError, match="the curriculum cannot be saved as '/proc/x': No such file"
    ):
        curriculum.save("/proc/x")
    with pytest.raises(curro.CheckpointError, match=r"cannot be saved as .*: Is a directory"):
        curriculum.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_resume_of_other_data_names_both_by_eight_digits(tmp_path):
    trainer(tmp_path, max_steps=1, save_strategy="steps", save_steps=1).train()
    other = dataset().select(range(PROMPTS)).map(lambda row: {"prompt": f"{row['prompt']} ?"})
    host = trainer(tmp_path, max_steps=2, train_dataset=other)
    with pytest.raises(curro.CheckpointError, match=r"it has '[0-9a-f]{8}', this curriculum '[0-9a-f]{8}'"):
        host.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))


@pytest.mark.parametrize(
    ("prompts", "sentence"),
    [
        ([{"question": "a"}], "the rows have no column 'prompt' with the prompts; they have question"),
        ([{"prompt": "a"}, "b"], "row 1 is 'b': every row is a dict of columns"),
        ([{"a", "b"}], "prompts are rows with a column `prompt`, their keys, or their number"),
        ([[{"role": "user", "content": "a"}]], "prompts are rows with a column `prompt`, their keys"),
        ("problems.jsonl", "prompts are a number, or the sequence of their keys, not 'problems.jsonl'"),
    ],
)
def test_prompts_that_are_none(prompts, sentence):
    with pytest.raises(curro.ConfigError) as error:
        curro.Curriculum("uniform", prompts)
    assert sentence in str(error.value)


@pytest.mark.parametrize("seed", ["x", -1, 1.5, None])
def test_a_seed_that_is_none(seed):
    with pytest.raises(curro.ConfigError, match="seed must be a whole number of 0 or more, not"):
        curro.Curriculum("uniform", 4, seed=seed)


def test_an_argument_of_a_trainer_may_stand_without_its_name(tmp_path):

    rows = Dataset.from_dict({"question": ["a"] * 16})
    with pytest.raises(curro.ConfigError, match="train_dataset has no column 'prompt'"):
        CurriculumGRPOTrainer("m", first_token_is_even, config(tmp_path), rows, curriculum="uniform")
