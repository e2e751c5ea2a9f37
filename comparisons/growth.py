"""``python -m comparisons growth``: how the time of a round grows with rows, features, classes.

One of the three grows while the others stay. Data are drawn as bin codes, so that two
million rows take little memory. On logarithmic axes a power law is a straight line; its
slope, the exponent, is fitted by least squares over the upper part of the range, where
what does not grow no longer counts.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fullhess

from .progress import ProgressBar
from .quickstart import positive
from .report import (
    environment,
    environment_line,
    markdown_table,
    named_line,
    output_directory,
    shown,
)
from .speed.clocks import train_fullhess

__all__ = ["AXES", "Axis", "Fit", "Point", "add_arguments", "draw_binned", "fit", "run"]

N_BINS = 64
DEPTH = 6
ROUNDS = 6  # the first is not counted
TOLERANCE = 0.1  # of an exponent, for what the clock adds
METHODS = {
    splits: {
        "split_hessian": splits, "hessian": "full", "leaf_solver": "exact", "leaf_prior": "ridge",
        "split_gain": "guaranteed", "max_depth": DEPTH,
    }
    for splits in ("full", "diagonal")
}  # fmt: skip
_FULL_MAX_CLASSES = 32  # beyond, a full search is nothing to wait for; "auto" stops before


@dataclass(frozen=True)
class Axis:
    """What grows.

    Attributes
    ----------
    name : "rows", "features" or "classes".
    values : of it, ascending.
    fixed : of the other two.
    from_value : where the upper part begins, over which the exponent is fitted.
    bound : the largest exponent that is accepted.
    """

    name: str
    values: tuple[int, ...]
    fixed: dict[str, int]
    from_value: int
    bound: float

    def sizes(self, value: int) -> dict[str, int]:
        return {**self.fixed, self.name: value}


AXES = (
    Axis("rows", (10_000, 30_000, 100_000, 300_000, 1_000_000, 2_000_000),
         {"features": 20, "classes": 5}, 100_000, 1.0),
    Axis("features", (10, 30, 100, 300, 1000), {"rows": 20_000, "classes": 5}, 100, 1.0),
    Axis("classes", (2, 3, 5, 7, 10, 16, 24, 32, 50, 100), {"rows": 20_000, "features": 20}, 10,
         2.0),
)  # fmt: skip
QUICK_AXES = (
    Axis("rows", (2_000, 6_000, 20_000), {"features": 10, "classes": 3}, 2_000, 1.0),
    Axis("features", (5, 15, 50), {"rows": 2_000, "classes": 3}, 5, 1.0),
    Axis("classes", (3, 6, 12), {"rows": 2_000, "features": 5}, 3, 2.0),
)


@dataclass(frozen=True)
class Point:
    """Seconds of a round (a median) at one size."""

    axis: str
    rows: int
    features: int
    classes: int
    splits: str
    leaves: float
    seconds: float


@dataclass(frozen=True)
class Fit:
    """The power law of one line.

    Attributes
    ----------
    exponent : of the upper part.
    first, last : its ends.
    nanoseconds : of a round at the last point, for each row, feature and ``unit`` of it.
    unit : "", or the power of the number of classes that the cost is divided by.
    """

    axis: str
    splits: str
    exponent: float
    bound: float
    first: int
    last: int
    nanoseconds: float
    unit: str

    @property
    def within(self) -> bool:
        return self.exponent <= self.bound + TOLERANCE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument(
        "--threads", type=positive, default=1, metavar="N", help="threads (default %(default)s)"
    )
    parser.add_argument(
        "--output", metavar="DIR", help="where files go (default comparisons/output)"
    )


def run(args: argparse.Namespace) -> int:
    """The whole command."""
    directory = output_directory(args.output)
    name = "growth_quick" if args.quick else "growth"
    axes = QUICK_AXES if args.quick else AXES
    if args.quick:
        print(named_line("Quick", "small sizes: the exponents say nothing of large ones"))
    facts = environment()
    points = measure(axes, args.threads)
    fits = [fit(points, axis, splits) for axis in axes for splits in METHODS]
    print(markdown_table(fit_table(fits)))
    written = _write(points, fits, directory, name, args.threads, facts)
    try:
        from .growth_figure import draw
    except ImportError as error:
        print(named_line("Figures", f"left out: {error}; pip install matplotlib"))
    else:
        written += draw(points, fits, directory, name)
    for path in written:
        print(named_line("Written", shown(path)))
    return 0


def measure(axes: Sequence[Axis], threads: int) -> list[Point]:
    """Every size of every axis with both kinds of splits."""
    tasks = [
        (axis, value, splits)
        for axis in axes
        for value in axis.values
        for splits in METHODS
        if splits == "diagonal" or axis.sizes(value)["classes"] <= _FULL_MAX_CLASSES
    ]
    points = []
    data: tuple[fullhess.BinnedMatrix, NDArray[np.int32]] | None = None
    drawn: dict[str, int] = {}
    with ProgressBar(len(tasks), "size") as bar:
        for axis, value, splits in tasks:
            sizes = axis.sizes(value)
            bar.start(f"{value} {axis.name}, {splits} splits")
            if data is None or drawn != sizes:
                data, drawn = None, sizes  # let go of the old rows first
                data = draw_binned(**sizes)
            timed = train_fullhess(*data, METHODS[splits], ROUNDS, threads)
            seconds = float(np.median(timed.seconds[1:]))
            points.append(
                Point(axis.name, **sizes, splits=splits, leaves=timed.leaves, seconds=seconds)
            )
            bar.advance()
    return points


def draw_binned(
    rows: int, features: int, classes: int
) -> tuple[fullhess.BinnedMatrix, NDArray[np.int32]]:
    """Codes drawn evenly, (rows, features) uint8, and labels of a noisy rule, (rows,).

    Every feature counts a little, so that trees are as large as they may be at any width.
    """
    generator = np.random.default_rng(0)
    codes = generator.integers(0, N_BINS, (rows, features), np.uint8)
    weight = generator.normal(size=(features, classes)) / np.sqrt(features)
    bend = generator.normal(size=(features, classes)) / np.sqrt(features)
    label = np.empty(rows, np.int32)
    for start in range(0, rows, 50_000):  # floats of all rows at once would be large
        x = codes[start : start + 50_000] / (N_BINS / 4.0) - 2.0
        scores = x @ weight + np.abs(x) @ bend
        noisy = 2.0 * scores + generator.gumbel(size=scores.shape)
        label[start : start + 50_000] = noisy.argmax(axis=1)
    label[:classes] = np.arange(classes)  # none is without a row
    space = fullhess.FeatureSpace.of(features, "<=")
    cuts = tuple(np.arange(N_BINS - 1) + 0.5 for _ in range(features))
    return fullhess.BinnedMatrix(codes, fullhess.Binning(space, cuts, (None,) * features)), label


def fit(points: Sequence[Point], axis: Axis, splits: str) -> Fit:
    """The exponent of the upper part, by least squares on logarithms, and the constant."""
    line = [p for p in points if (p.axis, p.splits) == (axis.name, splits)]
    upper = [p for p in line if getattr(p, axis.name) >= axis.from_value]
    x = np.log([getattr(p, axis.name) for p in upper])
    y = np.log([p.seconds for p in upper])
    exponent = float(np.polyfit(x, y, 1)[0])
    last = upper[-1]
    power = 0 if axis.name != "classes" else (2 if splits == "full" else 1)
    work = last.rows * last.features * last.classes**power
    return Fit(
        axis.name, splits, exponent, axis.bound, getattr(upper[0], axis.name),
        getattr(last, axis.name), 1e9 * last.seconds / work, ("", "·class", "·class²")[power],
    )  # fmt: skip


def fit_table(fits: Sequence[Fit]) -> list[list[str]]:
    """The exponents in words."""
    table = [["grows", "splits", "exponent", "over", "at most", "", "a round at the last size"]]
    for found in fits:
        table.append(
            [
                found.axis,
                found.splits,
                f"{found.exponent:.2f}",
                f"{found.first} to {found.last}",
                f"{found.bound:g}",
                "within" if found.within else "above",
                f"{found.nanoseconds:.3g} ns per row·feature{found.unit}",
            ]
        )
    return table


def _write(
    points: Sequence[Point],
    fits: Sequence[Fit],
    directory: Path,
    name: str,
    threads: int,
    facts: dict[str, Any],
) -> list[Path]:
    """The points as CSV, and a report."""
    paths = [directory / f"{name}.csv", directory / f"{name}.md"]
    records = [asdict(point) for point in points]
    with paths[0].open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
    paths[1].write_text(_report(points, fits, name, threads, facts), encoding="utf-8")
    return paths


def _report(
    points: Sequence[Point], fits: Sequence[Fit], name: str, threads: int, facts: dict[str, Any]
) -> str:
    sizes = [["rows", "features", "classes", "splits", "leaves", "seconds a round"]]
    sizes += [
        [str(p.rows), str(p.features), str(p.classes), p.splits, f"{p.leaves:.0f}",
         f"{p.seconds:.4f}"]
        for p in points
    ]  # fmt: skip
    above = [f"{f.axis}, {f.splits} splits" for f in fits if not f.within]
    verdict = f"Above what is aimed at: {'; '.join(above)}." if above else "All are within."
    return f"""# Growth

Written by `python -m comparisons growth` on {time.strftime("%Y-%m-%d")}:
{environment_line(facts)}.

Seconds of a round, medians of {ROUNDS - 1}, on {threads} thread{"s" if threads > 1 else ""}:
generated codes of {N_BINS} bins, trees of depth {DEPTH}, exact leaves, guaranteed gains, ridge
prior. Full splits are measured up to {_FULL_MAX_CLASSES} classes.

## Exponents

Seconds grow as size to the power of the exponent, fitted by least squares on logarithms over the
part of the range that is named; an exponent up to {TOLERANCE:g} above the bound counts as within.
{verdict}

{markdown_table(fit_table(fits))}

The constant is the time of a whole round, split search and leaves included, at the last size,
divided by rows × features (and by the classes or their square).

![Seconds of a round by size]({name}.svg)

## All sizes

{markdown_table(sizes)}
"""
