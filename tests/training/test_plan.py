"""What is prepared for a run: the column of known pass rates, and the reward's parts as TRL's functions."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import make_dataclass

import pytest
import torch
from transformers import TrainingArguments

from curro import ConfigError, Curriculum
from curro.core.registry import parse_curriculum
from curro.data import PromptSet
from curro.reward import resolve_reward
from curro.runs.estimate_folder import COLUMNS, EstimateFolder
from curro.runs.folder import RunFolder
from curro.training.plan import COLUMN, check_text, with_known
from curro.training.trl_arguments import device_arguments, row_rewards

PROMPTS = PromptSet(
    [
        {"key": key, "prompt": key, "answer": None, "rate": rate}
        for key, rate in (("a", 0.1), ("b", 0.5), ("c", 1))
    ]
)


def config(selection, reward_range=(0.0, 1.0)):
    return {**parse_curriculum(selection), "reward_range": reward_range, "seed": 0}


def test_a_column_is_named_to_the_selection():
    found, prompts = with_known(config("frontier:candidates=3"), PROMPTS, "rate")
    assert found["selection"] == {"name": "frontier", "candidates": 3, "known": "rate"}
    assert prompts is PROMPTS
    assert Curriculum.from_config(found, prompts).select(1, step=0).prompts.tolist() == [1]


def test_an_estimate_is_found_by_its_keys(tmp_path):
    folder = EstimateFolder.begin(tmp_path / "estimate", {"k": 4})
    for i, (key, mean) in enumerate((("c", 0.0), ("x", 1.0), ("a", 1.0))):
        folder.append(dict.fromkeys(COLUMNS, 0) | {"prompt": i, "key": key, "mean": mean})
    folder.write_table()
    found, prompts = with_known(config("posterior", (-1.0, 1.0)), PROMPTS, str(tmp_path / "estimate"))
    assert found["selection"]["known"] == COLUMN
    # of rewards from -1 to 1: 0 is half way, b is not in the estimate
    assert [row[COLUMN] for row in prompts.rows] == [1.0, None, 0.5]
    assert prompts.fingerprint == PROMPTS.fingerprint


def test_a_run_is_found_by_its_keys(tmp_path):
    curriculum = Curriculum("uniform", PROMPTS, seed=0)
    draw = curriculum.select(2, step=1)
    curriculum.observe(draw.tickets, [[1.0, 0.0, 0.0, 0.0]] * 2)
    run = RunFolder.create(tmp_path / "run", {})
    run.write_table(curriculum.table)
    _, prompts = with_known(config("frontier"), PROMPTS, str(tmp_path / "run"))
    seen = set(draw.prompts.tolist())
    assert [row[COLUMN] for row in prompts.rows] == [0.25 if i in seen else None for i in range(3)]


def test_the_rates_of_a_run_are_on_its_own_reward_range(tmp_path):
    """It was trained on rewards from -1 to 1, and this one is on rewards from 0 to 10."""
    curriculum = Curriculum("uniform", PROMPTS, reward_range=(-1.0, 1.0), seed=0)
    draw = curriculum.select(3, step=1)
    curriculum.observe(draw.tickets, [[1.0, 1.0, 1.0, -1.0]] * 3)
    run = RunFolder.create(tmp_path / "run", {"curriculum": curriculum.config})
    run.write_table(curriculum.table)
    _, prompts = with_known(config("frontier", (0.0, 10.0)), PROMPTS, str(tmp_path / "run"))
    assert [row[COLUMN] for row in prompts.rows] == [0.75] * 3


def test_the_rewards_of_an_estimate_are_in_the_reward_range_or_of_the_verifier(tmp_path):
    rows = [
        dict.fromkeys(COLUMNS, 0) | {"prompt": i, "key": key, "mean": 0.5, "variance": variance}
        for i, (key, variance) in enumerate((("a", 0.75), ("b", 0.75), ("c", 0.25)))
    ]
    mixed = EstimateFolder.begin(tmp_path / "mixed", {})
    verified = EstimateFolder.begin(tmp_path / "verified", {"pass_rates_of": "math"})
    for row in rows:
        mixed.append(row)
        verified.append(row | {"variance": 0.25})
    mixed.write_table()
    verified.write_table()
    with pytest.raises(ConfigError, match=r"mixed are not from 0 to 1, so .* with --reward-range"):
        with_known(config("frontier"), PROMPTS, str(mixed.path))
    _, prompts = with_known(config("frontier", (-1.0, 1.0)), PROMPTS, str(mixed.path))
    assert [row[COLUMN] for row in prompts.rows] == [0.75] * 3
    _, prompts = with_known(config("frontier", (-1.0, 1.0)), PROMPTS, str(verified.path))
    assert [row[COLUMN] for row in prompts.rows] == [0.5] * 3


def test_mistakes(tmp_path):
    with pytest.raises(ConfigError, match="neither a folder nor a column; the columns are key, pro"):
        with_known(config("frontier"), PROMPTS, "rte")
    with pytest.raises(ConfigError, match="'uniform' has no option 'known'"):
        Curriculum.from_config(*with_known(config("uniform"), PROMPTS, "rate"))
    folder = EstimateFolder.begin(tmp_path / "estimate", {"k": 4})
    folder.append(dict.fromkeys(COLUMNS, 0) | {"key": "x", "mean": 1.0})
    folder.write_table()
    with pytest.raises(ConfigError, match="none of these prompts"):
        with_known(config("frontier"), PROMPTS, str(tmp_path / "estimate"))


NUMBERS = PromptSet([{"prompt": f"{i}", "answer": f"{i}", "key": f"{i}"} for i in range(3)])
END = 9


def test_each_part_is_a_function_that_knows_the_rows_and_whether_completions_were_cut():
    exact, form = row_rewards(resolve_reward("exact+0.2*format"), NUMBERS, {END}, environment=False)
    assert (exact.__name__, form.__name__) == ("exact", "format")
    batch = {
        "completions": ["2", [{"role": "assistant", "content": "<think>x</think>1"}]],
        "prompt_id": [2, 1],
        "completion_ids": [[4, 5], [4, END]],
        "prompts": ["2", "1"],
    }
    assert exact(**batch) == [1.0, 1.0]
    assert form(**batch) == [0.0, 1.0]
    assert form(**batch | {"completions": ["2", "1"]}) == [0.0, 0.2]


def test_a_batch_is_verified_once():
    calls = []

    class Counting(type(resolve_reward("exact"))):
        def named(self, completions, rows):
            calls.append(len(rows))
            return {"a": [1.0] * len(rows), "b": [2.0] * len(rows)}

        weights = {"a": 1.0, "b": 1.0}  # noqa: RUF012

    a, b = row_rewards(Counting("a+b", lambda *_: []), NUMBERS, {END}, environment=False)
    batch = {"completions": ["x"], "prompt_id": [0], "completion_ids": [[END]]}
    assert (a(**batch), b(**batch), calls) == ([1.0], [2.0], [1])


@pytest.mark.parametrize("name", ["gradient_checkpointing", "activation_checkpointing"])
def test_recomputing_activations_has_two_names_in_transformers(name):
    config = make_dataclass("Config", [(name, bool)])
    arguments = device_arguments(config, 8, 2)
    assert (arguments[name], arguments["gradient_accumulation_steps"]) == (torch.cuda.is_available(), 4)
    config(arguments[name])
    assert arguments.keys() - {name} <= TrainingArguments.__dataclass_fields__.keys()


@pytest.mark.parametrize(
    ("column", "value", "is_media"),
    [
        ("images", [{"bytes": b"PNG", "path": None}], True),
        ("image", "https://example.org/picture?id=3", True),
        ("image", "A.TIFF", True),
        ("image_1", {"bytes": None, "path": "a.png"}, True),
        ("image_path", "a.png", True),
        ("audio", {"array": [0.1, 0.2]}, True),
        ("multi_modal_data", {"image": [b"PNG"]}, True),
        ("image", "a mirror image", False),
        ("image", None, False),
        ("image_1", {"bytes": None, "path": None}, False),
        ("image_size", [640, 480], False),
        ("video_url", "https://example.org/talk", False),
        ("imagery", b"PNG", False),
        ("img", b"PNG", True),
        ("scan", {"bytes": b"PNG", "path": None}, True),
        ("bark", [{"array": [0.1, 0.2], "sampling_rate": 16000}], True),
        ("photo", "a.jpg", True),
        ("figure", 2, False),
        ("image", False, False),
        ("scan", {"bytes": None, "path": None}, False),
        (
            "image",
            "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mNk+M9Qz0AEYBxVSF+FAAhKDveksOjm==",
            True,
        ),
    ],
)
def test_rows_with_more_than_text_are_refused(column, value, is_media):
    prompts = PromptSet([{"prompt": "Which?", "answer": "1", "key": "a", column: value}])
    with pytest.raises(ConfigError, match=column) if is_media else nullcontext():
        check_text(prompts)


@pytest.mark.parametrize("part", [{"type": "image_url", "image_url": {"url": "a"}}, {"image": "a.png"}])
def test_parts_of_messages_that_are_no_text_are_for_servers(part):
    content = [{"type": "text", "text": "Which?", "image": None}, part]
    prompt = [{"role": "user", "content": content}]
    prompts = PromptSet([{"prompt": prompt, "answer": "1", "key": "a"}])
    check_text(prompts, are_messages_text=False)
    with pytest.raises(ConfigError, match=r"more than text \(image(_url)?\), and ask a server"):
        check_text(prompts, "ask a server")
