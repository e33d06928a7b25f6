"""How a kernel is compiled: once per machine and silently, or with a warning for every process."""

import warnings
from collections.abc import Callable
from typing import Any

try:
    import numba
    from llvmlite import ir
    from numba.extending import intrinsic
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


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """prefetch(array, index): ask for the cache line of a flat array's element, which need not exist."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        word = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [address.type, word, word, word])
        ask = builder.module.declare_intrinsic("llvm.prefetch", (address.type,), shape)
        builder.call(ask, [address, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return numba.types.void(array, numba.types.intp), generate
