"""What every setting adds, over all combinations of the others."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .combinations import COMBINATIONS, DEFAULT, FACTORS, levels_of
from .contenders import Protocol
from .report import markdown_table
from .study_stats import N_RESAMPLES, Table, complete, tabulate

__all__ = ["Effect", "effect", "losses_beside_default", "report_text", "write_report"]

Rows = Sequence[Mapping[str, str]]
Array = NDArray[np.float64]
# Of each setting: the level that is asked about, and the one it is compared with.
_PAIRS = (
    *(("hessian", "full", other) for other in FACTORS["hessian"] if other != "full"),
    ("leaf_solver", "damped", "newton"), ("leaf_solver", "exact", "newton"),
    ("leaf_solver", "exact", "damped"), ("leaf_prior", "path", "ridge"),
    ("split_gain", "guaranteed", "quadratic"),
)  # fmt: skip


@dataclass(frozen=True)
class Effect:
    """One level of a setting instead of another; ratios below 1 speak for the first.

    Attributes
    ----------
    ratio, low, high : geometric mean of test losses over data sets, each the mean over all
        pairs of combinations, and the 95 % interval of a bootstrap over data sets.
    wins, losses : data sets.
    pairs : of combinations, on each data set.
    """

    ratio: float
    low: float
    high: float
    wins: int
    losses: int
    pairs: int

    @property
    def marked(self) -> str:
        """The ratio, bold where the interval is below 1, italic where it is above."""
        mark = "**" if self.high < 1.0 else "*" if self.low > 1.0 else ""
        return f"{mark}{self.ratio:.3f}{mark}"


def effect(
    table: Table, factor: str, first: str, second: str, within: Mapping[str, str] | None = None
) -> Effect:
    """One level instead of another.

    within : levels of other settings; only combinations with them are looked at.
    """
    place = list(FACTORS).index(factor)
    logs = []
    for method in table.methods:
        levels = levels_of(method)
        held = dict(zip(FACTORS, levels, strict=True))
        if levels[place] != first or any(held[f] != v for f, v in (within or {}).items()):
            continue
        other = " · ".join((*levels[:place], second, *levels[place + 1 :]))
        logs.append(np.log(table.of(method) / table.of(f"fullhess {other}")))
    by_set = np.nanmean(np.array(logs), axis=(0, 2))
    drawn = np.random.default_rng(0).integers(0, len(by_set), (N_RESAMPLES, len(by_set)))
    low, high = np.exp(np.quantile(by_set[drawn].mean(axis=1), [0.025, 0.975]))
    return Effect(
        float(np.exp(by_set.mean())), float(low), float(high), int((by_set < 0.0).sum()),
        int((by_set > 0.0).sum()), len(logs),
    )  # fmt: skip


def losses_beside_default(table: Table) -> Array:
    """(n_methods,) geometric means of test losses beside those of the default."""
    ratios = np.log(table.values / table.of(f"fullhess {DEFAULT}"))
    return np.asarray(np.exp(np.nanmean(np.nanmean(ratios, axis=2), axis=1)))


def write_report(
    rows: Rows, protocol: Protocol, directory: Path, name: str, facts: Sequence[tuple[str, str]]
) -> list[Path]:
    """Print the effects; write report and figure."""
    finished = complete(rows)
    table = tabulate(finished, "test_loss")
    print("\n" + markdown_table(_effects(table)) + "\n")
    path = directory / f"{name}.md"
    path.write_text(report_text(finished, protocol, name, facts), encoding="utf-8")
    written = [directory / f"{name}.csv", path]
    try:
        from .combinations_figure import draw
    except ImportError:
        print("the figure is left out: pip install matplotlib")
        return written
    return written + draw(table, directory, name)


def report_text(rows: Rows, protocol: Protocol, name: str, facts: Sequence[tuple[str, str]]) -> str:
    """The report in Markdown."""
    table = tabulate(rows, "test_loss")
    versions = sorted({row["version"] for row in rows})
    lines = "\n".join(f"* {what}: {text}" for what, text in facts)
    low, high = protocol.learning_rate
    scope = textwrap.fill(
        f"{len(table.methods)} combinations of curvature (of splits and of leaves), leaf solver, "
        f"leaf prior and split gain, on {len(table.sets)} data sets ({', '.join(table.sets)}) of "
        f"at most {protocol.max_train} training rows: {protocol.n_draws} settings drawn for all "
        f"alike (learning rate {low:g} to {high:g}), up to {protocol.rounds} rounds, chosen by "
        "validation loss, test part touched once; splits of each set: "
        f"{len({row['seed'] for row in rows})}. Exact leaves minimise the true loss whatever the "
        "curvature, which is then that of the splits alone. fullhess "
        f"{', '.join(versions)}.",
        100, break_on_hyphens=False,
    )  # fmt: skip
    return f"""# Every combination of our settings

