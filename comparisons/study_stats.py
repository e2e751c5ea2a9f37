"""What the rows of the study say: ratios with intervals, wins, ranks, tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Contrast", "Table", "contrast", "holm", "mean_ranks", "nemenyi_distance", "steady_sets",
    "tabulate",
]  # fmt: skip

Array = NDArray[np.float64]
N_RESAMPLES = 4000


@dataclass(frozen=True, eq=False)
class Table:
    """One measure by method, data set and split.

    Attributes
    ----------
    methods, sets : names, in the order of the axes.
    values : (n_methods, n_sets, n_seeds); NaN where not every method has a result, so
        that all comparisons are paired.
    n_classes : (n_sets,).
    """

    methods: list[str]
    sets: list[str]
    values: Array
    n_classes: NDArray[np.int64]

    def of(self, method: str) -> Array:
        """(n_sets, n_seeds) values of a method."""
        return np.asarray(self.values[self.methods.index(method)])

    def by_set(self) -> Array:
        """(n_methods, n_sets) means over the splits."""
        return np.asarray(np.nanmean(self.values, axis=2))


def tabulate(rows: Sequence[Mapping[str, str]], measure: str) -> Table:
    """Arrange the rows of the ledger, which are all of one protocol."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    sets = list(dict.fromkeys(row["data"] for row in rows))
    seeds = sorted({row["seed"] for row in rows})
    values = np.full((len(methods), len(sets), len(seeds)), np.nan)
    n_classes = np.zeros(len(sets), np.int64)
    for row in rows:
        j = sets.index(row["data"])
        values[methods.index(row["method"]), j, seeds.index(row["seed"])] = float(row[measure])
        n_classes[j] = max(n_classes[j], int(row["n_classes"]))
    return Table(methods, sets, values, n_classes)


def complete(rows: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """The rows of those splits of data sets on which every method has run."""
    n_methods = len({row["method"] for row in rows})
    count: dict[tuple[str, str], int] = {}
    for row in rows:
        key = row["data"], row["seed"]
        count[key] = count.get(key, 0) + 1
    return [row for row in rows if count[row["data"], row["seed"]] == n_methods]


@dataclass(frozen=True)
class Contrast:
    """One method against another; ratios below 1 speak for the first.

    Attributes
    ----------
    ratio, low, high : geometric mean over data sets of the ratio of losses, and the 95 %
        interval of a bootstrap over data sets.
    median : of the same ratios, which a few sets of tiny losses do not move.
    wins, losses : data sets on which the first has the lower or the higher mean loss.
    p : of Wilcoxon's signed-rank test on the log ratios, two-sided.
    """

    first: str
    second: str
    ratio: float
    low: float
    high: float
    median: float
    wins: int
    losses: int
    p: float


def contrast(table: Table, first: str, second: str, keep: NDArray[np.bool_]) -> Contrast:
    """Compare two methods on the data sets to keep."""
    from scipy.stats import wilcoxon

    logs = np.nanmean(np.log(table.of(first)[keep] / table.of(second)[keep]), axis=1)
    generator = np.random.default_rng(0)
    drawn = generator.integers(0, len(logs), (N_RESAMPLES, len(logs)))
    low, high = np.quantile(logs[drawn].mean(axis=1), [0.025, 0.975])
    p = float(wilcoxon(logs).pvalue) if np.any(logs != 0.0) else 1.0
    return Contrast(
        first, second, float(np.exp(logs.mean())), float(np.exp(low)), float(np.exp(high)),
        float(np.exp(np.median(logs))),
        int((logs < 0.0).sum()), int((logs > 0.0).sum()), p,
    )  # fmt: skip


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjustment for several tests."""
    order = np.argsort(p_values)
    adjusted, highest = np.empty(len(p_values)), 0.0
    for place, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - place) * p_values[i]))
        adjusted[i] = highest
    return [float(p) for p in adjusted]


def mean_ranks(table: Table) -> Array:
    """(n_methods,) mean rank over the data sets; 1 is the lowest loss."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(table.by_set(), axis=0).mean(axis=1))


def steady_sets(table: Table) -> NDArray[np.bool_]:
    """(n_sets,) whether a data set is not among the fifth on which the methods differ most.

    Ratios of tiny losses are large and may make a geometric mean by themselves.
    """
    spread = np.log(table.by_set()).std(axis=0)
    n_dropped = len(spread) // 5
    steady = np.ones(len(spread), bool)
    steady[np.argsort(-spread)[:n_dropped]] = False
    return steady


def nemenyi_distance(n_methods: int, n_sets: int, alpha: float = 0.05) -> float:
    """Mean ranks closer than this are not told apart by Nemenyi's test."""
    from scipy.stats import studentized_range

    q = studentized_range.ppf(1.0 - alpha, n_methods, np.inf) / np.sqrt(2.0)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6.0 * n_sets)))
