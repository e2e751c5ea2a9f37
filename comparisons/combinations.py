"""``python -m comparisons combinations``: every curvature, leaf solver, leaf prior and gain.

All combinations of our own settings train on many small data sets after the same search. What
a setting adds is seen from the pairs of combinations that differ in nothing else.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from . import data, libraries
from .contenders import FULL, Protocol
from .ledger import Ledger
from .libraries import Method
from .progress import ProgressBar
from .quickstart import positive
from .report import environment, environment_line, named_line, output_directory, shown
from .study import KEY, Result, search

__all__ = [
    "COMBINATIONS", "DEFAULT", "FACTORS", "FULL_PROTOCOL", "add_arguments", "levels_of", "run",
]  # fmt: skip

# In the order of a report; a level is a setting's value and what people call it.
FACTORS: dict[str, dict[str, str]] = {
    "hessian": {
        "full": FULL, "upper_bound": "2p(1−p)", "absolute_residual": "|p−y|",
        "diagonal": "p(1−p)", "scaled_diagonal": "p(1−p)k/(k−1)",
    },
    "leaf_solver": {"newton": "newton", "damped": "damped", "exact": "exact"},
    "leaf_prior": {"ridge": "ridge", "path": "path"},
    "split_gain": {"quadratic": "quadratic", "guaranteed": "guaranteed"},
}  # fmt: skip
SETS = (
    "digits", "wine", "poker", "glass", "vehicle", "vowel", "dermatology", "yeast", "segment",
    "car", "winequality_red", "splice", "satimage", "waveform_21", "ann_thyroid",
)  # fmt: skip
QUICK_SETS = ("wine",)
FULL_PROTOCOL = Protocol(
    n_draws=3, seeds=(0,), rounds=80, max_train=1000, other_rows={}, learning_rate=(0.1, 0.4)
)
_QUICK = replace(FULL_PROTOCOL, n_draws=1, rounds=5, max_train=150)


def _combination(levels: tuple[str, ...]) -> Method:
    """Splits are searched with the curvature of the leaves, whatever the number of classes."""
    params: dict[str, Any] = dict(zip(FACTORS, levels, strict=True))
    return Method(
        " · ".join(levels), FACTORS["hessian"][levels[0]], {**params, "split_hessian": levels[0]}
    )


COMBINATIONS = tuple(_combination(levels) for levels in itertools.product(*FACTORS.values()))
DEFAULT = "full · exact · path · guaranteed"


def levels_of(name: str) -> tuple[str, ...]:
    """The levels of a combination, in the order of ``FACTORS``."""
    return tuple(name.removeprefix("fullhess ").split(" · "))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    data.add_arguments(parser)
    parser.add_argument(
        "--quick", action="store_true", help="one embedded set and few rounds: does it work?"
    )
    parser.add_argument(
        "--sets", nargs="+", metavar="NAME", help="data sets (default: all that can be had)"
    )
    parser.add_argument(
        "--seeds", type=positive, metavar="N", help="splits of every set (default 1)"
    )
    parser.add_argument(
        "--output", metavar="DIR", help="where files go (default comparisons/output)"
    )


def run(args: argparse.Namespace) -> int:
    """The whole command."""
    directory = output_directory(args.output)
    name = "combinations_quick" if args.quick else "combinations"
    protocol = _QUICK if args.quick else FULL_PROTOCOL
    if args.seeds:
        protocol = replace(protocol, seeds=tuple(range(args.seeds)))
    facts = [("Machine", environment_line(environment()))]
    sets = []
    for wanted in args.sets or (QUICK_SETS if args.quick else SETS):
        try:
            sets.append(data.load(wanted, args.data, args.fetch))
        except data.Unavailable as error:
            facts.append(("Left out", str(error)))
    print("\n".join(named_line(*fact) for fact in facts), flush=True)
    if not sets:
        print("no data set is at hand", file=sys.stderr)
        return 1
    ledger = Ledger(directory / f"{name}.csv", [field.name for field in fields(Result)], KEY)
    _train_all(sets, protocol, ledger)
    from .combinations_report import write_report

    rows = [row for row in ledger.rows if row["protocol"] == protocol.key]
    for path in write_report(rows, protocol, directory, name, facts):
        print(named_line("Written", shown(path)))
    return 0


def _train_all(sets: Sequence[data.Dataset], protocol: Protocol, ledger: Ledger) -> None:
    """Do what the ledger lacks."""
    [module], _ = libraries.find({"fullhess": "fullhess_"})
    done = {key[:3] + key[4:] for key in ledger.done()}  # whatever the version
    with ProgressBar(len(protocol.seeds) * len(sets) * len(COMBINATIONS), unit="search") as bar:
        for seed, dataset in itertools.product(protocol.seeds, sets):
            parts = data.split(dataset, seed, protocol.rows(dataset.name))
            for method in COMBINATIONS:
                bar.start(f"{dataset.name}, split {seed}: {method.name}")
                key = (dataset.name, str(seed), f"fullhess {method.name}", protocol.key)
                if key not in done:
                    ledger.add(vars(search(parts, module, method, protocol, seed)))
                bar.advance()
