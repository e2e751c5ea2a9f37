"""The pictures of the convergence; needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from .plots import PALETTE, clean, heading, save

__all__ = ["draw"]

_STYLES: dict[str, dict[str, Any]] = {
    "fullhess full splits": {"color": PALETTE["blue"], "linewidth": 2.8, "zorder": 6},
    "fullhess ridge": {"color": PALETTE["sky"], "linewidth": 2.8, "zorder": 5},
    "fullhess full, Newton step": {"color": PALETTE["pink"]},
    "fullhess p(1−p)": {"color": PALETTE["brown"]},
    "XGBoost 2p(1−p)": {"color": PALETTE["black"], "linestyle": (0, (1.2, 1.6))},
    "XGBoost |p−y|": {"color": PALETTE["orange"], "linestyle": (0, (6, 2))},
    "LightGBM tree per class": {"color": PALETTE["green"], "linestyle": (0, (6, 2, 1.2, 2))},
}
_POINTS = 32  # on a curve at most; the first rounds coincide, so that fewer are left
_WORDS = {"rounds": ("round", "Rounds"), "seconds": ("cpu_seconds", "Processor seconds")}


def draw(rows: Sequence[dict[str, str]], directory: Path, name: str) -> list[Path]:
    """For each data set one figure by rounds and one by seconds."""
    written = []
    for i, data in enumerate(dict.fromkeys(row["data"] for row in rows)):
        here = [row for row in rows if row["data"] == data]
        for kind in _WORDS:
            written += save(_figure(here, data, kind), directory, f"{name}_{i}_{kind}")
    return written


def _figure(rows: Sequence[dict[str, str]], data: str, kind: str) -> Figure:
    """Training and validation losses; columns are learning rates, λ is 1 and 0."""
    rates = sorted({row["learning_rate"] for row in rows}, key=float, reverse=True)
    panels = [(lam, loss) for loss in ("train_loss", "valid_loss") for lam in ("1", "0")]
    figure = Figure(figsize=(13, 11), layout="constrained")
    grid = figure.subplots(len(panels), len(rates), sharey="row", squeeze=False)
    column, word = _WORDS[kind]
    for (reg_lambda, loss), line in zip(panels, grid, strict=True):
        part = "Training" if loss == "train_loss" else "Validation"
        line[0].set_ylabel(f"{part} loss, λ = {reg_lambda}")
        for rate, axes in zip(rates, line, strict=True):
            chosen = [r for r in rows
                      if (r["reg_lambda"], r["learning_rate"]) == (reg_lambda, rate)]  # fmt: skip
            _panel(axes, chosen, column, loss)
        low = min(float(r[loss]) for r in rows if r["reg_lambda"] == reg_lambda)
        line[0].set_ylim(max(0.7 * low, 1e-4), 4.0)
    for rate, axes in zip(rates, grid[0], strict=True):
        axes.set_title(f"learning rate {rate}", fontsize=11)
    for axes in grid[-1]:
        axes.set_xlabel(word)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    heading(
        figure, f"Losses by {word.lower()}: {data}",
        "The same settings for all methods; both axes are logarithmic; lines that leave the "
        "panel at the top have diverged",
    )  # fmt: skip
    return figure


def _thinned(curve: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """The first rounds, then fewer and fewer: as dense as a logarithmic axis can show.

    A curve is drawn with a third of its points, which keeps the SVG small.
    """
    n = len(curve)
    kept = np.unique(np.round(np.geomspace(1, n, min(n, _POINTS))).astype(int))
    return [curve[i - 1] for i in kept]


def _panel(axes: Any, rows: Sequence[dict[str, str]], column: str, loss: str) -> None:
    for method in dict.fromkeys(row["method"] for row in rows):
        curve = _thinned([row for row in rows if row["method"] == method])
        x = np.array([float(row[column]) for row in curve])
        y = np.array([float(row[loss]) for row in curve])
        style = {"linewidth": 1.6, "zorder": 4, **_STYLES[method]}
        axes.plot(np.maximum(x, 1e-3), np.maximum(y, 1e-4), label=method, **style)
    axes.set_xscale("log")
    axes.set_yscale("log")
    if column == "round":
        axes.set_xticks([r for r in (1, 2, 5, 10, 20, 50, 100) if r <= max(x.max(), 2)])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=7))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    clean(axes)
