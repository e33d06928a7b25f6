"""Columns of JSON lines: what is half written waits, and damage is named."""

import json

import pyarrow as pa
import pytest

from curro.core.errors import CurroError, RunError
from curro.runs.estimate_folder import COLUMNS, EstimateFolder
from curro.runs.json_lines import append_rows, read_columns, read_rows

TYPES = {"step": pa.int64(), "mean": pa.float64()}
GROUP = json.dumps(dict.fromkeys(COLUMNS, 0)) + "\n"


def test_columns_without_the_half_line_at_the_end(tmp_path):
    path = tmp_path / "f"
    assert read_columns(path, TYPES, ("step",)).num_rows == 0
    append_rows(path, [{"step": 1, "mean": 0}, {"step": 2, "mean": float("nan"), "more": {"a": [1]}}])
    with path.open("ab") as out:
        out.write(b'{"step": ')
    expected = {"step": [1, 2], "mean": [0.0, None]}
    assert read_columns(path, TYPES, ("step",)).to_pydict() == expected


READERS = {
    "columns": lambda path: read_columns(path, TYPES, ("step",)),
    "rows": lambda path: list(read_rows(path, ("step",))),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("line", ['{"ste', "[]", '{"other": 1}', "[" * 100_000, "\0"])
def test_damage_is_named_with_its_line(tmp_path, read, line):
    path = tmp_path / "f"
    path.write_text(f'{{"step": 1}}\n{line}\n{{"step": 3}}\n')
    with pytest.raises(RunError, match=r"line 2 of .*f is damaged: "):
        read(path)


def test_a_text_is_no_number_of_a_column(tmp_path):
    path = tmp_path / "f"
    path.write_text('{"step": 1}\n{"step": "two"}\n')
    with pytest.raises(RunError, match="is damaged: "):
        read_columns(path, TYPES, ("step",))


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("estimate.json", "[]"),
        ("estimate.json", "{"),
        ("groups.jsonl", "[]\n"),
        ("groups.jsonl", '{"prompt": 0}\n'),
        ("groups.jsonl", GROUP.replace("0", "0.5", 1)),
        ("pass_rates.parquet", "no Parquet"),
    ],
)
def test_a_damaged_estimate_is_one_error(tmp_path, file, content):
    folder = EstimateFolder.begin(tmp_path / "estimate", {"k": 1})
    (folder.path / file).write_text(content)
    with pytest.raises(CurroError, match=f"{file} .*|holds no estimate"):
        _ = folder.settings, folder.groups(), folder.table()
