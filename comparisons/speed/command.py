"""The command line of ``python -m comparisons speed``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from .. import data
from ..libraries.fullhess_ import compile_kernels
from ..quickstart import positive
from ..report import environment, environment_line, named_line, output_directory, shown
from . import binning, cold, memory, prediction, rounds
from .cases import CASES, Case, load, methods_of
from .lines import Line, cautions, summary, table, write

__all__ = ["add_arguments", "run"]

MEMORY_CASE = "k7"
PARTS = ("rounds", "memory", "prediction", "binning", "cold")
NOT_QUICK = ("k3", "k10", "covertype", "k100", "cold")
QUICK_ROWS, QUICK_TURNS = 10_000, 2
BINNING_ROWS, BINNING_REPEATS = 100_000, 3


@dataclass(frozen=True)
class Plan:
    """What is measured."""

    parts: tuple[str, ...]
    cases: tuple[Case, ...]  # of "rounds"
    hosts: tuple[str, ...]
    threads: tuple[int, ...]
    rows: int | None  # at most; None: as many as the problem has
    quick: bool
    directory: str | None  # of data
    fetch: bool

    def sized(self, case: Case) -> Case:
        """The case on as many rows as asked for."""
        if self.quick:
            return case.smaller(self.rows or QUICK_ROWS, QUICK_TURNS)
        return case.smaller(self.rows or case.rows)

    def case(self, name: str) -> Case:
        return self.sized(next(case for case in CASES if case.name == name))

    def rows_of(self, full: int) -> int:
        """As many rows as asked for where the full size has so many."""
        return min(full, self.rows or (QUICK_ROWS if self.quick else full))

    def __str__(self) -> str:
        size = f"quick: at most {self.rows or QUICK_ROWS} rows" if self.quick else "full sizes"
        if self.rows and not self.quick:
            size = f"at most {self.rows} rows"
        what = [*(p for p in self.parts if p != "rounds"), *(case.name for case in self.cases)]
        return f"{', '.join(what)}; {size}; threads {', '.join(map(str, self.threads))}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    data.add_arguments(parser)
    parser.add_argument(
        "--quick", action="store_true",
        help=f"{QUICK_ROWS} rows and fewer problems, below a minute; says little of speed",
    )  # fmt: skip
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", choices=[*PARTS, *(case.name for case in CASES)],
        help=f"parts ({', '.join(PARTS)}) or problems of rounds "
        f"({', '.join(case.name for case in CASES)})",
    )  # fmt: skip
    parser.add_argument(
        "--threads", type=positive, nargs="+", metavar="N",
        help="numbers of threads (default 1 2; with --quick 1)",
    )  # fmt: skip
    parser.add_argument(
        "--rows", type=positive, metavar="N", help="at most so many rows; targets do not apply"
    )
    parser.add_argument(
        "--output", metavar="DIR", help="where files go (default comparisons/output)"
    )


def run(args: argparse.Namespace) -> int:
    """The whole command."""
    problem = _import_problem("xgboost")
    if problem is not None:
        print(
            f"speed compares with XGBoost, which cannot be imported: {problem}\n"
            'Install what the comparisons need: pip install -e ".[compare]"',
            file=sys.stderr,
        )
        return 1
    plan = _plan(args)
    directory = output_directory(args.output)
    print(named_line("Measured", str(plan)), flush=True)
    facts = environment()  # before this command adds to the load
    compiling = _compile(plan)
    name = "speed_quick" if plan.quick else "speed"
    known = {"environment": facts, "plan": str(plan), "compile_seconds": compiling}
    lines: list[Line] = []
    written: list[Path] = []
    for found in _measure(plan):
        lines += found
        if found:
            print(f"\n{table(found)}", flush=True)
            written = write(lines, known, directory, name)  # an interrupted run keeps its parts
    if not lines:
        print("nothing could be measured here", file=sys.stderr)
        return 1
    print(f"\n{named_line('Targets', summary(lines))}")
    print(named_line("Machine", environment_line(facts)))
    for caution in [*_cautions(plan), *cautions(lines)]:
        print(named_line("Caution", caution))
    for path in written:
        print(named_line("Written", shown(path)))
    return 0


def _plan(args: argparse.Namespace) -> Plan:
    names = {case.name: case for case in CASES}
    asked = args.only or [p for p in PARTS if not (args.quick and p in NOT_QUICK)]
    cases = [names[name] for name in asked if name in names]
    if "rounds" in asked:
        cases = [c for c in CASES if not (args.quick and c.name in NOT_QUICK)]
    hosts = ["XGBoost", "LightGBM"]
    problem = _import_problem("lightgbm")
    if problem is not None:
        print(named_line("Left out", f"LightGBM, which cannot be imported: {problem}"))
        hosts.remove("LightGBM")
        cases = [case for case in cases if case.host in hosts]
    parts = [part for part in PARTS if part in asked or (part == "rounds" and cases)]
    threads = tuple(dict.fromkeys(args.threads or ([1] if args.quick else [1, 2])))
    return Plan(
        tuple(parts), tuple(cases), tuple(hosts), threads, args.rows, args.quick, args.data,
        args.fetch,
    )  # fmt: skip


def _import_problem(name: str) -> str | None:
    """Why a library cannot be used; None if it can."""
    try:
        import_module(name)
    except ImportError as error:
        return str(error)
    return None


def _compile(plan: Plan) -> float:
    """Compile or load the kernels before any clock runs; seconds taken."""
    cases = [*plan.cases, *([plan.case(MEMORY_CASE)] if "memory" in plan.parts else [])]
    seconds = sum(compile_kernels(k, methods) for k, methods in methods_of(cases).items())
    print(named_line("Kernels", f"compiled or loaded in {seconds:.1f} s, in no time below"))
    return seconds


def _measure(plan: Plan) -> Iterator[list[Line]]:
    """The lines of one part, or of one problem, after the other."""
    for case in map(plan.sized, plan.cases):
        yield rounds.measure(case, load(case, plan.directory, plan.fetch), plan.threads)
    if "memory" in plan.parts:
        case = plan.case(MEMORY_CASE)
        rows = load(case, plan.directory, plan.fetch)
        yield memory.measure(case, rows, max(plan.threads))
    if "prediction" in plan.parts:
        size = prediction.Size()
        if plan.rows_of(size.rows) < size.rows:
            few = plan.rows_of(size.rows)
            size = replace(size, rows=few, train_rows=min(size.train_rows, few), trees=20)
        yield prediction.measure(plan.hosts, size, plan.threads, aimed=size == prediction.Size())
    if "binning" in plan.parts:
        n = plan.rows_of(BINNING_ROWS)
        repeats = BINNING_REPEATS
        yield binning.measure(plan.hosts, n, plan.threads, repeats, aimed=n == BINNING_ROWS)
    if "cold" in plan.parts:
        yield cold.measure()


def _cautions(plan: Plan) -> list[str]:
    found = []
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if cpus is not None and max(plan.threads) > cpus:
        found.append(f"{max(plan.threads)} threads were asked for, this process may use {cpus}")
    if plan.quick:
        found.append("this was the quick run, on few rows: its ratios are not those of real sizes")
    return found
