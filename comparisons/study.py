"""``python -m comparisons study``: gradient boosting on real data, all methods alike."""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import budgets, data, libraries, splits
from .contenders import (
    BASELINE,
    FURTHER_DATA,
    OWN,
    PEERS,
    PLANS,
    Plan,
    Protocol,
    draws,
    for_classes,
    full_name,
)
from .data import Parts
from .ledger import Ledger
from .libraries import Method, Run, Settings
from .progress import ProgressBar
from .quickstart import positive
from .report import environment, environment_line, named_line, output_directory, shown

__all__ = ["KEY", "Result", "add_arguments", "evaluate", "log_loss", "run", "search"]

KEY = ("data", "seed", "method", "version", "protocol")


@dataclass(frozen=True)
class Result:
    """One method on one split of one data set, after its search; a row of the CSV.

    Attributes
    ----------
    draw : number of the draw with the lowest validation loss, which alone met the test part.
    rounds, leaves, model_bytes : of the chosen model, up to its best round.
    train_cpu, search_cpu : processor seconds of the chosen training and of all draws,
        with binning and the evaluation of two sets each round.
    predict_cpu : processor seconds to predict the test part.
    equal_time_loss : test loss within the processor time that the baseline's chosen
        training took on this split (``budgets.losses_within``).
    timed_losses : test losses within each of ``budgets.BUDGETS``, packed.
    rises, search_rises : rounds that raised the training loss, in the chosen training and
        in those draws that take all rows; NaN if the library does not tell.
    """

    data: str
    seed: int
    method: str
    version: str
    protocol: str
    n_train: int
    n_features: int
    n_classes: int
    draw: int
    valid_loss: float
    test_loss: float
    test_error: float
    rounds: int
    leaves: int
    model_bytes: int
    train_cpu: float
    search_cpu: float
    predict_cpu: float
    rises: float
    search_rises: float
    equal_time_loss: float
    timed_losses: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    data.add_arguments(parser)
    parser.add_argument(
        "--plan", choices=[name for name in PLANS if name != "quick"], default="main",
        help="main (default), the smaller one that came first, few methods on larger data, or "
        "few methods for their processor time",
    )  # fmt: skip
    parser.add_argument(
        "--sets", nargs="+", metavar="NAME", help="data sets (default: all that can be had)"
    )
    parser.add_argument(
        "--methods", nargs="+", metavar="NAME", help="methods by full name (default: all)"
    )
    parser.add_argument(
        "--seeds", type=positive, metavar="N", help="splits of every set (default: the plan's)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="three embedded sets and few rounds, to see it work"
    )
    parser.add_argument(
        "--report-only", action="store_true", help="train nothing, report what is finished"
    )
    parser.add_argument(
        "--output", metavar="DIR", help="where files go (default comparisons/output)"
    )


def run(args: argparse.Namespace) -> int:
    """The whole command."""
    plan = _chosen(args)
    directory = output_directory(args.output)
    columns = [field.name for field in fields(Result)]
    ledger = Ledger(directory / f"{plan.name}.csv", columns, KEY)
    tree_columns = [field.name for field in fields(splits.Tree)]
    trees = Ledger(directory / f"{plan.name}_trees.csv", tree_columns, ("data",))
    facts = [("Machine", environment_line(environment()))]
    if not args.report_only:
        sets, missing = _load_all(plan.sets, args)
        contenders, notes = _contenders(plan.methods)
        facts += [("Left out", note) for note in (*missing, *notes)]
        print("\n".join(named_line(*fact) for fact in facts), flush=True)
        _compare_splits(sets, plan.protocol, trees)
        _train_all(sets, contenders, plan.protocol, ledger)
    from .study_report import write_report

    for path in write_report(ledger.rows, trees.rows, plan, directory, facts):
        print(named_line("Written", shown(path)))
    return 0


def _chosen(args: argparse.Namespace) -> Plan:
    """The plan with the options that narrow it."""
    plan = PLANS["quick" if args.quick else args.plan]
    known = [full_name(library, method) for library, method in (*PEERS, *OWN)]
    unknown = set(args.methods or ()) - set(known)
    if unknown:
        sys.exit(f"unknown methods {sorted(unknown)}; known are {known}")
    seeds = tuple(range(args.seeds)) if args.seeds else plan.protocol.seeds
    return replace(
        plan,
        protocol=replace(plan.protocol, seeds=seeds),
        sets=tuple(args.sets or plan.sets),
        methods=tuple(args.methods or plan.methods),
    )


def _load_all(
    names: Sequence[str], args: argparse.Namespace
) -> tuple[list[data.Dataset], list[str]]:
    sets, missing = [], []
    for name in names:
        try:
            sets.append(data.load(name, args.data, args.fetch))
        except data.Unavailable as error:
            missing.append(str(error))
    return sets, missing


Contender = tuple[ModuleType, Method]


def _contenders(names: Sequence[str]) -> tuple[list[Contender], list[str]]:
    """Methods of the libraries that are installed, and notes on the others."""
    modules, notes = libraries.find({**libraries.MODULES, **libraries.FURTHER_MODULES})
    by_library = {module.LIBRARY: module for module in modules}
    found = [
        (by_library[library], method)
        for library, method in (*PEERS, *OWN)
        if library in by_library and full_name(library, method) in names
    ]
    return found, notes


