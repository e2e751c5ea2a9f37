"""The picture of losses against seconds; needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from .plots import GREY, PALETTE, clean, heading, save
from .time_to_quality_report import Grouped, tuned

__all__ = ["draw"]

_STYLES: dict[str, dict[str, Any]] = {
    "fullhess full splits": {"color": PALETTE["blue"], "linewidth": 2.6, "zorder": 6},
    "fullhess p(1−p) splits": {"color": PALETTE["sky"], "linewidth": 2.6, "zorder": 5},
    "fullhess 2p(1−p) splits": {"color": PALETTE["pink"], "linewidth": 1.8},
    "XGBoost vector leaves": {"color": PALETTE["black"], "linestyle": (0, (1.2, 1.6))},
    "LightGBM tree per class": {"color": PALETTE["green"], "linestyle": (0, (6, 2))},
}


def draw(groups: Grouped, directory: Path, name: str) -> list[Path]:
    """One panel for each data set: the best setting of every method."""
    sets = list(dict.fromkeys(data for data, _ in groups))
    columns = min(2, len(sets))
    lines = -(-len(sets) // columns)
    figure = Figure(figsize=(6.0 * columns, 1.3 + 3.7 * lines), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes, data in zip(grid, sets, strict=False):
        _panel(axes, {method: runs for (d, method), runs in groups.items() if d == data})
        axes.set_title(data, fontsize=11)
    for axes in grid[len(sets) :]:
        axes.set_visible(False)
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    heading(
        figure, "Held-out loss by seconds of training",
        "The best of the drawn settings of every method, up to its best round (dot)",
    )  # fmt: skip
    return save(figure, directory, name)


def _panel(axes: Any, methods: dict[str, Any]) -> None:
    for method, runs in methods.items():
        best = tuned(runs)
        end = int(best.losses.argmin()) + 1
        style = {"linewidth": 1.8, "zorder": 4, **_STYLES[method]}
        axes.plot(best.seconds[:end], best.losses[:end], label=method, **style)
        axes.plot(
            best.seconds[end - 1], best.losses[end - 1], "o", color=style["color"], markersize=6,
            zorder=7,
        )  # fmt: skip
        if not method.startswith("fullhess"):
            axes.axhline(best.best, color=GREY, linewidth=0.8, linestyle=(0, (2, 3)), zorder=1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=8))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.set_xlabel("Seconds of training")
    axes.set_ylabel("Held-out log-loss")
    clean(axes)
