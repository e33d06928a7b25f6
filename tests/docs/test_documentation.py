"""The documentation has blocks of known kinds only, and tells of every option."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGES = sorted(
    [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *(REPOSITORY / "docs").glob("*.md")]
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_run_or_for_reading(page):
    fences = re.findall(r"^ *```(.*)$", page.read_text(), re.MULTILINE)
    assert set(fences[::2]) <= {"python", "bash", "text", "diff"}
    assert set(fences[1::2]) <= {""}


def test_every_option_of_a_command_is_documented():
    import typer

    from curro.cli import app

    text = (REPOSITORY / "docs" / "commands.md").read_text()
    for name, command in typer.main.get_command(app).commands.items():
        section = text.partition(f"## curro {name}\n")[2].partition("\n## ")[0]
        options = {flag for item in command.params for flag in item.opts if flag.startswith("--")}
        missing = {flag for flag in options if f"`{flag}`" not in section} - {"--help"}
        assert not missing, name


@pytest.mark.parametrize(
    ("page", "method"),
    [
        ("prioritized-replay", "curro.selection.faded_replay:FadedReplay"),
        ("prioritized-replay", "curro.selection.published_replay:PublishedReplay"),
        ("uniform", "curro.selection.uniform:Uniform"),
        ("group-advantage", "curro.advantage.group:GroupRelative"),
        ("pspo", "curro.advantage.smoothed:Smoothed"),
        ("pspo", "curro.selection.prioritized_sampling:PrioritizedSampling"),
        ("difficulty-filtering", "curro.admission.band:DifficultyBand"),
        ("difficulty-filtering", "curro.admission.variance:VarianceBand"),
        ("difficulty-filtering", "curro.admission.signal:Signal"),
    ],
)
def test_every_option_of_a_method_is_documented(page, method):
    module, _, name = method.partition(":")
    text = (REPOSITORY / "docs" / f"{page}.md").read_text()
    for option in inspect.signature(getattr(importlib.import_module(module), name)).parameters:
        assert f"`{option}`" in text


def test_every_metric_is_documented():
    from curro import Curriculum

    text = (REPOSITORY / "docs" / "trl.md").read_text()
    for selection in ("uniform", "pspo", "prioritized-replay", "prioritized-replay:variant=published"):
        for name in Curriculum(selection, 10).metrics():
            assert f"`{name}`" in text
