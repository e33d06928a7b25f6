"""Several threads call one curriculum: no ticket is lost, counted twice or given out twice."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from curro import Curriculum, ExhaustedError

THREADS, ROUNDS = 4, 150


@pytest.mark.parametrize("selection", ["uniform", "prioritized-replay:variant=published", "pspo"])
def test_every_ticket_is_given_out_and_settled_once(selection):
    curriculum = Curriculum(selection, 40, advantage="smoothed", seed=0)

    def work(thread: int) -> list[int]:
        rng, seen = np.random.default_rng(thread), []
        for _ in range(ROUNDS):
            try:
                draw = curriculum.select(int(rng.integers(1, 8)), step=0)
            except ExhaustedError:
                continue
            seen += draw.tickets.tolist()
            if rng.random() < 0.2:
                curriculum.drop(draw.tickets)
            else:
                curriculum.observe(draw.tickets, rng.integers(0, 2, (len(draw), 4)))
            if rng.random() < 0.1:
                state = curriculum.state_dict()["ledger"]
                assert state["selected"] == state["observed"] + state["dropped"] + len(state["tickets"])
        return seen

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            tickets = [ticket for seen in pool.map(work, range(THREADS)) for ticket in seen]
    finally:
        sys.setswitchinterval(before)
    assert sorted(tickets) == list(range(len(tickets)))
    assert len(tickets) > ROUNDS
    metrics = curriculum.metrics()
    assert metrics["selected"] == len(tickets) == metrics["observed"] + metrics["dropped"]
    assert curriculum.free == 40
    assert not curriculum.table["in_flight"].any()
    assert curriculum.table["visits"].sum() == metrics["observed"]
