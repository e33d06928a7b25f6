"""Which runs a benchmark makes, and in which order."""

from dataclasses import replace

import pytest
from benchmarks.bench.plan import METHODS, plan
from benchmarks.bench.tasks import TASKS

from curro.core import registry
from curro.core.errors import ConfigError
from curro.data import load_prompts


def test_all_methods_are_curricula():
    for method in METHODS.values():
        for kind, spec in registry.parse_curriculum(method.curriculum).items():
            registry.build(kind, spec)


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.name)
def test_all_tasks_have_their_prompts(task):
    prompts = load_prompts(task.data, limit=task.prompts)
    assert task.prompts_per_step * 8 <= len(prompts) <= task.prompts
    assert task.name.endswith(("/hard", "/easy"))


def test_seed_by_seed_without_the_floor():
    cells = plan(["spell_backward/hard"], ["uniform", "frontier"], seeds=2)
    assert [(cell.seed, cell.rate, cell.method.name) for cell in cells] == [
        (0, 1, "uniform"), (0, 1, "frontier"), (1, 1, "uniform"), (1, 1, "frontier"),
    ]  # fmt: skip
    assert len({cell.identity for cell in cells}) == 4
    assert "inverted" not in {cell.method.name for cell in plan(None, None, seeds=1)}


def test_flags_of_a_run():
    baseline, cell = plan(["spell_backward/hard"], ["PSPO"], seeds=1, rollouts=640)
    assert baseline.method.name == "uniform"
    flags = replace(cell, rate=2).flags(evaluations=5, eval_prompts=30)
    assert "--curriculum=pspo advantage=smoothed" in flags
    assert "--rollouts=640" in flags
    assert "--eval-every=4" in flags  # 20 steps of 32 rollouts
    assert f"--learning-rate={2 * cell.task.learning_rate:g}" in flags
    larger = replace(cell, prompts_per_step=16).flags(evaluations=5, eval_prompts=30)
    assert {"--prompts-per-step=16", "--eval-every=1"} <= set(larger)  # 5 steps of 128


def test_metis_runs_where_the_model_judges():
    with_metis = {cell.task.name for cell in plan(None, ["METIS"], seeds=1)}
    assert with_metis == {name for name, task in TASKS.items() if task.judge is not None}
    silent = next(name for name, task in TASKS.items() if task.judge is None)
    with pytest.raises(ConfigError, match="nothing to run"):
        plan([silent], ["METIS"], seeds=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["frontire"]}, r"no method 'frontire' \(did you mean 'frontier'\?\)"),
        ({"tasks": ["chess/hard"]}, "no task 'chess/hard'"),
        ({"seeds": 0}, "seeds is a number from 1"),
        ({"rollouts": 31}, "31 rollouts do not pay for a step of 32"),
    ],
)
def test_mistakes(options, message):
    with pytest.raises(ConfigError, match=message):
        plan(**({"tasks": None, "methods": None, "seeds": 1} | options))
