"""Shares of sources: how many prompts of each are drawn, whatever selection draws them."""

from __future__ import annotations

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.core.test_port_machine import SELECTIONS

from curro import CheckpointError, Choice, ConfigError, Curriculum, ExhaustedError, Reason, Selection
from curro.core.identity import DatasetRows
from curro.core.registry import parse_curriculum
from curro.data import load_prompts

MIXED = [spec for spec in SELECTIONS if not spec.startswith(("adcl", "scheduled", "metis", "pcl"))]


def rows(**sizes):
    """So many rows of each source, one after the other."""
    return [
        {"prompt": f"{source} {i}", "source": source, "key": f"{source}-{i}"}
        for source, size in sizes.items()
        for i in range(size)
    ]


def drawn(curriculum, n, steps, *, first=0):
    """The sources of `steps` draws of n prompts, whose groups end at once with random rewards."""
    sources = []
    for step in range(first, first + steps):
        draw = curriculum.select(n, step=step)
        sources.append([curriculum.table.source(prompt) for prompt in draw.prompts.tolist()])
        rewards = np.random.default_rng(step).integers(0, 2, (n, 4))
        curriculum.observe(draw.tickets, rewards)
        assert not curriculum.table["in_flight"].any()
        assert not len(curriculum.table.prompts_in_flight)
    return sources


@pytest.mark.parametrize("kind", ["rows", "file", "dataset"])
def test_the_first_prompt_may_be_without_a_source(kind, tmp_path):
    data = [{"prompt": "0", "source": None, "key": "0"}, *rows(math=2, code=1)]
    pq.write_table(pa.Table.from_pylist(data), tmp_path / "data.parquet")
    kinds = {
        "rows": lambda: data,
        "file": lambda: load_prompts(tmp_path / "data.parquet"),
        "dataset": lambda: DatasetRows(datasets.Dataset.from_list(data)),
    }
    curriculum = Curriculum("uniform", kinds[kind]())
    assert curriculum.table.source_column == "source"
    names, source_N = curriculum.table.sources()
    assert [names[i] for i in source_N] == ["other", "math", "math", "code"]


