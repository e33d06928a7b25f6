"""What a run of verl writes down, for `curro watch`."""

from __future__ import annotations

import numpy as np
import pytest
from setup_run import BATCH, PROMPTS, SIZE, run
from simulation import RIGHT, WIDTH, WRONG, Engine, Policy, number_of

from curro.core.groups import largest_reward
from curro.hosts.verl.owner import held_out_rewards
from curro.hosts.verl.replay import held_out_signal, scored_rewards
from curro.hosts.verl.settings import SCORED
from curro.runs.folder import RunFolder
from curro.runs.json_lines import read_rows
from curro.runs.reader import read_history


def test_groups_tokens_rollouts_predictions_and_held_out_scores(tmp_path):
    done = run(
        tmp_path / "out",
        "trainer.v1.trainer_mode=curro_colocate_async",
        "+curro.selection=posterior",
        "+curro.keep_rollouts=2",
        f"data.max_response_length={WIDTH}",
        "trainer.val_before_train=True",
        "trainer.test_freq=2",
        fail={5: 1},
    )
    folder = RunFolder.open(tmp_path / "out")
    history = read_history(folder)
    groups = history.groups
    assert len(groups.prompt) == done.metrics["observed"] >= 4 * BATCH
    sizes = np.where(groups.prompt == 5, SIZE - 1, SIZE)
    assert groups.rollouts.tolist() == sizes.tolist()
    assert groups.tokens.tolist() == (WIDTH * sizes).tolist()
    assert groups.cut.tolist() == sizes.tolist()
    assert set(groups.sources) == {"sums"}
    assert np.isfinite(groups.predicted["predicted_rate" if "predicted_rate" in groups.predicted
                                        else "predicted_variance"]).any()  # fmt: skip

    kept = list(read_rows(folder.rollouts_file))
    assert [row["prompt"] for row in kept] == groups.prompt.tolist()
    for row in kept:
        assert number_of(row["text"]) == row["prompt"]
        assert len(row["rollouts"]) == 2
        for one in row["rollouts"]:
            assert one["text"] == chr(RIGHT if one["reward"] else WRONG) + chr(5)
            assert one["tokens"] == WIDTH

    assert history.evaluations == ["eval/pass@1"]
    steps, rates = history.series("eval/pass@1")
    assert steps.tolist() == [0, 2, 4]
    logged = [row["val-core/sums/acc/mean@1"] for row in done.history if "val-core/sums/acc/mean@1" in row]
    assert set(logged) <= set(rates.tolist())
    assert history.series("reward")[0].tolist() == [1, 2, 3, 4]


CURROS = (
    "reward.custom_reward_function.path=pkg://curro.hosts.verl.reward",
    "+reward.custom_reward_function.reward_kwargs.reward='math+0.2*format'",
)


@pytest.mark.parametrize("options", [["+curro.signal=acc"], CURROS], ids=["named", "of curro's reward"])
def test_held_out_samples_are_right_by_the_signal(tmp_path, monkeypatch, options):
    """Every reward lacks a quarter, so that by the whole reward no sample is right and no group is solved."""
    monkeypatch.setattr(Engine, "penalty", 0.25)
    done = run(tmp_path / "out", *options, "trainer.val_before_train=True", steps=1)
    solved = [
        np.random.default_rng([number, 0]).random() < Policy(PROMPTS).pass_rate(number)
        for number in done.engine.validated[:5]
    ]
    assert any(solved)
    history = read_history(RunFolder.open(tmp_path / "out"))
    steps, rates = history.series("eval/pass@1")
    assert (steps[0], rates[0]) == (0, pytest.approx(np.mean(solved)))
    assert history.series("eval/reward")[1][0] == pytest.approx(np.mean(solved) - 0.25)
    assert done.state["signal_parts"] == (["acc"] if len(options) == 1 else ["math"])


def test_the_signal_of_validation_sessions_by_hand():
    """The third was not scored and the fourth has no part; `b` has a scorer of its own, which fails once."""
    infos = {
        "reward": [0.5, -0.5, 0.0, 0.25, 1.0, 0.0],
        "math": [True, 0.0, 1.0, None, None, None],
        "code": [None, 1.0, 1.0, 1e20, None, None],
        SCORED: [1.0, 1.0, 0.0, 1.0, None, 0.0],
        "answer": ["x", "y", "z", "", None, None],
    }
    largest = largest_reward((0.0, 1.0))
    signal = held_out_signal(["a", "a", "a", "a", "b", "b"], infos, ("math", "code"), largest)
    np.testing.assert_array_equal(signal, [1.0, 1.0, np.nan, np.nan, 1.0, np.nan])
    np.testing.assert_array_equal(scored_rewards(infos), [0.5, -0.5, np.nan, 0.25, 1.0, np.nan])
    assert scored_rewards({"reward": [1.0]}) == [1.0]


def test_a_resumed_run_writes_the_steps_after_its_checkpoint_once(tmp_path):
    run(tmp_path / "out", "trainer.save_freq=1", steps=3)
    (tmp_path / "out" / "latest_checkpointed_iteration.txt").write_text("2")
    done = run(tmp_path / "out", steps=4)
    folder = RunFolder.open(tmp_path / "out")
    assert [row["step"] for row in folder.metrics()] == [1, 2, 3, 4]
    assert [row["step"] for row in folder.groups()] == [1] * 4 + [2] * 4 + [3] * 4 + [4] * 4
    assert [row["prompt"] for row in folder.groups()][8:] == [number for _, number in done.asked]
    assert done.state["step"] == 3  # the port's steps are those that have finished


def test_held_out_sessions_that_failed_have_no_reward():
    expected = {("a", "x"): 2, ("a", "y"): 2, ("b", "z"): 3}
    found = held_out_rewards(["x", "z", "x", "z", "z"], [1.0, 0.0, 0.5, 1.0, 1.0], expected)
    np.testing.assert_array_equal(found, [[1.0, 0.5], [np.nan, np.nan], [0.0, 1.0]])
    np.testing.assert_array_equal(held_out_rewards(["x", "y"], [1.0, 0.0], None), [[1.0], [0.0]])
