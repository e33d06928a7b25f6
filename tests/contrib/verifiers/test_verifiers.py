"""A taskset of verifiers as data: a package made here, which downloads nothing, scored by its own rewards."""

from __future__ import annotations

import json
import sys
import textwrap

import pytest
from typer.testing import CliRunner

import curro
from curro.cli import make_app
from curro.data import load_prompts
from curro.reward import resolve_reward

TRAIN = make_app(["train"])

TASKSET = """
import verifiers.v1 as vf


class WordData(vf.TaskData):
    word: str


class WordTask(vf.Task[WordData, vf.State, vf.TaskConfig]):
    @vf.reward(weight=0.75)
    async def same_length(self, trace) -> float:
        if trace.last_reply == "fail":
            raise ValueError("no verdict")
        return float(len(trace.last_reply) == len(self.data.word))

    @vf.reward(weight=0.25)
    async def same_word(self, trace) -> float:
        return float(trace.last_reply == self.data.word)

    {extra}


class Graded(vf.TaskConfig):
    {config}


class WordsConfig(vf.TasksetConfig):
    task: Graded = Graded()


class Words(vf.Taskset[WordTask, WordsConfig]):
    def load(self):
        for i in range(30):
            word = "ab" * (i + 1)
            data = WordData(prompt=f"Repeat: {{word}}", system_prompt={system}, word=word)
            yield WordTask(data, self.config.task)


__all__ = ["Words"]
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Write a taskset's module; returns the name of its data."""
    monkeypatch.syspath_prepend(tmp_path)

    def package(name: str, extra: str = "", system: str | None = None, config: str = "pass") -> str:
        indented = textwrap.indent(textwrap.dedent(extra), "    ").strip()
        (tmp_path / f"{name}.py").write_text(
            TASKSET.format(extra=indented, system=repr(system), config=config)
        )
        return f"verifiers:{name.replace('_', '-')}"

    yield package
    for name in [name for name in sys.modules if name.startswith("some_words")]:
        del sys.modules[name]


def test_tasks_are_rows_and_splits_do_not_overlap(package):
    source = package("some_words", system="Be brief.")
    train, test = load_prompts(source), load_prompts(source, split="test")
    assert len(train) + len(test) == 30
    assert len(test) > 0
    assert not set(train.keys) & set(test.keys)
    first = train[0]
    assert [message["role"] for message in first["prompt"]] == ["system", "user"]
    assert first["prompt"][1]["content"] == "Repeat: " + json.loads(first["task"])["word"]
    assert len(load_prompts(source, limit=3)) == 3


def test_the_reward_is_the_weighted_sum_of_the_tasks_own(package):
    prompts = load_prompts(package("some_words"))
    reward = resolve_reward("auto", prompts)
    row = prompts[0]
    word = json.loads(row["task"])["word"]
    answers = [word, "x" * len(word), "", "fail"]
    assert reward.score(answers, [row] * 4) == [1.0, 0.75, 0.0, None]


@pytest.mark.parametrize("other", [{}, {"task": "{}"}])
def test_rows_that_are_no_tasks_are_named(package, other):
    reward = resolve_reward(package("some_words"))
    with pytest.raises(curro.RewardError, match="prompt 'p' has no task of verifiers:some-words"):
        reward.score(["x"], [{"prompt": "?", "answer": "x", "key": "p", **other}])


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("@vf.reward\nasync def ran(self, trace, runtime) -> float:\n    return 1.0", "ran need a machine"),
        ("async def setup(self, trace, runtime):\n    pass", "prepares a machine"),
        ("NEEDS_CONTAINER = True", "needs a container"),
    ],
)
def test_tasks_that_need_more_than_an_answer_are_refused(package, extra, words):
    with pytest.raises(curro.CurroError, match=words):
        load_prompts(package("some_words", extra))


@pytest.mark.parametrize(
    ("config", "judge"),
    [
        ("judges: list = [vf.ReferenceJudgeConfig()]", "reference"),
        ("grader: vf.JudgeConfig = vf.JudgeConfig()", "grader"),
    ],
    ids=["plugged", "asked by a reward"],
)
def test_tasks_that_a_judge_scores_are_refused_before_any_rollout(package, config, judge):
    with pytest.raises(curro.CurroError, match=rf"is scored by a model on a server \({judge}\), and curro"):
        load_prompts(package("some_words", config=config))


def test_a_taskset_that_is_not_there_is_named():
    with pytest.raises(curro.CurroError, match=r"verifiers:no-such-words: .*not found"):
        load_prompts("verifiers:no-such-words")


def test_curro_train_trains_on_a_taskset_and_asks_before_it_imports_a_strangers(
    package, tmp_path, monkeypatch
):
    source = package("some_words")
    arguments = ["train", "--data", source, "--model", "lab:chains", "--prompts-per-step", "4"]
    arguments += [
        "--rollouts",
        "64",
        "--eval-every",
        "0",
        "--curriculum",
        "frontier",
        "--out",
        str(tmp_path / "run"),
    ]
    result = CliRunner().invoke(TRAIN, arguments)
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["rollouts"] == 64
    groups = [json.loads(line) for line in (tmp_path / "run" / "groups.jsonl").read_text().splitlines()]
    assert {group["key"] for group in groups} <= set(load_prompts(source).keys)
    refused = CliRunner().invoke(TRAIN, ["train", "--resume", str(tmp_path / "run")])
    assert refused.exit_code != 0
    assert "some_words" in str(refused.exception) + refused.output
    assert "--trust" in str(refused.exception) + refused.output
