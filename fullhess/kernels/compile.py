"""How kernels are compiled."""

from __future__ import annotations

import hashlib
import types
from pathlib import Path

from numba import njit
from numba.core.serialize import dumps


def _digest_of_sources():
    """Of all kernels together: they call each other across files."""
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()


SOURCES = _digest_of_sources()


def kernel(function=None, *, allocates=False, inner=False, **options):
    """``njit`` without the GIL and with a cache on disk where one can be written.

    A kernel that makes no arrays of its own is compiled without reference counts: every
    array handed on and every view is otherwise counted by atomic instructions, which
    took 10 to 40 % of the time of the split search. Those that do must say ``allocates``.

    An ``inner`` kernel is called by kernels alone, like those whose names begin with an
    underscore. It has no entry for Python, which would unpack every array of every table: that
    took up to a third of the time to compile. (To call it from Python ends the process.)

    Numba refuses to cache when neither the package's directory nor the user's cache
    directory is writable; the kernel is then compiled anew in each process.
    """

    options |= {"nogil": True, "no_cfunc_wrapper": True, "_nrt": allocates}

    def compile_(function):
        options["no_cpython_wrapper"] = inner or function.__name__.startswith("_")
        try:
            cached = njit(cache=True, **options)(function)
            _guard(cached)
        except (RuntimeError, AttributeError):  # no locator available, another Numba
            return njit(**options)(function)
        return cached

    return compile_ if function is None else compile_(function)


def _guard(dispatcher):
    """Let cached code be that of the present sources, and of what was asked for.

    Numba looks at the file of the kernel itself. Code that has the sizes of buffers
    from another file inlined would be used again after these have changed, as by an
    update of the package, and write beyond their ends.

    Numba also numbers the files of a kernel's variants, without a lock: two processes that
    fill the cache at a time give two variants one number, and a third one runs the wrong one.
    """
    index = dispatcher._cache._cache_file
    index._source_stamp = (index._source_stamp, SOURCES)
    index.save = types.MethodType(_save, index)


def _save(index, key, data):
    """Save a variant under a number of its own; at worst another process's entry is lost."""
    digest = hashlib.sha256(SOURCES.encode() + dumps(key)).digest()
    name = index._data_name(int.from_bytes(digest[:8], "little"))
    index._save_data(name, data)
    index._save_index({**index._load_index(), key: name})
