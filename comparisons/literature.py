"""``python -m comparisons literature``: errors on the official splits of earlier papers.

ABC-LogitBoost (Li 2010, "Robust LogitBoost and adaptive base class (ABC) LogitBoost", UAI)
and AOSO-LogitBoost (Sun, Reid and Zhou 2012, ICML) count the wrong rows of fixed test parts.
Their settings are run here on the same kind of split: trees of 20 leaves, rate 0.1, a fixed
number of rounds, nothing tuned. What these papers report is put beside our counts from a
file of the reader's (``--published``); no number is given from memory.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import fullhess

from . import data, poker
from .ledger import Ledger
from .progress import ProgressBar
from .report import (
    environment,
    environment_line,
    markdown_table,
    named_line,
    output_directory,
    shown,
)

__all__ = ["METHODS", "Official", "add_arguments", "error_table", "load_official", "run"]

ROUNDS, QUICK_ROUNDS = 200, 5
N_LEAVES = 20
MAX_POKER_TRAIN, MAX_POKER_TEST = 25_010, 100_000
SETS = ("satimage", "pendigits", "shuttle", "poker", "letter")
COLUMNS = ("data", "method", "version", "rounds", "n_train", "n_test", "errors", "cpu_seconds")
PUBLISHED_COLUMNS = ("data", "method", "errors", "source")
_COMMON = {
    "learning_rate": 0.1, "grow_policy": "lossguide", "max_leaves": N_LEAVES, "max_depth": 0,
    "n_jobs": 1,
}  # fmt: skip
METHODS = {
    "default": {},
    "path prior": {"leaf_prior": "path"},
    "2p(1−p), Newton step": {
        "hessian": "upper_bound", "leaf_solver": "newton", "split_gain": "quadratic",
    },
    "|p−y|, Newton step": {
        "hessian": "absolute_residual", "leaf_solver": "newton", "split_gain": "quadratic",
    },
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Official:
    """A data set in its two official parts."""

    name: str
    words: str
    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @property
    def n_classes(self) -> int:
        return int(max(self.y_train.max(), self.y_test.max())) + 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    data.add_arguments(parser)
    parser.add_argument("--sets", nargs="+", metavar="NAME", choices=SETS, default=SETS)
    parser.add_argument(
        "--published", metavar="FILE",
        help=f"CSV of published counts with the columns {', '.join(PUBLISHED_COLUMNS)}",
    )  # fmt: skip
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds on poker hands alone"
    )
    parser.add_argument(
        "--output", metavar="DIR", help="where files go (default comparisons/output)"
    )


def load_official(name: str, directory: str | None, quick: bool = False) -> Official:
    """A set in its official parts; poker hands are drawn."""
    if name == "poker":
        n_train, n_test = (1000, 1000) if quick else (MAX_POKER_TRAIN, MAX_POKER_TEST)
        train, test = poker.draw(n_train, seed=1), poker.draw(n_test, seed=2)
        words = f"{n_train} drawn hands, {n_test} others to test"
        return Official(name, words, *train, *test)
    whole = data.load(name, directory)
    if whole.test_start is None:
        raise data.Unavailable(
            f"{name}.npz has no array test_start, the first row of the test part"
        )
    start = whole.test_start
    words = f"official split, {start} to train and {len(whole.y) - start} to test"
    return Official(name, words, whole.X[:start], whole.y[:start], whole.X[start:], whole.y[start:])


def run(args: argparse.Namespace) -> int:
    """The whole command."""
    directory = output_directory(args.output)
    name = "literature_quick" if args.quick else "literature"
    published = _read_published(args.published)
    rounds = QUICK_ROUNDS if args.quick else ROUNDS
    ledger = Ledger(directory / f"{name}.csv", COLUMNS, ("data", "method", "rounds"))
    words = {}
    names = ("poker",) if args.quick else args.sets
    with ProgressBar(len(names) * len(METHODS), unit="training") as bar:
        for set_name in names:
            try:
                official = load_official(set_name, args.data, args.quick)
            except data.Unavailable as error:
                print(named_line("Left out", str(error)), flush=True)
                continue
            words[set_name] = official.words
            for method in METHODS:
                bar.start(f"{set_name}: {method}")
                if (set_name, method, str(rounds)) not in ledger.done():
                    ledger.add(_count(official, method, rounds))
                bar.advance()
    table = error_table(ledger.rows, published)
    print(markdown_table(table))
    path = directory / f"{name}.md"
    path.write_text(_report(table, words, rounds, published), encoding="utf-8")
    print(named_line("Written", shown(path)))
    return 0


def _count(official: Official, method: str, rounds: int) -> dict[str, object]:
    """Train once and count the wrong rows after the last round; nothing is chosen."""
    binned = fullhess.BinnedMatrix.from_quantiles(official.X_train, n_jobs=1)
    start = time.process_time()
    model = fullhess.train(
        # Said, since the rarest hands may have no training row.
        {**_COMMON, **METHODS[method], "num_class": official.n_classes},
        binned,
        official.y_train,
        num_boost_round=rounds,
    )
    seconds = time.process_time() - start
    wrong = model.predict(official.X_test, n_jobs=1).argmax(axis=1) != official.y_test
    return {
        "data": official.name, "method": method, "version": fullhess.__version__,
        "rounds": rounds, "n_train": len(official.y_train), "n_test": len(official.y_test),
        "errors": int(wrong.sum()), "cpu_seconds": seconds,
    }  # fmt: skip


def _read_published(path: str | None) -> list[dict[str, str]]:
    if path is None:
        return []
    with Path(path).open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != PUBLISHED_COLUMNS:
            raise SystemExit(
                f"{path} must have the columns {', '.join(PUBLISHED_COLUMNS)}, "
                f"it has {reader.fieldnames}"
            )
        return list(reader)


def error_table(
    rows: Sequence[Mapping[str, str]], published: Sequence[Mapping[str, str]]
) -> list[list[str]]:
    """Wrong rows of the test part by data set, ours and published ones."""
    sets = list(dict.fromkeys(row["data"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    theirs = list(dict.fromkeys(row["method"] for row in published))
    by = {(row["data"], row["method"]): row["errors"] for row in rows}
    beside = {(row["data"], row["method"]): f"{row['errors']} ({row['source']})"
              for row in published}  # fmt: skip
    size = {row["data"]: row["n_test"] for row in rows}
    table = [["data", "test rows", *methods, *theirs]]
    for name in sets:
        cells = [by.get((name, method), "") for method in methods]
        table.append([name, size[name], *cells, *(beside.get((name, m), "") for m in theirs)])
    return table


def _report(
    table: list[list[str]], words: Mapping[str, str], rounds: int, published: Sequence[object]
) -> str:
    beside = "" if published else """
The counts that Li (2010, UAI, ABC-LogitBoost) and Sun, Reid and Zhou (2012, ICML, AOSO-LogitBoost)
print for such splits could not be checked against their papers when this table was made, so none
is repeated here. `--published FILE` puts them beside ours.
"""  # fmt: skip
    listed = "\n".join(f"* {name}: {text}" for name, text in words.items())
    return f"""# Official splits of the multiclass boosting literature

Written by `python -m comparisons literature`; {environment_line(environment())}.

Wrong rows of the test part after {rounds} rounds of trees with {N_LEAVES} leaves at learning rate
0.1; nothing was tuned and no round was chosen. With more than 16 classes (letter) splits are by
the diagonal of the Hessian.

{markdown_table(table)}

{listed}
{beside}"""
