"""Rows that stay in Arrow are the same prompts as rows that are read one by one."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curro.core.identity import DatasetRows
from curro.data import DataError, PromptSet, load_prompts
from curro.data.arrow_rows import ArrowRows

PLAIN = [
    {"prompt": f"What is {i} \u00e9?", "answer": str(i), "level": i % 3, "tags": ["a", "b"][: i % 3]}
    for i in range(9)
]
ROWS = {
    "plain": PLAIN,
    "question and number": [{"question": f"{i} + 1", "answer": i + 1, "level": "easy"} for i in range(5)],
    "solutions that are lists": [{"problem": f"{i}", "solution": [i, i + 1]} for i in range(5)],
    "no answers": [{"prompt": f"say {i}"} for i in range(4)],
    "answers here and there": [{"prompt": f"{i}", "answer": None, "ground_truth": "g" * i} for i in range(4)],
    "keys": [{"prompt": "the same", "answer": "one", "key": f"k{i}"} for i in range(4)],
    "nested answer": [
        {"prompt": f"{i}", "reward_model": {"style": "rule", "ground_truth": f"{i}" * i or None}}
        for i in range(4)
    ],
}


def both(tmp_path, rows, **columns):
    """The data set from Parquet, in Arrow, and from JSONL, as Python objects."""
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lazy, plain = (load_prompts(str(tmp_path / f"rows.{kind}"), **columns) for kind in ("parquet", "jsonl"))
    assert isinstance(lazy.rows, ArrowRows)
    assert isinstance(plain.rows, list)
    return lazy, plain


@pytest.mark.parametrize("name", ROWS)
def test_the_same_rows_keys_and_fingerprint(tmp_path, name):
    lazy, plain = both(tmp_path, ROWS[name])
    assert list(lazy.keys) == plain.keys
    assert lazy.fingerprint == plain.fingerprint
    wanted = plain.columns
    for place, row in enumerate(lazy):
        assert {column: row[column] for column in wanted} == {c: plain[place].get(c) for c in wanted}
        assert lazy[place] == row
    assert lazy[-1] == lazy[len(lazy) - 1]
    assert lazy[1:3] == [lazy[1], lazy[2]]
    ours, theirs = lazy.to_hf(), plain.to_hf()
    columns = ["prompt", "answer", "key", "prompt_id"]
    assert ours.select_columns(columns).to_list() == theirs.select_columns(columns).to_list()
    assert DatasetRows(ours).fingerprint == DatasetRows(theirs).fingerprint == plain.fingerprint


def test_several_files_are_one_data_set(tmp_path):
    for number in range(2):
        pq.write_table(pa.Table.from_pylist(PLAIN[number * 5 :][:5]), tmp_path / f"train-{number}.parquet")
    lazy = load_prompts(str(tmp_path))
    assert isinstance(lazy.rows, ArrowRows)
    assert lazy.fingerprint == PromptSet([{**row, "key": str(i)} for i, row in enumerate(PLAIN)]).fingerprint


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"prompt": "a"}, {"prompt": " \n"}], r"row 1 \(rows.parquet, row 1\) has an empty 'prompt'"),
        ([{"prompt": "a"}, {"prompt": None}], r"row 1 \(rows.parquet, row 1\) has no 'prompt'"),
        ([{"prompt": "a", "key": "k"}, {"prompt": "b", "key": "k"}], "have the same key in 'key'"),
        ([{"prompt": "a", "key": ""}], "has no key in 'key'"),
        ([{"words": "a"}], "no column of words holds prompts"),
        ([{"prompt": 3}], "neither text nor a list"),
    ],
)
def test_what_is_wrong_is_told_of_the_row(tmp_path, rows, words):
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=words):
        load_prompts(str(tmp_path / "rows.parquet"))


def test_decimals_and_dates_are_answers_as_they_are_written(tmp_path):
    """Also where rows are read one by one, as those with a conversation for a prompt."""
    decimals = pa.array([Decimal("3.50"), Decimal("-700.00"), None, Decimal("0.00")], pa.decimal128(10, 2))
    dates = pa.array([date(2024, 1, day) for day in (1, 2, 3, 4)])
    for answers, wanted in (
        (decimals, ["3.5", "-700", None, "0"]),
        (dates, ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"]),
    ):
        texts = ["a", "b", "c", "d"]
        for prompts in (texts, [[{"role": "user", "content": text}] for text in texts]):
            pq.write_table(pa.table({"prompt": prompts, "answer": answers}), tmp_path / "rows.parquet")
            loaded = load_prompts(str(tmp_path / "rows.parquet"))
            assert isinstance(loaded.rows, ArrowRows) is (prompts is texts)
            assert [row["answer"] for row in loaded] == wanted
            assert loaded.to_hf()["answer"][:] == wanted


def test_a_data_set_of_the_hub_stays_in_arrow_unless_its_columns_are_decoded(tmp_path, monkeypatch):
    import datasets

    found = datasets.Dataset.from_list(PLAIN)
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: found)
    lazy = load_prompts("owner/name", limit=5)
    assert isinstance(lazy.rows, ArrowRows)
    found = found.cast_column("level", datasets.ClassLabel(names=["low", "middle", "high"]))
    plain = load_prompts("owner/name", limit=5)
    assert isinstance(plain.rows, list)
    assert plain.fingerprint == lazy.fingerprint
    found = found.select([4, 3, 2])
    assert [row["answer"] for row in load_prompts("owner/name")] == ["4", "3", "2"]


def test_a_column_can_be_added(tmp_path):
    lazy, plain = both(tmp_path, PLAIN)
    known = [0.5, None] + [1.0] * 7
    for prompts in (lazy, plain):
        more = prompts.with_column("known", known)
        assert [row["known"] for row in more] == known
        assert list(more.keys) == list(prompts.keys)
        assert more.fingerprint == prompts.fingerprint
        assert "known" in more.columns
    assert [row["level"] for row in lazy.with_column("level", range(9))] == list(range(9))
