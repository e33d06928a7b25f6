"""The prompt table: identity, columns, data frames, and what it refuses."""

import numpy as np
import pandas as pd
import pytest

from curro import CheckpointError, ConfigError, Curriculum, PromptTable
from curro.core.prompts import flat_variance


def test_a_prompt_is_a_number_with_its_key_beside_it():
    assert PromptTable(3).key(2) == "2"
    assert PromptTable(["a", "b"]).key(1) == "b"
    assert PromptTable(np.array(["a", "b"])).key(1) == "b"
    assert PromptTable(pd.Series(["a", "b"])).key(1) == "b"
    assert len(Curriculum("uniform", pd.Series(["a", "b"])).table) == 2
    assert len(PromptTable(np.int64(4))) == 4


RANGES = [(1, 1), (1, 0), (0, np.inf), (np.nan, 1), (0, 1, 2), 1, "ab", (-1e308, 1e308)]


@pytest.mark.parametrize(
    ("prompts", "reward_range", "words"),
    [
        *((nothing, (0, 1), "the data set is empty: a curriculum needs at") for nothing in (0, -1, [], ())),
        *((wrong, (0, 1), "prompts are a number, or") for wrong in ("data.jsonl", {"a": 1}, None, 3.0)),
        (["a", "b", "c", "b"], (0, 1), "prompts 1 and 3 have the same key 'b': keys must be unique"),
        *((2, wrong, r"reward_range is .failure, success. with failure < success") for wrong in RANGES),
        (3, (0, 1e-300), "variances are too small to be told from 0"),
    ],
)
def test_what_is_no_table(prompts, reward_range, words):
    with pytest.raises(ConfigError, match=words):
        Curriculum("uniform", prompts, reward_range=reward_range)


def test_success_rate_is_linear_in_the_reward_range():
    table = PromptTable(1, reward_range=(-1, 3))
    # (-1 - -1)/4 = 0, (0 - -1)/4 = 1/4, (3 - -1)/4 = 1, and beyond: (7 - -1)/4 = 2
    assert table.success_rate(np.array([-1.0, 0.0, 3.0, 7.0])).tolist() == [0, 0.25, 1, 2]


def test_flatness_is_a_tolerance_in_success_rates():
    p = np.array([0, 1 / 8, 2 / 8, 6 / 8, 7 / 8, 1])
    # tolerance 0.2: p <= 0.2 or p >= 0.8; 1/8 and 7/8 lie within, 2/8 and 6/8 do not
    assert PromptTable(1).is_flat(p * (1 - p), 0.2).tolist() == [True, True, False, False, True, True]
    # the end of the band belongs to it: p = 1/8 with tolerance 1/8
    assert PromptTable(1).is_flat(p * (1 - p), 0.125).tolist() == [True, True, False, False, True, True]
    assert PromptTable(1).is_flat(p * (1 - p)).tolist() == [True, False, False, False, False, True]
    # rewards in {0, 10} have 100 times the variance
    wide = PromptTable(1, reward_range=(0, 10))
    assert wide.is_flat(100 * p * (1 - p), 0.2).tolist() == [True, True, False, False, True, True]


def test_a_column_that_memory_does_not_hold(monkeypatch):
    def refuse(*_):
        raise MemoryError

    monkeypatch.setattr(np, "full", refuse)
    with pytest.raises(ConfigError, match="memory does not hold the column 'last_step' of 4 prompts"):
        PromptTable(4)


def test_columns():
    table = PromptTable(3)
    assert table.add("score", np.float32, np.nan) is table["score"]
    assert table.add("zero", np.int8, 0).tolist() == [0, 0, 0]
    for taken in ("visits", "score", "prompt", "key", "text"):
        with pytest.raises(ConfigError, match=f"has a column '{taken}' already: choose another name"):
            table.add(taken, np.float32, 0)
    with pytest.raises(ConfigError, match="rename 'mine/score'"):  # which checkpoints cannot keep
        table.add("mine/score", np.float64, 0)
    with pytest.raises(KeyError, match="no column 'scores' in the prompt table; it has visits, last_step"):
        table["scores"]


def test_sources():
    names = ["math", None, "code", "", "math"]
    rows = [{"prompt": "p", "source": name} for name in names]
    sources, source_N = PromptTable(5, rows=rows).sources()
    assert [sources[number] for number in source_N] == ["math", "other", "code", "other", "math"]
    sources, source_N = PromptTable(2).sources()
    assert (sources, source_N.tolist()) == (["other"], [0, 0])


def test_frames():
    curriculum = Curriculum("uniform", ["a", "b", "c"])
    draw = curriculum.select(1, step=4)
    curriculum.observe(draw.tickets, [[1.0, 0.0]])
    frame = curriculum.table.to_pandas()
    assert frame["prompt"].tolist() == [0, 1, 2]
    assert frame["key"].tolist() == ["a", "b", "c"]
    row = frame.loc[draw.prompts[0]]
    assert (row["visits"], row["last_step"], row["reward_mean"], row["reward_variance"]) == (1, 4, 0.5, 0.25)
    arrow = curriculum.table.to_arrow()
    assert arrow.schema.metadata[b"curro.fingerprint"].decode() == curriculum.table.fingerprint
    assert "key" not in PromptTable(2).to_pandas()


def test_metrics_by_the_latest_visit():
    curriculum = Curriculum("uniform", 5)
    draw = curriculum.select(4, step=0)
    curriculum.observe(draw.tickets, [[1, 1], [0, 0], [1, 0], [1, 0]])
    metrics = curriculum.table.metrics()
    counts = {name: metrics[f"table/{name}"] for name in ("unseen", "solved", "unsolved", "learnable")}
    assert counts == {"unseen": 1, "solved": 1, "unsolved": 1, "learnable": 2}
    # rates 1, 0, 1/2, 1/2: mean 1/2, variance (1/4 + 1/4 + 0 + 0)/4 = 1/8
    assert metrics["table/success_rate_mean"] == 0.5
    assert metrics["table/success_rate_std"] == pytest.approx(0.125**0.5, rel=1e-12)
    assert np.isnan(PromptTable(2).metrics()["table/success_rate_mean"])


def test_the_fingerprint_is_of_the_keys():
    prints = [PromptTable(p).fingerprint for p in (["a", "b"], ["b", "a"], ["ab", ""], ["a", "c"], 2)]
    assert len(set(prints)) == 5
    assert PromptTable(("a", "b")).fingerprint == prints[0]
    assert PromptTable(["a", "b"], fingerprint="mine").fingerprint == "mine"


def test_a_saved_table_of_other_columns_or_sizes():
    table = PromptTable(3)
    with pytest.raises(
        CheckpointError, match=r"has the columns .* load it with the curriculum that saved it"
    ):
        table.load_state_dict(table.state_dict() | {"more": np.zeros(3)})
    with pytest.raises(CheckpointError, match=r"'int32\(4,\)'.* this one .*'int32\(3,\)'"):
        table.load_state_dict(PromptTable(4).state_dict())
    with pytest.raises(CheckpointError, match="'visits': 'float64"):
        table.load_state_dict(table.state_dict() | {"visits": np.ones(3)})
    assert not table["visits"].any()


def test_the_smallest_range_still_has_flat_groups():
    assert flat_variance(0.0, (0, 1e-6)) > 0
