"""Each mistake of a newcomer's gets one sentence: what, where, what to do."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curro.data import DataError, PromptSet, load_prompts

GOOD = '{"prompt": "1+1", "answer": "2"}'


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def load(*lines: str, **options: str) -> PromptSet:
    with open("data.jsonl", "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    return load_prompts("data.jsonl", **options)


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        ([], {}, "data.jsonl is empty"),
        (["", "  "], {}, "data.jsonl is empty"),
        ([GOOD, "", '{"prompt": "1+'], {}, "data.jsonl:3 .* column 12$"),
        ([GOOD, '{"prompt": ', ""], {}, "data.jsonl:2 .* column 11$"),
        ([GOOD, "[1]"], {}, "data.jsonl:2 .* list"),
        ([GOOD, "null"], {}, "data.jsonl:2 .* NoneType"),
        (["[" * 100_000], {}, "data.jsonl:1 cannot be read"),
        (['{"prompt": "a", "prompt": "b"}'], {}, "data.jsonl:1 .* 'prompt' twice in one object"),
        ([GOOD, '{"prompt": "c", "x": {"y": 1, "y": 2}}'], {}, "data.jsonl:2 .* 'y' twice in one object"),
        (['{"n": %s}' % ("9" * 5000)], {}, "data.jsonl:1 cannot be read"),
        (['{"text": "a", "label": 1}'], {}, "text, label .* prompt_column"),
        (["""{"prompt": "[{'role': 'user', 'content': 'a'}]"}"""], {}, "row 0 .*'prompt' .* as JSON"),
        (
            ["""{"prompt": "a", "reward_model": "{'ground_truth': '2'}"}"""],
            {},
            "row 0 .*'reward_model' .* as JSON",
        ),
        (['{"prompt": [{"role": "user", "content": 5}]}'], {}, "without role and content"),
        (['{"prompt": [{"role": "user", "content": ["a", "b"]}]}'], {}, "or a list of objects"),
        ([GOOD], {"limit": 1.5}, "limit is 1.5"),
        ([GOOD], {"limit": True}, "limit is True"),
        ([GOOD], {"limit": 10**20}, "limit is 10"),
        ([GOOD], {"prompt_column": 3}, "prompt column .* not 3"),
        ([GOOD], {"prompt_column": "q"}, "prompt column 'q'; .* prompt, answer$"),
        ([GOOD], {"answer_column": "gold.x"}, "answer column 'gold.x'"),
        ([GOOD], {"key_column": "id"}, "key column 'id'"),
        (['{"prompt": "a", "id": null}'], {"key_column": "id"}, "row 0 .* no key in 'id'"),
        ([GOOD, '{"answer": "2"}'], {}, r"row 1 \(data.jsonl:2\) has no 'prompt'"),
        ([GOOD, '{"prompt": " \\n"}'], {}, "row 1 .* empty 'prompt'"),
        (['{"prompt": [], "n": 1}'], {}, "row 0 .* empty 'prompt'"),
        (['{"prompt": [{"role": "user", "content": ""}]}'], {}, "row 0 .* empty 'prompt'"),
        ([GOOD, '{"prompt": 5}'], {}, "row 1 .* 'prompt' is int"),
        (['{"prompt": ["hi"], "n": 1}'], {}, "row 0 .* without role and content"),
        (['{"prompt": [{"role": "user"}]}'], {}, "without role and content"),
        *(
            (
                [f'{{"prompt": [{{"role": "assistant", "tool_calls": {calls}}}]}}'],
                {},
                "no list of .*arguments",
            )
            for calls in ('"f"', '{"name": "f"}', '["f"]', '[{"function": {"arguments": {}}}]')
        ),
        (['{"prompt": [{"role": 1, "content": "x"}]}'], {}, "without role and content"),
        ([GOOD, '{"prompt": [{"role": "user", "content": "x"}]}'], {}, "row 1 .* messages, row 0 text"),
        (['{"prompt": [{"role": "user", "content": "x"}]}', GOOD], {}, "row 1 .* text, row 0 messages"),
        (['{"prompt": "a \\ud83d b"}'], {}, "row 0 .* half a character"),
        (['{"prompt": "a", "answer": "\\udc00"}'], {}, "row 0 .* half a character"),
        ([GOOD, '{"prompt": "q", "note": ["\\ud83d"]}'], {}, "row 1 .* half a character .*: mend its text"),
        (
            ['{"prompt": "q", "x": "{\\"k\\": \\"\\\\ud83d\\"}"}'],
            {"key_column": "x.k"},
            "row 0 .* half a char",
        ),
        (['{"prompt": "a", "b\\u0000c": 1}'], {}, "row 0 .* zero character"),
        (['{"prompt": "a", "key": "k"}', '{"prompt": "b", "key": "k"}'], {}, "row 0 .* row 1 .* 'key'"),
        (['{"prompt": "a", "id": 1}', '{"prompt": "b"}'], {"key_column": "id"}, "row 1 .* 'id'"),
    ],
)
def test_mistakes_in_a_file(lines, options, message):
    with pytest.raises(DataError, match=message) as raised:
        load(*lines, **options)
    assert "\n" not in str(raised.value)


def test_rows_that_repeat_and_rows_without_a_source_are_told_of():
    other = '{"prompt": "other", "source": "web"}'
    prompts = load(GOOD, other, GOOD, GOOD)
    assert len(set(prompts.keys)) == 4
    repeated, sourceless = prompts.notes
    assert repeated.startswith("2 of 4 rows repeat")
    assert "row 2 those of row 0" in repeated
    assert sourceless.startswith("3 of 4 rows have no source")
    assert "row 0" in sourceless
    assert load(other).notes == []


def test_a_missing_file_names_its_neighbours():
    load(GOOD)
    os.mkdir("folder")
    with pytest.raises(
        DataError,
        match=r"^there is no file or folder 'dta.jsonl': in the working directory there is data.jsonl$",
    ):
        load_prompts("dta.jsonl")
    with pytest.raises(DataError, match=r"'folder/x.parquet': in folder there is nothing to read$"):
        load_prompts("folder/x.parquet")
    with pytest.raises(DataError, match=r"'no/x.jsonl': the folder 'no' does not exist either$"):
        load_prompts("no/x.jsonl")
    with pytest.raises(DataError, match=r"there is no file or folder ''"):
        load_prompts("data.jsonl,")


def test_files_of_no_known_kind():
    os.mkdir("folder")
    with pytest.raises(DataError, match="folder folder has no files"):
        load_prompts("folder")
    with open("data.txt", "w") as file:
        file.write(GOOD)
    with pytest.raises(DataError, match=r"data.txt is none of \.jsonl.*convert"):
        load_prompts("data.txt")
    os.rename("data.txt", "data.jsonl.gz")
    with pytest.raises(DataError, match="unpack"):
        load_prompts("data.jsonl.gz")
    for source in ("", None, "https://a/b.jsonl"):
        with pytest.raises(DataError, match=r"named by a text|download"):
            load_prompts(source)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data.parquet", "not Parquet", "data.parquet cannot be read as Parquet: "),
        ("data.json", "[]", "data.json is empty"),
        ("data.json", f"[{GOOD}, 3]", "data.json, item 1 is not an object but int"),
        ("data.json", f"[{GOOD},\n\n {{]", "data.json:3 is not valid JSON"),
        (
            "data.jsonl",
            GOOD.encode() + b'\n{"prompt": "\xff"}\n',
            "data.jsonl:2 .* 'utf-8'.*: save it as UTF-8",
        ),
        ("data.jsonl", GOOD.encode("utf-16"), "data.jsonl:1 .*: save it as UTF-8"),
        ("data.csv", "prompt,answer\na,1\n".encode("utf-16"), "data.csv .*: save it as UTF-8"),
    ],
)
def test_files_that_cannot_be_read(name, content, message):
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=f"^{message}"):
        load_prompts(name)


@pytest.mark.parametrize("column", ["prompt", "key", "note"])
def test_bytes_that_are_no_text_in_columns_of_texts(column):
    wrong = pa.StringArray.from_buffers(1, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff"))
    table = pa.table({"prompt": ["a"]} | {column: wrong})
    pq.write_table(table, "data.parquet")
    with pytest.raises(DataError, match=r"data\.parquet"):
        load_prompts("data.parquet")
    with pa.OSFile("data.arrow", "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(DataError, match=r"data\.arrow"):
        load_prompts("data.arrow")


def test_empty_parquet():
    pq.write_table(pa.table({"prompt": pa.array([], pa.string())}), "data.parquet")
    with pytest.raises(DataError, match=r"^data.parquet is empty"):
        load_prompts("data.parquet")


def test_a_named_column_may_hold_no_answer():
    other = '{"prompt": "a", "answer": null, "reward_model": {"style": null, "ground_truth": "5"}}'
    assert [row["answer"] for row in load(other, answer_column="answer")] == [None]
    assert [row["answer"] for row in load(other, answer_column="reward_model.style")] == [None]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["prompt", "answer", "key", "extra_info", "reward_model", "data_source", "x"])
rows = st.lists(st.dictionaries(names, values, max_size=5) | values, max_size=5)


@settings(max_examples=150, deadline=None)
@given(rows)
def test_whatever_json_the_rows_hold_they_load_or_are_refused(given_rows):
    try:
        prompts = load(*(json.dumps(row) for row in given_rows))
    except DataError:
        return
    assert len(prompts) == len(set(prompts.keys)) == len(given_rows)
    assert all(row["prompt"] for row in prompts)
    assert all(isinstance(row["answer"], str | None) for row in prompts)


def test_a_pipe_is_no_data(tmp_path):
    os.mkfifo(tmp_path / "data.jsonl")
    with pytest.raises(DataError, match="is neither a file nor a folder but a pipe or a device"):
        load_prompts(str(tmp_path / "data.jsonl"))


def test_a_device_in_a_folder_is_no_data(tmp_path):
    """It never ends, and took all memory."""
    (tmp_path / "train.jsonl").symlink_to("/dev/null")
    with pytest.raises(
        DataError, match=r"train\.jsonl' is neither a file nor a folder but a pipe or a device"
    ):
        load_prompts(tmp_path)


def test_two_columns_of_one_name():
    table = pa.Table.from_arrays([pa.array(["a"])] * 3, names=["prompt", "answer", "answer"])
    pq.write_table(table, "twice.parquet")
    with pytest.raises(DataError, match=r"twice\.parquet has two columns 'answer': rename one"):
        load_prompts("twice.parquet")
