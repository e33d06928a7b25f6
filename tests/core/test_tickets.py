"""The ledger against a dict: tickets in any order, gaps anywhere."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curro.core.errors import TicketError
from curro.core.prompts import PromptTable
from curro.core.tickets import TicketLedger


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_open_ticket_is_found(data):
    table = PromptTable(8)
    ledger, model = TicketLedger(table), {}
    for step in range(6):
        free = np.flatnonzero(~table["in_flight"]).tolist()
        drawn = data.draw(st.lists(st.sampled_from(free), max_size=6, unique=True)) if free else []
        prompts = np.array(drawn, np.int64)
        tickets = ledger.open(prompts, step, prompts / 8)
        model |= {int(t): (int(p), step) for t, p in zip(tickets, prompts, strict=True)}
        some = data.draw(st.lists(st.sampled_from(sorted(model)), unique=True)) if model else []
        rows = ledger.find(some)
        assert ledger.tickets[rows].tolist() == some
        found = zip(ledger.prompts[rows].tolist(), ledger.steps[rows].tolist(), strict=True)
        assert list(found) == [model[ticket] for ticket in some]
        assert (ledger.weights[rows] == ledger.prompts[rows] / 8).all()
        for wrong in (-1, ledger.selected, 2**63 - 1, -(2**63)):
            with pytest.raises(TicketError, match=f"ticket {wrong} was never given out"):
                ledger.find([*some, wrong])
        if some:
            with pytest.raises(TicketError, match="stands twice"):
                ledger.find([*some, some[0]])
            ledger.settle(rows, observed=step % 2 == 0)
            with pytest.raises(TicketError, match=f"ticket {some[0]} was settled before"):
                ledger.find(some)
        for ticket in some:
            del model[ticket]
        in_flight = sorted({prompt for prompt, _ in model.values()})
        assert np.flatnonzero(table["in_flight"]).tolist() == in_flight
        assert sorted(table.prompts_in_flight) == sorted(prompt for prompt, _ in model.values())
        assert ledger.selected == ledger.observed + ledger.dropped + len(ledger)


def test_a_number_too_large_for_a_ticket_is_named_as_it_came():
    with pytest.raises(TicketError, match="ticket 18446744073709551615 was never given out"):
        TicketLedger(PromptTable(2)).find(np.array([2**64 - 1], np.uint64))
