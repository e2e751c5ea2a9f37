"""What all tests share: the kernels' cache, hypothesis' settings, small data sets."""

from __future__ import annotations

import hashlib
import os
import tempfile
from importlib.metadata import version
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent


def _kernel_cache() -> Path:
    """A directory that belongs to these kernel sources and this Numba.

    Numba's cache sees a change of the file a kernel stands in, but not of the
    files of the kernels it calls, so all sources are part of the name.
    """
    digest = hashlib.sha256(version("numba").encode())
    for source in sorted((_ROOT / "fullhess" / "kernels").glob("*.py")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return Path(tempfile.gettempdir()) / f"fullhess-kernels-{digest.hexdigest()[:16]}"


# Before the first import of numba, which reads it once.
os.environ.setdefault("NUMBA_CACHE_DIR", str(_kernel_cache()))

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

settings.register_profile(
    "local",
    deadline=None,  # the first call of a kernel compiles it
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fixed seed, new for every test."""
    return np.random.default_rng(20260612)
