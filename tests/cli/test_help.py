"""What the commands say of themselves: groups of options, a method's options, and the demo."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

import pytest

import curro.cli.compare as curro_compare
from curro.cli import COMMANDS
from curro.cli.methods import KINDS, METHODS
from curro.training.settings import known_settings


def test_the_help_of_train_lists_what_is_used_most_first(curro):
    text = curro("train", "--help")
    panels = [item.panel for item in known_settings().values()]
    headings = [f"\n{name}:\n" for name, _ in groupby(panels)]
    assert len(headings) == len(set(panels)), "the settings of a panel are declared together"
    places = [text.index(heading) for heading in headings]
    assert places == sorted(places)
    order = ["--data", "--model", "--curriculum", "--reward ", "--rollouts ", "--eval-data", "--out"]
    found = [text.index(f"\n  {option}") for option in order]
    assert found == sorted(found)


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_method_is_described(curro, kind):
    for name in METHODS[kind]:
        text = curro("methods", name)
        assert f"{name}, a {'reward' if kind == 'reward' else f'method of {kind}'}" in text
        assert len(text.splitlines()) > 3


def test_options_are_shown_as_they_are_typed(curro):
    assert re.search(r"--curriculum posterior:.*exploration=", curro("methods", "posterior"))
    assert "--admission band:low=LOW,high=HIGH" in curro("methods", "band")


def test_a_misspelt_method_is_answered_with_the_nearest(curro):
    assert "did you mean 'frontier'?" in curro("methods", "fronteir", status=2)
    assert "did you mean 'admission'?" in curro("methods", "admision", status=2)


def test_the_demo_compares_two_curricula_and_names_its_report(curro, monkeypatch):
    compare = curro_compare.compare
    few = {"eval_prompts": 8}  # eight evaluations of 250 prompts would take longer than the rest
    monkeypatch.setattr(curro_compare, "compare", lambda **options: compare(**options | few))
    assert next(iter(COMMANDS)) == "demo"
    text = curro("demo", "--rollouts", "16", "--jobs", "2", "--out", "d")
    assert "uniform" in text
    assert "frontier" in text
    assert "open d/report.html in a browser" in text
    assert Path("d/report.html").is_file()
    assert len(list(Path("d").glob("*/model"))) == 4