@pytest.mark.parametrize("n", [1, 3])
def test_weights_by_hand(n):
    """math=2, code=1: due 2/3 and 1/3, so math; then 1/3 and 2/3, so code; then 1 and 0, so math; again."""
    curriculum = Curriculum("uniform", rows(math=9, code=9), source_weights="math=2,code=1")
    sources = [source for draw in drawn(curriculum, n, 6 // n) for source in draw]
    expected = ["math", "code", "math"] * 2
    assert sources == expected if n == 1 else sorted(sources) == sorted(expected)
    metrics = curriculum.metrics()
    assert metrics["math/share"] == pytest.approx(2 / 3)
    assert np.isnan(metrics["signal/uniform"])


@pytest.mark.filterwarnings("ignore:the reward")
@pytest.mark.parametrize("spec", MIXED)
def test_every_selection_keeps_the_weights(spec):
    weights = {"math": 3, "code": 2, "logic": 1}
    advantage = "smoothed" if "smoothed" in spec else None
    curriculum = Curriculum(
        spec, rows(math=15, code=40, logic=25), advantage=advantage, source_weights=weights
    )
    for sources in drawn(curriculum, 6, 8):
        assert {name: sources.count(name) for name in weights} == weights
    assert curriculum.metrics()["selected"] == 48
    # a resume goes on with what each source is due, also in the middle of a round
    drawn(curriculum, 5, 3, first=8)
    again = Curriculum(spec, rows(math=15, code=40, logic=25), advantage=advantage, source_weights=weights)
    again.load_state_dict(curriculum.state_dict())
    assert drawn(again, 4, 4, first=11) == drawn(curriculum, 4, 4, first=11)


@pytest.mark.parametrize("spec", ["uniform", "greso"])
@pytest.mark.parametrize("n", [1, 8])
def test_each_source_is_passed_through(spec, n):
    """Of 24 and 16 prompts 6 and 2 of 8 are drawn: in 32 steps 8 and 4 passes."""
    curriculum = Curriculum(spec, rows(math=24, code=16), source_weights="math=3,code=1")
    again = Curriculum(spec, rows(math=24, code=16), source_weights="math=3,code=1")
    had = {"math": [], "code": []}
    for step in range(32 * 8 // n):
        draw = curriculum.select(n, step=step)
        for prompt in draw.prompts.tolist():
            had[curriculum.table.source(prompt)].append(prompt)
        curriculum.observe(draw.tickets, np.tile([1.0, 0.0], (n, 2)))
        if step % 7 == 5:
            again.load_state_dict(curriculum.state_dict())
            curriculum, again = again, curriculum
    for source, size in (("math", 24), ("code", 16)):
        passes = np.array(had[source]).reshape(-1, size)
        assert all(len(set(prompts)) == size for prompts in passes.tolist())
        assert len({tuple(prompts) for prompts in passes.tolist()}) == len(passes), "in another order each"


def test_a_source_whose_prompts_are_in_flight_passes_its_turn():
    curriculum = Curriculum("uniform", rows(math=2, code=6), source_weights={"math": 1, "code": 1})
    first = curriculum.select(6, step=0)
    sources = [curriculum.table.source(prompt) for prompt in first.prompts.tolist()]
    assert (sources.count("math"), sources.count("code")) == (2, 4)
    with pytest.raises(ExhaustedError):
        curriculum.select(3, step=0)
    assert len(curriculum.select(2, step=0)) == 2


def test_a_source_of_weight_0_is_not_drawn_and_not_free():
    curriculum = Curriculum("frontier", rows(math=5, code=5), source_weights="math=1,code=0")
    assert curriculum.free == 5
    assert drawn(curriculum, 2, 4) == [["math"] * 2] * 4
    with pytest.raises(ExhaustedError, match="6 prompts were asked for and 5 of 10 are free"):
        curriculum.select(6, step=9)


def test_large_weights_are_shares_too():
    """Their sum is infinite."""
    curriculum = Curriculum("uniform", rows(a=9, b=9), source_weights={"a": 1.5e308, "b": 1.5e308})
    assert [sorted(draw) for draw in drawn(curriculum, 2, 3)] == [["a", "b"]] * 3


@pytest.mark.parametrize(
    ("spec", "data", "weights", "words"),
    [
        ("uniform", rows(a=2, b=2), "a=1", "the sources a, b: give each of them a weight"),
        ("uniform", rows(a=2), "a=0", "sum to 0"),
        ("uniform", rows(a=2), "a=-1", "source_weights is a number from 0 for each"),
        ("uniform", rows(a=2), "a", "source_weights is a number from 0 for each"),
        ("uniform", rows(a=2, b=2), "a=1,b=1,a=2", "a number from 0 for each source, once"),
        ("uniform", rows(a=2), 0, "source_weights is a number from 0 for each"),
        ("uniform", [{"prompt": "x"}], "a=1", "needs rows with a column `source`"),
        ("adcl", rows(a=9), "a=1", "adcl has an order of its own"),
        ("scheduled", rows(a=9), "a=1", "scheduled has an order of its own"),
    ],
)
def test_what_is_no_mixture_is_refused(spec, data, weights, words):
    with pytest.raises(ConfigError, match=words):
        Curriculum(spec, data, source_weights=weights)


def test_a_mixture_in_the_text_of_a_curriculum():
    config = parse_curriculum("frontier admission=signal source_weights=math=2,code=1")
    curriculum = Curriculum.from_config(config, rows(math=3, code=3))
    assert curriculum.config["source_weights"] == {"math": 2.0, "code": 1.0}
    other = Curriculum("frontier", rows(math=3, code=3), admission="signal")
    with pytest.raises(CheckpointError, match="its source_weights is"):
        other.load_state_dict(curriculum.state_dict())


def test_an_error_of_the_selection_leaves_nothing_in_flight():
    class FailsLater(Selection):
        """The first free prompts; the second call fails."""

        calls = 0

        def bind(self, table, rng):
            super().bind(table, rng)
            self.returned = []

        def select(self, n, step):
            self.calls += 1
            if self.calls == 2:
                raise ZeroDivisionError
            return Choice.of(np.flatnonzero(~self.table["in_flight"])[:n], Reason.PRIORITY)

        def release(self, prompts):
            self.returned += prompts.tolist()

    curriculum = Curriculum(FailsLater(), rows(math=4, code=4), source_weights="math=1,code=1")
    with pytest.raises(ZeroDivisionError):
        curriculum.select(4, step=0)
    assert sorted(curriculum.selection.returned) == [0, 1, 2, 3]
    assert not curriculum.table["in_flight"].any()
    assert curriculum.free == 8
    assert curriculum.select(4, step=0).prompts.tolist() == [0, 1, 4, 5]
