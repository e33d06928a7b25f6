"""What a TRL script's trainer writes down, for `curro watch`."""

from __future__ import annotations

import pytest
from datasets import Dataset
from tests.hosts.trl.setup import PROMPTS, Diary, trainer

from curro.report.run_reader import read_history
from curro.run_writer import KeepRollouts
from curro.storage.json_lines import read_rows
from curro.storage.run_folder import RunFolder


@pytest.mark.parametrize("admission", [None, "band:0.1,0.9"])
def test_groups_steps_and_rollouts(tmp_path, admission):
    diary, reward = Diary(), lambda completion_ids, **_: [float(i % 2) for i in range(len(completion_ids))]
    rows = {"prompt": [f"{i} =" for i in range(PROMPTS)], "source": ["a/b"] * PROMPTS}
    options = {"admission": admission, "train_dataset": Dataset.from_dict(rows), "keep": KeepRollouts(2)}
    host = trainer(tmp_path, on_groups=diary, reward_funcs=reward, **options)
    host.train()
    run = RunFolder.open(tmp_path)
    groups = run.groups()
    assert [row["prompt"] for row in groups] == [prompt for draw in diary.draws() for prompt in draw]
    assert [row["mean"] for row in groups] == [0.5] * 12
    assert {row["source"] for row in groups} == {"a/b"}
    assert all(4 <= row["tokens"] <= 16 and 0 <= row["cut"] <= 4 for row in groups)
    assert [(row["step"], row["rollouts"]) for row in run.metrics()] == [(1, 16), (2, 32), (3, 48)]
    assert all("completions/clipped_ratio" in row for row in run.metrics())
    assert ("fill/admitted" in run.metrics()[0]) == (admission is not None)
    kept = list(read_rows(run.rollouts_file))
    assert [row["text"] for row in kept] == [f"{row['prompt']} =" for row in groups]
    assert [one["reward"] for one in kept[0]["rollouts"]] == [0.0, 1.0]
    cut = sum(one.is_cut for record in diary.records for group in record.completions for one in group)
    assert read_history(run).groups.cut.sum() == cut
    assert host.state.log_history[0]["curriculum/a-b/pass_rate"] == 0.5


def test_none_is_written_where_none_is_wanted(tmp_path):
    trainer(tmp_path, write_run=False).train()
    assert not (tmp_path / "curro").exists()
