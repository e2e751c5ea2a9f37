"""``python -m comparisons convergence``: losses by round and by second, at four rates."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import numpy as np

from . import data, libraries
from .contenders import full_name
from .ledger import Ledger
from .libraries import Method, Run, Settings
from .problems import Problem, digits
from .progress import ProgressBar
from .report import (
    environment,
    environment_line,
    markdown_table,
    named_line,
    output_directory,
    shown,
)

__all__ = ["COLUMNS", "METHODS", "RATES", "add_arguments", "rare_digits", "reversal_table", "run"]

RATES = (1.0, 0.3, 0.1, 0.03)
LAMBDAS = (1.0, 0.0)
ROUNDS, QUICK_ROUNDS = 80, 6
N_ROWS = 2000
COLUMNS = (
    "data", "method", "version", "rounds", "reg_lambda", "learning_rate", "round", "train_loss",
    "valid_loss", "cpu_seconds",
)  # fmt: skip
KEY = ("data", "method", "version", "rounds", "reg_lambda", "learning_rate")
_STEP = {"leaf_solver": "newton", "split_gain": "quadratic"}
_FULL = {"split_hessian": "full"}
METHODS = (
    ("fullhess", Method("full splits", "diag(p) − ppᵀ", _FULL)),
    ("fullhess", Method("ridge", "diag(p) − ppᵀ", {"leaf_prior": "ridge", **_FULL})),
    ("fullhess", Method("full, Newton step", "diag(p) − ppᵀ", {**_STEP, **_FULL})),
    ("fullhess", Method("p(1−p)", "p(1−p)", {"hessian": "diagonal", **_STEP})),
    ("XGBoost", Method("2p(1−p)", "2p(1−p)", {"multi_strategy": "multi_output_tree"})),
    ("XGBoost", Method("|p−y|", "|p − y|", {"multi_strategy": "multi_output_tree"})),
    ("LightGBM", Method("tree per class", "p(1−p)k/(k−1)")),
)


@dataclass(frozen=True)
class Task:
    """One training to do."""

    problem: Problem
    module: ModuleType
    method: Method
    settings: Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    data.add_arguments(parser)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds, one set")
    parser.add_argument(
        "--output", metavar="DIR", help="where files go (default comparisons/output)"
    )


def run(args: argparse.Namespace) -> int:
    """The whole command."""
    directory = output_directory(args.output)
    name = "convergence_quick" if args.quick else "convergence"
    problems, notes = _problems(args)
    modules, missing = libraries.find()
    for note in (*notes, *missing):
        print(named_line("Left out", note), flush=True)
    ledger = Ledger(directory / f"{name}.csv", COLUMNS, KEY)
    rounds = QUICK_ROUNDS if args.quick else ROUNDS
    _train_all(_tasks(problems, modules, rounds), ledger)
    rows = [row for row in ledger.rows if row["rounds"] == str(rounds)]
    table = reversal_table(rows)
    print(markdown_table(table))
    written = [_write_report(rows, table, directory, name, rounds)]
    try:
        from .convergence_figure import draw
    except ImportError as error:
        print(named_line("Figures", f"left out: {error}; pip install matplotlib"))
    else:
        written += draw(rows, directory, name)
    for path in written:
        print(named_line("Written", shown(path)))
    return 0


def _problems(args: argparse.Namespace) -> tuple[list[Problem], list[str]]:
    problems = [rare_digits()]
    if args.quick:
        return problems, []
    try:
        covertype = data.load("covertype", args.data, args.fetch)
    except data.Unavailable as error:
        return problems, [str(error)]
    return [*problems, data.split(covertype, 0, N_ROWS).problem], []


def rare_digits() -> Problem:
    """scikit-learn's digits with all but a few training rows of 7, 8 and 9 taken away.

    Held-out rows are thinned in the same way, to one in forty.
    """
    whole = digits()

    def thin(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        number = np.zeros(len(y), np.int64)  # of a row within its class
        for c in range(10):
            number[y == c] = np.arange((y == c).sum())
        kept = (y < 7) | (number % 40 == 0)
        return X[kept], y[kept]

    train, valid = thin(whole.X_train, whole.y_train), thin(whole.X_valid, whole.y_valid)
    return Problem("digits, three of them rare", *train, *valid, 10)


def _tasks(problems: Sequence[Problem], modules: Sequence[ModuleType], rounds: int) -> list[Task]:
    by_library = {module.LIBRARY: module for module in modules}
    return [
        Task(
            problem, by_library[library], method,
            Settings(rounds=rounds, learning_rate=rate, reg_lambda=reg_lambda, max_bin=64),
        )
        for problem in problems
        for reg_lambda in LAMBDAS
        for rate in RATES
        for library, method in METHODS
        if library in by_library
    ]  # fmt: skip


def _train_all(tasks: Sequence[Task], ledger: Ledger) -> None:
    done = {key[:2] + key[3:] for key in ledger.done()}  # whatever the version
    with ProgressBar(len(tasks), unit="training") as bar:
        for task in tasks:
            settings = task.settings
            name = full_name(task.module.LIBRARY, task.method)
            bar.start(f"{task.problem.name}: {name}")
            key = (
                task.problem.name, name, str(settings.rounds), f"{settings.reg_lambda:g}",
                f"{settings.learning_rate:g}",
            )  # fmt: skip
            if key not in done:
                for row in _rows(task, name):
                    ledger.add(row)
            bar.advance()


def _rows(task: Task, name: str) -> list[dict[str, object]]:
    settings = task.settings

    def train(rounds: int) -> Run:
        result: Run = task.module.train(
            task.problem, replace(settings, rounds=rounds), task.method, lambda loss: None
        )
        return result

    train(2)  # whatever is compiled, is compiled now
    run = train(settings.rounds)
    common = {
        "data": task.problem.name, "method": name, "version": run.version,
        "rounds": settings.rounds, "reg_lambda": f"{settings.reg_lambda:g}",
        "learning_rate": f"{settings.learning_rate:g}",
    }  # fmt: skip
    seconds = np.cumsum(run.cpu_seconds)
    return [
        {
            **common, "round": i + 1, "train_loss": float(run.train_loss[i]),
            "valid_loss": float(run.loss[i]), "cpu_seconds": float(seconds[i]),
        }
        for i in range(len(run.loss))
    ]  # fmt: skip


def reversal_table(rows: Sequence[dict[str, str]]) -> list[list[str]]:
    """Rounds that raised the training loss, by method, λ and rate; over all data sets.

    A cell is "rises (largest factor)".
    """
    lambdas = sorted({row["reg_lambda"] for row in rows}, reverse=True, key=float)
    rates = sorted({row["learning_rate"] for row in rows}, reverse=True, key=float)
    curves: dict[tuple[str, str, str], list[np.ndarray]] = {}
    for key, losses in _curves(rows).items():
        _, method, reg_lambda, rate = key
        curves.setdefault((method, reg_lambda, rate), []).append(losses)
    table = [["method", *(f"λ = {lam}, rate {rate}" for lam in lambdas for rate in rates)]]
    for method in dict.fromkeys(row["method"] for row in rows):
        cells = [_cell(curves.get((method, lam, r), [])) for lam in lambdas for r in rates]
        table.append([method, *cells])
    return table


def _lowest_table(rows: Sequence[dict[str, str]], data_name: str) -> list[list[str]]:
    """The lowest validation loss by method, λ and rate; the lowest of a column is bold."""
    here = [row for row in rows if row["data"] == data_name]
    columns = list(dict.fromkeys((row["reg_lambda"], row["learning_rate"]) for row in here))
    methods = list(dict.fromkeys(row["method"] for row in here))
    low: dict[tuple[str, tuple[str, str]], float] = {}
    for row in here:
        key = row["method"], (row["reg_lambda"], row["learning_rate"])
        low[key] = min(float(row["valid_loss"]), low.get(key, float("inf")))
    best = {column: min(low[method, column] for method in methods) for column in columns}
    table = [["method", *(f"λ = {lam}, rate {rate}" for lam, rate in columns)]]
    for method in methods:
        cells = [
            f"**{low[method, c]:.4f}**" if low[method, c] == best[c] else f"{low[method, c]:.4f}"
            for c in columns
        ]
        table.append([method, *cells])
    return table


def _curves(rows: Sequence[dict[str, str]]) -> dict[tuple[str, str, str, str], np.ndarray]:
    """Training losses by data set, method, λ and rate."""
    lists: dict[tuple[str, str, str, str], list[float]] = {}
    for row in rows:
        key = row["data"], row["method"], row["reg_lambda"], row["learning_rate"]
        lists.setdefault(key, []).append(float(row["train_loss"]))
    return {key: np.array(losses) for key, losses in lists.items()}


def _cell(curves: Sequence[np.ndarray]) -> str:
    rises = sum(int((c[1:] > c[:-1] * (1.0 + 1e-6) + 1e-9).sum()) for c in curves)
    if not rises:
        return "0"
    largest = max(float((c[1:] / np.maximum(c[:-1], 1e-9)).max()) for c in curves)
    return f"{rises} (×{largest:.3g})"


def _write_report(
    rows: Sequence[dict[str, str]],
    table: list[list[str]],
    directory: Path,
    name: str,
    rounds: int,
) -> Path:
    sets = list(dict.fromkeys(row["data"] for row in rows))
    lowest = "\n\n".join(
        f"{data_name}:\n\n{markdown_table(_lowest_table(rows, data_name))}" for data_name in sets
    )
    figures = "\n\n".join(
        f"![{data_name}, by {kind}]({name}_{i}_{kind}.svg)"
        for i, data_name in enumerate(sets)
        for kind in ("rounds", "seconds")
    )
    versions = ", ".join(sorted({f"{r['method'].split()[0]} {r['version']}" for r in rows}))
    text = f"""# Convergence

Written by `python -m comparisons convergence` on {time.strftime("%Y-%m-%d")}: {versions};
{environment_line(environment())}.

{rounds} rounds of depth {Settings.max_depth}, all rows and columns, at four learning rates, on
{", ".join(sets)}. Seconds are of the processor.

## Rounds that raised the training loss

Over all data sets; in brackets the largest factor of one round. fullhess promises none with its
defaults and with the ridge; the single steps ("Newton step", p(1−p)) promise nothing.

{markdown_table(table)}

## Lowest validation loss of all rounds

{lowest}

At λ = 0 the default is the ridge. Curves by rounds and by processor seconds (those of a busy
machine are rough):

{figures}
"""
    path = directory / f"{name}.md"
    path.write_text(text, encoding="utf-8")
    return path
