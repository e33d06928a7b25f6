"""The kit for a machine with a card: what it packs, and how it runs what it has unpacked."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from benchmarks.gpu import pack, run
from benchmarks.learning.pretrained_natures import cases, device


def test_weights_in_parts_come_together_again(tmp_path):
    whole = bytes(range(256)) * 10
    (tmp_path / "model.gguf").write_bytes(whole)
    parts = pack.split(tmp_path / "model.gguf", tmp_path / "parts", size=1_000)
    assert [part.stat().st_size for part in parts] == [1_000, 1_000, 560]
    assert pack.join(tmp_path / "parts", tmp_path / "there").read_bytes() == whole


def test_a_missing_part_is_not_passed_over(tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"weights")
    pack.split(tmp_path / "model.gguf", tmp_path / "parts", size=3)[1].unlink()
    with pytest.raises(SystemExit, match=r"model\.gguf"):
        pack.join(tmp_path / "parts", tmp_path)


def test_what_is_there_is_not_packed_and_neither_is_what_only_it_needs():
    everything = set(pack.missing(set()))
    assert {"trl", "torch", "rich", "markdown-it-py"} <= everything
    without = set(pack.missing({"torch", "transformers", "rich"}))
    assert "trl" in without
    assert not without & {"torch", "rich", "markdown-it-py"}


def test_runs_side_by_side_are_counted_and_stopped_when_time_is_up():
    commands = [[sys.executable, "-c", code] for code in ("pass", "raise SystemExit(1)", "pass")]
    assert run.side_by_side(iter(commands), 2, time.monotonic() + 60, {}) == (2, 1)
    endless = [[sys.executable, "-c", "import time; time.sleep(600)"]]
    assert run.side_by_side(iter(endless), 2, time.monotonic() + 0.5, {}) == (0, 0)


def test_cases_without_a_row_come_seed_by_seed_and_round_by_round():
    rows = [
        {"pool": "a", "method": "x", "seed": seed, "device": name} for seed, name in ((1, device()), (2, "-"))
    ]
    assert cases(rows, (1, 2), (("x", "y"), ("z",)), ("a", "b")) == [
        *[("a", "y", 1), ("b", "x", 1), ("b", "y", 1), ("a", "z", 1), ("b", "z", 1)],
        *[("a", "x", 2), ("a", "y", 2), ("b", "x", 2), ("b", "y", 2), ("a", "z", 2), ("b", "z", 2)],
    ]


def test_long_prompts_stand_behind_solved_problems(tmp_path):
    lines = [f'{{"prompt": "{number} plus 1 is", "answer": "{number + 1}"}}' for number in range(42)]
    (tmp_path / f"{run.POOL}.jsonl").write_text("\n".join(lines) + "\n")
    first, _ = Path(run.long_prompts(tmp_path)).read_text().splitlines()
    assert '"0 plus 1 is 1\\n\\n1 plus 1 is 2' in first
    assert '40 plus 1 is", "answer": "41"' in first
