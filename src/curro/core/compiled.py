"""How a kernel is compiled: once per machine and silently, or with a warning for every process."""

import warnings
from collections.abc import Callable
from typing import Any

try:
    import numba
except Exception as error:  # a broken llvmlite raises OSError, a wrong NumPy ImportError
    raise ImportError(
        f"curro needs numba, which does not import here ({error}). "
        "Install one that fits this Python and NumPy: pip install -U numba"
    ) from error

part = numba.njit(nogil=True)
"""A function that kernels call and Python does not: compiled into each of them."""

sum_part = numba.njit(nogil=True, fastmath={"reassoc", "contract"})
"""A `part` whose sums the processor may add up several at a time, in an order that is its own."""


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` on its first call and keep the machine code on disk for later processes.

    numba keeps it beside the source or, where that is read-only, in the user's cache. Where neither can
    be written, each process compiles for itself and is told so once.
    """
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        _say_once_that_nothing_is_kept()
        return numba.njit(nogil=True)(function)


_has_warned = False


def _say_once_that_nothing_is_kept() -> None:
    global _has_warned
    if not _has_warned:
        _has_warned = True
        warnings.warn(
            "curro cannot keep its compiled kernels: no cache folder is writable. Every process will "
            "compile them anew, a few seconds each. Set NUMBA_CACHE_DIR to a folder that can be written.",
            RuntimeWarning,
            stacklevel=2,
        )
