"""One data set has one fingerprint, whatever route it came by."""

from __future__ import annotations

import hashlib
import json
import math

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curro import CheckpointError, ConfigError, Curriculum
from curro.core.identity import DatasetRows, as_written, fingerprint
from curro.data import load_prompts


def chat(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


PLAIN = [{"prompt": f"{i} + {i}?", "answer": 2 * i} for i in range(5)]
KEYED = [{"prompt": chat(f"{i}?"), "solution": str(i), "key": f"k{i}", "level": i} for i in range(5)]
VERL = [
    {
        "data_source": "sums",
        "prompt": chat(f"{i} + 1?"),
        "reward_model": {"style": "rule", "ground_truth": str(i + 1)},
        "extra_info": {"index": i},
    }
    for i in range(5)
]


@pytest.mark.parametrize("rows", [PLAIN, KEYED, VERL], ids=["plain", "keyed", "verl"])
def test_by_every_route_the_same(tmp_path, rows):
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "other name.parquet")
    loaded = load_prompts(str(tmp_path / "data.jsonl"))
    raw = datasets.Dataset.from_list(rows)
    routes = {
        "Parquet": load_prompts(str(tmp_path / "other name.parquet")).fingerprint,
        "load_prompts, then TRL": DatasetRows(loaded.to_hf()).fingerprint,
        "TRL": DatasetRows(raw).fingerprint,
        "curriculum": Curriculum("uniform", raw).table.fingerprint,
        "list": Curriculum("uniform", rows).table.fingerprint,
    }
    assert set(routes.values()) == {loaded.fingerprint}, routes


def test_an_answer_column_of_ones_own_keeps_the_fingerprint(tmp_path):
    """Rows of verl's have another column of answers still, which comes first where none is named."""
    rows = [row | {"short": row["prompt"][0]["content"][0]} for row in VERL]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    loaded = load_prompts(str(tmp_path / "data.jsonl"), answer_column="short")
    assert loaded.fingerprint != load_prompts(str(tmp_path / "data.jsonl")).fingerprint
    loaded.to_hf().to_parquet(tmp_path / "hf.parquet")
    assert DatasetRows(loaded.to_hf()).fingerprint == loaded.fingerprint
    assert load_prompts(str(tmp_path / "hf.parquet")).fingerprint == loaded.fingerprint
    assert Curriculum("uniform", list(loaded.to_hf())).table.fingerprint == loaded.fingerprint


def test_numbers_of_32_bits_are_as_they_were_written(tmp_path):
    """0.1 there is 0.10000000149011612 in 64 bits, and no completion gave that as its answer."""
    kind = pa.struct([("ground_truth", pa.float32())])
    answers = pa.array([{"ground_truth": 0.1}, {"ground_truth": None}, {"ground_truth": 12.99}], kind)
    table = pa.table({"prompt": ["a", "b", "c"], "reward_model": answers})
    pq.write_table(table, tmp_path / "rows.parquet")
    loaded = load_prompts(tmp_path / "rows.parquet")
    assert [row["answer"] for row in loaded] == ["0.1", None, "12.99"]
    assert loaded.fingerprint == DatasetRows(datasets.Dataset(table)).fingerprint


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (float(np.float32(1e-7 / 3)), "3.3333333e-08"),
        (float(np.float32(2.5e38 / 3)), "8.333333e+37"),
        (2.0**27, "134217728"),  # 134217730 would do in 32 bits
        (2.0**-12, "0.000244140625"),  # exact, and 0.00024414062 would do
        (0.1, "0.1"),
        (1 / 3, "0.3333333333333333"),
        (np.float64(-2.50), "-2.5"),
        (-0.0, "0"),
        (1e16, "1e+16"),
        (1.2345678901234567e300, "1.2345678901234567e+300"),
        (math.inf, "inf"),
    ],
)
def test_a_number_as_it_was_written(number, text):
    assert as_written(number) == text


