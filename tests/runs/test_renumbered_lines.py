"""The lines of a run whose data set changes between its resumes, killed at any of its writes."""

from __future__ import annotations

import shutil
import sys
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curro import Curriculum
from curro.core.errors import RunError
from curro.runs.folder import RunFolder
from curro.runs.json_lines import read_rows
from curro.runs.writer import Completion, KeepRollouts, RunWriter

FIRST, SECOND, THIRD = [0, 1, 2, 3, 4], [9, 4, 3, 1], [3, 8, 9, 4, 0, 1]


class Killed(BaseException):
    """In place of SIGKILL: raised at a write, and at every later one, so that no cleaning up happens."""


class Killer:
    """Counts what is written in a folder, and kills at the write of a number."""

    def __init__(self):
        self.folder, self.writes, self.last = "", 0, None
        sys.addaudithook(self.hear)

    def hear(self, event, arguments):
        if not self.folder or event not in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"):
            return
        is_reading = event == "open" and not (arguments[2] or 0) & 0o3
        if not is_reading and str(arguments[0]).startswith(self.folder):
            self.writes += 1
            if self.last is not None and self.writes >= self.last:
                raise Killed

    def dies(self, folder, last, do):
        """Whether `do` was killed at the write `last` to the folder."""
        self.folder, self.writes, self.last = str(folder), 0, last
        try:
            do()
            return False
        except Killed:
            return True
        finally:
            self.folder = ""


@pytest.fixture(scope="module")
def killer():
    return Killer()


def curriculum(numbers, *, keyed):
    rows = [
        {"prompt": f"{i}+{i}=", "answer": str(2 * i)} | ({"key": f"sum {i}"} if keyed else {})
        for i in numbers
    ]
    return Curriculum("least-visited", rows, seed=0)


def train(writer, curriculum, steps):
    """A group of every prompt in each of the steps."""
    for step in steps:
        draw = curriculum.select(curriculum.table.size, step=step - 1)
        writer.drawn(draw)
        rewards_PG = np.tile([1.0, 0.0], (len(draw), 1))
        verdict = curriculum.observe(draw.tickets, rewards_PG)
        completions = [[Completion("", 1, False)] * 2] * len(draw)
        writer.groups(step, draw.tickets, rewards_PG, verdict, np.full(len(draw), 2), completions)
        writer.step(step, {})


def resumed(numbers, state, *, keyed):
    new = curriculum(numbers, keyed=keyed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        new.load_state_dict(state)
    return new


def begin(output, curriculum, step):
    writer = RunWriter.of_host(output, curriculum, KeepRollouts(2))
    writer.begin(step)
    return writer


def numbers_of(folder):
    """By the file, the sum that each line is of by its text, and by its number among `rows`."""
    return {
        path.name: [(row["step"], row["text"], row["prompt"]) for row in read_rows(path)]
        for path in (folder.path / "groups.jsonl", folder.rollouts_file)
    }


def check(folder, rows, steps):
    """Every line has the number of its row, and those of all rows that never went are there."""
    for lines in numbers_of(folder).values():
        assert all(text == f"{rows[prompt]}+{rows[prompt]}=" for _, text, prompt in lines)
        for step in steps:
            stayed = {row for row in rows if row in FIRST and row in SECOND and row in THIRD}
            assert {f"{row}+{row}=" for row in stayed} <= {text for of, text, _ in lines if of == step}


@pytest.mark.parametrize(
    ("then", "keyed"), [(FIRST, True), (SECOND, True), (THIRD, True), (THIRD, False)],
    ids=["first", "second", "third", "third-without-keys"],
)  # fmt: skip
def test_lines_have_the_numbers_of_the_rows_wherever_a_resume_was_killed(tmp_path, killer, keyed, then):
    """Rows change after a checkpoint of step 2; the resume is killed; the next has the rows `then`."""
    first = curriculum(FIRST, keyed=keyed)
    writer = begin(tmp_path / "run", first, 0)
    train(writer, first, (1, 2))
    state = first.state_dict()
    train(writer, first, (3,))
    is_killed, last = True, 0
    while is_killed:
        last += 1
        output = tmp_path / f"run-{last}"
        shutil.copytree(tmp_path / "run", output)
        second = resumed(SECOND, state, keyed=keyed)
        is_killed = killer.dies(output, last, lambda output=output, second=second: begin(output, second, 2))
        again = resumed(then, state, keyed=keyed)
        writer = begin(output, again, 2)
        check(writer.folder, then, (1, 2))
        train(writer, again, (3,))
        check(writer.folder, then, (1, 2, 3))
        assert [line["step"] for line in writer.folder.metrics()] == [1, 2, 3]
    assert last > 10  # or the writes were not heard


def test_rows_change_from_checkpoint_to_checkpoint(tmp_path):
    """No table is saved in between, as verl, slime and Tinker save none; the second rows come back."""
    state, rows = None, []
    for step, numbers in enumerate([FIRST, SECOND, THIRD, SECOND], 1):
        rows = numbers
        now = curriculum(numbers, keyed=True) if state is None else resumed(numbers, state, keyed=True)
        writer = begin(tmp_path, now, step - 1)
        train(writer, now, (step,))
        state = now.state_dict()
    check(writer.folder, rows, (1, 2, 3, 4))
    assert not RunFolder.open(tmp_path).has_table


def test_a_line_of_an_earlier_version_s_folder_gets_its_row_s_number(tmp_path):
    """Earlier versions wrote down no rows: the lines are numbered as the checkpoint, or as the table."""
    first = curriculum(FIRST, keyed=True)
    writer = begin(tmp_path, first, 0)
    train(writer, first, (1, 2))
    (writer.folder.path / "rows.parquet").unlink()
    second = resumed(SECOND, first.state_dict(), keyed=True)
    begin(tmp_path, second, 2)
    check(writer.folder, SECOND, (1, 2))
    (writer.folder.path / "rows.parquet").unlink()
    writer.folder.write_table(second.table)  # whose fingerprint says whose the numbers are
    begin(tmp_path, resumed(SECOND, first.state_dict(), keyed=True), 2)
    check(writer.folder, SECOND, (1, 2))


def test_damaged_files_are_named_and_the_lines_stay(tmp_path):
    first = curriculum(FIRST, keyed=True)
    writer = begin(tmp_path, first, 0)
    train(writer, first, (1,))
    folder, second = writer.folder, resumed(SECOND, first.state_dict(), keyed=True)
    folder.append_groups([{"step": 1, "prompt": 99}])
    lines = folder.groups()
    with pytest.raises(RunError, match=r"groups\.jsonl is damaged: it has the prompt 99 of 5"):
        begin(tmp_path, second, 1)
    pq.write_table(pa.table({"key": [1, 2]}), folder.path / "rows.parquet")
    with pytest.raises(RunError, match=r"rows\.parquet is damaged: it has no digests"):
        begin(tmp_path, second, 1)
    assert folder.groups() == lines
