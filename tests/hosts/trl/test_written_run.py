"""What a TRL script's trainer writes down, for `curro watch`."""

from __future__ import annotations

import io

import pytest
from datasets import Dataset
from rich.console import Console
from tests.hosts.trl.setup import PROMPTS, Diary, every_other, trainer

from curro.runs.folder import RunFolder
from curro.runs.json_lines import read_rows
from curro.runs.reader import read_history
from curro.runs.report.inspect import inspect_run
from curro.runs.writer import KeepRollouts


@pytest.mark.parametrize("admission", [None, "band:0.1,0.9"])
def test_groups_steps_and_rollouts(tmp_path, admission):
    diary = Diary()
    rows = {"prompt": [f"{i} =" for i in range(PROMPTS)], "source": ["a/b"] * PROMPTS}
    options = {"admission": admission, "train_dataset": Dataset.from_dict(rows), "keep": KeepRollouts(2)}
    host = trainer(tmp_path, on_groups=diary, reward_funcs=every_other, **options)
    host.train()
    run = RunFolder.open(tmp_path)
    groups = run.groups()
    assert [row["prompt"] for row in groups] == [prompt for draw in diary.draws() for prompt in draw]
    assert [row["mean"] for row in groups] == [0.5] * 12
    assert {row["source"] for row in groups} == {"a/b"}
    assert all(4 <= row["tokens"] <= 16 and 0 <= row["cut"] <= 4 for row in groups)
    assert [(row["step"], row["rollouts"]) for row in run.metrics()] == [(1, 16), (2, 32), (3, 48)]
    for row in run.metrics():  # 16 rollouts a step, of which TRL counts those without an end
        cut = sum(group["cut"] for group in groups if group["step"] == row["step"])
        assert cut / 16 == row["completions/clipped_ratio"]
    assert ("fill/admitted" in run.metrics()[0]) == (admission is not None)
    kept = list(read_rows(run.rollouts_file))
    assert [row["text"] for row in kept] == [f"{row['prompt']} =" for row in groups]
    assert [one["reward"] for one in kept[0]["rollouts"]] == [0.0, 1.0]
    cut = sum(one.is_cut for record in diary.records for group in record.completions for one in group)
    assert read_history(run).groups.cut.sum() == cut
    assert host.state.log_history[0]["curriculum/a-b/pass_rate"] == 0.5


def test_the_prompt_table_is_saved_with_checkpoints_and_inspected(tmp_path):
    host = trainer(tmp_path, save_strategy="steps", save_steps=2)
    host.train()
    table = RunFolder.open(tmp_path / "checkpoint-2").table()
    assert table.num_rows == PROMPTS
    assert any(text.endswith("=") for text in table["text"].to_pylist())
    console = Console(file=io.StringIO(), width=120)
    inspect_run(tmp_path, 3, console)
    assert "Most informative" in console.file.getvalue()


@pytest.mark.parametrize("names", [[""], ["easy/", "hard/"]])
def test_held_out_scores_of_evaluations(tmp_path, names):
    rows = Dataset.from_dict({"prompt": ["1 =", "2 ="]})
    held_out = rows if names == [""] else {name[:-1]: rows for name in names}
    rewards = {"1 =": [1.0, 0.0, 0.0, 0.0], "2 =": [0.0] * 4}

    def reward(prompts, **_):
        found = {prompt: iter(values) for prompt, values in rewards.items()}
        return [next(found.get(prompt, iter([0.5]))) for prompt in prompts]

    options = {"eval_strategy": "steps", "eval_steps": 2, "max_steps": 4, "per_device_eval_batch_size": 8}
    host = trainer(tmp_path, reward_funcs=reward, eval_dataset=held_out, eval_on_start=True, **options)
    host.evaluate()
    assert not (tmp_path / "curro").exists()
    host.train()
    host.evaluate()
    history = read_history(RunFolder.open(tmp_path))
    assert set(history.evaluations) == {f"eval/{name}pass@{k}" for name in names for k in (1, 4)}
    for name in names:
        steps, rates = history.series(f"eval/{name}pass@1")
        assert steps.tolist() == [0, 2, 4, 4]
        assert rates.tolist() == [0.125] * 4
        assert history.series(f"eval/{name}pass@4")[1].tolist() == [0.5] * 4
        assert history.series(f"eval/{name}reward")[1].tolist() == [0.125] * 4
    assert history.series("reward")[0].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("signal", [None, "reward"])
