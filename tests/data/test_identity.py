"""One data set has one fingerprint, whatever route it came by."""

from __future__ import annotations

import json

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curro import ConfigError, Curriculum
from curro.data import DataError, load_prompts
from curro.data.identity import fingerprint
from curro.hosts.trl.checks import RowIdentity


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
        "load_prompts, then TRL": RowIdentity(loaded.to_hf()).fingerprint,
        "TRL": RowIdentity(raw).fingerprint,
        "curriculum": Curriculum("uniform", RowIdentity(raw)).table.fingerprint,
    }
    assert set(routes.values()) == {loaded.fingerprint}, routes


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


def test_a_key_that_no_file_can_store_is_refused_with_its_row(tmp_path):
    with pytest.raises(ConfigError, match=r"the key of prompt 1 holds half a character \('\\ud83d'\)"):
        Curriculum("uniform", ["fine", "broken \ud83d"])
    (tmp_path / "data.jsonl").write_text('{"prompt": "p", "key": "\\ud83d"}\n')
    with pytest.raises(DataError, match=r"row 0 .* holds half a character"):
        load_prompts(str(tmp_path / "data.jsonl"))
