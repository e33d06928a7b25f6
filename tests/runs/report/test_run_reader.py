"""A run that is read while it grows is the run that is read at its end."""

from dataclasses import fields

import numpy as np
import pytest

from curro.runs.folder import RunFolder
from curro.runs.reader import GroupColumns, RunReader, read_history
from curro.runs.report import write_report


def group(step, prompt, mean=0.5, **more):
    variance = mean * (1 - mean) if mean == mean else 0.0
    return {
        "step": step,
        "prompt": prompt,
        "key": f"k{prompt}",
        "reason": 0,
        "mean": mean,
        "variance": variance,
    } | more


def same(a: GroupColumns, b: GroupColumns):
    for one in fields(GroupColumns):
        x, y = getattr(a, one.name), getattr(b, one.name)
        if isinstance(x, np.ndarray):
            np.testing.assert_array_equal(x, y, err_msg=one.name)
        elif one.name == "predicted":
            assert x.keys() == y.keys()
        else:
            assert x == y


@pytest.mark.parametrize("block", [200, 3000])
def test_in_parts_as_in_one(tmp_path, block):
    rng = np.random.default_rng(0)
    run = RunFolder.create(tmp_path / "run", {})
    reader = RunReader(run)
    assert not reader.advance()
    assert len(reader.history().groups.prompt) == 0
    for step in range(1, 40):
        run.append_groups(
            group(step, int(p), rng.integers(5) / 4, source="ab"[p % 2], predicted_rate=0.5)
            for p in rng.integers(12, size=6)
        )
        run.append_metrics({"step": step, "rollouts": step} | ({"late": 1.5} if step > 20 else {}))
        if step % 7 == 0:
            reader.advance(block)
    while reader.advance(block):
        pass
    same(reader.history().groups, read_history(run).groups)
    assert np.isnan(reader.history().metrics["late"][:20]).all()
    assert reader.history().metrics["late"][20:].tolist() == [1.5] * 19
    assert reader.history().groups.sources == ["a", "b"] or reader.history().groups.sources == ["b", "a"]


def test_a_run_that_is_resumed_is_read_again(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    reader = RunReader(run)
    for step in range(1, 6):
        run.append_groups([group(step, step % 2)])
        run.append_metrics({"step": step, "rollouts": step})
    reader.advance()
    before, version = reader.history(), reader.version
    run.truncate_after(2)
    run.append_groups([group(3, 7)])
    reader.advance()
    assert reader.history().groups.prompt.tolist() == [1, 0, 7]
    assert reader.history().metrics["step"].tolist() == [1, 2]
    assert before.groups.prompt.tolist() == [1, 0, 1, 0, 1]
    assert before.groups.key(0) == "k1"
    assert before.groups.key(4) == "prompt 1"
    assert reader.version > version


def test_visits_are_linked_over_blocks(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    reader = RunReader(run)
    run.append_groups([group(1, 3), group(1, 3), group(1, 0)])
    reader.advance()
    run.append_groups([group(2, 0), group(2, 3), group(2, 3), group(2, 9)])
    reader.advance()
    groups = reader.history().groups
    assert groups.earlier.tolist() == [-1, 0, -1, 2, 1, 4, -1]
    assert groups.latest.tolist() == [False, False, False, True, False, True, True]
    assert [groups.key(row) for row in (0, 6)] == ["k3", "k9"]


def test_a_trainer_s_own_folder_leads_to_the_run_inside(tmp_path):
    RunFolder.create(tmp_path / "output" / "curro", {"a": 1})
    assert RunFolder.open(tmp_path / "output").config == {"a": 1}


def test_sources_whose_groups_all_had_no_reward_are_none(tmp_path):
    """As in a first step whose answers could not be scored: the page of such a run ended in a traceback."""
    run = RunFolder.create(tmp_path / "run", {})
    run.append_groups(group(1, prompt, float("nan"), source="ab"[prompt]) for prompt in range(2))
    run.append_metrics({"step": 1, "rollouts": 8})
    assert read_history(run).groups.sources == []
    write_report(run)
    run.append_groups([group(2, 0, source="b")])
    assert read_history(run).groups.sources == ["b"]
