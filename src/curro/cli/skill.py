"""`curro skill`: what a coding agent has to know of curro, as a file that it reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from curro.core.errors import ConfigError
from curro.core.files import check_writable

SKILL = Path(__file__).parents[1] / "skill" / "SKILL.md"


def skill(
    to: Annotated[
        Path | None,
        typer.Option(
            help="The agent's folder of skills, such as .claude/skills: curro/SKILL.md is written into it."
        ),
    ] = None,
) -> None:
    """Print the instructions for coding agents, or install them where an agent looks for them.

    They say what to import, show five recipes, and list the mistakes that are refused.
    """
    text = SKILL.read_text(encoding="utf-8")
    if to is None:
        typer.echo(text, nl=False)
        return
    check_writable(to)
    target = to / "curro" / "SKILL.md"
    if target.exists() and "\nname: curro\n" not in target.read_text(encoding="utf-8"):
        raise ConfigError(f"{target} is another skill: move it, or name another folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    typer.echo(f"wrote {target}")
