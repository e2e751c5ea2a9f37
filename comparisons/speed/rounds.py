"""Seconds of a round: fullhess and a host library in turns, on the same rows and bins.

Each turn trains a few rounds of every method, on every number of threads, and times each
round; the first is left out, as it carries the start of the run. Turns alternate in one
process, so that a busy spell of the machine meets all alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..progress import ProgressBar
from .cases import METHODS, Case, Rows
from .clocks import Timed, Train, on_lightgbm_bins, on_xgboost_bins, train_fullhess, version
from .lines import Line

__all__ = ["measure"]

HOST = "host"
Samples = dict[tuple[str, int], Timed]  # by method and threads


def measure(case: Case, rows: Rows, threads: Sequence[int]) -> list[Line]:
    """A ratio for every method and number of threads, then the speed-ups."""
    samples = _take_turns(case, _trainers(case, rows), threads)
    against = version(case.host)
    lines = []
    for name, target in case.targets.items():
        for n in threads:
            own, host = samples[name, n], samples[HOST, n]
            line = Line(
                "rounds", rows.words, name, n, "seconds a round", _median(own), _median(host),
                against, target=target, own_leaves=own.leaves, host_leaves=host.leaves,
                own_samples=tuple(own.seconds), host_samples=tuple(host.seconds),
            )  # fmt: skip
            lines.append(line)
    return lines + _speed_ups(case, rows, samples, threads, against)


def _trainers(case: Case, rows: Rows) -> dict[str, Train]:
    """Trainings of all methods on the same bins, the host's first."""
    prepare = {"XGBoost": on_xgboost_bins, "LightGBM": on_lightgbm_bins}[case.host]
    host, binned, tree = prepare(rows.X, rows.label, case.tree)

    def own(name: str) -> Train:
        params = {**tree, **METHODS[name]}
        return lambda n, threads: train_fullhess(binned, rows.label, params, n, threads)

    return {HOST: host, **{name: own(name) for name in case.targets}}


def _take_turns(case: Case, trainers: dict[str, Train], threads: Sequence[int]) -> Samples:
    samples: Samples = {(name, n): Timed() for name in trainers for n in threads}
    with ProgressBar(case.turns * len(samples) * case.rounds) as bar:
        for turn in range(case.turns):
            for (name, n), timed in samples.items():
                who = case.host if name == HOST else name
                bar.start(f"{case.name}, turn {turn + 1} of {case.turns}: {who} ({n} threads)")
                found = trainers[name](case.rounds, n)
                timed.seconds += found.seconds[1:]
                timed.leaves = found.leaves
                bar.advance(rounds=case.rounds)
    return samples


def _speed_ups(
    case: Case, rows: Rows, samples: Samples, threads: Sequence[int], against: str
) -> list[Line]:
    """How many times faster than on one thread, for fullhess and for the host."""
    if case.speed_up is None or 1 not in threads:
        return []
    lines = []
    for n in (n for n in threads if n > 1):
        host = _median(samples[HOST, 1]) / _median(samples[HOST, n])
        for name in case.targets:
            own = _median(samples[name, 1]) / _median(samples[name, n])
            target = case.speed_up if n == 2 else None
            lines.append(
                Line(
                    "threads", rows.words, name, n, "times faster than on one thread", own, host,
                    against, kind="speed-up", target=target,
                )
            )  # fmt: skip
    return lines


def _median(timed: Timed) -> float:
    return float(np.median(timed.seconds))
