"""A run's files as arrays."""

import numpy as np

from curro.runs.folder import RunFolder
from curro.runs.reader import read_history
from curro.runs.report.page import write_report


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


def test_the_latest_visits_are_known_and_metrics_that_come_later_are_nan_before(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    run.append_groups([group(1, 3), group(1, 3), group(1, 0)])
    run.append_groups([group(2, 0), group(2, 3), group(2, 3), group(2, 9)])
    run.append_metrics({"step": 1, "rollouts": 8})
    run.append_metrics({"step": 2, "rollouts": 16, "late": 1.5})
    history = read_history(run)
    groups = history.groups
    assert groups.latest.tolist() == [False, False, False, True, False, True, True]
    assert [groups.key(row) for row in (0, 6)] == ["k3", "k9"]
    assert np.isnan(history.metrics["late"][0])
    assert history.series("late", "rollouts")[0].tolist() == [16]


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
