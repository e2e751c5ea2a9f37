"""How kernels are compiled."""

from __future__ import annotations

from numba import njit


def kernel(function=None, *, allocates=False, **options):
    """``njit`` without the GIL and with a cache on disk where one can be written.

    A kernel that makes no arrays of its own is compiled without reference counts: every
    array handed on and every view is otherwise counted by atomic instructions, which
    took 10 to 40 % of the time of the split search. Those that do must say ``allocates``.

    Numba refuses to cache when neither the package's directory nor the user's cache
    directory is writable; the kernel is then compiled anew in each process.
    """

    options["_nrt"] = allocates

    def compile_(function):
        try:
            return njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # no locator available
            return njit(nogil=True, **options)(function)

    return compile_ if function is None else compile_(function)
