"""Randomness without a stream: a hash turns (seed, id, how often) into bits.

What a stream gives depends on who asked first. A hash does not, so results built on it are the same
whatever the batching, the order of the calls or the history before a resume.

The hash is SplitMix64 read at a position: Steele, Lea and Flood, "Fast splittable pseudorandom number
generators", OOPSLA 2014.
"""

import numpy as np

from curro.core.compiled import part

GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S12 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(12)
_HALF, _UNIT = 0.5, 2.0**-52


@part
def mix64(x):  # type: ignore[no-untyped-def]
    """SplitMix64's output function: a bijection of the 64-bit integers."""
    x = (x ^ (x >> _S30)) * _FIRST
    x = (x ^ (x >> _S27)) * _SECOND
    return x ^ (x >> _S31)


@part
def unit(x):  # type: ignore[no-untyped-def]
    """64 bits as a float64 strictly between 0 and 1."""
    return (np.float64(x >> _S12) + _HALF) * _UNIT


@part
def another(uniform, turn):  # type: ignore[no-untyped-def]
    """The `turn`-th further uniform that the given one stands for."""
    return unit(mix64(np.uint64(uniform * 9007199254740992.0) + np.uint64(turn) * GAMMA))


def salt(seed: int, purpose: int) -> np.uint64:
    """What a structure adds to its positions, so that seeds and purposes do not share their ties."""
    word = (int(seed) * 0xD1342543DE82EF95 + purpose * 0x2545F4914F6CDD1D + 1) & (2**64 - 1)
    for factor, shift in ((0xBF58476D1CE4E5B9, 30), (0x94D049BB133111EB, 27)):
        word = ((word ^ (word >> shift)) * factor) & (2**64 - 1)
    return np.uint64(word ^ (word >> 31))
