"""``python -m comparisons paper``: the paper's experiments, with our engine beside them."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import data, paper_intercepts, paper_regression, paper_split
from .paper_split import FirstColumn
from .report import (
    environment,
    environment_line,
    markdown_table,
    named_line,
    output_directory,
    shown,
)

__all__ = ["add_arguments", "first_column", "run"]

N_ROWS = 5000  # the paper takes the first rows in UCI's order
# Means of the first column (elevation in metres) by class, for the stand-in.
_ELEVATION = np.array([3130.0, 2920.0, 2395.0, 2225.0, 2785.0, 2420.0, 3360.0])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    data.add_arguments(parser)
    parser.add_argument(
        "--quick", action="store_true", help="at most 100 iterations of the slow rules"
    )
    parser.add_argument(
        "--output", metavar="DIR", help="where files go (default comparisons/output)"
    )


def run(args: argparse.Namespace) -> int:
    """The whole command."""
    directory = output_directory(args.output)
    column = first_column(args.data, args.fetch)
    print(named_line("Data", column.origin))
    limit = 100 if args.quick else 1000
    paths = paper_intercepts.all_paths(paper_intercepts.COUNTS, limit)
    split = paper_split.compare(column)
    example = paper_regression.example()

    sections = [
        "# The paper's experiments",
        "Cortes (2026), *Gradient boosting with vector-valued leafs*, arXiv 2606.29326; "
        "written by `python -m comparisons paper`.",
        f"{environment_line(environment())}.",
        paper_intercepts.section(paths, limit),
        paper_split.section(split, column),
        paper_regression.section(example),
    ]
    report = directory / "paper.md"
    report.write_text("\n\n".join(sections) + "\n", encoding="utf-8")
    written = [
        report,
        _write_csv(directory / "paper_intercepts.csv", paper_intercepts.rows(paths)),
        _write_csv(directory / "paper_thresholds.csv", paper_split.threshold_rows(split)),
        _write_csv(directory / "paper_losses.csv", paper_split.loss_rows(split)),
    ]
    print("\n" + markdown_table(paper_intercepts.summary(paths, limit)))
    print("\n" + markdown_table(paper_split.loss_rows(split)) + "\n")
    try:
        from . import paper_figures
    except ImportError as error:
        print(named_line("Figures", f"left out: {error}; pip install matplotlib"))
    else:
        written += paper_figures.draw(paths, split, column, directory)
    for path in written:
        print(named_line("Written", shown(path)))
    return 0


def first_column(directory: str | None, fetch: bool) -> FirstColumn:
    """Elevation and class of 5000 rows of Covertype, or of a stand-in."""
    try:
        covertype = data.load("covertype", directory, fetch)
    except data.Unavailable:
        return _stand_in()
    x, y = covertype.X[:N_ROWS, 0], covertype.y[:N_ROWS]
    counts = np.bincount(y, minlength=7)
    if not np.array_equal(counts, paper_intercepts.COUNTS):
        raise ValueError(
            "the first 5000 rows of Covertype must be those of UCI's file, with "
            f"{paper_intercepts.COUNTS.tolist()} rows of the classes, got {counts.tolist()}"
        )
    return FirstColumn("the first 5000 rows of Covertype, first column (elevation)", True, x, y)


def _stand_in() -> FirstColumn:
    """As many rows of every class as the paper has, with drawn elevations."""
    generator = np.random.default_rng(0)
    y = np.repeat(np.arange(7), paper_intercepts.COUNTS).astype(np.int32)
    x = np.round(generator.normal(_ELEVATION[y], 130.0)).astype(np.float32)
    return FirstColumn(
        "a generated stand-in for the first column of Covertype (same class counts, drawn "
        "elevations); give the real rows with --data or --fetch",
        False, x, y,
    )  # fmt: skip


def _write_csv(path: Path, rows: Sequence[Sequence[Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path
