"""Checkpoints that version 0.2.0 wrote: they load, and the next draws are those that it would have made.

Those of `frontier` are the present ones, since it has had fewer features since then.

Each comes from twelve steps of 8 prompts in groups of 4, with one group in flight from every third step.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from curro import CheckpointError, Curriculum
from curro.core.checkpoint import load_state
from curro.data.prompt_set import PromptSet
from curro.methods.admission.band import DifficultyBand
from curro.methods.admission.variance import VarianceBand
from curro.methods.allocation.estimates import Estimates
from curro.methods.selection.adcl import ADCL
from curro.methods.selection.predicted import Predicted
from curro.methods.selection.prioritized_replay import FadedReplay
from curro.methods.selection.prioritized_sampling import PrioritizedSampling

FOLDER = Path(__file__).parent / "earlier"
DRAWS = json.loads((FOLDER / "draws.json").read_text())
CONFIGS: dict[str, dict[str, Any]] = {
    "frontier": {"selection": "frontier", "admission": "signal"},
    "published-replay": {"selection": "prioritized-replay:variant=published", "advantage": "group"},
    "pspo": {
        "selection": "pspo",
        "advantage": "smoothed",
        "admission": "band:0.2,0.8",
        "allocation": "knapsack",
    },
    "sec": {"selection": "sec", "advantage": "leave-one-out"},
    "posterior": {"selection": "posterior", "allocation": "screen", "reward_range": (-1.0, 1.0)},
    "objects": {"selection": FadedReplay(), "admission": DifficultyBand(0.2, 0.8)},
}


def prompt_set() -> PromptSet:
    return PromptSet(
        [
            {
                "prompt": f"What is {n % 7} + {n * n % 11}{' and more' * (n % 3)}?",
                "answer": str(n % 7 + n * n % 11),
                "key": f"row {n}",
                "source": "ab"[n % 2],
            }
            for n in range(60)
        ]
    )


@pytest.mark.parametrize("name", CONFIGS)
def test_an_earlier_checkpoint_goes_on_as_it_would_have(name):
    curriculum = Curriculum(prompts=prompt_set(), seed=3, **CONFIGS[name])
    curriculum.load(FOLDER / f"{name}.npz")
    assert len(curriculum.ledger) == 4
    budget = 16 if name == "pspo" else None
    draws = [curriculum.select(4, step=12, rollouts=budget).prompts.tolist() for _ in range(3)]
    assert draws == DRAWS[name]


@pytest.mark.parametrize("name", CONFIGS)
def test_a_checkpoint_goes_on_at_its_own_step_as_one_of_verl_from_version_0_2_does(name):
    """verl told the port its own steps then, which count from 1, so the first step after a resume has the
    number of the last one before it. SEC takes what comes in both as one step's feedback."""
    curriculum = Curriculum(prompts=prompt_set(), seed=3, **CONFIGS[name])
    curriculum.load(FOLDER / f"{name}.npz")
    assert curriculum.step == 11
    budget = 16 if name == "pspo" else None
    draws = [curriculum.select(4, step=11, rollouts=budget) for _ in range(3)]
    chosen = [draw.prompts.tolist() for draw in draws]
    assert chosen[:2] == DRAWS[name][:2]
    assert (chosen == DRAWS[name]) == (name != "sec")
    sizes = draws[0].rollouts if budget else [4] * 4
    curriculum.observe(draws[0].tickets, [[1.0, *[0.0] * (size - 1)] for size in sizes])
    assert curriculum.table["last_step"][draws[0].prompts].tolist() == [11] * 4
    assert len(curriculum.select(4, step=12, rollouts=budget)) == 4


@pytest.mark.parametrize(
    ("parts", "difference"),
    [
        (
            {"admission": DifficultyBand(0.2, 0.7)},
            "its admission option 'high' is 0.8, this curriculum's is 0.7",
        ),
        (
            {"selection": FadedReplay(candidates=6)},
            "its selection option 'candidates' is 4, this curriculum's is 6",
        ),
        (
            {"admission": VarianceBand(0.2)},
            "its admission is 'curro.methods.admission.band:DifficultyBand', this curriculum's is "
            "'curro.methods.admission.variance:VarianceBand'",
        ),
        ({"admission": None}, "its admission is {.*}, this curriculum's is None"),
    ],
)
def test_an_earlier_object_with_another_option_is_refused(parts, difference):
    curriculum = Curriculum(prompts=prompt_set(), seed=3, **CONFIGS["objects"] | parts)
    with pytest.raises(CheckpointError, match=f"another configuration: {difference}; resume with"):
        curriculum.load(FOLDER / "objects.npz")


AS_VERSION_0_2_SAVED = {
    "pspo": (
        {"selection": PrioritizedSampling(replacement=True)},
        {"name": "curro.selection.pspo:PrioritizedSampling", "repeats": True, "epsilon": 1e-6, "sums": "X"},
        {"selection": PrioritizedSampling()},
        "selection option 'replacement' is True, this curriculum's is False",
    ),
    "adcl": (
        {"selection": ADCL(train_estimates=True)},
        {"name": "curro.methods.selection.adcl:ADCL", "chunks": 8, "replaces_uncredited": False},
        {"selection": ADCL()},
        "selection option 'train_estimates' is",
    ),
    "predicted": (
        {"selection": Predicted(predictor="beta:half_life=5")},
        {
            "name": "curro.methods.selection.predicted:Predicted",
            "candidates": 4,
            "predictor": "BetaPosterior",
            "predicts_by": {"name": "beta", "half_life": 5},
            "quality": "PredictionQuality",
        },
        {"selection": Predicted(predictor="beta:half_life=6")},
        "selection option 'predictor' is {.*5}, this curriculum's is {.*6}",
    ),
    "estimates": (
        {"selection": FadedReplay(), "allocation": Estimates(train=9)},
        {"name": "curro.allocation.rules:Estimates", "estimate": 4, "first": 9},
        {"selection": FadedReplay(), "allocation": Estimates(train=7)},
        "allocation option 'train' is 9, this curriculum's is 7",
    ),
    "variance": (
        {"selection": FadedReplay(), "admission": VarianceBand(0.1)},
        {"name": "curro.methods.admission.variance:VarianceBand", "low": 0.1, "high": float("inf")},
        {"selection": FadedReplay(), "admission": VarianceBand(0.1, 0.2)},
        "admission option 'high' is inf, this curriculum's is 0.2",
    ),
}


@pytest.mark.parametrize("name", AS_VERSION_0_2_SAVED)
def test_what_version_0_2_saved_of_an_object_is_compared_by_its_options(name, tmp_path):
    parts, saved, other_parts, difference = AS_VERSION_0_2_SAVED[name]
    changed = next(part for part in ("allocation", "admission", "selection") if part in parts)
    Curriculum(prompts=prompt_set(), **parts).save(tmp_path / "saved.npz")
    state = load_state(tmp_path / "saved.npz")
    state["config"][changed] = saved
    Curriculum(prompts=prompt_set(), **parts).load_state_dict(state)
    with pytest.raises(CheckpointError, match=difference):
        Curriculum(prompts=prompt_set(), **other_parts).load_state_dict(state)
