"""`curro skill` prints the instructions for coding agents, and installs them where an agent looks."""

import re
from pathlib import Path

import pytest

from curro.cli.skill import SKILL, skill
from curro.core.errors import ConfigError


def test_prints_the_file(capsys):
    skill()
    assert capsys.readouterr().out == SKILL.read_text()


def test_has_the_head_that_agents_read():
    head = re.match(r"---\nname: curro\ndescription: (.+)\n---\n", SKILL.read_text())
    assert head is not None
    assert len(head[1]) <= 1024  # the longest description that the format of skills allows


def test_installs_and_updates_the_file(tmp_path):
    skill(to=tmp_path / "skills")
    target = tmp_path / "skills" / "curro" / "SKILL.md"
    assert target.read_text() == SKILL.read_text()
    target.write_text("---\nname: curro\n---\nof an earlier version\n")
    skill(to=tmp_path / "skills")
    assert target.read_text() == SKILL.read_text()


def test_says_where_nothing_can_be_written():
    with pytest.raises(
        ConfigError, match=r"^/proc/x cannot be used \(No such .*\): choose a folder in which"
    ):
        skill(to=Path("/proc/x"))


def test_leaves_another_skill_of_that_name_alone(tmp_path):
    target = tmp_path / "curro" / "SKILL.md"
    target.parent.mkdir()
    target.write_text("---\nname: something else\n---\n")
    with pytest.raises(ConfigError, match="is another skill: move it"):
        skill(to=tmp_path)
    assert target.read_text() == "---\nname: something else\n---\n"
