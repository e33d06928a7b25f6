"""From run folders to rows and tables."""

import numpy as np
import pyarrow.parquet as pq
import pytest
from benchmarks.bench.plan import plan
from benchmarks.bench.results import Results, row_of
from benchmarks.bench.statistics import task_scores, totals
from benchmarks.bench.tables import sheets

from curro.core.errors import RunError
from curro.runs.folder import RunFolder

TASK = "spell_backward/hard"
EVALUATED = {"eval/pass@1": 0.5, "eval/pass@4": 0.6, "eval/reward": 0.5}


def made(path, method, accuracies, *, seed=0, judged=0):
    """A run of 400 rollouts with evaluations every 100, two groups a step."""
    cells = plan([TASK], [method], seeds=seed + 1, rollouts=400)
    cell = next(cell for cell in cells if (cell.seed, cell.method.name) == (seed, method))
    folder = RunFolder.create(path, {"curriculum": {"reward_range": [0, 1]}})
    for step, accuracy in enumerate(accuracies):
        folder.append_metrics(
            {
                "step": step, "rollouts": 100 * step, "seconds": 9.0 * step, "cpu_seconds": 2.0 * step,
                "judge/judgments": judged * step, "eval/pass@1": accuracy, "eval/pass@4": 2 * accuracy,
                "eval/reward": accuracy,
            }
        )  # fmt: skip
        if step:
            folder.append_groups(
                {
                    "step": step, "prompt": prompt, "key": f"{prompt}", "reason": 0, "mean": mean,
                    "variance": mean * (1 - mean), "admitted": True,
                }
                for prompt, mean in ((0, 0.0), (1, 0.5))
            )  # fmt: skip
    return cell, row_of(cell, "flags", folder, np.array([0.0, 0.25]))


def test_a_row_by_hand(tmp_path):
    _, row = made(tmp_path / "run", "uniform", [0.1, 0.2, 0.3, 0.4, 0.5])
    assert row["eval_rollouts"].tolist() == [0, 100, 200, 300, 400]
    assert row["eval_seconds"].tolist() == [0, 2, 4, 6, 8]
    assert row["updates"] == 4
    # windows of 40 rollouts: steps at 100, 200, 300, 400 end in the third, fifth, eighth and tenth
    assert [i for i, value in enumerate(row["warm_rate"]) if value is not None] == [2, 4, 7, 9]
    assert row["warm_rate"][2] == pytest.approx(0.125)
    assert row["train_reward"][2] == pytest.approx(0.25)
    assert row["signal"][2] == pytest.approx(0.5)
    assert row["selected_warm"][2].tolist() == [1, 0, 1, 0, 0, 0]
    assert row["selected_now"][2].tolist() == [1, 0, 0, 1, 0, 0]


def test_judgments_count_as_rollouts(tmp_path):
    _, row = made(tmp_path / "run", "uniform", [0.1, 0.2, 0.3, 0.4, 0.5], judged=25)
    assert row["eval_rollouts"].tolist() == [0, 125, 250, 375, 500]
    assert row["updates"] == 3
    (score,) = task_scores({"uniform": [row]})
    assert score.pass_1.value == pytest.approx(0.42)  # at 400: a fifth of the way from .4 to .5


def test_scores_by_hand(tmp_path):
    _, slow = made(tmp_path / "a", "uniform", [0.1, 0.2, 0.3, 0.4, 0.5])
    _, fast = made(tmp_path / "b", "frontier", [0.1, 0.4, 0.6, 0.6, 0.7])
    _, best = made(tmp_path / "c", "oracle", [0.2, 0.5, 0.7, 0.7, 0.8])
    uniform, frontier, oracle = task_scores({"uniform": [slow], "frontier": [fast], "oracle": [best]})
    assert (uniform.rollout_share.value, oracle.regret) == (1, 0)
    assert frontier.rollout_share.value == pytest.approx(0.375)
    assert frontier.regret == pytest.approx(0.1)
    assert (frontier.updates, frontier.at_updates, frontier.seconds) == (4, 0.7, 8)
    (_, total, _) = totals({TASK: {"uniform": [slow], "frontier": [fast], "oracle": [best]}})
    assert (total.better.value, total.reached, total.tasks) == (1, 1, 1)
    assert total.rollout_share.value == pytest.approx(0.375)


def test_kept_as_parquet_and_found_again(tmp_path):
    results = Results.open(tmp_path / "results.parquet")
    for seed in range(2):
        for method, values in {"uniform": [0.1, 0.2, 0.3], "frontier": [0.1, 0.3, 0.4]}.items():
            cell, row = made(tmp_path / f"{method}{seed}", method, values, seed=seed)
            assert not results.has(cell, "flags")
            results.add(row)
    again = Results.open(tmp_path / "results.parquet")
    assert len(again.rows) == pq.read_table(tmp_path / "results.parquet").num_rows == 4
    assert again.has(cell, "flags")
    with pytest.raises(RunError, match="with other settings"):
        again.has(cell, "other")
    assert [run["seed"] for run in again.of()[TASK]["uniform"]] == [0, 1]
    titles = [sheet.title for sheet in sheets(again)]
    assert titles == [f"All hard pools ({TASK}), 2 seeds", TASK]


def test_calibration_of_a_run_in_tenths(tmp_path):
    folder = RunFolder.create(tmp_path / "run", {"curriculum": {"reward_range": [0, 1]}})
    folder.append_metrics({"step": 1, "rollouts": 400, "seconds": 1.0, "cpu_seconds": 1.0} | EVALUATED)
    folder.append_groups(
        {
            "step": 1, "prompt": i, "key": f"{i}", "reason": 0, "mean": 0.5, "variance": 0.25 * (i >= 50),
            "admitted": True, "predicted_variance": i / 400, "rollouts": 8,
        }
        for i in range(100)
    )  # fmt: skip
    (cell,) = plan([TASK], ["uniform"], seeds=1, rollouts=400)
    row = row_of(cell, "flags", folder, np.zeros(100))
    assert np.allclose(row["predicted_variance"], [(10 * i + 4.5) / 400 for i in range(10)])
    assert np.allclose(row["realised_variance"], [0] * 5 + [0.25 * 8 / 7] * 5)
    (asked,) = (cell for cell in plan(["chains/hard"], ["METIS"], seeds=1, rollouts=400) if cell.method.asks)
    row = row_of(asked, "flags", folder, np.zeros(100))
    assert np.allclose(row["realised_variance"], [0] * 5 + [0.25] * 5)
