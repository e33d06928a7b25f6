"""verl's data set has the fingerprint that `load_prompts` gives it."""

from __future__ import annotations

import datasets
import pyarrow as pa
import pyarrow.parquet as pq

from curro.data import load_prompts
from curro.hosts.verl.policy import VerlRows


def test_the_fingerprint_is_that_of_the_file(tmp_path):
    rows = [
        {
            "data_source": "sums",
            "prompt": [{"role": "user", "content": f"{i} + 1?"}],
            "reward_model": {"style": "rule", "ground_truth": str(i + 1)},
            "extra_info": {"index": i},
        }
        for i in range(5)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "train.parquet")

    class Framed:
        dataframe = datasets.Dataset.from_list(rows)

    class Items(list):
        """A map-style data set without a frame, which gives prompts as verl's own does."""

    plain = Items({"raw_prompt": row["prompt"], "reward_model": row["reward_model"]} for row in rows)
    expected = load_prompts(str(tmp_path / "train.parquet")).fingerprint
    assert VerlRows(Framed()).fingerprint == expected
    assert VerlRows(plain).fingerprint == expected
