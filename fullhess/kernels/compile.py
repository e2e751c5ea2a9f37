"""How kernels are compiled."""

from __future__ import annotations

from numba import njit


def kernel(function=None, **options):
    """``njit`` without the GIL and with a cache on disk where one can be written.

    Numba refuses to cache when neither the package's directory nor the user's cache
    directory is writable; the kernel is then compiled anew in each process.
    """

    def compile_(function):
        try:
            return njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # no locator available
            return njit(nogil=True, **options)(function)

    return compile_ if function is None else compile_(function)