Written by `python -m comparisons combinations` from the table beside this file.

{lines}

{scope}

## What each setting adds

Test log-loss with the first level as a ratio to that with the second: for every pair of
combinations that differ in nothing else, the mean on each data set, the geometric mean over data
sets, and a 95 % interval of a bootstrap over these. Below 1 speaks for the first; bold and italic
where the interval leaves out 1.

{markdown_table(_effects(table))}

## The same for each curvature

{markdown_table(_within_curvatures(table))}

## All combinations

Test log-loss as a geometric mean ratio to that of {DEFAULT.replace(" · ", ", ")}.

{markdown_table(_grid(table))}

![All combinations]({name}.svg)

## Rounds that raised the training loss

In all trainings that take all rows, over all data sets.

{markdown_table(_rises(rows))}
"""


def _label(factor: str, level: str) -> str:
    return FACTORS[factor][level]


def _effects(table: Table) -> list[list[str]]:
    found = [["setting", "instead of", "ratio", "95 %", "won–lost", "pairs on each set"]]
    for factor, first, second in _PAIRS:
        e = effect(table, factor, first, second)
        found.append([
            f"{factor}: {_label(factor, first)}", _label(factor, second), e.marked,
            f"{e.low:.3f}–{e.high:.3f}", f"{e.wins}–{e.losses}", str(e.pairs),
        ])  # fmt: skip
    return found


def _within_curvatures(table: Table) -> list[list[str]]:
    found = [["setting", "instead of", *FACTORS["hessian"].values()]]
    for factor, first, second in _PAIRS:
        if factor == "hessian":
            continue
        cells = [
            effect(table, factor, first, second, {"hessian": curvature}).marked
            for curvature in FACTORS["hessian"]
        ]
        found.append([f"{factor}: {first}", second, *cells])
    return found


def _columns() -> list[tuple[str, str]]:
    return list(itertools.product(FACTORS["leaf_prior"], FACTORS["split_gain"]))


def _grid(table: Table) -> list[list[str]]:
    ratios = dict(zip(table.methods, losses_beside_default(table), strict=True))
    found = [["curvature", "leaves", *(", ".join(column) for column in _columns())]]
    for curvature, solver in itertools.product(FACTORS["hessian"], FACTORS["leaf_solver"]):
        names = [" · ".join((curvature, solver, *column)) for column in _columns()]
        cells = [f"{ratios[f'fullhess {name}']:.3f}" for name in names]
        found.append([_label("hessian", curvature), solver, *cells])
    return found


def _rises(rows: Rows) -> list[list[str]]:
    found = [["leaves", *FACTORS["hessian"].values()]]
    for solver in FACTORS["leaf_solver"]:
        counts = []
        for curvature in FACTORS["hessian"]:
            wanted = {
                f"fullhess {m.name}" for m in COMBINATIONS
                if levels_of(m.name)[:2] == (curvature, solver)
            }  # fmt: skip
            total = sum(float(row["search_rises"]) for row in rows if row["method"] in wanted)
            counts.append(f"{total:.0f}")
        found.append([solver, *counts])
    return found
