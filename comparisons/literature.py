"""``python -m comparisons literature``: wrong rows on the official splits of earlier papers.

Work on multiclass boosting before today's libraries (ABC-Boost, AOSO-LogitBoost) counts the wrong
rows of fixed test parts, with trees of 20 leaves and a shrinkage of 0.1. The same is done here,
beside XGBoost and LightGBM; what others report, with where it was read, is in ``published``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np

from . import data, poker, published
from .ledger import Ledger
from .literature_methods import METHODS, Official, Plan, available, wrong_rows
from .progress import ProgressBar
from .published import AUTHORS_RUNS, PAPERS, Published
from .report import (
    environment,
    environment_line,
    markdown_table,
    named_line,
    output_directory,
    shown,
)

__all__ = ["add_arguments", "error_table", "load_official", "published_table", "report_text", "run"]

N_LEAVES = 20
PLAN = Plan(learning_rate=0.1, max_leaves=N_LEAVES, rounds=(200, 600))
# Cut to what one core does in about an hour for all methods and sets.
LARGE_PLAN = Plan(learning_rate=0.3, max_leaves=N_LEAVES, rounds=(200, 600))
QUICK_PLAN = Plan(learning_rate=0.1, max_leaves=N_LEAVES, rounds=(2, 5))
QUICK_HANDS = 1000
# UCI has 25,010 hands to train and 1,000,000 to test; 525,010 to train leave 500,000.
POKER_TRAIN = {"poker": 25_010, "poker100k": 100_000, "poker525k": 525_010}
POKER_TEST = 500_000
COVERTYPE_SEED = 0

_HANDS = (
    "hands drawn and labelled here (UCI's training part has 5 royal flushes among 25,010 hands, "
    "where 0.04 are to be expected)"
)
SMALL_SETS = {
    "satimage": "official split (Statlog)",
    "pendigits": "official split (UCI)",
    "optdigits": "official split (UCI)",
    "shuttle": "official split (Statlog)",
    "letter": "official split (UCI); 26 classes, so all splits are diagonal",
    "poker": _HANDS,
}
LARGE_SETS = {
    "covertype": f"two random halves (seed {COVERTYPE_SEED}). The halves of the papers are random, "
    "too, and others than ours: that of ABC-Boost is `data/covtype.train.index.csv` in "
    "https://github.com/pltrees/abcboost",
    "poker100k": _HANDS,
    "poker525k": _HANDS,
}
SETS = {**SMALL_SETS, **LARGE_SETS}
COLUMNS = (
    "data", "method", "version", "learning_rate", "max_leaves", "rounds", "n_train", "n_test",
    "errors",
)  # fmt: skip
KEY = ("data", "method", "learning_rate", "max_leaves", "rounds")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    data.add_arguments(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--sets", nargs="+", metavar="NAME", choices=SETS, default=tuple(SMALL_SETS),
        help=f"of {', '.join(SETS)} (default: the first {len(SMALL_SETS)})",
    )  # fmt: skip
    which.add_argument(
        "--large", action="store_true", help=f"also {', '.join(LARGE_SETS)}: about an hour"
    )
    which.add_argument(
        "--quick", action="store_true", help=f"{max(QUICK_PLAN.rounds)} rounds on a few poker hands"
    )
    columns = ", ".join(Published.__dataclass_fields__)
    parser.add_argument(
        "--published", metavar="FILE", help=f"CSV of further published counts: {columns}"
    )
    parser.add_argument(
        "--output", metavar="DIR", help="where files go (default comparisons/output)"
    )


def load_official(
    name: str, directory: str | None, fetch: bool = False, quick: bool = False
) -> Official:
    """A set in its parts: official ones, two random halves (Covertype), or drawn hands."""
    if name in POKER_TRAIN:
        n_train, n_test = (QUICK_HANDS,) * 2 if quick else (POKER_TRAIN[name], POKER_TEST)
        (X, y), (X_test, y_test) = poker.draw(n_train, seed=1), poker.draw(n_test, seed=2)
        return Official(name, X.astype(np.float32), y, X_test.astype(np.float32), y_test)
    whole = data.load(name, directory, fetch)
    order = np.arange(len(whole.y))
    if name == "covertype":
        start = len(order) // 2
        order = np.random.default_rng(COVERTYPE_SEED).permutation(order)
    elif whole.test_start is None:
        raise data.Unavailable(
            f"{name} ({whole.origin}) does not say where its test part begins; give a "
            f"{name}.npz with an array test_start, the first row of the test part"
        )
    else:
        start = whole.test_start
    train, test = np.sort(order[:start]), np.sort(order[start:])
    return Official(name, whole.X[train], whole.y[train], whole.X[test], whole.y[test])


def run(args: argparse.Namespace) -> int:
    """The whole command."""
    directory = output_directory(args.output)
    name = "literature_quick" if args.quick else "literature"
    theirs = [*AUTHORS_RUNS, *published.read(args.published)]
    ledger = Ledger(directory / f"{name}.csv", COLUMNS, KEY)
    methods, missing = available()
    if missing:
        print(named_line("Left out", f"{', '.join(missing)}: not installed"), flush=True)
    sets = ("poker",) if args.quick else tuple(SETS) if args.large else args.sets
    with ProgressBar(len(sets) * len(methods), unit="training") as bar:
        for set_name in sets:
            try:
                official = load_official(set_name, args.data, args.fetch, args.quick)
            except data.Unavailable as error:
                print(named_line("Left out", str(error)), flush=True)
                bar.advance(rounds=len(methods))
                continue
            plan = QUICK_PLAN if args.quick else _plan(set_name)
            for method in methods:
                bar.start(f"{set_name}: {method}")
                _count(ledger, official, method, plan)
                bar.advance()
    print(markdown_table(error_table(ledger.rows)))
    path = directory / f"{name}.md"
    path.write_text(report_text(ledger.rows, theirs), encoding="utf-8")
    print(named_line("Written", shown(path)))
    return 0


def _plan(name: str) -> Plan:
    return LARGE_PLAN if name in LARGE_SETS else PLAN


def _count(ledger: Ledger, official: Official, method: str, plan: Plan) -> None:
    """Train, unless all counts are there, and note those that are not."""
    settings = (official.name, method, f"{plan.learning_rate:g}", str(plan.max_leaves))
    missing = [n for n in plan.rounds if (*settings, str(n)) not in ledger.done()]
    if not missing:
        return
    version, counts = wrong_rows(official, method, plan)
    for rounds, errors in zip(plan.rounds, counts, strict=True):
        if rounds in missing:
            ledger.add({
                "data": official.name, "method": method, "version": version,
                "learning_rate": plan.learning_rate, "max_leaves": plan.max_leaves,
                "rounds": rounds, "n_train": len(official.y_train),
                "n_test": len(official.y_test), "errors": errors,
            })  # fmt: skip


def error_table(rows: Sequence[Mapping[str, str]]) -> list[list[str]]:
    """Wrong test rows: a line for each set, rate and number of rounds, a column a method."""
    line = ("data", "n_test", "learning_rate", "rounds")
    methods = [name for name in METHODS if any(row["method"] == name for row in rows)]
    found = {(*(row[name] for name in line), row["method"]): row["errors"] for row in rows}
    order = {name: i for i, name in enumerate(SETS)}
    lines = sorted({tuple(row[name] for name in line) for row in rows},
                   key=lambda cells: (order[cells[0]], float(cells[2]), int(cells[3])))  # fmt: skip
    table = [["data", "test rows", "rate", "rounds", *methods]]
    table += [[*cells, *(found.get((*cells, name), "") for name in methods)] for cells in lines]
    return table


def published_table(
    rows: Sequence[Mapping[str, str]], theirs: Sequence[Published]
) -> list[list[str]]:
    """What others report of the sets in ``rows``: a line for each run.

    Counts of a test part of another size than ours are scaled to ours, and marked.
    """
    n_test = {row["data"]: int(row["n_test"]) for row in rows}
    known = [item for item in theirs if item.data in n_test]
    table = [["data", "test rows", "method", "errors", "source"]]
    for (name, method, size, source), run_ in groupby(
        known, key=lambda item: (item.data, item.method, item.n_test, item.source)
    ):
        same = size == n_test[name]
        counts = [
            f"{item.errors if same else f'≈{item.scaled_to(n_test[name])}'} after {item.rounds}"
            for item in run_
        ]
        shown_size = f"{n_test[name]}" if same else f"{n_test[name]}, scaled from {size}"
        table.append([name, shown_size, method, ", ".join(counts), source])
    return table


def report_text(rows: Sequence[Mapping[str, str]], theirs: Sequence[Published]) -> str:
    """The whole report on these counts, in Markdown."""
    sizes = {row["data"]: (row["n_train"], row["n_test"]) for row in rows}
    sets = "\n".join(f"* {name}: {sizes[name][0]} rows to train and {sizes[name][1]} to test, "
                     f"{words}." for name, words in SETS.items() if name in sizes)  # fmt: skip
    methods = "\n".join(f"* {name}: {method.words}." for name, method in METHODS.items()
                        if any(row["method"] == name for row in rows))  # fmt: skip
    beside = published_table(rows, theirs)
    counts = markdown_table(beside) if len(beside) > 1 else "Nothing of these sets."
    papers = "\n".join(f"* {paper}." for paper in PAPERS)
    return f"""# Official splits of the multiclass boosting literature

Written by `python -m comparisons literature`; {environment_line(environment())}.

Wrong rows of the test part, with trees of {N_LEAVES} leaves grown by the largest gain, a minimum
child weight of 0.001 and, where nothing else is said, an L2 penalty of 1. Nothing is searched for
any set or method, no round is chosen, and each count is of one training. But the child weight and
the two methods without a penalty were settled after a dozen looks at test errors of pendigits.

{markdown_table(error_table(rows))}

{methods}

{sets}

With another test part of the same kind a count of n would vary by √n or a little less.

## What others report

{counts}

Errors are given after so many rounds, the last where a run stopped. The runs of LogitBoost, with
{N_LEAVES} leaves and shrinkage 0.1, are those that the authors of AOSO-LogitBoost kept beside their
programs, not the tables of their papers. VTLogitBoost has vector leaves, the diagonal p(1−p) and no
penalty; it was never published otherwise. "95 % rows" are the rows that hold so much of the weight,
"40 % features" those drawn for each node.

The counts in these papers could not be read when this was written, so none is repeated here
(`--published FILE` adds them):

{papers}
"""
