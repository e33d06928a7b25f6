"""Methods by name, by dict, by text, and the user's own; what is wrong is answered with what is right."""

import sys
import types

import numpy as np
import pytest

from curro import ConfigError, Curriculum, Selection
from curro.core import registry
from curro.core.bases import Choice, Reason
from curro.methods.selection.adcl import ADCL
from curro.methods.selection.prioritized_replay import FadedReplay
from curro.methods.selection.prioritized_sampling import PrioritizedSampling
from curro.methods.selection.published_replay import PublishedReplay
from curro.methods.selection.uniform import Uniform

REPLAY = "prioritized-replay"


class Backwards(Selection):
    """The user's own: the highest number first, but `skip` of them."""

    def __init__(self, skip: int = 0, *, label: str = "", ratio: float = 1.0) -> None:
        self.skip, self.label, self.ratio = skip, label, ratio

    def select(self, n, step):
        free = np.flatnonzero(~self.table["in_flight"])[::-1]
        return Choice.of(np.roll(free, -self.skip)[:n], Reason.PRIORITY)


@pytest.fixture(autouse=True)
def mine(monkeypatch):
    module = types.ModuleType("mine")
    module.Backwards = Backwards
    module.pi = 3.14
    monkeypatch.setitem(sys.modules, "mine", module)


@pytest.mark.parametrize(
    ("spec", "kind", "values"),
    [
        ("uniform", Uniform, {}),
        ("uniform:", Uniform, {}),
        ("adcl:train_estimates=true", ADCL, {"train_estimates": True}),
        ({"name": "pspo", "beta": 0}, PrioritizedSampling, {"beta": 0}),
        (REPLAY, FadedReplay, {"candidates": 4}),
        (REPLAY + ":candidates=4", FadedReplay, {"candidates": 4}),
        (REPLAY + ":variant=published", PublishedReplay, {"smoothing": 0.8, "initial_priority": 0.2}),
        (
            REPLAY + ":variant=published, smoothing = 1 ,initial_priority=inf,bonus=1e-3",
            PublishedReplay,
            {"smoothing": 1, "initial_priority": np.inf, "bonus": 0.001},
        ),
        ("mine:Backwards", Backwards, {"skip": 0}),
        ("mine:Backwards:skip=2,label=x:y=z", Backwards, {"skip": 2, "label": "x:y=z"}),
        ("mine:Backwards:2", Backwards, {"skip": 2}),
        ({"name": "mine:Backwards", "ratio": 2}, Backwards, {"ratio": 2}),
        ("curro.methods.selection.uniform:Uniform", Uniform, {}),
    ],
)
def test_a_method_is_named(spec, kind, values):
    method = registry.build("selection", spec)
    assert type(method) is kind
    assert {name: getattr(method, name) for name in values} == values


def test_published_values_are_those_of_section_5():
    method = registry.build("selection", REPLAY + ":variant=published")
    assert (method.smoothing, method.initial_priority, method.bonus, method.tolerance) == (0.8, 0.2, 1e-4, 0)
    assert (method.exploration, method.draw) == (0.125, "top")
    assert (method.retest_every, method.retest_solved, method.retest_unsolved) == (10, 1, 3)


def test_a_method_of_the_users_own_works_as_a_built_in_does(tmp_path):
    curriculum = Curriculum("mine:Backwards:skip=1", 5)
    assert curriculum.select(2, step=0).prompts.tolist() == [3, 2]
    curriculum.save(tmp_path / "curriculum")
    other = Curriculum("mine:Backwards:skip=1", 5)
    other.load(tmp_path / "curriculum")
    assert other.select(2, step=0).prompts.tolist() == [1, 0]
    assert "in_flight" in other.metrics()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("unifrom", r"no selection is called 'unifrom' \(did you mean 'uniform'\?\); there are: "),
        ("", "no selection is called ''"),
        ({}, "selection needs a name"),
        ({"name": 3}, "selection needs a name"),
        (None, "selection is a name, or a dict of `name` and options, not None"),
        ("no.such:Thing", "selection 'no.such:Thing': there is no module 'no' in "),
        ("mine:Forwards", "selection 'mine:Forwards': the module 'mine' has no 'Forwards'"),
        ("mine:pi", "'mine:pi' cannot be built from options"),
        ("pspo:bata=1", r"has no option 'bata' \(did you mean 'beta'\?\)"),
        ("adcl:train_estimates=yes", "train_estimates is true or false, not 'yes'"),
        ("frontier:exponent=steep", "exponent is a number or none, not 'steep'"),
        ("frontier:exponent=true", "exponent is a number or none, not True"),
        ("uniform:true", "takes 0 options, not 1"),
        ("uniform:=1", "'=1' in 'uniform:=1' names no option"),
        (REPLAY + ":variant=publishd", "has no variant 'publishd'; there are: default, published"),
        (REPLAY + ":smoothing=1", "variant default. has no option 'smoothing'"),
        *((f"{REPLAY}:candidates={wrong}", "candidates is") for wrong in (0, 3, 4.0)),
        *(
            (f"{REPLAY}:variant=published,{name}={wrong}", f"{name} is")
            for name, values in {
                "smoothing": (0, 1.01, "nan", "fast", "true"), "initial_priority": ("-inf", "nan"),
                "draw": ("best",), "exploration": (1.5,), "bonus": (-1, "inf"), "tolerance": (0.5,),
                "retest_every": (-1, 2.5), "retest_solved": (-1,), "retest_unsolved": ("many",),
            }.items()
            for wrong in values
        ),
        *(
            (f"{REPLAY}:variant=published,draw=proportional,initial_priority={wrong}", "finite and from 0")
            for wrong in ("inf", -1)
        ),
    ],
)  # fmt: skip
def test_a_wrong_name_or_option(spec, words):
    with pytest.raises(ConfigError, match=words) as error:
        Curriculum(spec, 3)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("other", [{}, {"seed": 3, "fill_limit": 2}, {"advantage": None}])
def test_the_text_of_the_command_line_stands_for_its_parts(other):
    text = "frontier admission=band:0.2,0.8"
    assert registry.expand_curriculum({"curriculum": text} | other) == other | {
        "selection": {"name": "frontier"},
        "admission": {"name": "band", "": [0.2, 0.8]},
    }
    assert registry.expand_curriculum(other) == other


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"curriculum": "uniform", "selection": "sec"}, "the selection is named twice, in curriculum"),
        (
            {"curriculum": "uniform admission=signal", "admission": {"name": "band"}},
            "the admission is named twice",
        ),
        ({"curriculum": {"name": "uniform"}}, "curriculum is a text as 'frontier admission=signal'"),
        ({"curriculum": None}, "curriculum is a text"),
        ({"curriculum": "uniform signal"}, "'signal' in 'uniform signal' is not a part of a curriculum"),
    ],
)
def test_a_text_of_a_curriculum_that_is_wrong(settings, message):
    with pytest.raises(ConfigError, match=message):
        registry.expand_curriculum(settings)
