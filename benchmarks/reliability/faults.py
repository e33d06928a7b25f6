"""What is wrong ends in one sentence, and nothing is lost: faults put in by the thousand.

    python -m benchmarks.reliability.faults states    # 10^5 forged states of all methods: 30 minutes
    python -m benchmarks.reliability.faults texts      # 10^4 hostile texts a place: 25 minutes

`forged_states.py` and `hostile_texts.py` say what is tried and what has to be true; the tests try a few of
each. Every part runs in processes of its own, so that a crash or a hang is seen and does not end the others.
"""

from __future__ import annotations

from typing import Annotated

import typer
from benchmarks.common import Seed, all_of
from benchmarks.reliability import forged_states, hostile_texts

app = typer.Typer(add_completion=False)


@app.command()
def states(
    cases: Annotated[int, typer.Option(help="Forged states of each kind of curriculum.")] = 7_000,
    seed: Seed = 0,
) -> None:
    """Load states that were damaged or forged."""
    all_of(forged_states.forged_states, forged_states.CURRICULA, cases, seed)


@app.command()
def texts(
    cases: Annotated[int, typer.Option(help="Texts through each place that shows or stores them.")] = 10_000,
    seed: Seed = 0,
) -> None:
    """Send hostile texts through table, log, page and terminal."""
    all_of(hostile_texts.hostile_texts, hostile_texts.PLACES, cases, seed)


if __name__ == "__main__":
    app()
