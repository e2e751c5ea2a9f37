"""What the seconds to a given loss are: tables and the report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .contenders import Protocol, full_name
from .report import markdown_table, named_line
from .time_to_quality import LEAVES, OWN, PEERS

__all__ = ["Training", "levels_table", "peer_table", "ratio_to_peer", "write_report"]

TARGET, OF_FOUR = 0.4, 3
NEVER = "never"
_OWN_NAMES = [full_name(*entry) for entry in OWN]
_PEER_NAMES = [full_name(*entry) for entry in PEERS]


@dataclass(frozen=True, eq=False)
class Training:
    """One row of the ledger.

    Attributes
    ----------
    losses : (rounds,) held-out losses.
    seconds : (rounds,) of training up to and with each round.
    """

    data: str
    method: str
    draw: int
    losses: NDArray[np.float64]
    seconds: NDArray[np.float64]

    @classmethod
    def of(cls, row: dict[str, str]) -> Training:
        numbers = [np.array(row[name].split(), np.float64) for name in ("losses", "seconds")]
        return cls(row["data"], row["method"], int(row["draw"]), numbers[0], numbers[1])

    @property
    def best(self) -> float:
        return float(self.losses.min())

    @property
    def seconds_to_best(self) -> float:
        return float(self.seconds[self.losses.argmin()])

    def seconds_to(self, loss: float) -> float:
        """Until the loss is first reached; infinity if it never is."""
        reached = np.flatnonzero(self.losses <= loss)
        return float(self.seconds[reached[0]]) if len(reached) else float("inf")


@dataclass(frozen=True)
class Ratio:
    """Our seconds over a peer's, to the loss of the peer's best setting.

    Attributes
    ----------
    soonest : with that of our draws that reaches the loss first.
    tuned : with that of our draws whose own loss is lowest, as the peer's was chosen.
    """

    soonest: float
    tuned: float


def tuned(trainings: Sequence[Training]) -> Training:
    """The draw of the lowest loss."""
    return min(trainings, key=lambda training: training.best)


def ratio_to_peer(own: Sequence[Training], peer: Sequence[Training]) -> Ratio:
    """All draws of one of our methods beside all draws of a peer, on one data set."""
    mark = tuned(peer)
    soonest = min(training.seconds_to(mark.best) for training in own)
    return Ratio(
        soonest / mark.seconds_to_best, tuned(own).seconds_to(mark.best) / mark.seconds_to_best
    )


Grouped = dict[tuple[str, str], list[Training]]  # by data set and method


def grouped(rows: Sequence[dict[str, str]]) -> Grouped:
    found: Grouped = {}
    for training in map(Training.of, rows):
        found.setdefault((training.data, training.method), []).append(training)
    return found


def _sets(groups: Grouped) -> list[str]:
    return list(dict.fromkeys(data for data, _ in groups))


def peer_table(groups: Grouped, peer: str, max_rounds: int) -> list[list[str]]:
    """For each data set the peer's mark, and our seconds as ratios to the peer's.

    A peer whose last allowed round is its best was stopped by the limit, which is said.
    """
    table = [
        ["data", "loss of the peer", "its rounds", "its seconds",
         *(f"{name.removeprefix('fullhess ')}" for name in _OWN_NAMES)]
    ]  # fmt: skip
    for data in _sets(groups):
        if (data, peer) not in groups:
            continue
        mark = tuned(groups[data, peer])
        cells = [_ratio_cell(ratio_to_peer(groups[data, name], groups[data, peer]))
                 for name in _OWN_NAMES]  # fmt: skip
        rounds = int(mark.losses.argmin()) + 1
        words = f"{rounds}, the limit" if rounds == max_rounds else str(rounds)
        table.append([data, f"{mark.best:.4f}", words, f"{mark.seconds_to_best:.3g}", *cells])
    return table


def _ratio_cell(ratio: Ratio) -> str:
    return f"{_number(ratio.soonest)} ({_number(ratio.tuned)})"


def _number(value: float) -> str:
    return f"{value:.2f}" if np.isfinite(value) else NEVER


def targets_line(groups: Grouped, peer: str) -> str:
    """On how many sets each of our methods keeps the target, in words."""
    parts = []
    for name in _OWN_NAMES:
        ratios = [
            ratio_to_peer(groups[data, name], groups[data, peer])
            for data in _sets(groups)
            if (data, peer) in groups
        ]
        kept = [sum(getattr(r, kind) <= TARGET for r in ratios) for kind in ("soonest", "tuned")]
        short = name.removeprefix("fullhess ")
        parts.append(f"{short} on {kept[0]} ({kept[1]}) of {len(ratios)}")
    return f"at most {TARGET:g} of the seconds of {peer}: {', '.join(parts)}"


def levels_table(groups: Grouped) -> list[list[str]]:
    """Seconds (rounds) to a loss that every method reaches; the soonest draw of each."""
    names = [n for n in (*_OWN_NAMES, *_PEER_NAMES) if any(method == n for _, method in groups)]
    table = [["data", "loss", *(name.removeprefix("fullhess ") for name in names)]]
    for data in _sets(groups):
        common = max(tuned(groups[data, name]).best for name in names)
        start = max(float(t.losses[0]) for name in names for t in groups[data, name])
        for level in (float(np.sqrt(start * common)), common):  # half way, on a log scale
            cells = [_soonest(groups[data, name], level) for name in names]
            fastest = min(seconds for seconds, _ in cells)
            table.append(
                [data, f"{level:.4f}", *(_level_cell(s, r, s == fastest) for s, r in cells)]
            )
    return table


def _soonest(trainings: Sequence[Training], level: float) -> tuple[float, int]:
    """Seconds and rounds of the draw that is there first."""
    first = min(trainings, key=lambda training: training.seconds_to(level))
    return first.seconds_to(level), int(np.argmax(first.losses <= level)) + 1


def _level_cell(seconds: float, rounds: int, fastest: bool) -> str:
    text = f"{seconds:.3g}"
    return f"{f'**{text}**' if fastest else text} ({rounds})"


def write_report(
    rows: Sequence[dict[str, str]],
    protocol: Protocol,
    threads: int,
    directory: Path,
    name: str,
    facts: Sequence[tuple[str, str]],
) -> list[Path]:
    """Print the tables; write them and the figure."""
    groups = grouped(rows)
    peers = [p for p in _PEER_NAMES if any(method == p for _, method in groups)]
    tables = {peer: markdown_table(peer_table(groups, peer, protocol.rounds)) for peer in peers}
    for peer, text in tables.items():
        print(f"\nSeconds to the loss of {peer}, as ratios to its own:\n\n{text}\n")
        print(named_line("Target", targets_line(groups, peer)))
    levels = markdown_table(levels_table(groups))
    print(f"\nSeconds (rounds) to a loss that all reach:\n\n{levels}\n")
    path = directory / f"{name}.md"
    text = _report(rows, groups, tables, levels, protocol, threads, name, facts)
    path.write_text(text, encoding="utf-8")
    written = [directory / f"{name}.csv", path]
    try:
        from .time_to_quality_figure import draw
    except ImportError as error:
        print(named_line("Figures", f"left out: {error}; pip install matplotlib"))
        return written
    return written + draw(groups, directory, name)


def _report(
    rows: Sequence[dict[str, str]],
    groups: Grouped,
    tables: dict[str, str],
    levels: str,
    protocol: Protocol,
    threads: int,
    name: str,
    facts: Sequence[tuple[str, str]],
) -> str:
    versions = sorted({f"{r['method'].split()[0]} {r['version']}" for r in rows})
    sizes = dict.fromkeys(f"{row['data']} ({row['train_rows']} rows)" for row in rows)
    sections = "\n\n".join(
        f"## Beside {peer}\n\n{table}\n\nTarget, {targets_line(groups, peer)}."
        for peer, table in tables.items()
    )
    lines = "\n".join(f"- {what}: {text}" for what, text in facts)
    return f"""# Time to quality

