"""`curro doctor`: where the rollouts of a run went, whatever wrote its log; or whether a reward fits data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from curro.cli.terminal import plain_console
from curro.core.text import printable


def doctor(
    log: Annotated[
        str,
        typer.Argument(
            help="What a run of any trainer logged: TRL's output_dir, its completions or trainer_state.json; "
            "verl's rollout_data_dir; an export of wandb or trackio; or lines of "
            '{"prompt_id": ..., "rewards": [...]}. With --reward: a data set.'
        ),
    ],
    reward: Annotated[
        str | None,
        typer.Option(
            help="Check whether this reward fits the data set: 200 rows are scored with their own answers in "
            "the forms that models write, with nothing, and with another row's answer."
        ),
    ] = None,
    answer_column: Annotated[
        str | None, typer.Option(help="The data set's column of answers, if it has another name.")
    ] = None,
    prompt_column: Annotated[
        str | None, typer.Option(help="The data set's column of prompts, if it has another name.")
    ] = None,
) -> None:
    """Diagnose a run, which need not have used curro.

    Says how many groups gave no gradient and what they cost, whether the same prompts come back flat, what
    methods of curro would have found in these very groups, which rewards look wrong, and what to do next.
    """
    from curro.contrib.doctor.logs import Rollouts, examine, next_steps, read_log, replayed

    console = plain_console()
    if reward is not None:
        columns = {"answer_column": answer_column, "prompt_column": prompt_column}
        _check_data(console, log, reward, {k: v for k, v in columns.items() if v is not None})
        return
    read = read_log(Path(log))
    findings = examine(read)
    if isinstance(read, Rollouts):
        findings += replayed(read)
    for finding in findings:
        console.print(finding.words, soft_wrap=True)
    console.print("\nWhat to do next:")
    for i, advice in enumerate(next_steps(findings), 1):
        console.print(f"{i}. {advice}", soft_wrap=True)


def _check_data(console: Console, data: str, name: str, columns: dict[str, Any]) -> None:
    from curro.data import load_prompts
    from curro.reward import resolve_reward
    from curro.reward.row_checks import check_rows, verifiers

    prompts = load_prompts(data, **columns)
    reports = [check_rows(prompts, part) for part in verifiers(resolve_reward(name, prompts))]
    for line in (line for report in reports for line in report.lines):
        console.print(printable(line), soft_wrap=True)
    if any(report.stops for report in reports):
        raise typer.Exit(1)
