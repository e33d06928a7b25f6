"""Every kind of source, in every column convention, comes out as the same rows."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curro.data import DataError, load_prompts

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1?"}]


def write_jsonl(path: Path, *rows: object) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def write_parquet(path: Path, *rows: dict) -> str:
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return str(path)


def verl_row(index: int, source: str = "openai/gsm8k", question: str = "1+1?") -> dict:
    return {
        "data_source": source,
        "prompt": [{"role": "user", "content": question}],
        "ability": "math",
        "reward_model": {"ground_truth": "2", "style": "rule"},
        "extra_info": {"index": index, "split": "train"},
    }


@pytest.mark.parametrize(
    ("row", "prompt", "answer"),
    [
        ({"prompt": "1+1", "answer": "2"}, "1+1", "2"),
        ({"prompt": CHAT, "solution": "2"}, CHAT, "2"),
        ({"prompt": "1+1", "ground_truth": 2}, "1+1", "2"),
        ({"question": "1+1", "answer": "2"}, "1+1", "2"),
        ({"problem": "1+1", "solution": "so 2", "answer": "2"}, "1+1", "2"),
        ({"prompt": "1+1"}, "1+1", None),
        ({"prompt": "1+1", "answer": [1, 2]}, "1+1", "[1, 2]"),
        (verl_row(0), [{"role": "user", "content": "1+1?"}], "2"),
        ({"prompt": "1+1", "reward_model": '{"ground_truth": "2"}'}, "1+1", "2"),
    ],
)
def test_column_conventions(tmp_path, row, prompt, answer):
    [loaded] = load_prompts(write_jsonl(tmp_path / "a.jsonl", row))
    assert (loaded["prompt"], loaded["answer"]) == (prompt, answer)
    others = {name: value for name, value in row.items() if name not in ("prompt", "answer")}
    assert {name: loaded[name] for name in others} == others
    assert isinstance(loaded["key"], str)


def test_named_columns_win_over_conventions_and_reach_into_nested_ones(tmp_path):
    source = write_jsonl(
        tmp_path / "a.jsonl", {"prompt": "no", "text": "yes", "info": {"id": 7, "gold": "g"}}
    )
    names = {"prompt_column": "text", "answer_column": "info.gold", "key_column": "info.id"}
    [row] = load_prompts(source, **names)
    assert (row["prompt"], row["answer"], row["key"]) == ("yes", "g", "7")


def test_decimals_dates_and_bytes_are_answers_as_they_are_written(tmp_path):
    decimals = pa.array([Decimal("3.50"), Decimal("-700.00"), None], pa.decimal128(10, 2))
    dates = pa.array([date(2024, 1, day) for day in (1, 2, 3)])
    for answers, wanted in (
        (decimals, ["3.5", "-700", None]),
        (dates, ["2024-01-01", "2024-01-02", "2024-01-03"]),
        (pa.array([b"12", "\u00bd".encode(), None]), ["12", "\u00bd", None]),
        (
            pa.array([[Decimal("1.5"), Decimal("0.1")], [2], None], pa.list_(pa.decimal128(10, 2))),
            ["[1.5, 0.1]", "[2]", None],
        ),
        (pa.array([[0.1, 42], [None], None], pa.list_(pa.float32())), ["[0.1, 42.0]", "[null]", None]),
    ):
        pq.write_table(pa.table({"prompt": ["a", "b", "c"], "answer": answers}), tmp_path / "rows.parquet")
        loaded = load_prompts(str(tmp_path / "rows.parquet"))
        assert [row["answer"] for row in loaded] == wanted
        assert loaded.to_hf()["answer"][:] == wanted
    pq.write_table(pa.table({"prompt": ["a"], "answer": [b"\xff"]}), tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=r"row 0 .*'answer' .*UTF-8"):
        load_prompts(str(tmp_path / "rows.parquet"))


@pytest.mark.parametrize(("save", "name"), [(write_jsonl, "a.jsonl"), (write_parquet, "a.parquet")])
def test_what_pandas_writes_for_a_missing_number_is_no_answer(tmp_path, save, name):
    rows = [{"prompt": f"{i}", "answer": answer} for i, answer in enumerate((7.5, float("nan")))]
    assert [row["answer"] for row in load_prompts(save(tmp_path / name, *rows))] == ["7.5", None]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_files_with_answers_in_different_columns_are_refused(tmp_path, kind):
    save = write_parquet if kind == "parquet" else write_jsonl
    for name, column in (("a", "answer"), ("b", "solution")):
        save(tmp_path / f"{name}.{kind}", *({"prompt": f"{name}{i}", column: str(i)} for i in range(2)))
    with pytest.raises(
        DataError, match=r"^row 2 \(b.* has its answer in 'solution', where other .* it in 'answer': give"
    ):
        load_prompts(str(tmp_path))
    prompts = load_prompts(str(tmp_path), answer_column="solution")
    assert [row["answer"] for row in prompts] == [None, None, "0", "1"]


@pytest.mark.parametrize(("save", "name"), [(write_jsonl, "a.jsonl"), (write_parquet, "a.parquet")])
def test_a_null_among_the_answers_is_no_answer(tmp_path, save, name):
    rows = [{"prompt": f"{i}", "answer": answer, "solution": "proof"} for i, answer in enumerate(("4", None))]
    assert [row["answer"] for row in load_prompts(save(tmp_path / name, *rows))] == ["4", None]


def test_a_json_file_of_lines_and_an_array_behind_a_byte_order_mark(tmp_path):
    rows = [{"prompt": "a"}, {"prompt": "b"}]
    (tmp_path / "array.json").write_text("\ufeff\n " + json.dumps(rows, indent=1), encoding="utf-8")
    write_jsonl(tmp_path / "lines.json", *rows)
    for name in ("array.json", "lines.json"):
        assert [row["prompt"] for row in load_prompts(tmp_path / name)] == ["a", "b"]


def test_blank_lines_and_a_byte_order_mark_are_no_rows(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"prompt": "a"}\r\n\n  \n{"prompt": "b"}')
    assert [row["prompt"] for row in load_prompts(str(tmp_path / "a.jsonl"))] == ["a", "b"]


def test_verl_keys_are_source_and_index_and_the_file_where_those_repeat(tmp_path):
    one = write_parquet(tmp_path / "one.parquet", verl_row(0), verl_row(1, question="2+2?"))
    two = write_parquet(tmp_path / "two.parquet", verl_row(0, question="3+3?"))
    assert load_prompts(one).keys == ["openai/gsm8k/0", "openai/gsm8k/1"]
    assert load_prompts(f"{one}, {two}").keys == [
        "openai/gsm8k/one.parquet/0",
        "openai/gsm8k/one.parquet/1",
        "openai/gsm8k/two.parquet/0",
    ]


def test_verl_rows_whose_index_is_always_0_are_keyed_by_content(tmp_path):
    prompts = load_prompts(
        write_jsonl(tmp_path / "a.jsonl", verl_row(0, question="a"), verl_row(0, question="b"))
    )
    assert len(set(prompts.keys)) == 2
    assert not any("gsm8k" in key for key in prompts.keys)


def test_a_folder_is_read_in_the_order_of_names_and_one_split_of_it(tmp_path):
    write_jsonl(tmp_path / "train-00001.jsonl", {"prompt": "b"})
    write_parquet(tmp_path / "train-00000.parquet", {"prompt": "a"})
    write_jsonl(tmp_path / "test.jsonl", {"prompt": "held out"})
    (tmp_path / "README.md").write_text("not data")
    folder = str(tmp_path)
    assert [row["prompt"] for row in load_prompts(folder)] == ["a", "b"]
    assert [row["prompt"] for row in load_prompts(folder, split="test")] == ["held out"]
    with pytest.raises(DataError, match="no split 'validation'; it has test, train"):
        load_prompts(folder, split="validation")


def test_a_file_whose_name_has_a_comma(tmp_path):
    assert len(load_prompts(write_jsonl(tmp_path / "a,b.jsonl", {"prompt": "a"}))) == 1


def test_limit_takes_the_first_rows(tmp_path):
    source = write_jsonl(tmp_path / "a.jsonl", {"prompt": "a"}, {"prompt": "b"}, "not even a row")
    assert [row["prompt"] for row in load_prompts(source, limit=2)] == ["a", "b"]
    with pytest.raises(DataError, match="limit is 0"):
        load_prompts(source, limit=0)


def test_lab_problems():
    prompts = load_prompts("lab:chains/easy", limit=5)
    assert len(prompts) == 5
    assert prompts.source == "lab:chains/easy"
    assert list(prompts) == list(load_prompts("lab:chains/easy", limit=5))
    held_out = load_prompts("lab:chains/easy", limit=5, split="test")
    assert not set(held_out.keys) & set(prompts.keys)


def test_a_mistake_in_a_name_of_the_lab():
    with pytest.raises(DataError, match=r"lab:chians: .*'chians'.*chains"):
        load_prompts("lab:chians")
    with pytest.raises(DataError, match=r"'dev'.*train"):
        load_prompts("lab:chains", split="dev")


def test_messages_stored_as_json_text_are_messages(tmp_path):
    messages = [{"role": "user", "content": "1 + 1?"}]
    path = write_jsonl(tmp_path / "rows.jsonl", {"prompt": json.dumps(messages), "answer": "2"})
    assert load_prompts(path)[0]["prompt"] == messages


@pytest.mark.parametrize("text", ['[{"a": 1}, {"a": 2}] has how many rows?', '[{"a": 1}]', "[{" * 100_000])
def test_a_prompt_that_only_looks_like_messages_is_text(tmp_path, text):
    path = write_jsonl(tmp_path / "rows.jsonl", {"prompt": text, "answer": "2"})
    assert load_prompts(path)[0]["prompt"] == text
