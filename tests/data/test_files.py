"""Which files a folder means, and which rows a JSON file that is one object."""

from __future__ import annotations

import json

import datasets
import pyarrow as pa
import pyarrow.parquet
import pytest

from curro.core.identity import digest_dataset
from curro.data import DataError, load_prompts

ROWS = [{"prompt": "1+1?", "answer": "2"}, {"prompt": "1+2?", "answer": "3"}]
MESSAGES = [[{"role": "user", "content": "a"}], [{"role": "user", "content": "b"}]]


@pytest.fixture
def rows():
    return datasets.Dataset.from_list(ROWS)


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    "content",
    [
        {"data": ROWS},
        {"version": "1", "rows": ROWS},
        {"train": ROWS, "test": ROWS[:1]},
        {"prompt": ["1+1?", "1+2?"], "answer": ["2", "3"]},
        {
            "features": [{"name": "prompt"}],
            "rows": [{"row_idx": i, "row": row} for i, row in enumerate(ROWS)],
        },
        ROWS,
    ],
)
def test_an_object_of_rows(tmp_path, content, indent):
    (tmp_path / "rows.json").write_text(json.dumps(content, indent=indent))
    prompts = load_prompts(tmp_path / "rows.json")
    assert [(row["prompt"], row["answer"]) for row in prompts] == [("1+1?", "2"), ("1+2?", "3")]


def test_objects_that_are_a_row_conversations_or_nothing(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({"prompt": MESSAGES[0], "answer": "1"}, indent=1))
    assert load_prompts(path)[0]["prompt"] == MESSAGES[0]
    path.write_text(json.dumps({"prompt": MESSAGES, "answer": ["1", "2"]}))
    assert [row["prompt"] for row in load_prompts(path)] == MESSAGES
    columns = {"prompt": {"0": "1+1?", "1": "1+2?"}, "answer": {"0": "2", "1": "3"}}
    for content in (
        {},
        {"meta": {"a": 1}, "count": 3},
        {"prompt": ["a", "b"], "answer": ["1"]},
        {"data": {"train": ROWS}},
        {"a": ROWS[0], "b": ROWS[1]},
        {"columns": ["prompt", "answer"], "index": [0, 1], "data": [["1+1?", "2"], ["1+2?", "3"]]},
        columns,
    ):
        path.write_text(json.dumps(content))
        with pytest.raises(DataError, match=r"rows\.json is one JSON object|rows\.json differ in length"):
            load_prompts(path)
    path.write_text(json.dumps({"rows": [{"row_idx": 0, "row": ROWS[0]}, {"row_idx": 1}]}))
    with pytest.raises(DataError, match=r"item 1.* has no 'prompt'"):
        load_prompts(path)


@pytest.mark.parametrize(
    "files",
    [
        ["data/train-00000-of-00001.parquet", "data/test-00000-of-00001.parquet"],
        ["main/train-00000-of-00001.parquet"],
        ["default/train/0000.parquet", "default/test/0000.parquet"],
        ["gsm8k_train.parquet", "gsm8k_test.parquet"],
        ["train.parquet", "val.parquet"],
    ],
)
def test_a_snapshot_of_the_hub(tmp_path, rows, files):
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (rows if "train" in file else rows.select([0])).to_parquet(tmp_path / file)
    (tmp_path / "dataset_infos.json").write_text("{}")
    (tmp_path / "README.md").write_text("---\n---\n")
    assert len(load_prompts(tmp_path)) == 2
    split = next((name for name in ("test", "val") if any(name in file for file in files)), None)
    if split is None:
        with pytest.raises(DataError, match="no split 'test'"):
            load_prompts(tmp_path, split="test")
    else:
        assert len(load_prompts(tmp_path, split=split)) == 1


def test_saved_to_disk(tmp_path, rows):
    rows.save_to_disk(tmp_path / "saved")
    datasets.DatasetDict({"train": rows, "test": rows.select([0])}).save_to_disk(tmp_path / "dict")
    whole = load_prompts(tmp_path / "saved")
    assert whole.fingerprint == load_prompts(tmp_path / "dict" / "train").fingerprint
    assert len(load_prompts(tmp_path / "dict", split="test")) == 1
    with pytest.raises(DataError, match="no split 'validation'"):
        load_prompts(tmp_path / "dict", split="validation")
    (tmp_path / "saved" / "state.json").write_text("{")
    with pytest.raises(DataError, match="load_from_disk"):
        load_prompts(tmp_path / "saved")


def test_splits_of_a_dict_by_their_own_names(tmp_path, rows):
    splits = {"train_sft": rows.select([0]), "train_prefs": rows, "test_prefs": rows.select([1])}
    datasets.DatasetDict(splits).save_to_disk(tmp_path)
    assert [len(load_prompts(tmp_path, split=name)) for name in splits] == [1, 2, 1]
    assert load_prompts(tmp_path, split="test")[0]["prompt"] == "1+2?"
    with pytest.raises(DataError, match=r"several splits 'train'; .* name one, as .*train_sft$"):
        load_prompts(tmp_path)


