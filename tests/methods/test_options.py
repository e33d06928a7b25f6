"""Options that are none: one error that names the option, whatever the method."""

import inspect

import pytest

from curro import ConfigError, Curriculum
from curro.core.loading import load_object
from curro.core.registry import BUILTIN, build
from curro.data import PromptSet

ROWS = PromptSet([{"key": str(i), "prompt": "", "answer": "", "hard": i, "source": "a"} for i in range(4)])
WRONG = {
    "admission": {
        "low": ["band:0.7,0.3", "band:0.5,0.5", "band:0,1.5", "variance:-1", "variance:0.2,0.1"],
        "high": ["band:0"],
        "closed": ["band:0,1,left"],
        "band": ["bond:0,1"],
    },
    "advantage": {
        "epsilon": ["group:epsilon=-1", "group:epsilon=inf", "group:epsilon=nan", "smoothed:epsilon=-1"],
        "alpha": ["smoothed:alpha=0", "smoothed:alpha=1.5", "smoothed:alpha=n"],
        "variance": ["smoothed:variance=square"],
        "deviation": ["smoothed:deviation=next"],
    },
    "allocation": {
        "estimate": ["estimates:estimate=0", "estimates:estimate=5,train=4"],
        "`train`, 2, not 4": ["estimates:train=2"],
        "first": ["probe:first=1", "probe:first=8,most=4"],
        "`most`, 1, not": ["probe:most=1", "knapsack:most=1"],
        "least": ["knapsack:least=-1,most=4", "knapsack:least=5,most=4"],
        "most is from 1, not 0": ["knapsack:least=0,most=0"],
    },
    "selection": {
        "features": ["frontier:features=smell", "frontier:features=text+smell"],
        "half_life": ["posterior:half_life=0", "posterior:half_life=-1", "posterior:half_life=nan"],
        "exemplars": ["metis:exemplars=-1"],
        "weight": ["metis:weight=-0.1", "metis:weight=nan"],
        "baseline_rate": ["metis:baseline_rate=1.1"],
        "failed": ["metis:failed=no"],
        "max_tokens": ["metis:max_tokens=0"],
        "cut": ["metis:cut=0"],
        "none.txt": ["metis:template=none.txt"],
        "strip": ["metis:strip=nowhere"],
        "spread": ["metis:spred=true"],
        "predicts": ["pcl:predicts=reward"],
        "hidden": ["pcl:hidden=0"],
        "learning_rate": ["pcl:learning_rate=0.0", "pcl:learning_rat=1.0"],
        "chunks": ["adcl:chunks=0"],
        "difficulty": ["adcl:difficulty=length"],
        "topic": ["sec:column=topic"],
        "candidates": ["posterior:candidates=0"],
        "target": ["posterior:target=1.0", "pcl:predicts=variance,target=0.5"],
        "exploration": ["posterior:exploration=1.5"],
        "exponent": ["frontier:exponent=-1", "posterior:exponent=2,target=0.5", "pspo:exponent=-1"],
        "priority": ["pspo:priority=first"],
        "statistics": ["pspo:statistics=rough"],
        "normalize": ["pspo:normalize=none"],
        "beta": ["pspo:beta=2"],
        "epsilon": ["pspo:epsilon=0"],
        "categories": ["sec:categories=0"],
        "temperature": ["sec:temperature=0.0"],
        "rate": ["sec:rate=0.0"],
        "start": ["greso:start=1"],
        "goal": ["target:hard,goal=2"],
        "move": ["target:hard,move=up"],
        "steps": ["target:hard,steps=0"],
        "window": ["ucb:window=0"],
        "focus": ["progress:focus=1"],
        "explore": ["progress:explore=2"],
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "option", "spec"),
    [(kind, option, spec) for kind in WRONG for option, specs in WRONG[kind].items() for spec in specs],
)
def test_an_option_that_is_none_is_named(kind, option, spec):
    with pytest.raises(ConfigError) as error:
        Curriculum(prompts=ROWS, **({"selection": "uniform"} | {kind: spec}))
    assert option in str(error.value)


NEEDED = {"band": "band:0,1", "variance": "variance:0.1", "target": "target:hard"}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in WRONG for name in BUILTIN[kind]])
def test_a_part_keeps_its_options_under_their_names_which_a_resume_compares(kind, name):
    if inspect.isclass(method := load_object(BUILTIN[kind][name], kind)):
        assert inspect.signature(method).parameters.keys() <= vars(build(kind, NEEDED.get(name, name))).keys()
