"""States as one piece of bytes, and bytes that are no state."""

from __future__ import annotations

import json
import struct
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from curro.core.errors import CheckpointError
from curro.durable.frames import MOST_ARRAYS, decode, encode

NAMES = st.text('ab/é"', max_size=3)
ARRAYS = arrays.arrays(
    st.sampled_from([np.bool_, np.uint8, np.int64, np.float32, np.float64, np.dtype(">i4")]),
    arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | NAMES | st.lists(NAMES)
STATES = st.recursive(
    st.dictionaries(NAMES, ARRAYS | PLAIN, max_size=4),
    lambda inner: st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


def same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, np.ndarray):
        return one.dtype.newbyteorder("<") == other.dtype and np.array_equal(one, other, equal_nan=True)
    return one == other


@given(state=STATES)
def test_a_state_comes_back(state):
    frame = encode(state)
    assert same(state, decode(frame))


def test_what_comes_back_can_be_written_to():
    decode(encode({"a": np.zeros(3)}))["a"][0] = 1


def test_objects_are_refused():
    with pytest.raises(CheckpointError, match="an array of object"):
        encode({"a": np.array([None])})
    with pytest.raises(TypeError, match="not set"):
        encode({"a": {1, 2}})


def test_more_arrays_than_a_state_has_are_refused_before_the_first_is_read():
    none = np.empty(0)
    most = {f"{i}": none for i in range(MOST_ARRAYS)}
    assert len(decode(encode(most))) == MOST_ARRAYS
    with pytest.raises(CheckpointError, match=f"a state of {MOST_ARRAYS + 1} arrays cannot be written"):
        encode(most | {"one": none})
    with pytest.raises(CheckpointError, match="are no state: they have 300000 arrays, and a state at most"):
        decode(forged({"values": {}, "arrays": 300_000 * [None]}))


def forged(head):
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return struct.pack("<I", len(text)) + text


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\xff\xff\xff\xff{}",
        forged({}),
        forged([]),
        forged(b"["),
        forged(b"[" * 100_000),
        forged({"values": [], "arrays": []}),
        forged({"values": {}, "arrays": [[["a"], "|O", [1]]]}),
        forged({"values": {}, "arrays": [[["a"], "<f8", [-1]]]}),
        forged({"values": {}, "arrays": [[["a"], "<f8", [10**30]]]}),
        forged({"values": {}, "arrays": [[["a"], "<f8", [1]]]}),
        forged({"values": {}, "arrays": [[["a", "b"], "<f8", [0]]]}),
        forged({"values": {}, "arrays": [[[], "<f8", [0]]]}),
        encode({"a": np.zeros(2)}) + b"x",
    ],
)
def test_bytes_that_are_no_state_are_refused(frame):
    with pytest.raises(CheckpointError, match="are no state"):
        decode(frame)


@given(frame=st.binary(max_size=60))
def test_random_bytes_do_no_harm(frame):
    with suppress(CheckpointError):
        assert isinstance(decode(frame), dict)
