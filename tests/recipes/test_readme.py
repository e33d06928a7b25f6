"""The table of recipes names every file."""

from __future__ import annotations

import re

from tests.recipes.harness import RECIPES


def test_every_recipe_has_a_place_in_the_table():
    linked = set(re.findall(r"\]\(((?!\.\.|#)[^)]+)\)", (RECIPES / "README.md").read_text()))
    files = [
        path.relative_to(RECIPES) for path in RECIPES.rglob("*") if path.suffix in (".yaml", ".toml", ".sh")
    ]
    helpers = {"trl/fsdp.yaml", "verl/agents/bfcl.yaml"}
    assert linked == {str(file) for file in files} - helpers