def test_prompts_that_several_processes_evaluate_twice_count_once(tmp_path, signal):
    """One of three prompts is solved; of two processes the second is given it again, to have two as well."""
    rows = Dataset.from_dict({"prompt": ["1 =", "2 =", "3 ="]})

    def reward(prompts, **_):
        return [float(prompt == "1 =") for prompt in prompts]

    def other(prompts, **_):
        return [0.0] * len(prompts)

    host = trainer(
        tmp_path, reward_funcs=[reward, other], signal=signal, eval_dataset=rows, eval_strategy="steps",
        per_device_eval_batch_size=4, eval_steps=1, max_steps=1,
    )  # fmt: skip
    generate = host._generate_and_score_completions

    def twice(inputs):
        output = generate(inputs)
        if len(host._held_out) == len(rows):
            host._held_out.append(next(rewards for rewards in host._held_out if rewards.any()))
        return output

    host._generate_and_score_completions = twice
    host.train()
    history = read_history(RunFolder.open(tmp_path))
    assert history.series("eval/pass@1")[1].tolist() == [pytest.approx(1 / 3)]
    assert history.series("eval/reward")[1].tolist() == [pytest.approx(1 / 3)]


def values_of(*values):
    """A reward of eight samples, of which these are the first."""

    def reward(prompts, **_):
        return [*values, *[values[-1]] * len(prompts)][: len(prompts)]

    return reward


@pytest.mark.parametrize(
    ("parts", "signal", "expected"),
    [
        # two of eight samples are solved, and none has a whole reward of 1
        ([values_of(1.0, 0.0, 0.0, 0.0, 1.0, 0.0), values_of(-0.01)], ["part0"], (0.25, 1.0, 0.24)),
        # the signal is 0 where a sample is right, one of eight; a second part is missing everywhere
        ([values_of(0.0, None, -1.0, None), values_of(None), values_of(1.0)], ["part0", "part1"],
         (0.125, 0.5, None)),
    ],
)  # fmt: skip
def test_held_out_samples_are_right_by_the_signal(tmp_path, parts, signal, expected):
    """Samples without the signal are wrong."""
    for number, part in enumerate(parts):
        part.__name__ = f"part{number}"
    options = {"eval_strategy": "steps", "eval_steps": 1, "per_device_eval_batch_size": 8, "max_steps": 1}
    rows = Dataset.from_dict({"prompt": ["1 =", "2 ="]})
    reward_range = (-1, 0) if len(signal) > 1 else None
    trainer(
        tmp_path, reward_funcs=parts, signal=signal, reward_range=reward_range, eval_dataset=rows, **options
    ).train()
    history = read_history(RunFolder.open(tmp_path))
    for name, value in zip(("pass@1", "pass@4", "reward"), expected, strict=True):
        if value is not None:
            assert history.series(f"eval/{name}")[1] == pytest.approx([value])


def test_evaluations_after_the_checkpoint_are_forgotten_in_the_middle_of_a_generation(tmp_path):
    """Two steps train on the rollouts of the first, so the resumed run evaluates before it draws."""
    rows = Dataset.from_dict({"prompt": ["1 =", "2 ="]})
    options = {"save_strategy": "steps", "save_steps": 1, "eval_strategy": "steps", "eval_steps": 1}
    options |= {"eval_dataset": rows, "per_device_eval_batch_size": 8, "num_iterations": 2, "max_steps": 2}
    trainer(tmp_path, **options).train()
    lines = [("eval/pass@1" in line, line["step"]) for line in RunFolder.open(tmp_path).metrics()]
    assert lines == [(False, 1), (True, 1), (True, 2)]
    trainer(tmp_path, **options).train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
    again = [("eval/pass@1" in line, line["step"]) for line in RunFolder.open(tmp_path).metrics()]
    assert again == lines


def test_none_is_written_where_none_is_wanted(tmp_path):
    trainer(tmp_path, write_run=False).train()
    assert not (tmp_path / "curro").exists()
