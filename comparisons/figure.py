"""The picture of the quickstart; needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator
from numpy.typing import NDArray

from .libraries import Run, Settings
from .problems import Problem

__all__ = ["draw_losses"]

# Okabe and Ito's palette, which colour-blind readers can tell apart. Line widths and
# dashes repeat the difference, so that the figure also survives a grey printer.
_STYLES: dict[str, dict[str, Any]] = {
    "fullhess full-Hessian leaves": {"color": "#10375C", "linewidth": 3.2, "zorder": 8},
    "fullhess full Hessian": {"color": "#0072B2", "linewidth": 3.2, "zorder": 6},
    "fullhess full Hessian, ridge": {"color": "#56B4E9", "linewidth": 3.2, "zorder": 7},
    "fullhess upper bound": {"color": "#D55E00"},
    "fullhess absolute residual": {"color": "#E69F00"},
    "fullhess diagonal": {"color": "#CC79A7"},
    "fullhess scaled diagonal": {"color": "#8C6D31"},
    "XGBoost multi_output_tree": {"color": "#000000", "linestyle": (0, (1.2, 2.4))},
    "XGBoost one_output_per_tree": {"color": "#777777", "linestyle": (0, (6, 2))},
    "LightGBM one tree per class": {"color": "#009E73", "linestyle": (0, (6, 2, 1.2, 2))},
}
_PLAIN = {"linewidth": 1.6, "linestyle": "solid", "zorder": 4}
_GAP = 0.047  # between two labels, as a share of the height of the plot


def draw_losses(
    runs: Sequence[Run], problem: Problem, settings: Settings, paths: Sequence[Path]
) -> None:
    """Held-out loss by round, one line a method, each named at its end."""
    figure = Figure(figsize=(10.5, 6.2), layout="constrained")
    axes = figure.add_subplot()
    for run in runs:
        axes.plot(
            np.arange(1, len(run.loss) + 1), run.loss, solid_capstyle="round",
            **{**_PLAIN, **_STYLES[run.name]},
        )  # fmt: skip
    _dress(axes, runs)
    _label_ends(axes, runs)
    axes.set_title(
        "The true Hessian beside its diagonal stand-ins",
        loc="left", fontsize=15, fontweight="bold", pad=28,
    )  # fmt: skip
    axes.text(
        0.0, 1.025,
        f"{problem.name}, {len(problem.y_valid)} rows held out; learning rate "
        f"{settings.learning_rate:g}, depth {settings.max_depth}, the same bins for all; "
        f"at the right the loss after {settings.rounds} rounds",
        transform=axes.transAxes, fontsize=10, color="#444444",
    )  # fmt: skip
    for path in paths:
        figure.savefig(path, dpi=160, metadata={"Date": None} if path.suffix == ".svg" else None)


def _dress(axes: Any, runs: Sequence[Run]) -> None:
    """Scales, grid and words."""
    n_rounds = len(runs[0].loss)
    axes.set_yscale("log")
    axes.set_xscale("log")
    low = min(run.loss.min() for run in runs)
    high = max(run.loss.max() for run in runs)
    axes.set_ylim(low / 1.35, high * 1.15)  # room for the labels of the lowest lines
    axes.set_xlim(1, max(n_rounds, 2))
    rounds = [r for r in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if r <= n_rounds]
    losses = [v for v in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5) if low / 1.35 < v < high * 1.15]
    for axis, ticks in ((axes.xaxis, rounds), (axes.yaxis, losses)):
        axis.set_major_locator(FixedLocator(ticks))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("Rounds of boosting (logarithmic)")
    axes.set_ylabel("Log-loss on held-out rows (logarithmic, lower is better)")
    axes.grid(color="#E6E6E6", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _label_ends(axes: Any, runs: Sequence[Run]) -> None:
    """Names beside the ends of the lines, moved apart where they would overlap."""
    low, high = np.log(axes.get_ylim())
    ends = np.array([(np.log(run.loss[-1]) - low) / (high - low) for run in runs])
    for run, end, place in zip(runs, ends, spread(ends, _GAP), strict=True):
        own = run.name.startswith("fullhess full")
        style = {**_PLAIN, **_STYLES[run.name], "linewidth": 2.4 if own else 1.4}
        axes.plot(
            [1.0, 1.03, 1.045], [end, place, place], transform=axes.transAxes, clip_on=False,
            **style,
        )  # fmt: skip
        axes.text(
            1.055, place, f"{run.loss[-1]:.3f}  {_label(run)}", transform=axes.transAxes,
            va="center", fontsize=10 if own else 9, fontweight="bold" if own else "normal",
        )  # fmt: skip


def _label(run: Run) -> str:
    if run.method.params.get("leaf_solver") == "newton":
        return f"fullhess, {run.method.curvature}"
    return f"{run.library}, {run.method.name}"


def spread(places: NDArray[np.float64], gap: float) -> NDArray[np.float64]:
    """Places at least ``gap`` apart, in the same order and as close as may be.

    Neighbours that are too close become a block around their common mean; blocks
    that then collide are merged.
    """
    order = np.argsort(places, kind="stable")
    blocks: list[list[float]] = []  # the wished places of each block, in order
    for place in places[order]:
        blocks.append([float(place)])
        while len(blocks) > 1 and _top(blocks[-2], gap) + gap > _bottom(blocks[-1], gap):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    out = np.empty(len(places))
    out[order] = [_bottom(block, gap) + gap * i for block in blocks for i in range(len(block))]
    return out


def _bottom(block: list[float], gap: float) -> float:
    return sum(block) / len(block) - gap * (len(block) - 1) / 2


def _top(block: list[float], gap: float) -> float:
    return _bottom(block, gap) + gap * (len(block) - 1)
