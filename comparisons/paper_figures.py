"""The pictures of the paper's experiments; needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from . import paper_intercepts
from .paper_intercepts import FREE, REFERENCE
from .paper_split import CURVATURES, FirstColumn, Split
from .plots import GREY, PALETTE, clean, heading, save

__all__ = ["draw"]

_COLORS = dict(zip(paper_intercepts.RULES, ("blue", "red", "orange", "pink", "brown"), strict=True))


def draw(
    paths: Sequence[paper_intercepts.Path], split: Split, column: FirstColumn, directory: Path
) -> list[Path]:
    """Both figures."""
    return [
        *save(_intercepts(paths), directory, "paper_intercepts"),
        *save(_split(split, column), directory, "paper_split"),
    ]


def _intercepts(paths: Sequence[paper_intercepts.Path]) -> Figure:
    figure = Figure(figsize=(11, 5.2), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, variant in zip(panels, (REFERENCE, FREE), strict=True):
        for path in (p for p in paths if p.variant == variant):
            _curve(axes, path)
        axes.axhline(paper_intercepts.TOLERANCE, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
        axes.set_xscale("symlog", linthresh=10)
        axes.set_xticks([0, 2, 4, 6, 8, 10, 20, 50, 100, 200, 400])
        axes.xaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
        axes.set_xlim(0, 480)
        axes.set_yscale("log")
        axes.set_ylim(1e-9, 1e5)
        axes.set_title(variant.capitalize(), loc="left", fontsize=11)
        axes.set_xlabel("Iterations (logarithmic from 10 on)")
        clean(axes)
    panels[0].set_ylabel("Multinomial loss above its optimum")
    panels[0].text(12, 1.5e-6, "within 1e-6", color=GREY, fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    panels[1].legend(handles, labels, loc="upper right", frameon=False, fontsize=10)
    heading(
        figure,
        "The true Hessian finds the intercepts in four steps, however they are written",
        "5000 rows of Covertype, started at zero, undamped steps; a diagonal depends on which "
        "scores are free",
    )
    return figure


def _curve(axes: Any, path: paper_intercepts.Path) -> None:
    own = path.rule == "true Hessian"
    axes.plot(
        np.arange(len(path.excess)), np.maximum(path.excess, 1e-12), label=path.rule,
        color=PALETTE[_COLORS[path.rule]], linewidth=3.0 if own else 1.7, zorder=6 if own else 4,
    )  # fmt: skip


def _split(split: Split, column: FirstColumn) -> Figure:
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    axes, bars = figure.subplots(1, 2, width_ratios=[1.5, 1])
    for name, color in zip(CURVATURES, ("blue", "red"), strict=True):
        decrease = split.decrease[name]
        axes.plot(
            split.thresholds, decrease, color=PALETTE[color], linewidth=2,
            label=f"{name}: best at {split.chosen[name]:g}",
        )  # fmt: skip
        axes.plot(split.chosen[name], decrease.max(), "o", color=PALETTE[color], markersize=7)
    axes.set_xlabel("Threshold on the first column")
    axes.set_ylabel("Decrease that the quadratic model sees")
    axes.set_ylim(0, None)
    axes.legend(frameon=False)
    clean(axes)
    losses = [loss for *_, loss in split.models]
    names = [name.replace(", ", ",\n") for name, *_ in split.models]
    places = np.arange(len(losses))[::-1]
    colors = [GREY, *["#B0B0B0"] * (len(losses) - 3), PALETTE["sky"], PALETTE["blue"]]
    bars.barh(places, losses, color=colors, height=0.62)
    for place, loss in zip(places, losses, strict=True):
        bars.text(loss + 60, place, f"{loss:.0f}", va="center", fontsize=10)
    bars.set_yticks(places, names)
    bars.set_xlim(0, max(losses) * 1.14)
    bars.set_xlabel("Multinomial loss of 5000 rows after one split")
    clean(bars, grid="x")
    same = len(set(split.chosen.values())) == 1
    heading(
        figure,
        "The same split, better leaves" if same else "Other splits, other leaves",
        ("5000 rows of Covertype" if column.real else "A generated stand-in, not Covertype")
        + ", one split from the best intercepts, no regularisation",
    )
    return figure
