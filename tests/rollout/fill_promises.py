"""What every fill promises, whoever drives it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

import curro
from curro.errors import FillError
from curro.rollout.fill import Fill


def check(fill: Fill[Any], curriculum: curro.Curriculum, *, shared: bool = False) -> None:
    """The fill's counts agree with each other and with the curriculum's ledger, and no prompt comes twice.

    Args:
        shared: others draw from the curriculum, too.
    """
    counts, ledger = fill.counts, curriculum.ledger
    assert counts.given_out == counts.ended + counts.cancelled + len(fill.in_flight)
    assert ledger.selected == ledger.observed + ledger.dropped + len(ledger)
    if not shared:
        assert ledger.selected == counts.given_out + counts.repeats
        assert ledger.observed == counts.admitted + counts.rejected
        assert sorted(ledger.tickets.tolist()) == sorted([*fill.in_flight, *fill.held])
    waiting = fill.in_flight.keys() | fill.admitted.keys()
    assert waiting <= fill.prompts_given_out.keys()
    if not fill.may_repeat:
        assert len(set(fill.prompts_given_out.values())) == len(fill.prompts_given_out)


def end_batch(
    fill: Fill[int], curriculum: curro.Curriculum, admitted: Collection[int], *, cancel: bool
) -> list[int]:
    """The groups of a batch that is ended now, none where it stays short, and what is promised of them.

    Args:
        admitted: all groups that were admitted so far.
        cancel: groups in flight are cancelled; else they go on for the next batch.
    """
    if cancel and fill.in_flight:
        curriculum.drop(np.array(list(fill.in_flight)))
        for ticket in list(fill.in_flight):
            fill.lose(ticket, "cancelled")
    drop_held(fill, curriculum)
    try:
        groups = fill.take()
    except FillError:
        assert fill.settings.when_short != "finish"
        assert len(fill.admitted) < fill.n
        return []
    assert len(groups) == fill.n or fill.settings.when_short == "finish"
    assert fill.settings.when_short == "top-up" or set(groups) <= set(admitted)
    return groups


def drop_held(fill: Fill[Any], curriculum: curro.Curriculum) -> None:
    """Settle the tickets that the fill has held."""
    if held := fill.release():
        curriculum.drop(np.array(held))
