"""All combinations of settings in one picture; needs matplotlib."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from .combinations import FACTORS
from .combinations_report import losses_beside_default
from .plots import heading, save
from .study_stats import Table

__all__ = ["draw"]


def draw(table: Table, directory: Path, name: str) -> list[Path]:
    """A cell for every combination: its test loss beside the default's."""
    ratios = dict(zip(table.methods, losses_beside_default(table), strict=True))
    rows = list(itertools.product(FACTORS["hessian"], FACTORS["leaf_solver"]))
    columns = list(itertools.product(FACTORS["leaf_prior"], FACTORS["split_gain"]))
    cells = np.array([
        [ratios["fullhess " + " · ".join((*row, *column))] for column in columns] for row in rows
    ])  # fmt: skip
    figure = Figure(figsize=(9.0, 8.2), layout="constrained")
    axes = figure.add_subplot()
    limit = max(float(np.abs(np.log(cells)).max()), 0.02)
    axes.imshow(np.log(cells), cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    for (i, j), ratio in np.ndenumerate(cells):
        dark = abs(np.log(ratio)) > 0.6 * limit
        axes.text(j, i, f"{ratio:.3f}", ha="center", va="center", color="w" if dark else "k")
    axes.set_xticks(range(len(columns)), [f"{prior},\n{gain} gain" for prior, gain in columns])
    labels = [f"{FACTORS['hessian'][curvature]}, {solver} leaves" for curvature, solver in rows]
    axes.set_yticks(range(len(rows)), labels)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    for edge in range(3, len(rows), 3):
        axes.axhline(edge - 0.5, color="white", linewidth=4)
    facts = f"geometric mean over {len(table.sets)} data sets; blue is lower than the default"
    heading(figure, "Test log-loss of every combination, beside the default's", facts)
    return save(figure, directory, name)
