"""The page of options says what every command's help says."""

from __future__ import annotations

import re

import typer

from curro.cli import COMMANDS, make_app
from curro.cli.reference import render


def test_every_option_of_every_command_is_in_its_table():
    sections = dict(re.findall(r"^## curro (\S+)\n(.*?)(?=^## |\Z)", render(), re.MULTILINE | re.DOTALL))
    commands = typer.main.get_command(make_app(COMMANDS)).commands
    assert set(sections) == set(commands)
    for name, command in commands.items():
        for item in command.params:
            shown = f"`{item.opts[0] if item.opts[0][0] == '-' else item.name}`"
            assert shown in sections[name] or item.name == "help"


def test_the_default_has_a_column_of_its_own():
    page = render()
    assert "| `--fill-limit` | 10 | With a gate: how many groups" in page
    assert "[default:" not in page


def test_options_shared_with_train_are_told_once():
    page = render()
    assert page.count("The loss, by TRL's name for it.") == 1
    assert page.count("as in `curro train`") >= 1
