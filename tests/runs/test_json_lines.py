"""Columns of JSON lines: what is half written waits, and damage is named."""

import pyarrow as pa
import pytest

from curro.core.errors import RunError
from curro.runs.json_lines import append_rows, read_columns

TYPES = {"step": pa.int64(), "mean": pa.float64()}


def test_columns_without_the_half_line_at_the_end(tmp_path):
    path = tmp_path / "f"
    assert read_columns(path, TYPES, ("step",)).num_rows == 0
    append_rows(path, [{"step": 1, "mean": 0}, {"step": 2, "mean": float("nan"), "more": {"a": [1]}}])
    with path.open("ab") as out:
        out.write(b'{"step": ')
    expected = {"step": [1, 2], "mean": [0.0, None]}
    assert read_columns(path, TYPES, ("step",)).to_pydict() == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"step": 1}\n{"ste\n', "line 2 of .* is damaged"),
        ('{"step": 1}\n[]\n', "line 2 of .* is damaged: it is no object but list"),
        ('{"step": 1}\n{"other": 1}\n', "line 2 of .* is damaged: it has no 'step'"),
        ('{"step": 1}\n{"step": "two"}\n', "is damaged: "),
    ],
)
def test_damage_is_named(tmp_path, text, message):
    path = tmp_path / "f"
    path.write_text(text)
    with pytest.raises(RunError, match=message):
        read_columns(path, TYPES, ("step",))
