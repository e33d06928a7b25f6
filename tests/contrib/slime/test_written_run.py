"""What a run of slime writes down, for `curro watch`."""

import numpy as np
import pytest
from stand_in import Status, arguments, finish, generate

from curro.runs.folder import RunFolder
from curro.runs.json_lines import read_rows
from curro.runs.reader import read_history

HOSTILE = "</script>\x1b[31m\u202e"


def settings(folder, **more):
    return {
        "selection": "posterior",
        "admission": "band:0.2,0.6",
        "seed": 7,
        "run_folder": str(folder),
        "keep_rollouts": 2,
    } | more


@pytest.fixture
def written(monkeypatch):
    """Rollouts have texts, of 5 tokens; the last of each group is cut."""

    def finished(group, rewards):
        finish(group, rewards)
        for sample in group:
            sample.response, sample.response_length = HOSTILE, 5
        group[-1].status = Status.TRUNCATED
        return group

    monkeypatch.setattr("stand_in.finish", finished)


@pytest.mark.parametrize("fan_out", [False, True])
def test_groups_rollouts_and_steps(load, tmp_path, written, fan_out):
    args = arguments(tmp_path / "save", curro=settings(tmp_path / "run"))
    source = load(args.data_source_path)(args)
    asked = [generate(args, source, load, fan_out=fan_out)[1] for _ in range(3)]
    folder = RunFolder.open(tmp_path / "run")
    history = read_history(folder)
    groups = history.groups
    assert groups.prompt.tolist() == [prompt for one in asked for prompt in one]
    assert groups.step.tolist() == [step for step, one in enumerate(asked, 1) for _ in one]
    assert set(groups.rollouts) == {4}
    assert set(groups.tokens) == {40 if fan_out else 20}
    assert set(groups.cut) == {1}
    assert len(groups.predicted) == 1
    rewards = [row["mean"] for row in folder.groups()]
    np.testing.assert_allclose(groups.rate, rewards)
    assert history.series("step")[0].tolist() == [1, 2, 3]
    assert history.last("rollouts") == 4 * len(groups.prompt)
    assert history.last("fill/given_out") == len(asked[-1])
    kept = list(read_rows(folder.rollouts_file))
    assert [row["text"] for row in kept] == [f"p{prompt}" for prompt in groups.prompt]
    assert {one["text"] for row in kept for one in row["rollouts"]} == {HOSTILE * (2 if fan_out else 1)}


def test_a_resumed_run_goes_on_with_its_lines(load, tmp_path, written):
    args = arguments(tmp_path / "save", curro=settings(tmp_path / "run"))
    source = load(args.data_source_path)(args)
    for rollout in range(3):
        generate(args, source, load)
        if rollout == 1:
            source.save(1)
    again = load(args.data_source_path)(args)
    again.load(1)
    generate(args, again, load)
    steps = [row["step"] for row in RunFolder.open(tmp_path / "run").metrics()]
    assert steps == [1, 2, 3]
    assert not (tmp_path / "run" / "curro-1").exists()
