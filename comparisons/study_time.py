"""The study by equal processor time instead of equal rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .budgets import BUDGETS, unpack
from .study_stats import Contrast, Table, contrast, holm, tabulate

__all__ = ["DEFAULT", "equal_time", "time_curves", "time_words", "timed_duels"]

DEFAULT = "fullhess default"
Rows = Sequence[Mapping[str, str]]


def equal_time(rows: Rows, baseline: str) -> list[Contrast]:
    """Every method within the processor time of the baseline's chosen training, beside it.

    Empty if the rows do not tell.
    """
    table = tabulate(rows, "equal_time_loss")
    if np.isnan(table.values).all():
        return []
    everything = np.ones(len(table.sets), bool)
    return [contrast(table, name, baseline, everything) for name in table.methods]


def timed_duels(rows: Rows, peers: Sequence[str]) -> list[Contrast]:
    """Our default against every peer, all within the processor time of the baseline."""
    table = tabulate(rows, "equal_time_loss")
    if np.isnan(table.values).all() or DEFAULT not in table.methods:
        return []
    everything = np.ones(len(table.sets), bool)
    found = [contrast(table, DEFAULT, peer, everything) for peer in peers]
    p_values = holm([c.p for c in found])
    return [replace(c, p=p) for c, p in zip(found, p_values, strict=True)]


def time_curves(rows: Rows, loss: Table, baseline: str) -> dict[str, NDArray[np.float64]]:
    """Method to (n_budgets,) test losses within each budget as ratios to the baseline's.

    The baseline's is that of its whole search; ratios are geometric means over data sets.
    """
    if not all(row["timed_losses"] for row in rows):
        return {}
    shape = (len(loss.sets), loss.values.shape[2], len(BUDGETS))
    seeds = sorted({row["seed"] for row in rows})
    found = {method: np.full(shape, np.nan) for method in loss.methods}
    for row in rows:
        place = loss.sets.index(row["data"]), seeds.index(row["seed"])
        found[row["method"]][place] = unpack(row["timed_losses"])
    whole = loss.of(baseline)[:, :, None]
    return {
        method: np.exp(np.nanmean(np.log(values / whole), axis=1).mean(axis=0))
        for method, values in found.items()
    }


def time_words(contrasts: Sequence[Contrast]) -> str:
    """What equal time says of our default, and of the peers that are ahead then."""
    ours = next((c for c in contrasts if c.first == DEFAULT), None)
    if ours is None:
        return ""
    ahead = [c for c in contrasts if c.ratio < ours.ratio and not c.first.startswith("fullhess")]
    names = ", ".join(f"{c.first} ({c.ratio:.3f})" for c in sorted(ahead, key=lambda c: c.ratio))
    return (
        f"In the processor time that {ours.second} takes, {ours.first} comes to {ours.ratio:.3f} "
        f"of its loss ({ours.low:.3f}–{ours.high:.3f}, {ours.wins} data sets won, {ours.losses} "
        f"lost). Peers that are lower than that in the same time: {names or 'none'}."
    )
