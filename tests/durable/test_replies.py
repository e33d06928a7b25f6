"""Draws, verdicts and errors as bytes, and back."""

from __future__ import annotations

import numpy as np
import pytest

from curro import Curriculum
from curro.core.errors import TicketError
from curro.core.policy import AuxiliarySamples
from curro.durable.frames import decode, encode
from curro.durable.replies import pack, unpack


def test_replies_survive_being_written():
    curriculum = Curriculum("uniform", 8)
    draw = curriculum.select(3, step=4)
    verdict = curriculum.observe(draw.tickets, np.eye(3, 4))
    auxiliary_samples = AuxiliarySamples(((1, 2), (3,)), ((4,), (5, 6)), np.array([0.5, -1.0]), 0.01)
    taught = type(verdict)(**vars(verdict) | {"auxiliary_samples": auxiliary_samples})
    for reply in (draw, verdict, taught, None):
        back = unpack(decode(encode(pack(reply))))
        assert type(back) is type(reply)
        if reply is not None:
            for name, value in vars(reply).items():
                if name != "auxiliary_samples":
                    np.testing.assert_array_equal(getattr(back, name), value)
        if reply is taught:
            assert back.auxiliary_samples.prompt_ids == auxiliary_samples.prompt_ids
            assert back.auxiliary_samples.completion_ids == auxiliary_samples.completion_ids
            np.testing.assert_array_equal(back.auxiliary_samples.advantages, auxiliary_samples.advantages)


def test_a_verdict_and_a_draw_come_back_together():
    curriculum = Curriculum("uniform", 8)
    verdict = curriculum.observe(curriculum.select(3, step=4).tickets, np.eye(3, 4))
    draw = curriculum.select(2, step=5)
    again, drawn = unpack(decode(encode(pack((verdict, draw)))))
    np.testing.assert_array_equal(again.advantages, verdict.advantages)
    np.testing.assert_array_equal(drawn.tickets, draw.tickets)
    assert unpack(decode(encode(pack((verdict, None)))))[1] is None


def test_errors_come_back_as_what_they_were_and_nothing_else_is_made_of_a_name():
    with pytest.raises(TicketError, match="no such ticket"):
        unpack(decode(encode(pack(TicketError("no such ticket")))))
    for name in ("KeyError", "annotations", "SystemExit"):
        with pytest.raises(RuntimeError, match=f"{name}: words"):
            unpack({"error": {"kind": name, "words": "words"}})
