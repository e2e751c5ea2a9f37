"""``python -m comparisons speed``: time and memory of a round, beside XGBoost.

fullhess and XGBoost's ``multi_output_tree`` take turns in one process, on the same
rows in the same bins (XGBoost's own cuts). Each turn trains a few rounds and times
each of them from callbacks, the same way for both; the first is left out, as it
carries the start of the run. Memory is what training adds to a fresh process.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fullhess

from . import memory
from .libraries.fullhess_ import compile_kernels
from .problems import generated
from .progress import ProgressBar
from .quickstart import positive
from .report import (
    environment,
    environment_line,
    named_line,
    output_directory,
    shown,
    text_table,
)

__all__ = ["METHODS", "Plan", "Result", "add_arguments", "cautions", "interior_cuts", "run"]

XGBOOST = "XGBoost multi_output_tree"
METHODS: dict[str, dict[str, Any]] = {
    "full Hessian, exact leaves": {"split_hessian": "full"},
    "full Hessian, path prior": {"split_hessian": "full", "leaf_prior": "path"},
    "diagonal splits, exact leaves": {"split_hessian": "diagonal"},
}
COMMON = {"learning_rate": 0.1, "max_depth": 6, "reg_lambda": 1.0, "min_child_weight": 1.0}
N_FEATURES = 54
MAX_BINS = 256
STEADY = 1.25  # quartiles of the rounds on a machine without other work lie closer


@dataclass(frozen=True)
class Plan:
    """What is measured."""

    rows: int = 100_000
    classes: tuple[int, ...] = (3, 7, 10)
    threads: tuple[int, ...] = (1, 2)
    rounds: int = 4  # of a turn; the first is not counted
    turns: int = 4

    def __str__(self) -> str:
        return (
            f"{self.rows} generated rows of {N_FEATURES} features, {MAX_BINS} bins, depth "
            f"{COMMON['max_depth']}; medians of {self.turns} turns of {self.rounds - 1} rounds"
        )


@dataclass
class Result:
    """One line of the table; a memory that could not be measured is None.

    Attributes
    ----------
    seconds : of the counted rounds.
    median, fastest : of these, in seconds.
    memory_mb : what training adds to the process at its peak.
    median_ratio, fastest_ratio, memory_ratio : to XGBoost, with as many classes and
        threads.
    """

    classes: int
    threads: int
    method: str
    seconds: list[float] = field(default_factory=list)
    median: float = 0.0
    median_ratio: float = 1.0
    fastest: float = 0.0
    fastest_ratio: float = 1.0
    memory_mb: float | None = None
    memory_ratio: float | None = None

    @property
    def spread(self) -> float:
        """How far rounds of the same kind lie apart: upper over lower quartile."""
        lower, upper = np.quantile(self.seconds, [0.25, 0.75])
        return float(upper / lower)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--quick", action="store_true", help="20000 rows, 7 classes, 1 thread; below a minute"
    )
    for name, words in (("threads", "numbers of threads"), ("classes", "numbers of classes")):
        default = " ".join(map(str, getattr(Plan, name)))
        parser.add_argument(
            f"--{name}", type=positive, nargs="+", metavar="N", help=f"{words} (default {default})"
        )
    parser.add_argument(
        "--rows", type=positive, metavar="N", help=f"rows to train on (default {Plan.rows})"
    )
    parser.add_argument(
        "--output", metavar="DIR", help="where files go (default comparisons/output)"
    )


def run(args: argparse.Namespace) -> int:
    """The whole command."""
    try:
        import xgboost  # noqa: F401
    except ImportError as error:
        print(
            f"speed compares with XGBoost, which cannot be imported: {error}\n"
            'Install what the comparisons need: pip install -e ".[compare]"',
            file=sys.stderr,
        )
        return 1
    plan = _plan(args)
    if min(plan.classes) < 2:
        print(f"--classes must be 2 or more, got {min(plan.classes)}", file=sys.stderr)
        return 2
    directory = output_directory(args.output)
    print(named_line("Data", str(plan)), flush=True)
    facts = environment()  # before this command adds to the load
    compiling = sum(compile_kernels(k, [*METHODS.values()]) for k in plan.classes)
    print(named_line("Kernels", f"compiled or loaded in {compiling:.1f} s"), flush=True)
    results = measure(plan)
    print(f"\n{table(results)}\n")
    print(named_line("Machine", environment_line(facts)))
    for caution in cautions(results):
        print(named_line("Caution", caution))
    for what, path in _write(results, plan, facts, compiling, directory):
        print(named_line(what, path))
    return 0


def _plan(args: argparse.Namespace) -> Plan:
    base = Plan(20_000, (7,), (1,), rounds=4, turns=3) if args.quick else Plan()
    return Plan(
        args.rows or base.rows,
        tuple(args.classes or base.classes),
        tuple(args.threads or base.threads),
        base.rounds,
        base.turns,
    )


def measure(plan: Plan) -> list[Result]:
    """Time and memory of every combination."""
    results: list[Result] = []
    per_data = len(plan.threads) * (len(METHODS) + 1) * (plan.rounds * plan.turns + 1)
    with ProgressBar(len(plan.classes) * per_data) as bar:
        for k in plan.classes:
            X, label = generated(plan.rows, k, N_FEATURES)
            with tempfile.TemporaryDirectory() as folder:
                trainers = _prepare(X, label, Path(folder))
                for threads in plan.threads:
                    lines = {name: Result(k, threads, name) for name in trainers}
                    _take_turns(trainers, lines, plan, bar)
                    for line in lines.values():
                        bar.start(f"memory: {k} classes, {threads} threads, {line.method}")
                        line.memory_mb = memory.measure(Path(folder), line, plan.rounds)
                        bar.advance()
                    _compare(lines)
                    results += lines.values()
    return results


Trainer = Callable[[int, int], list[float]]  # rounds, threads: seconds of each round


def _prepare(X: NDArray[np.float32], label: NDArray[np.int32], folder: Path) -> dict[str, Trainer]:
    """Trainers of all methods on the same bins; the data are left for other processes."""
    import xgboost

    data = xgboost.QuantileDMatrix(X, label=label, max_bin=MAX_BINS, nthread=1)
    cuts = interior_cuts(data)
    binned = fullhess.BinnedMatrix.from_cuts(X, cuts, comparison="<")
    memory.save_data(folder, X, label, binned)

    def host(rounds: int, threads: int) -> list[float]:
        return train_xgboost(data, int(label.max()) + 1, rounds, threads)

    def own(params: dict[str, Any]) -> Trainer:
        return lambda rounds, threads: train_fullhess(binned, label, params, rounds, threads)

    return {XGBOOST: host, **{f"fullhess {name}": own(p) for name, p in METHODS.items()}}


def interior_cuts(data: Any) -> list[NDArray[np.float32]]:
    """Per feature the cuts between bins, of a QuantileDMatrix of numeric features.

    XGBoost also stores a bound below the first bin and one above the last.
    """
    indptr, values = data.get_quantile_cut()
    bounds = indptr.astype(np.int64)
    return [values[bounds[f] + 1 : bounds[f + 1] - 1] for f in range(len(bounds) - 1)]


def train_fullhess(
    binned: fullhess.BinnedMatrix,
    label: NDArray[np.int32],
    params: dict[str, Any],
    rounds: int,
    threads: int,
) -> list[float]:
    """Seconds of every round."""

    class Clock(fullhess.Callback):
        def before_iteration(self, state: fullhess.TrainingState) -> None:
            began.append(time.perf_counter())

        def after_iteration(self, state: fullhess.TrainingState) -> None:
            ended.append(time.perf_counter())

    began: list[float] = []
    ended: list[float] = []
    settings = {**COMMON, **params, "n_jobs": threads}
    fullhess.train(settings, binned, label, num_boost_round=rounds, callbacks=[Clock()])
    return [b - a for a, b in zip(began, ended, strict=True)]


def train_xgboost(data: Any, n_classes: int, rounds: int, threads: int) -> list[float]:
    """Seconds of every round."""
    import xgboost

    class Clock(xgboost.callback.TrainingCallback):  # type: ignore[misc,unused-ignore]
        def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            began.append(time.perf_counter())
            return False

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            ended.append(time.perf_counter())
            return False

    began: list[float] = []
    ended: list[float] = []
    params = {
        "objective": "multi:softprob",
        "num_class": n_classes,
        "multi_strategy": "multi_output_tree",
        "tree_method": "hist",
        "max_bin": MAX_BINS,
        "nthread": threads,
        **COMMON,
    }
    xgboost.train(params, data, rounds, verbose_eval=False, callbacks=[Clock()])
    return [b - a for a, b in zip(began, ended, strict=True)]


def _take_turns(
    trainers: dict[str, Trainer], lines: dict[str, Result], plan: Plan, bar: ProgressBar
) -> None:
    """Every method in each turn, so that a busy spell of the machine meets all alike."""
    for turn in range(plan.turns):
        for name, trainer in trainers.items():
            line = lines[name]
            bar.start(
                f"{line.classes} classes, {line.threads} threads, turn {turn + 1} of "
                f"{plan.turns}: {name}"
            )
            line.seconds += trainer(plan.rounds, line.threads)[1:]
            bar.advance(rounds=plan.rounds)


def _compare(lines: dict[str, Result]) -> None:
    """Medians, and ratios to XGBoost."""
    for line in lines.values():
        line.median = float(np.median(line.seconds))
        line.fastest = min(line.seconds)
    host = lines[XGBOOST]
    for line in lines.values():
        line.median_ratio = line.median / host.median
        line.fastest_ratio = line.fastest / host.fastest
        if line.memory_mb is not None and host.memory_mb:
            line.memory_ratio = line.memory_mb / host.memory_mb


def table(results: Sequence[Result]) -> str:
    """The results in words and columns."""
    rows: list[Sequence[str] | None] = [
        ["Seconds a round and megabytes that training adds; ratios to XGBoost, below 1 is better"],
        None,
        [
            "method", " classes", "threads", "  median", "ratio", "  fastest", "ratio", "   MB",
            "ratio",
        ],
    ]  # fmt: skip
    for line in results:
        if line.method == XGBOOST:
            rows.append(None)
        rows.append(
            [
                line.method,
                str(line.classes),
                str(line.threads),
                f"{line.median:.4f}",
                f"{line.median_ratio:.2f}",
                f"{line.fastest:.4f}",
                f"{line.fastest_ratio:.2f}",
                "-" if line.memory_mb is None else f"{line.memory_mb:.0f}",
                "-" if line.memory_ratio is None else f"{line.memory_ratio:.2f}",
            ]
        )
    rows.append(None)
    return text_table(rows)


def cautions(results: Sequence[Result]) -> list[str]:
    """Signs in the measurements themselves that the machine was busy."""
    found = []
    widest = max(results, key=lambda line: line.spread)
    if widest.spread > STEADY:
        found.append(
            f"rounds of the same kind differ (the middle half by up to {widest.spread:.1f} times): "
            "other work was running, and the ratios are rough"
        )
    hosts = [line for line in results if line.method == XGBOOST]
    for line in hosts:
        fewer = [x for x in hosts if x.classes == line.classes and x.threads < line.threads]
        if any(line.fastest > x.fastest for x in fewer):
            found.append(
                f"XGBoost with {line.classes} classes was slower on {line.threads} threads than on "
                "fewer: the cores were not free, and ratios of that block say nothing of an idle "
                "machine"
            )
    return found


def _write(
    results: Sequence[Result],
    plan: Plan,
    facts: dict[str, Any],
    compiling: float,
    directory: Path,
) -> list[tuple[str, str]]:
    """Save the results as CSV and, with everything about them, as JSON."""
    table_path, full_path = directory / "speed.csv", directory / "speed.json"
    lines = [asdict(line) for line in results]
    with table_path.open("w", newline="", encoding="utf-8") as file:
        names = [name for name in lines[0] if name != "seconds"]
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(lines)
    content = {
        "environment": facts,
        "plan": {**asdict(plan), "features": N_FEATURES, "max_bins": MAX_BINS, **COMMON},
        "compile_seconds": compiling,
        "results": lines,
    }
    full_path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return [("Table", shown(table_path)), ("Details", shown(full_path))]
