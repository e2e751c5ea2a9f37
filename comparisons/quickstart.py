"""``python -m comparisons quickstart``: the true Hessian beside its diagonal stand-ins."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np

import fullhess

from . import libraries
from .libraries import Run, Settings, fullhess_
from .problems import Problem, digits
from .progress import ProgressBar
from .report import environment, environment_line, named_line, output_directory, shown, text_table

__all__ = ["add_arguments", "loss_table", "positive", "run"]

QUICK_ROUNDS = 15
# Standard deviations of the gaps to the full Hessian over 8 splits: 0.003 to 0.017.
_SPLIT_NOISE = 0.01
_SHOWN_ROUNDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    default = Settings()
    parser.add_argument(
        "--rounds", type=positive, metavar="N",
        help=f"rounds of boosting (default {default.rounds})",
    )  # fmt: skip
    parser.add_argument(
        "--learning-rate", type=_rate, default=default.learning_rate, metavar="RATE",
        help="of every method (default %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--depth", type=positive, default=default.max_depth, metavar="N",
        help="of every tree (default %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--min-child-weight", type=_weight, default=default.min_child_weight, metavar="W",
        help="curvature a leaf must hold (default %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--jobs", type=positive, default=default.n_jobs, metavar="N",
        help="threads of every library (default %(default)s: the data are small)",
    )  # fmt: skip
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds, to see that it works"
    )
    parser.add_argument(
        "--output", metavar="DIR", help="where files go (default comparisons/output)"
    )


def run(args: argparse.Namespace) -> int:
    """The whole command."""
    rounds = args.rounds or (QUICK_ROUNDS if args.quick else Settings.rounds)
    settings = Settings(
        rounds=rounds,
        learning_rate=args.learning_rate,
        max_depth=args.depth,
        min_child_weight=args.min_child_weight,
        n_jobs=args.jobs,
    )
    directory = output_directory(args.output)
    problem = digits()
    print(named_line("Data", str(problem)), flush=True)
    modules, notes = libraries.find()
    for note in notes:
        print(named_line("Left out", note), file=sys.stderr, flush=True)
    compiling = _compile(problem)
    runs = train_all(problem, settings, modules)

    print(f"\n{loss_table(runs)}\n\n{_verdict(runs, problem)}\n")
    facts = [
        ("Settings", f"{settings}; the same for every method, and the same bins"),
        ("Machine", environment_line(environment())),
        ("Kernels", f"compiled or loaded in {compiling:.1f} s, not part of any time above"),
        *(("Left out", note) for note in notes),
        *_write(runs, problem, settings, directory),
    ]
    print("\n".join(named_line(name, text) for name, text in facts))
    return 0


def _compile(problem: Problem) -> float:
    words = "compiling (about 30 s the first time, then from the cache) ..."
    print(named_line("Kernels", words), flush=True)
    return fullhess_.compile_kernels(
        problem.n_classes, [dict(method.params) for method in fullhess_.METHODS]
    )


def train_all(problem: Problem, settings: Settings, modules: Sequence[ModuleType]) -> list[Run]:
    """Every method of every library."""
    n_methods = sum(len(module.METHODS) for module in modules)
    runs = []
    with ProgressBar(n_methods * settings.rounds) as bar:
        for module in modules:
            for method in module.METHODS:
                bar.start(f"{module.LIBRARY}: {method.name}")
                runs.append(module.train(problem, settings, method, bar.advance))
    return runs


def loss_table(runs: Sequence[Run]) -> str:
    """Held-out loss by method and round."""
    n_rounds = len(runs[0].loss)
    rounds = [r for r in _SHOWN_ROUNDS if r <= n_rounds]
    lowest = {r: min(run.loss[r - 1] for run in runs) for r in rounds}
    lowest_best = min(run.loss[run.best] for run in runs)
    rows: list[Sequence[str] | None] = [
        ["Log-loss on held-out rows after so many rounds (lower is better, * marks the lowest)"],
        None,
        ["", "curvature", *(f"{r} " for r in rounds), "best", "loss ", "error", "rises", "ms"],
        None,
    ]
    library = ""
    for run in runs:
        if run.library != library:
            library = run.library
            rows.append([f"{library} {run.version}"])
        rows.append(
            [
                f" {run.method.name}",
                run.method.curvature,
                *(_marked(run.loss[r - 1], lowest[r]) for r in rounds),
                str(run.best + 1),
                _marked(run.loss[run.best], lowest_best),
                f"{100 * run.error[run.best]:.1f}%",
                str(run.rises),
                f"{1000 * np.median(run.seconds):.1f}",
            ]
        )
    rows.append(None)
    rows.append(["best, loss, error: the round of the lowest loss, its loss, its wrong classes"])
    rows.append(["rises: rounds that raised the training loss; ms: milliseconds a round (median)"])
    return text_table(rows, left=2)


def _marked(value: float, lowest: float) -> str:
    return f"{value:.4f}{'*' if value == lowest else ' '}"


def _verdict(runs: Sequence[Run], problem: Problem) -> str:
    """What the table says, in words and whoever is ahead."""
    ranked = sorted(runs, key=lambda run: run.loss[run.best])
    first = ranked[0]
    default = next(run for run in runs if run.method is fullhess_.DEFAULT)
    lines = [
        f"Lowest held-out loss: {first.library}, {first.method.name}, with "
        f"{first.loss[first.best]:.4f} after {first.best + 1} rounds."
    ]
    if default is not first:
        place = ranked.index(default) + 1
        lines.append(
            f"The default of fullhess, {default.method.name}, is number {place} of {len(ranked)} "
            f"with {default.loss[default.best]:.4f}."
        )
    n = len(problem.y_valid)
    lines.append(
        f"One split of a small set: one row is {100 / n:.1f} % of error, and another split moves "
        f"a gap between\ntwo methods by about {_SPLIT_NOISE:g} in loss. Smaller gaps are chance."
    )
    lines.append(
        "The order depends on the settings: try --min-child-weight 1 (the default of XGBoost and "
        "fullhess),\n--depth 6, --learning-rate 0.1 or --rounds 200."
    )
    return "\n".join(lines)


def _write(
    runs: Sequence[Run], problem: Problem, settings: Settings, directory: Path
) -> list[tuple[str, str]]:
    """Save figure, curves and model; what was written, and where."""
    written = [("Curves", shown(_write_curves(runs, directory / "quickstart.csv")))]
    try:
        from .figure import draw_losses
    except ImportError as error:
        written.append(("Figure", f"left out: {error}; pip install matplotlib"))
    else:
        paths = [directory / "quickstart.png", directory / "quickstart.svg"]
        draw_losses(runs, problem, settings, paths)
        written.append(("Figure", " and ".join(shown(path) for path in paths)))
    model = next(run for run in runs if run.method is fullhess_.DEFAULT).model
    path = save_model(model, problem.X_valid, directory / "digits.fullhess")
    written.append(("Model", f"{shown(path)} (loaded again: the same predictions, bit for bit)"))
    return written


def save_model(model: fullhess.Ensemble, X: np.ndarray, path: Path) -> Path:
    """Save the model and make sure that the file gives the same predictions."""
    model.save(path)
    again = fullhess.load(path)
    if not np.array_equal(model.predict_raw(X), again.predict_raw(X)):
        raise RuntimeError(f"{path} predicts otherwise than the model that was saved")
    return path


def _write_curves(runs: Sequence[Run], path: Path) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["library", "version", "method", "round", "train_loss", "loss", "error", "seconds"]
        )
        for run in runs:
            curves = zip(run.train_loss, run.loss, run.error, run.seconds, strict=True)
            for i, (train_loss, loss, error, seconds) in enumerate(curves, 1):
                row = [f"{train_loss:.9g}", f"{loss:.9g}", f"{error:.6g}", f"{seconds:.6g}"]
                writer.writerow([run.library, run.version, run.method.name, i, *row])
    return path


def positive(text: str) -> int:
    """A count on the command line."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number, 1 or more, got {text!r}")
    return value


def _rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value <= 1.0:
        raise argparse.ArgumentTypeError(f"expected a number above 0, at most 1, got {text!r}")
    return value


def _weight(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 < value < float("inf"):
        # LightGBM stops with an internal error at 0: it estimates row counts from curvature.
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return value