def _train_all(
    sets: Sequence[data.Dataset],
    contenders: Sequence[Contender],
    protocol: Protocol,
    ledger: Ledger,
) -> None:
    """Do what the ledger lacks: one split of all sets, then the next split.

    Sets of ``FURTHER_DATA`` follow when all splits of the others are done.
    """
    done = {key[:3] + key[4:] for key in ledger.done()}  # whatever the version
    total = len(protocol.seeds) * len(sets) * len(contenders)
    with ProgressBar(total, unit="search") as bar:
        for seed, dataset in _order(sets, protocol.seeds):
            parts = data.split(dataset, seed, protocol.rows(dataset.name))
            for module, method in contenders:
                name = full_name(module.LIBRARY, method)
                bar.start(f"{dataset.name}, split {seed}: {name}")
                if (dataset.name, str(seed), name, protocol.key) not in done:
                    allowed = _baseline_seconds(ledger, dataset.name, seed, protocol)
                    ledger.add(vars(search(parts, module, method, protocol, seed, allowed)))
                bar.advance()


def _order(
    sets: Sequence[data.Dataset], seeds: Sequence[int]
) -> Iterator[tuple[int, data.Dataset]]:
    for further in (False, True):
        for seed in seeds:
            for dataset in sets:
                if (dataset.name in FURTHER_DATA) == further:
                    yield seed, dataset


def _baseline_seconds(ledger: Ledger, name: str, seed: int, protocol: Protocol) -> float | None:
    """Processor seconds of the baseline's chosen training on a split; None before it ran."""
    wanted = {"data": name, "seed": str(seed), "method": BASELINE, "protocol": protocol.key}
    for row in ledger.rows:
        if all(row[column] == value for column, value in wanted.items()):
            return float(row["train_cpu"])
    return None


def _compare_splits(sets: Sequence[data.Dataset], protocol: Protocol, ledger: Ledger) -> None:
    """Single trees by each curvature, on the first split of every set."""
    done = ledger.done()
    for dataset in sets:
        if (dataset.name,) not in done:
            parts = data.split(dataset, 0, protocol.rows(dataset.name))
            for tree in splits.compare_trees(parts):
                ledger.add(vars(tree))


def search(
    parts: Parts,
    module: ModuleType,
    method: Method,
    protocol: Protocol,
    seed: int,
    allowed: float | None = None,
) -> Result:
    """Train with every draw, choose by validation loss, and test the chosen model.

    Parameters
    ----------
    allowed : processor seconds for ``equal_time_loss``; None: those of the chosen training.
    """
    settings = draws(protocol, seed)
    problem = parts.problem
    method = replace(method, params=for_classes(method.params, problem.n_classes))
    _train(module, parts, replace(settings[0], rounds=2), method)  # whatever is compiled, is now
    runs, seconds = [], []
    for draw in settings:
        start = time.process_time()
        runs.append(_train(module, parts, draw, method))
        seconds.append(time.process_time() - start)
    losses = [float(run.loss.min()) for run in runs]
    best = int(np.argmin(np.nan_to_num(losses, nan=np.inf)))
    chosen = runs[best]
    loss, error, predict_cpu = evaluate(module, chosen, parts)
    leaves, n_bytes = module.size(chosen)
    allowed = seconds[best] if allowed is None else allowed
    equal, *timed = budgets.losses_within((allowed, *budgets.BUDGETS), module, runs, seconds, parts)
    all_rows = [r for r, draw in zip(runs, settings, strict=True) if draw.subsample == 1.0]
    return Result(
        problem.name, seed, full_name(module.LIBRARY, method), chosen.version, protocol.key,
        len(problem.y_train), problem.X_train.shape[1], problem.n_classes, best, losses[best],
        loss, error, chosen.best + 1, leaves, n_bytes, seconds[best], sum(seconds), predict_cpu,
        _rises([chosen]), _rises(all_rows), equal, budgets.pack(timed),
    )  # fmt: skip


def _train(module: ModuleType, parts: Parts, settings: Settings, method: Method) -> Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other libraries, about settings meant as they are
        trained: Run = module.train(parts.problem, settings, method, lambda loss: None)
    return trained


def _rises(runs: Sequence[Run]) -> float:
    if any(np.isnan(run.train_loss).any() for run in runs):
        return float("nan")
    return float(sum(run.rises for run in runs))


def evaluate(module: ModuleType, run: Run, parts: Parts) -> tuple[float, float, float]:
    """Loss, error and processor seconds on the test part, at the best round."""
    start = time.process_time()
    probability = module.predict(run, parts.X_test)
    seconds = time.process_time() - start
    error = float((probability.argmax(axis=1) != parts.y_test).mean())
    return log_loss(probability, parts.y_test), error, seconds


def log_loss(probability: NDArray[Any], y: NDArray[Any]) -> float:
    """Mean log-loss; a probability below 1e-15 counts as that."""
    chosen = np.asarray(probability, np.float64)[np.arange(len(y)), y]
    return float(-np.log(np.maximum(chosen, 1e-15)).mean())
