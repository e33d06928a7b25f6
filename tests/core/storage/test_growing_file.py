"""A file that grows, is cut and is written anew, read in blocks of any size."""

import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curro.core.errors import RunError
from curro.runs.json_lines import GrowingFile, append_rows, line_starts, parse_columns

PARTS = st.one_of(
    st.tuples(st.just("append"), st.binary(max_size=12)),
    st.tuples(st.just("anew"), st.binary(max_size=12)),
    st.tuples(st.just("cut"), st.integers(0, 40)),
    st.tuples(st.just("read"), st.integers(1, 9)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(PARTS, max_size=25))
def test_what_was_read_is_what_stands_there(parts):
    """Lines of letters and newlines; at the end all whole lines were read, each once, in order."""
    with tempfile.TemporaryDirectory() as folder:
        path, read = Path(folder) / "f", b""
        file = GrowingFile(path)

        def take(most):
            nonlocal read
            block = file.read(most)
            read = (read if block.start else b"") + block.data
            return block

        for number, (what, value) in enumerate(parts):
            if what == "append":
                with path.open("ab") as out:
                    out.write(value)
            elif what == "anew":  # as `truncate_after` does: another file takes the name
                part = Path(folder) / f"part{number}"
                part.write_bytes(value)
                part.replace(path)
            elif what == "cut" and path.exists():
                with path.open("r+b") as out:
                    out.truncate(min(value, path.stat().st_size))
            elif what == "read":
                take(value)
        for most in (3, 3, 1000, 1000):
            take(most)
        there = path.read_bytes() if path.exists() else b""
        assert read == there[: there.rfind(b"\n") + 1]
        assert take(10).data == b"" or b"\n" not in there


def test_a_half_line_waits_for_its_end(tmp_path):
    file = GrowingFile(tmp_path / "f")
    assert file.read().data == b""
    (tmp_path / "f").write_bytes(b'{"a": 1}\n{"a"')
    assert (file.read().data, file.read().data) == (b'{"a": 1}\n', b"")
    with (tmp_path / "f").open("ab") as out:
        out.write(b": 2}\n")
    block = file.read()
    assert (block.data, block.start, block.left) == (b'{"a": 2}\n', 9, 0)


def test_a_line_longer_than_a_block_comes_whole(tmp_path):
    line = json.dumps({"step": 1, "text": "x" * 1_000_000}).encode() + b"\n"
    (tmp_path / "f").write_bytes(line * 2)
    file = GrowingFile(tmp_path / "f")
    assert [len(file.read(1 << 16).data) for _ in range(3)] == [len(line), len(line), 0]


def test_columns_and_where_lines_begin(tmp_path):
    path = tmp_path / "f"
    append_rows(path, [{"step": 1, "mean": 0}, {"step": 2, "mean": float("nan"), "more": {"a": [1]}}])
    block = GrowingFile(path).read()
    table = parse_columns(block, path, {"step": pa.int64(), "mean": pa.float64()}, ("step",))
    assert table.to_pydict() == {"step": [1, 2], "mean": [0.0, None]}
    assert [block.data[at:][:9] for at in line_starts(block)] == [b'{"step": ', b'{"step": ']


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
        parse_columns(GrowingFile(path).read(), path, {"step": pa.int64()}, ("step",))