Written by `python -m comparisons time_to_quality` on {time.strftime("%Y-%m-%d")}:
{", ".join(versions)}.

{lines}

Training rows: {", ".join(sizes)}. Every method tried the same
{protocol.n_draws} settings, drawn at random, with trees of {LEAVES[0]} to {LEAVES[1]} leaves (with
LightGBM as many for each class), for at most {protocol.rounds} rounds and until
{protocol.patience} rounds brought no lower held-out loss, on
{threads} thread{"s" if threads > 1 else ""} with up to {protocol.max_bin} bins.

**What is timed.** Rounds of training on the wall clock, nothing else: binning, compilation and the
evaluation of the held-out rows are left out for all methods. fullhess has exact leaves, guaranteed
gains and the path prior; its methods differ in the curvature of the split search.

**How to read a cell.** The peer's mark is the held-out loss of its best setting at its best round.
A cell is our seconds to that loss over the peer's: with that of our {protocol.n_draws} settings
which is there soonest, and in brackets with the one of our lowest loss, which is how the peer's
setting was chosen. The first is the time to a known goal, the second cannot profit from the choice.
Aimed at is {TARGET:g} on {OF_FOUR} of four sets; "{NEVER}" means that the loss was not reached.
Where the peer's best round is the limit, its loss was still falling.

{sections}

## Which splits are there sooner

Seconds (rounds) of the soonest setting of every method: to a loss half way from the highest of the
first rounds, then to the lowest that all reach. The fewest seconds are bold.

{levels}

![Held-out loss by seconds of training]({name}.svg)
"""
