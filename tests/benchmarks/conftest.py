"""Benchmarks run once, as tests, unless pytest-benchmark is asked to measure."""

from __future__ import annotations

import pytest


def _call_once(function, *args):
    return function(*args)


@pytest.fixture
def benchmark(request):
    """pytest-benchmark's fixture, measuring only when the command line asks for it.

    ``--benchmark-only`` or ``--benchmark-enable`` ask. Otherwise, and without that
    plugin, the function is called once.
    """
    config = request.config
    if not config.pluginmanager.hasplugin("benchmark"):
        return _call_once
    fixture = request.getfixturevalue("benchmark")
    if not (config.getoption("benchmark_only") or config.getoption("benchmark_enable")):
        fixture.disabled = True
    return fixture
