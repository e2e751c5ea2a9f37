"""The picture of the growth; needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from .growth import DEPTH, N_BINS, Fit, Point
from .plots import GREY, PALETTE, clean, heading, save

__all__ = ["draw"]

_STYLES: dict[str, dict[str, Any]] = {
    "full": {"color": PALETTE["blue"], "marker": "o"},
    "diagonal": {"color": PALETTE["red"], "marker": "s"},
}


def draw(points: Sequence[Point], fits: Sequence[Fit], directory: Path, name: str) -> list[Path]:
    """One panel for each of rows, features and classes."""
    axes_names = list(dict.fromkeys(point.axis for point in points))
    figure = Figure(figsize=(12, 5), layout="constrained")
    for axes, axis in zip(figure.subplots(1, len(axes_names)), axes_names, strict=True):
        here = [point for point in points if point.axis == axis]
        laws = [found for found in fits if found.axis == axis]
        for law in laws:
            _line(axes, [p for p in here if p.splits == law.splits], law)
        _guide(axes, here, laws)
        fixed = ", ".join(
            f"{getattr(here[0], other)} {other}"
            for other in ("rows", "features", "classes")
            if other != axis
        )
        axes.set_title(fixed, fontsize=11)
        axes.set_xlabel(axis.capitalize())
        _scales(axes, sorted({getattr(point, axis) for point in here}))
        axes.legend(frameon=False, loc="upper left", fontsize=10)
        clean(axes)
    figure.axes[0].set_ylabel("Seconds of a round")
    heading(
        figure, "How the time of a round grows",
        f"{N_BINS} bins, depth {DEPTH}; solid: fitted part; dashed: slope of the bound",
    )  # fmt: skip
    return save(figure, directory, name)


def _scales(axes: Any, values: Sequence[int]) -> None:
    """Logarithmic; a tick at every measured size, and room for the legend above the lines."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    bottom, top = axes.get_ylim()
    axes.set_ylim(bottom, top * (top / bottom) ** 0.4)
    axes.minorticks_off()
    axes.set_xticks(values, [_short(value) for value in values])
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=9))
    axes.yaxis.set_major_formatter("{x:g}")


def _short(value: int) -> str:
    for size, sign in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:g}{sign}"
    return str(value)


def _line(axes: Any, points: Sequence[Point], law: Fit) -> None:
    """The measured points, and the fitted power law through the middle of its part."""
    x = np.array([getattr(point, law.axis) for point in points], float)
    y = np.array([point.seconds for point in points])
    style = _STYLES[law.splits]
    axes.plot(x, y, linestyle="none", markersize=6, **style)
    upper = x >= law.first
    middle = np.exp(np.mean(np.log(x[upper]))), np.exp(np.mean(np.log(y[upper])))
    fitted = middle[1] * (x[upper] / middle[0]) ** law.exponent
    label = f"{law.splits} splits: exponent {law.exponent:.2f}"
    axes.plot(x[upper], fitted, color=style["color"], linewidth=2.0, label=label)


def _guide(axes: Any, points: Sequence[Point], laws: Sequence[Fit]) -> None:
    """A line of the largest slope that is accepted, below all points."""
    law = laws[-1]
    x = np.array([law.first, law.last], float)
    last = min(p.seconds for p in points if getattr(p, law.axis) == law.last)
    y = 0.5 * last * (x / law.last) ** law.bound
    axes.plot(x, y, color=GREY, linewidth=1.2, linestyle=(0, (4, 3)), label=f"slope {law.bound:g}")
