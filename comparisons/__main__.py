"""The commands: ``python -m comparisons --help``."""

from __future__ import annotations

import argparse
import difflib
import io
import sys
from collections.abc import Sequence

from . import (
    combinations,
    convergence,
    growth,
    literature,
    paper,
    quickstart,
    speed,
    study,
    time_to_quality,
)

__all__ = ["main"]

_COMMANDS = {
    "quickstart": (quickstart, "held-out loss of the true Hessian and of diagonal stand-ins"),
    "speed": (speed, "time of rounds, prediction, binning and start, beside the host libraries"),
    "growth": (growth, "how the time of a round grows with rows, features and classes"),
    "time_to_quality": (time_to_quality, "seconds until the loss that a peer's best reaches"),
    "paper": (paper, "the paper's experiments: intercepts, one split, linear regression"),
    "study": (study, "losses of full gradient boosting on many data sets, after the same search"),
    "combinations": (combinations, "losses of every combination of our own settings"),
    "convergence": (convergence, "losses by round and second at four learning rates"),
    "literature": (literature, "test errors on the official splits of the boosting literature"),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m comparisons", description="Measure fullhess beside the host libraries."
    )
    commands = parser.add_subparsers(title="commands", dest="command", metavar="command")
    for name, (module, purpose) in _COMMANDS.items():
        command = commands.add_parser(name, help=purpose, description=f"Show {purpose}.")
        module.add_arguments(command)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit status."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a console may lack signs such as ᵀ
    parser = _parser()
    if not arguments:
        parser.print_help()
        return 2
    command = arguments[0]
    if not command.startswith("-") and command not in _COMMANDS:
        close = difflib.get_close_matches(command, _COMMANDS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(_COMMANDS)}"
        parser.error(f"unknown command {command!r}: {hint}")
    args = parser.parse_args(arguments)
    return int(_COMMANDS[args.command][0].run(args))


if __name__ == "__main__":
    sys.exit(main())
