"""The fingerprint, and the way to `datasets` and back."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curro.data import DataError, PromptSet, load_prompts


def row(key: str, prompt: object = "p", answer: str | None = "a", **more: object) -> dict:
    return {"prompt": prompt, "answer": answer, "key": key, **more}


ROWS = [row("k0"), row("k1", "q", None), row("k2", [{"role": "user", "content": "hi"}])]


def test_it_is_a_list_of_rows():
    prompts = PromptSet(ROWS, source="here")
    assert len(prompts) == 3
    assert prompts[1] is ROWS[1]
    assert prompts[-2:] == ROWS[1:]
    assert prompts.keys == ["k0", "k1", "k2"]
    assert repr(prompts) == "PromptSet(3 prompts from 'here')"


def test_empty_and_repeated_keys_are_refused():
    with pytest.raises(DataError, match="is empty"):
        PromptSet([])
    with pytest.raises(DataError, match="rows 1 and 3 have the same key 'b'"):
        PromptSet([row("a"), row("b"), row("c"), row("b")])


def test_subset_keeps_the_order_asked_for():
    assert PromptSet(ROWS, source="s").subset([2, 0]).keys == ["k2", "k0"]


def test_the_fingerprint_does_not_see_keys_or_other_columns_or_the_order_of_names():
    reordered = [{"unused": 1, **dict(reversed(r.items())), "key": f"new {r['key']}"} for r in ROWS]
    assert PromptSet(reordered).fingerprint == PromptSet(ROWS).fingerprint


def test_the_fingerprint_is_the_same_in_another_process_and_another_folder(tmp_path):
    text = "".join(json.dumps({"question": f"{i}+{i}", "answer": 2 * i}) + "\n" for i in range(5))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.jsonl").write_text(text)
    code = "import sys; from curro.data import load_prompts; print(load_prompts(sys.argv[1]).fingerprint)"
    command = [sys.executable, "-c", code, str(tmp_path / "two" / "a.jsonl")]
    there = subprocess.check_output(command, text=True, env={**os.environ, "PYTHONHASHSEED": "7"})
    assert load_prompts(str(tmp_path / "one" / "a.jsonl")).fingerprint == there.strip()


def test_to_hf_adds_the_number_and_keeps_the_rest():
    table = PromptSet([row("b", level=1, prompt_id="old"), row("a", level=2, prompt_id="old")]).to_hf()
    assert table["prompt_id"] == [0, 1]
    assert table[1] == row("a", level=2, prompt_id=1)


def test_to_hf_keeps_nested_columns_of_any_shape():
    shapes = [{"a": 1}, {"b": [1, "two", None]}, None, {}, {"a": {"c": 0.5}}]
    table = PromptSet([row(str(i), metadata=shape) for i, shape in enumerate(shapes)]).to_hf()
    assert list(table["metadata"]) == shapes


@pytest.mark.parametrize("value", [{"\0": 1}, {"a\0b": "x"}, [{"a\0": 1, "a": 2}], {"a": {"b\0c": None}}])
def test_to_hf_keeps_names_with_a_zero_character(value):
    """`datasets` cuts such a name of a nested column, and then no longer finds what it names."""
    assert list(PromptSet([row("k", x=value)]).to_hf()["x"]) == [value]


def test_names_with_a_zero_character_survive_a_parquet_file(tmp_path):
    values = [{"a\0b": 1}, {"a\0b": 2}]
    pq.write_table(pa.table({"prompt": ["p", "q"], "x": values}), tmp_path / "data.parquet")
    assert list(load_prompts(str(tmp_path / "data.parquet")).to_hf()["x"]) == values


def test_to_hf_keeps_messages():
    chats = [
        [{"role": "user", "content": "a"}],
        [{"role": "system", "content": "b"}, {"role": "user", "content": "c"}],
    ]
    tools = [[{"role": "user", "content": "a"}], [{"role": "tool", "content": "b", "name": "f"}]]
    for prompts in (chats, tools):
        assert list(PromptSet([row(str(i), p) for i, p in enumerate(prompts)]).to_hf()["prompt"]) == prompts


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(values, min_size=1, max_size=5))
def test_to_hf_gives_back_any_column(column):
    table = PromptSet([row(str(i), x=value) for i, value in enumerate(column)]).to_hf()
    assert json.dumps(list(table["x"]), sort_keys=True) == json.dumps(column, sort_keys=True)
