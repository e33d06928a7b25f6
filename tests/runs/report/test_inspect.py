"""`inspect_run`: what it prints, and that keys are no markup."""

import io
import json

import numpy as np
import pytest
from rich.console import Console

from curro import Curriculum
from curro.core.errors import RunError
from curro.core.text import preview
from curro.data import load_prompts
from curro.runs.folder import RunFolder
from curro.runs.report.inspect import inspect_run
from curro.runs.report.page import write_report
from curro.runs.writer import RunWriter


def printed(run, n=5, width=120):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    inspect_run(run, n, console)
    return console.file.getvalue()


@pytest.mark.parametrize("name", ["published", "default", "uniform"])
def test_it_prints_rankings(runs, name):
    text = printed(runs[name][0].path)
    for title in ("Hardest", "Most informative", "Regressed"):
        assert title in text


def test_keys_are_no_markup_and_move_no_cursor(simulated_run, tmp_path):
    run = simulated_run(tmp_path / "run", "uniform", steps=3, prompts=60, hostile=True)
    text = printed(run, width=300)
    assert '</td><script>alert("x")</script>' in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_run_without_a_step_is_said(tmp_path):
    with pytest.raises(RunError, match="has not finished a training step yet"):
        printed(RunFolder.create(tmp_path / "new", {}))


@pytest.fixture
def written(tmp_path):
    """A run on rows with texts, whose keys are made from them."""
    turns = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "How  many\nlegs?" + "!" * 90},
    ]
    first = [{"role": "user", "content": "What is 3 + 4?"}]
    rows = [{"prompt": first, "answer": "7"}, {"prompt": turns, "answer": "8"}]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    curriculum = Curriculum("uniform", load_prompts(str(tmp_path / "data.jsonl")))
    writer = RunWriter.of_host(tmp_path, curriculum)
    draw = curriculum.select(2, step=0)
    writer.drawn(draw)
    rewards_PG = np.array([[0.0, 1.0], [0.0, 1.0]])
    verdict = curriculum.observe(draw.tickets, rewards_PG)
    writer.groups(1, draw.tickets, draw.prompts, rewards_PG, verdict, np.array([2, 2]))
    writer.step(1, {})
    writer.folder.write_table(curriculum.table)
    return writer.folder, curriculum.table


def test_prompts_are_shown_by_their_texts_and_rows(written):
    run, table = written
    text = printed(run, width=200)
    assert text.count("What is 3 + 4?") == 1
    assert text.count("How many legs?!!!") == 1
    assert "Be brief" not in text
    assert table.key(0) not in text


def test_the_report_and_the_table_have_texts_and_keys(written):
    run, table = written
    page = write_report(run).read_text()
    assert "<bdi>What is 3 + 4?</bdi>" in page
    assert table.key(0) in page
    frame = run.table().to_pandas()
    assert frame["text"][0] == "What is 3 + 4?"
    assert frame["text"][1] == "How many legs?" + "!" * 65 + "…"
    assert frame["key"][0] == table.key(0)
    assert frame["last_step"].tolist() == [1, 1]  # as in the lines; the port says 0
    assert {row["step"] for row in run.groups()} == {1}


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        (None, ""),
        ("a\n\n b", "a b"),
        ("x" * 81, "x" * 79 + "…"),
        ([{"role": "user", "content": "\x1b[2J"}], "\\x1b[2J"),
    ],
)
def test_a_preview_is_one_short_line(prompt, text):
    assert preview(prompt) == text