def test_hidden_files_are_no_data(tmp_path):
    for name in ("train/a.jsonl", "train/._a.jsonl", "train/.ipynb_checkpoints/a-checkpoint.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"\x00\x05\x16\x07" if "._" in name else b'{"prompt": "?"}\n')
    for folder in (tmp_path, tmp_path / "train"):
        assert len(load_prompts(folder)) == 1


def test_a_shard_whose_download_is_gone(tmp_path, rows):
    rows.to_parquet(tmp_path / "train-00000-of-00002.parquet")
    (tmp_path / "train-00001-of-00002.parquet").symlink_to(tmp_path / "blob")
    with pytest.raises(DataError, match=r"train-00001-of-00002\.parquet is a link to a file that is gone"):
        load_prompts(tmp_path)


@pytest.mark.parametrize("new", [pa.ipc.new_file, pa.ipc.new_stream])
def test_both_formats_of_arrow(tmp_path, new):
    table = pa.Table.from_pylist(ROWS)
    with pa.OSFile(str(tmp_path / "rows.arrow"), "wb") as file, new(file, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=1):
            writer.write_batch(batch)
    assert [(row["prompt"], row["answer"]) for row in load_prompts(tmp_path)] == [
        ("1+1?", "2"),
        ("1+2?", "3"),
    ]


def test_a_folder_of_configurations_asks_for_one(tmp_path, rows):
    for name in ("main", "socratic"):
        (tmp_path / name).mkdir()
        rows.to_parquet(tmp_path / name / "train.parquet")
    with pytest.raises(DataError, match="main, socratic"):
        load_prompts(tmp_path)


@pytest.mark.parametrize("name", ["a.JSONL", "a.ndjson", "a.tsv", "a.csv"])
def test_files_under_other_names_and_beside_a_description(tmp_path, name):
    lines = [json.dumps(row) for row in ROWS]
    if name.endswith("sv"):
        parted = "\t" if name == "a.tsv" else ", "
        lines = [f"prompt{parted}answer", *(f"{row['prompt']}{parted}{row['answer']}" for row in ROWS)]
    (tmp_path / name).write_text("\n".join(lines))
    (tmp_path / "tokenizer_config.json").write_text('{"bos_token": "<s>"}')
    for source in (tmp_path, tmp_path / name):
        assert [row["prompt"] for row in load_prompts(source)] == ["1+1?", "1+2?"]
        assert load_prompts(source)[0]["answer"].strip() == "2"


def test_csv(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('prompt,answer\n"a, ""b""",2\nc,\n')
    assert [(row["prompt"], row["answer"]) for row in load_prompts(path)] == [('a, "b"', "2"), ("c", None)]
    for text, message in (
        ("prompt,answer\na\n", r"rows\.csv, row 0"),
        ("prompt,prompt\na,b\n", "two columns"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=message):
            load_prompts(path)


def test_parquet_gives_a_part_of_a_message_no_fields_of_other_parts(tmp_path):
    parts = [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "?"}]
    table = pa.Table.from_pylist([{"prompt": [{"role": "user", "content": parts}]}])
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    (row,) = load_prompts(tmp_path / "rows.parquet")
    assert row["prompt"] == [{"role": "user", "content": parts}]  # templates ask whether `image_url` is there


def test_parquet_gives_a_call_no_arguments_of_other_calls(tmp_path):
    def called(name, **arguments):
        return [
            {"role": "user", "content": "?"},
            {"role": "assistant", "tool_calls": [{"function": {"name": name, "arguments": arguments}}]},
        ]

    prompts = [called("f", x=1), called("g", y="k")]
    dataset = datasets.Dataset.from_list([{"prompt": prompt} for prompt in prompts])
    assert dataset[0]["prompt"][1]["tool_calls"][0]["function"]["arguments"] == {"x": 1, "y": None}
    dataset.to_parquet(tmp_path / "rows.parquet")
    dataset.save_to_disk(tmp_path / "saved")
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps({"prompt": prompt}) for prompt in prompts))
    loaded = [load_prompts(tmp_path / name) for name in ("rows.jsonl", "rows.parquet", "saved")]
    assert loaded[0].rows == loaded[1].rows == loaded[2].rows
    assert loaded[0].fingerprint == loaded[1].fingerprint == digest_dataset(dataset)[0]


def test_one_object_with_messages_is_a_row(tmp_path):
    row = {"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}], "n": 1}
    for name in ("row.json", "row.jsonl"):
        (tmp_path / name).write_text(json.dumps(row, indent=1 if name == "row.json" else None))
        assert load_prompts(tmp_path / name, prompt_column="messages")[0]["prompt"] == row["messages"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"data/train.parquet": "version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 9\n"},
            "lfs pull",
        ),
        ({"train.jsonl.gz": "", "README.md": ""}, "it has README.md, train.jsonl.gz"),
        ({"train-0.jsonl": '{"prompt": "?"}', "train-1.jsonl.gz": ""}, r"train-1\.jsonl\.gz .*unpack it"),
        ({"test.jsonl": '{"prompt": "?"}'}, "as .*test.jsonl"),
    ],
)
def test_folders_that_cannot_be_read(tmp_path, files, message):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        load_prompts(tmp_path)


@pytest.mark.parametrize("turn", [{"content": None}, {}])
def test_a_turn_of_tool_calls_needs_no_content(tmp_path, turn):
    calls = [{"type": "function", "function": {"name": "weather", "arguments": {"city": "Rome"}}}]
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", **turn, "tool_calls": calls}]
    (tmp_path / "rows.jsonl").write_text(json.dumps({"prompt": messages}) + "\n")
    (row,) = load_prompts(tmp_path / "rows.jsonl")
    assert row["prompt"][1] == {"role": "assistant", "content": None, "tool_calls": calls}
