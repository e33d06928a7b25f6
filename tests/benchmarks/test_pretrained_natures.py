"""A run of the comparison on pools of five natures, with a model of the lab in place of the pretrained."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.learning import natures_page
from benchmarks.learning import pretrained_natures as natures

from curro.reward.reward import Reward


def pool(path, prompts, kinds):
    path.write_text(
        "".join(
            json.dumps({"prompt": prompt, "answer": "1", "kind": kind}) + "\n"
            for prompt, kind in zip(prompts, kinds, strict=True)
        )
    )
    return str(path)


def test_a_run_becomes_a_row_that_the_page_can_read(tmp_path):
    prompts = [f"{start}{letters}=" for start in range(8) for letters in ("a", "bc")]
    shared = {
        "data": pool(tmp_path / "pool.jsonl", prompts, ["short", "long"] * 8),
        "eval_data": pool(tmp_path / "held-out.jsonl", ["8a=", "9a=", "8bc="], ["short", "short", "long"]),
        "model": "lab:chains",
        "reward": "exact",
        "prompts_per_step": 4,
        "rollouts_per_prompt": 2,
        "rollouts": 32,
        "eval_every": 2,
        "eval_samples": 4,
        "max_completion_length": 3,
    }
    row = natures.one_run("uniform", "pool", 3, shared, tmp_path / "runs")
    assert (row["method"], row["seed"], row["rollouts"]) == ("uniform", 3, [0, 16, 32])
    assert (row["kinds"], row["item_kinds"], row["guess"]) == ({"short": 2, "long": 1}, "001", 1)
    rights = natures_page.counts(row)
    assert rights.shape == (3, 3)
    assert (rights.sum(axis=1) / 12).round(5).tolist() == row["pass@1"]
    groups = {kind: sum(part[0] for part in parts) for kind, parts in row["groups"].items()}
    assert sum(groups.values()) == 16
    assert not list((tmp_path / "runs").iterdir())


def test_right_answers_are_counted_by_problem_between_evaluations():
    recorded = natures.Recorded(
        Reward("one", lambda texts, rows: [float(text == "1") for text in texts]), "ab"
    )
    recorded.reward.score(["1", "2", "1"], [{"prompt": "b"}, {"prompt": "a"}, {"prompt": "b"}])
    assert (recorded.take(), recorded.take()) == ("02", "00")


def test_the_shortest_quarter_of_the_prompts(tmp_path):
    data = pool(
        tmp_path / "pool.jsonl", ["1234", "1", "12345678", "12", "123", "1234", "12345", "123456"], "a" * 8
    )
    chosen = natures.part_of(data, "shortest", None)
    assert [json.loads(line)["prompt"] for line in Path(chosen).read_text().splitlines()] == ["1", "12"]
