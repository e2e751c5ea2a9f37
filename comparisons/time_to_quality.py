"""``python -m comparisons time_to_quality``: seconds until a loss that a peer's best reaches.

Every method, ours and the peers', tries the same few settings drawn at random, trees of
few leaves and of many among them. A peer's mark is the held-out loss of its best setting
at its best round. Counted are the seconds of training until that loss: the peer's own, and
ours with settings from the same draws. Only rounds are timed; binning, compilation and the
evaluation of held-out rows are left out for all.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from . import data, libraries
from .contenders import Protocol, draws, full_name
from .ledger import Ledger
from .libraries import Method, Settings
from .problems import Problem
from .progress import ProgressBar
from .quickstart import positive
from .report import environment, environment_line, named_line, output_directory, shown
from .timed_training import train

__all__ = ["OWN", "PEERS", "add_arguments", "run"]

SETS = ("pendigits", "letter", "poker", "covertype")
QUICK_SETS = ("digits", "poker")
MAX_TRAIN = 100_000
LEAVES = (16, 256)  # of a tree, the fewest and the most
_GOLDEN = 0.6180339887498949
_OWN = {"leaf_prior": "path", "leaf_solver": "exact", "split_gain": "guaranteed"}
OWN = tuple(
    ("fullhess", Method(f"{words} splits", words, {**_OWN, "split_hessian": splits}))
    for splits, words in (("full", "full"), ("diagonal", "p(1−p)"))
)
PEERS = (
    ("XGBoost", Method("vector leaves", "2p(1−p)", {"multi_strategy": "multi_output_tree"})),
    ("LightGBM", Method("tree per class", "p(1−p)k/(k−1)")),
)
COLUMNS = (
    "data", "method", "version", "protocol", "threads", "draw", "train_rows", "best_round",
    "best_loss", "seconds_to_best", "losses", "seconds",
)  # fmt: skip
KEY = ("data", "method", "protocol", "threads", "draw")


@dataclass(frozen=True)
class Task:
    """One training to do."""

    problem: Problem
    library: str
    method: Method
    draw: int
    settings: Settings
    protocol: str

    @property
    def key(self) -> tuple[str, ...]:
        name = full_name(self.library, self.method)
        return self.problem.name, name, self.protocol, str(self.settings.n_jobs), str(self.draw)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    data.add_arguments(parser)
    parser.add_argument(
        "--quick", action="store_true", help="two sets, two draws, few rounds: does it work?"
    )
    for name, default, words in (
        ("draws", 6, "settings drawn for every method"),
        ("rounds", 300, "rounds at most"),
        ("patience", 20, "rounds without a lower loss before a stop"),
        ("threads", 1, "threads of every library"),
    ):
        parser.add_argument(
            f"--{name}", type=positive, metavar="N", default=None if name != "threads" else default,
            help=f"{words} (default {default})",
        )  # fmt: skip
    parser.add_argument(
        "--sets", nargs="+", metavar="NAME", help=f"data sets (default {' '.join(SETS)})"
    )
    parser.add_argument(
        "--output", metavar="DIR", help="where files go (default comparisons/output)"
    )


def run(args: argparse.Namespace) -> int:
    """The whole command."""
    directory = output_directory(args.output)
    name = "time_to_quality_quick" if args.quick else "time_to_quality"
    protocol = _protocol(args)
    facts = [("Machine", environment_line(environment()))]
    problems, missing = _problems(args)
    modules, notes = libraries.find()
    facts += [("Left out", note) for note in (*missing, *notes)]
    if args.quick:
        facts.append(("Quick", "small sets and few rounds: the times say nothing"))
    print("\n".join(named_line(*fact) for fact in facts), flush=True)
    if not problems:
        print("no data set is at hand", file=sys.stderr)
        return 1
    known = {module.LIBRARY for module in modules}
    ledger = Ledger(directory / f"{name}.csv", COLUMNS, KEY)
    tasks = _tasks(problems, known, protocol, args.threads)
    _train_all(tasks, ledger)
    from .time_to_quality_report import write_report

    wanted = {task.key for task in tasks}
    rows = [row for row in ledger.rows if tuple(row[k] for k in KEY) in wanted]
    for path in write_report(rows, protocol, args.threads, directory, name, facts):
        print(named_line("Written", shown(path)))
    return 0


def _protocol(args: argparse.Namespace) -> Protocol:
    n_draws, rounds, patience = (2, 12, 5) if args.quick else (6, 300, 20)
    return Protocol(
        n_draws=args.draws or n_draws,
        rounds=args.rounds or rounds,
        patience=args.patience or patience,
        max_bin=255,
        max_train=1500 if args.quick else MAX_TRAIN,
        other_rows={},
        learning_rate=(0.05, 0.5),
        even=False,  # of any number of draws the first ones are the same
    )


def _problems(args: argparse.Namespace) -> tuple[list[Problem], list[str]]:
    problems, missing = [], []
    for name in args.sets or (QUICK_SETS if args.quick else SETS):
        try:
            dataset = data.load(name, args.data, args.fetch)
        except data.Unavailable as error:
            missing.append(str(error))
            continue
        problems.append(data.split(dataset, 0, _protocol(args).rows(name)).problem)
    return problems, missing


def _tasks(
    problems: Sequence[Problem], known: set[str], protocol: Protocol, threads: int
) -> list[Task]:
    """Draw by draw, so that an interrupted run has tried as many settings of all methods."""
    return [
        Task(problem, library, method, i, replace(settings, n_jobs=threads), _key(protocol))
        for problem in problems
        for i, settings in enumerate(_draws(protocol))
        for library, method in (*PEERS, *OWN)
        if library in known
    ]


def _key(protocol: Protocol) -> str:
    """Tells runs apart whose settings come from other ranges."""
    return f"{replace(protocol, n_draws=0).key}-{LEAVES[0]}-{LEAVES[1]}"


def _draws(protocol: Protocol) -> list[Settings]:
    """The settings that everyone tries: those of the study, with trees of many sizes.

    Leaves follow a sequence that fills its range evenly at any length: further draws leave
    the first ones as they are.
    """
    low, high = np.log(LEAVES)
    drawn = draws(protocol, 0)
    places = low + (high - low) * ((0.5 + _GOLDEN * np.arange(len(drawn))) % 1.0)
    return [
        replace(settings, max_leaves=round(float(np.exp(place))))
        for settings, place in zip(drawn, places, strict=True)
    ]


def _train_all(tasks: Sequence[Task], ledger: Ledger) -> None:
    done = ledger.done()
    warm: set[tuple[str, str]] = set()
    with ProgressBar(len(tasks), unit="training") as bar:
        for task in tasks:
            name = full_name(task.library, task.method)
            bar.start(f"{task.problem.name}, draw {task.draw + 1}: {name}")
            if task.key not in done:
                if (task.problem.name, name) not in warm:  # whatever is compiled, is compiled now
                    _run(replace(task, settings=replace(task.settings, rounds=2)))
                    warm.add((task.problem.name, name))
                ledger.add({**dict(zip(KEY, task.key, strict=True)), **_run(task)})
            bar.advance()


def _run(task: Task) -> dict[str, object]:
    """Train; the columns beside the key."""
    curve = train(task.library, task.problem, task.settings, task.method, lambda loss: None)
    best = int(np.argmin(curve.losses))
    elapsed = np.cumsum(curve.seconds)
    return {
        "version": curve.version,
        "train_rows": len(task.problem.y_train),
        "best_round": best + 1,
        "best_loss": curve.losses[best],
        "seconds_to_best": float(elapsed[best]),
        "losses": " ".join(f"{loss:.7g}" for loss in curve.losses),
        "seconds": " ".join(f"{second:.5g}" for second in elapsed),
    }
