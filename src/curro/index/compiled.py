"""How a kernel is compiled: once per machine, silently, with a plain word where that cannot be."""

import warnings
from collections.abc import Callable
from typing import Any

try:
    import numba
except Exception as error:  # a broken llvmlite raises OSError, a wrong NumPy ImportError
    raise ImportError(
        f"curro.index needs numba, which does not import here ({error}). "
        "Install one that fits this Python and NumPy: pip install -U numba"
    ) from error


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


_said = False


def _say_once_that_nothing_is_kept() -> None:
    global _said
    if not _said:
        _said = True
        warnings.warn(
            "curro.index cannot keep its compiled kernels: no cache folder is writable. Every process will "
            "compile them anew, a few seconds each. Set NUMBA_CACHE_DIR to a folder that can be written.",
            RuntimeWarning,
            stacklevel=2,
        )
