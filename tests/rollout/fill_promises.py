"""What every fill promises, whoever drives it."""

from __future__ import annotations

from typing import Any

import curro
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
    assert waiting <= fill.given.keys()
    if not fill.may_repeat:
        assert len(set(fill.given.values())) == len(fill.given)
