"""`curro doctor`: where the rollouts of a run went, whatever wrote its log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from curro.cli.terminal import plain_console


def doctor(
    log: Annotated[
        Path,
        typer.Argument(
            help="What a run of any trainer logged: TRL's output_dir, its completions or trainer_state.json; "
            "verl's rollout_data_dir; an export of wandb or trackio; or lines of "
            '{"prompt_id": ..., "rewards": [...]}.'
        ),
    ],
    replay: Annotated[
        bool,
        typer.Option(
            "--replay/--no-replay", help="Estimate what other methods would have found in these groups."
        ),
    ] = True,
) -> None:
    """Diagnose a run, which need not have used curro.

    Says how many groups gave no gradient and what they cost, whether the same prompts come back flat, what
    methods of curro would have found in these very groups, which rewards look wrong, and what to do next.
    """
    from curro.runs.doctor import Rollouts, examine, next_steps, read_log, replayed

    console = plain_console()
    read = read_log(log)
    findings = examine(read)
    if replay and isinstance(read, Rollouts):
        findings += replayed(read)
    for finding in findings:
        console.print(finding.words, soft_wrap=True)
    console.print("\nWhat to do next:")
    for i, advice in enumerate(next_steps(findings), 1):
        console.print(f"{i}. {advice}", soft_wrap=True)
