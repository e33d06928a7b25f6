"""Every recipe for TRL at paper size trains, by its own commands.

Half of the trained weights have to move at the recipe's own learning rate, as far as they do in float32:
weights in bfloat16 lose a step of 1e-6.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.recipes.harness import PAPER, prepared_folder, train, write_model_for


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_a_recipe_at_paper_size_trains(path, tmp_path, made_once):
    model = made_once("recipes-model", lambda folder: write_model_for(path, folder))
    with prepared_folder(path, tmp_path):
        own = train(path, model, "own")
        exact = train(path, model, "exact", bf16="false", dtype="float32")
    assert own.share > 0.5
    assert own.norm == pytest.approx(exact.norm, rel=0.1)


def test_weights_in_bfloat16_would_not_train(tmp_path, made_once):
    (path,) = [path for path in PAPER if path.stem == "prioritized_replay_guru"]
    model = made_once("recipes-model", lambda folder: write_model_for(path, folder))
    with prepared_folder(path, Path(tmp_path)):
        assert train(path, model, "coarse", dtype="bfloat16").share < 0.05
