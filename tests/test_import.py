"""What ``import fullhess`` does, and what it leaves for later."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fullhess


def test_every_public_name_has_a_home_and_is_listed():
    assert set(fullhess.__all__) == set(fullhess._HOMES)
    for name in fullhess.__all__:
        assert getattr(fullhess, name).__name__ == name
    assert set(fullhess.__all__) <= set(dir(fullhess))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'fullhess' has no attribute 'tarin'"):
        getattr(fullhess, "tar" + "in")


def test_import_waits_for_neither_numba_nor_numpy():
    program = """
import sys
import fullhess
assert not {"numba", "numpy"} & set(sys.modules), sorted(sys.modules)
fullhess.Params
assert "fullhess.params" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