def test_a_whole_number_beside_a_row_without_one_is_that_number(tmp_path):
    """pandas makes 42.0 of 42 there, which no completion says."""
    table = pd.DataFrame({"prompt": ["a", "b", "c"], "answer": [42, None, -0.5]})
    table.to_parquet(tmp_path / "rows.parquet")
    loaded = load_prompts(tmp_path / "rows.parquet")
    assert [row["answer"] for row in loaded] == ["42", None, "-0.5"]
    assert loaded.fingerprint == DatasetRows(datasets.Dataset.from_pandas(table)).fingerprint


def test_the_fingerprint_of_version_0_2():
    """SHA-256 of a line of JSON a row, `["0 + 0?", "0"]` and so on."""
    expected = "".join(f'["{i} + {i}?", "{2 * i}"]\n' for i in range(5)).encode()
    assert DatasetRows(PLAIN).fingerprint == hashlib.sha256(expected).hexdigest()


ROWS = DatasetRows(KEYED)


@pytest.mark.parametrize(
    "prompts", [KEYED, datasets.Dataset.from_list(KEYED), ROWS, [f"k{i}" for i in range(5)], 5]
)
def test_a_curriculum_over_these_rows_passes(prompts):
    Curriculum("uniform", prompts).check_rows(ROWS)


@pytest.mark.parametrize(
    ("prompts", "words"),
    [
        (KEYED[::-1], r"another data set than train_dataset, or in another order: .* [0-9a-f]{8} and {};"),
        (PLAIN, "another data set than train_dataset"),
        (list("abcde"), "another data set than train_dataset"),
        (4, "the curriculum is over 4 prompts, train_dataset has 5"),
    ],
)
def test_a_curriculum_over_other_rows_is_refused(prompts, words):
    with pytest.raises(ConfigError, match=words.replace("{}", ROWS.fingerprint[:8])):
        Curriculum("uniform", prompts).check_rows(ROWS, "train_dataset")


def test_a_curriculum_from_a_bare_number_takes_over_the_rows_it_meets(tmp_path):
    rows = DatasetRows([{**row, "source": "ab"[i % 2]} for i, row in enumerate(KEYED)])
    before = Curriculum("uniform", 5)
    before.save(tmp_path / "before.npz")
    before.check_rows(rows)
    assert (before.table.fingerprint, before.table.key(3), before.table.source(3)) == (
        rows.fingerprint,
        "k3",
        "b",
    )
    with pytest.raises(ConfigError, match="another data set"):
        before.check_rows(DatasetRows(KEYED[::-1]))
    before.load(tmp_path / "before.npz")  # which was saved without a fingerprint
    before.save(tmp_path / "after.npz")
    Curriculum("uniform", rows).load(tmp_path / "after.npz")
    with pytest.raises(CheckpointError, match="another data set"):
        Curriculum("uniform", rows).load(tmp_path / "before.npz")


def test_a_field_that_arrow_added_is_no_change():
    named = [{"role": "user", "content": "a", "name": None}]
    assert fingerprint([named], ["b"]) == fingerprint([chat("a")], ["b"])


def test_prompts_answers_and_order_are_what_counts():
    prints = [
        fingerprint(["a", "b"], ["1", "2"]),
        fingerprint(["b", "a"], ["2", "1"]),
        fingerprint(["a", "b"], ["2", "1"]),
        fingerprint(["a", "b"], [None, None]),
        fingerprint(["ab", ""], [None, None]),
        fingerprint([chat("a"), "b"], ["1", "2"]),
        fingerprint(["a"], ["1"]),
    ]
    assert len(set(prints)) == len(prints)
    assert fingerprint(["a", "b"]) == prints[3]


def test_a_key_that_no_file_can_store_is_refused_with_its_row():
    with pytest.raises(ConfigError, match=r"the key of prompt 1 holds half a character \('\\ud83d'\)"):
        Curriculum("uniform", ["fine", "broken \ud83d"])
