"""The recipes' page has the tables of hyperparameters that the recipes' files give."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path

import pytest
from tests.recipes.harness import RECIPES
from trl import GRPOConfig, ModelConfig


def load(path: Path):
    spec = importlib.util.spec_from_file_location(f"recipes_{path.stem}", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tables = load(RECIPES / "tables.py")
ids = [table.method for table in tables.TABLES]


@pytest.mark.parametrize("table", tables.TABLES, ids=ids)
def test_the_page_has_the_table_of_the_recipes(table):
    assert tables.page_with(table) == tables.PAGE.read_text(), "run python recipes/tables.py"


@pytest.mark.parametrize("table", tables.TABLES, ids=ids)
def test_every_row_reads_an_option_that_there_is(table):
    """A misspelt name would read as the host's default."""
    train = load(RECIPES / "trl" / "train.py")
    options = {
        field.name
        for kind in (train.CurriculumArguments, GRPOConfig, ModelConfig)
        for field in dataclasses.fields(kind)
    }
    assert {row.trl for row in table.rows if isinstance(row.trl, str)} <= options
    verl = [row.verl for row in table.rows if isinstance(row.verl, str)]
    every = [tables.read_recipe("verl", other.recipe) for other in tables.TABLES]
    for key in verl:
        assert any(tables.value(recipe, key) != tables.DEFAULT for recipe in every), key


def test_a_table_computes_what_a_step_takes():
    recipe = {
        "per_device_train_batch_size": 16,
        "gradient_accumulation_steps": 4,
        "steps_per_generation": 16,
        "num_generations": 8,
        "processes": "8",
    }
    assert tables.prompts_rolled_out(recipe) == 16 * 16 * 8 // 8 == 256
    assert tables.prompts_updated(recipe) == 16 * 4 * 8 // 8 == 64
    assert tables.shown({"a": {"b": [1, 2]}}, "a.b") == "`1, 2`"
    assert tables.shown({"a": {}}, "a.b") == "default"
