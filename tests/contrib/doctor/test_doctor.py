"""The doctor on files that TRL 1.16, wandb, trackio and verl wrote, and on logs of known trouble."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curro.contrib.doctor.logs import examine, next_steps, read_log, replayed
from curro.core.errors import ConfigError

LOGS = Path(__file__).parent / "logs"
"""Three steps of 8 groups of 8 rollouts; made by `benchmarks.hosts.doctor_examples`."""


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def words(path):
    return " ".join(finding.words for finding in examine(read_log(path)))


def advice(path):
    return " ".join(finding.advice for finding in examine(read_log(path)))


@pytest.mark.parametrize("name", ["trl", "trl/completions", "verl"])
def test_rollouts_of_trl_and_verl_are_the_same_groups(name):
    log = read_log(LOGS / name)
    assert (len(log.prompt), len(log.reward), np.bincount(log.group).tolist()) == (24, 192, [8] * 24)
    expected = read_log(LOGS / "trl")
    assert np.array_equal(log.has_signal(log.judged), expected.has_signal(expected.judged))
    assert log.prompts[log.prompt[0]].startswith("Spell this word backward")


def test_what_trl_logged_by_hand():
    """The parts are correct, 0 or 1, and short, which never tells anything but the length."""
    table = pq.read_table(LOGS / "trl" / "completions" / "completions_00001.parquet")
    by_group = np.array(table["correct"].to_pylist()).reshape(8, 8)
    log = read_log(LOGS / "trl")
    assert log.outcome == "correct"
    assert set(log.parts) == {"correct", "short"}
    assert log.has_signal(log.judged)[:8].tolist() == (np.ptp(by_group, axis=1) > 0).tolist()
    assert "judged by the reward correct" in words(LOGS / "trl")


def test_a_batch_that_is_logged_again_counts_once(tmp_path):
    first = LOGS / "trl" / "completions" / "completions_00001.parquet"
    again = pq.read_table(first)
    (tmp_path / first.name).write_bytes(first.read_bytes())
    step = again.column_names.index("step")
    pq.write_table(
        again.set_column(step, "step", pa.array([2] * again.num_rows)), tmp_path / "completions_00002.parquet"
    )
    assert len(read_log(tmp_path).prompt) == 8


def test_a_conversation_counts_by_its_last_message(tmp_path):
    turns = [[{"role": "system", "content": "s"}, {"role": "user", "content": c}] for c in "aabb"]
    turns = [turns[0], None, [], *turns[1:]]
    table = pa.table({"step": [1] * 6, "prompt": turns, "right": [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]})
    pq.write_table(table, tmp_path / "log.parquet")
    log = read_log(tmp_path / "log.parquet")
    assert log.prompts == ["a", "", "b"]
    assert log.has_signal(log.reward).tolist() == [True, False, False]


@pytest.mark.parametrize("name", ["trl/trainer_state.json", "trackio.json"])
def test_metrics_tell_the_share_of_flat_groups(name):
    flat = json.loads((LOGS / "trl" / "trainer_state.json").read_text())["log_history"]
    shares = [row["frac_reward_zero_std"] for row in flat]
    shown = words(LOGS / name)
    assert "of the groups have no signal" in shown
    assert "all right from all wrong" in shown
    if name.startswith("trl"):
        assert shown.startswith(f"{np.mean(shares):.1%}")


def test_a_csv_of_wandb(tmp_path):
    (tmp_path / "export.csv").write_text(
        '"Step","run - train/reward","run - train/reward__MIN","run - train/frac_reward_zero_std",'
        '"run - eval/accuracy"\n' + "".join(f"{i},{i / 10},0,0.5,{1 - i / 10}\n" for i in range(10))
    )
    assert words(tmp_path / "export.csv").startswith("50.0% of the groups have no signal")
    assert "held-out success falls" in advice(tmp_path / "export.csv")


def test_a_table_of_wandb():
    log = read_log(LOGS / "wandb.table.json")
    assert (len(log.prompt), len(log.reward)) == (8, 64)


def test_shares_costs_and_returns_by_hand(tmp_path):
    rewards = {"a": [[0, 0], [0, 0]], "b": [[0, 1], [1, 0]], "c": [[1, 1], [0, 1]], "d": [[0, 0]]}
    rows = [
        {"prompt_id": name, "rewards": group, "step": step, "tokens": 10}
        for name, groups in rewards.items()
        for step, group in enumerate(groups)
    ]
    shown = words(lines(tmp_path / "log.jsonl", rows))
    assert "57.1% of 7 groups have no signal" in shown
    assert "42.9% are all wrong, 14.3% all right." in shown
    assert "They took 8 of 14 rollouts and 40 of 70 tokens." in shown
    # a was flat and is again, c was flat and is not; b had a signal and has again
    assert "flat in 50% of 2 visits after a flat one, and in 0% of 1 after one with a signal" in shown


def rollouts(groups, **columns):
    """A line a rollout, of groups of these rewards."""
    return [
        {"prompt": f"p{i}", "step": i // 4, "reward": reward, "completion": f"{i} {j}"}
        | {name: values[i][j] for name, values in columns.items()}
        for i, group in enumerate(groups)
        for j, reward in enumerate(group)
    ]


TROUBLES = {
    "teaches nothing": [row | {"right": row["reward"], "format": 1.0} for row in rollouts([[0, 1], [1, 0]])],
    "follows the other rewards": [
        {**row, "right": float(row["prompt"] == "p0" and i), "length": i / 99}
        for i, row in enumerate(rollouts([[0, 1]] + [[0, 0]] * 7))
    ],
    "temperature": [row | {"completion": "same"} for row in rollouts([[0, 1]] * 4)],
    "pays silence": [row | {"completion": " "} for row in rollouts([[1, 0], [1, 1]])],
    "advantages across prompts": [
        row | {"group_id": f"g{i // 3}"} for i, row in enumerate(rollouts([[0, 1]] * 3))
    ],
    "across prompts are noise": rollouts([[0, 1]] * 2, advantage=[[1, -1]] * 2),
    "rewards are missing": rollouts([[0, 1], [None, 1]]),
    "too hard": rollouts([[0, 0]] * 3 + [[0, 1]]),
    "solved prompts": rollouts([[1, 1]] * 3 + [[0, 1]]),
}  # fmt: skip


@pytest.mark.parametrize("trouble", TROUBLES)
def test_troubles_are_noticed(tmp_path, trouble):
    rows = TROUBLES[trouble]
    if "right" in rows[0]:
        rows = [{name: value for name, value in row.items() if name != "reward"} for row in rows]
    assert trouble in advice(lines(tmp_path / "log.jsonl", rows))


def test_a_healthy_log_calls_for_nothing(tmp_path):
    path = lines(tmp_path / "log.jsonl", rollouts([[0, 1, 0, 1]] * 12))
    assert next_steps(examine(read_log(path))) == ["Nothing in this log calls for a change."]


@pytest.mark.parametrize("odd", ["[]", "null", "[Infinity, 1]", "[1e308, -1e308]"])
def test_a_reward_that_cannot_be_summed_is_missing(tmp_path, odd):
    rows = ",".join(f'{{"prompt_id": 1, "rewards": {rewards}, "step": 1e300}}' for rewards in ("[0, 1]", odd))
    (tmp_path / "log.json").write_text(f"[{rows}]")
    assert words(tmp_path / "log.json").startswith(("0.0% of 1 groups", "50.0% of 2 groups"))


def test_a_log_whose_first_rollout_was_not_scored(tmp_path):
    rows = [
        {"prompt_id": name, "rewards": [None, *rewards]} for name, rewards in (("a", [0, 1]), ("b", [1, 1]))
    ]
    assert words(lines(tmp_path / "log.jsonl", rows)).startswith("50.0% of 2 groups")


def test_a_prompt_that_is_drawn_twice_in_a_step_has_two_groups(tmp_path):
    rows = [
        {"prompt": name, "step": 1, "reward": reward}
        for name, reward in zip("aabbcccc", [0, 1] * 4, strict=True)
    ]
    log = read_log(lines(tmp_path / "log.jsonl", rows))
    assert [log.prompts[i] for i in log.prompt] == ["a", "b", "c", "c"]
    assert np.bincount(log.group).tolist() == [2, 2, 2, 2]


def test_methods_that_remember_find_more_where_prompts_come_back_as_they_were(tmp_path):
    """Half of the prompts are always all wrong, and each comes back eight times."""
    rng = np.random.default_rng(0)
    rows = [
        {"prompt_id": f"p{p}", "step": step, "rewards": (rng.random(4) < (p % 2) / 2).astype(float).tolist()}
        for step in range(8)
        for p in rng.permutation(100)
    ]
    findings = replayed(read_log(lines(tmp_path / "log.jsonl", rows)))
    assert "a log fixes the policy" in findings[0].words
    (best,) = [finding.advice for finding in findings if finding.advice]
    assert best.startswith("Train with ")
    assert float(best.split()[5]) > 1.2
    assert replayed(read_log(LOGS / "trl"))[0].words.startswith("There are too few groups")


def test_a_replay_says_nothing_of_its_own_runs(tmp_path, caplog):
    """Nothing tells these prompts apart, which a curriculum would say of a run of the user's."""
    rng = np.random.default_rng(0)
    rows = [
        {"prompt_id": f"p{p}", "step": step, "rewards": rng.integers(0, 2, 4).tolist()}
        for step in range(40)
        for p in rng.permutation(40)[:16]
    ]
    assert len(replayed(read_log(lines(tmp_path / "log.jsonl", rows)))) == 3
    assert not caplog.records


@pytest.mark.parametrize(
    ("name", "content"),
    [("log.jsonl", "nonsense"), ("log.json", "[1]"), ("log.json", "{}"), ("log.csv", "a,b\n1,2\n"),
     ("log.jsonl", ""),
     ("log.parquet", "x"), ("log.txt", "x"), ("log.jsonl", '{"prompt": "a", "answer": "b"}\n'),
     ("log.jsonl", '{"prompt": "a", "reward": 1, "tokens": [[]]}\n'), ("log.csv", "prompt,reward\na,x\n"),
     ("log.jsonl", '{"prompt": "a", "rewards": []}\n'), ("log.jsonl", '{"prompt": "\xff", "reward": 1}\n'),
     ("log.json", '[{"prompt": "a", "reward": 1, "step": %s}]' % ("9" * 30)),
     ("log.jsonl", '{"prompt": [{"role": 5}], "reward": 1}\n'),
     ("log.jsonl", '{"prompt": "a", "answer": 1}\n'), ("log.jsonl", '{"prompt_id": 1, "rewards": [1]}\n')],
)  # fmt: skip
def test_what_is_no_log_is_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content.encode("latin-1"))
    with pytest.raises(ConfigError, match="log"):
        read_log(tmp_path / name)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("", r"log\.jsonl is empty$"),
        ('{"question": "1+1?", "answer": "2"}', r"log\.jsonl has neither .*with --reward$"),
    ],
)
def test_a_data_set_and_an_empty_file_are_called_so(tmp_path, content, named):
    (tmp_path / "log.jsonl").write_text(content)
    with pytest.raises(ConfigError, match=named):
        read_log(tmp_path / "log.jsonl")


def test_a_damaged_file_of_a_folder_is_named(tmp_path):
    lines(tmp_path / "1.jsonl", [{"input": "a", "score": score, "step": 1} for score in (0, 1)])
    (tmp_path / "2.jsonl").write_text('{"input": "a", "sc')
    with pytest.raises(ConfigError, match=r"2\.jsonl cannot be read"):
        read_log(tmp_path)


@pytest.mark.parametrize("path", ["nowhere.jsonl", "."])
def test_what_is_not_there_is_refused(tmp_path, path):
    with pytest.raises((ConfigError, OSError)):
        read_log(tmp_path / path)


def test_the_command(tmp_path):
    from tests.in_process import run_command

    said = run_command("doctor", str(LOGS / "verl"), folder=tmp_path)
    assert "24 groups have no signal" in said
    assert "What to do next:" in said
    assert "is no log" in run_command("doctor", __file__, folder=tmp_path, status=2)
    assert "no file or folder 'nothere.jsonl'" in run_command(
        "doctor", "nothere.jsonl", folder=tmp_path, status=2
    )
