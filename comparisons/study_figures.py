"""The pictures of the study; needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from .budgets import BUDGETS
from .plots import GREY, PALETTE, clean, heading, save
from .study_stats import Contrast, nemenyi_distance

if TYPE_CHECKING:
    from .study_report import Findings

__all__ = ["draw"]


def draw(found: Findings, directory: Path, name: str) -> list[Path]:
    """All figures."""
    figures = {
        "ratios": _ratios(found),
        "ranks": _ranks(found),
        "parts": _parts(found),
        "sets": _sets(found),
    }
    if found.time_curves:
        figures["time"] = _time(found)
    return [path for end, figure in figures.items() for path in save(figure, directory,
            f"{name}_{end}")]  # fmt: skip


def _is_ours(name: str) -> bool:
    return name.startswith("fullhess")


def _intervals(
    axes: Any, contrasts: Sequence[Contrast], labels: Sequence[str], colors: Sequence[str]
) -> None:
    """One point with its interval a line, the first at the top."""
    places = np.arange(len(contrasts))[::-1]
    for place, c, color in zip(places, contrasts, colors, strict=True):
        axes.plot([c.low, c.high], [place, place], color=color, linewidth=2.4,
                  solid_capstyle="round")  # fmt: skip
        axes.plot(c.ratio, place, "o", color=color, markersize=7)
        axes.text(1.01, place, f"{c.ratio:.3f}   {c.wins}–{c.losses}", va="center", fontsize=9,
                  transform=axes.get_yaxis_transform())  # fmt: skip
    axes.axvline(1.0, color=GREY, linewidth=1)
    axes.set_yticks(places, labels)
    axes.set_ylim(-0.8, len(contrasts) - 0.2)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    ticks = [t for t in (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.3, 1.5, 2.0)
             if low <= t <= high]  # fmt: skip
    axes.set_xticks(ticks)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.tick_params(axis="x", which="minor", length=0)
    axes.text(1.01, len(contrasts) - 0.3, "ratio   won–lost", fontsize=9, color="#444444",
              transform=axes.get_yaxis_transform())  # fmt: skip
    clean(axes, grid="x")


def _ratios(found: Findings) -> Figure:
    contrasts = sorted(found.to_baseline, key=lambda c: c.ratio)
    figure = Figure(figsize=(10.5, 1.6 + 0.3 * len(contrasts)), layout="constrained")
    axes = figure.add_subplot()
    colors = [PALETTE["blue"] if _is_ours(c.first) else PALETTE["red"] for c in contrasts]
    _intervals(axes, contrasts, [c.first for c in contrasts], colors)
    axes.set_xlabel(f"Test log-loss as a ratio to {contrasts[0].second} (lower is better)")
    heading(
        figure, "Test log-loss of all methods",
        f"{_scope(found)}; geometric means, 95 % bootstrap intervals; blue: fullhess, red: peers",
    )  # fmt: skip
    return figure


def _scope(found: Findings) -> str:
    n_splits = int(np.isfinite(found.loss.values[0]).sum())
    return f"{len(found.loss.sets)} data sets, {n_splits} splits in all, the same search for all"


def _parts(found: Findings) -> Figure:
    contrasts = [c for _, c in found.questions]
    labels = [question.text for question, _ in found.questions]
    figure = Figure(figsize=(11.5, 1.8 + 0.36 * max(len(contrasts), 1)), layout="constrained")
    axes = figure.add_subplot()
    colors = [
        PALETTE["green"] if c.high < 1.0 else PALETTE["red"] if c.low > 1.0 else GREY
        for c in contrasts
    ]
    _intervals(axes, contrasts, labels, colors)
    axes.set_xlabel("Test log-loss with it as a ratio to without it (below 1: it helps)")
    heading(
        figure, "What each part of the method adds",
        f"{_scope(found)}; green: helps, red: harms, grey: the interval holds 1",
    )  # fmt: skip
    return figure


def _ranks(found: Findings) -> Figure:
    """Mean ranks; a bar joins methods that Nemenyi's test does not tell apart."""
    order = np.argsort(found.ranks)
    ranks = found.ranks[order]
    names = [found.loss.methods[i] for i in order]
    distance = nemenyi_distance(len(ranks), len(found.loss.sets))
    bars = _groups(ranks, distance)
    figure = Figure(figsize=(10.5, 1.9 + 0.3 * len(ranks)), layout="constrained")
    axes = figure.add_subplot()
    places = np.arange(len(ranks))[::-1]
    for place, rank, name in zip(places, ranks, names, strict=True):
        color = PALETTE["blue"] if _is_ours(name) else PALETTE["red"]
        axes.plot([0.0, rank], [place, place], color="#E0E0E0", linewidth=1, zorder=1)
        axes.plot(rank, place, "o", color=color, markersize=8, zorder=3)
        axes.text(rank + 0.35, place, f"{rank:.1f}", va="center", fontsize=9)
    for i, (first, last) in enumerate(bars):
        x = len(ranks) + 1.0 + 0.5 * i
        axes.plot([x, x], [places[first] + 0.3, places[last] - 0.3], color="#333333",
                  linewidth=3, solid_capstyle="butt")  # fmt: skip
    axes.set_yticks(places, names)
    axes.set_xlim(0.0, len(ranks) + 1.5 + 0.5 * len(bars))
    axes.set_xticks(np.arange(0, len(ranks) + 1, 2))
    axes.set_xlabel("Mean rank by test log-loss over data sets (1 is best)")
    clean(axes, grid="x")
    heading(
        figure, "Mean ranks, and which of them differ",
        f"{len(found.loss.sets)} data sets; bars at the right join ranks that differ by less than "
        f"{distance:.1f}, the critical distance of Nemenyi's test (5 %)",
    )  # fmt: skip
    return figure


def _groups(ranks: np.ndarray, distance: float) -> list[tuple[int, int]]:
    """Longest runs of sorted ranks within the distance, none inside another."""
    groups: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = int(np.searchsorted(ranks, ranks[first] + distance)) - 1
        if last > first and (not groups or last > groups[-1][1]):
            groups.append((first, last))
    return groups


def _sets(found: Findings) -> Figure:
    """A map of ratios to the baseline, by method and data set."""
    loss = found.loss
    order = np.argsort([c.ratio for c in found.to_baseline])
    base = loss.methods.index(found.to_baseline[0].second)
    values = loss.by_set()
    ratios = (values / values[base])[order]
    n_methods, n_sets = ratios.shape
    figure = Figure(
        figsize=(max(4.2 + 0.55 * n_sets, 10.5), 2.2 + 0.3 * n_methods), layout="constrained"
    )
    axes = figure.add_subplot()
    axes.imshow(np.log(ratios), cmap="RdBu_r", vmin=-0.35, vmax=0.35, aspect="auto")
    for i in range(n_methods):
        for j in range(n_sets):
            strong = abs(np.log(ratios[i, j])) > 0.2
            axes.text(j, i, f"{ratios[i, j]:.2f}", ha="center", va="center", fontsize=7.5,
                      color="white" if strong else "black")  # fmt: skip
    labels = [f"{n} ({k})" for n, k in zip(loss.sets, loss.n_classes, strict=True)]
    axes.set_xticks(np.arange(n_sets), labels, rotation=55, ha="right", rotation_mode="anchor")
    axes.set_yticks(np.arange(n_methods), [loss.methods[i] for i in order])
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    heading(
        figure, "Who wins where",
        f"Test log-loss as a ratio to {loss.methods[base]}, means over the splits; blue is lower, "
        "red is higher; in brackets the number of classes",
    )  # fmt: skip
    return figure


# Drawn in colours of their own; all others are grey.
_SHOWN: dict[str, dict[str, Any]] = {
    "fullhess default": {"color": PALETTE["blue"], "linewidth": 3.0},
    "fullhess ridge": {"color": PALETTE["sky"], "linewidth": 2.2},
    "XGBoost vector leaves": {"color": PALETTE["black"], "linestyle": (0, (1.2, 1.6))},
    "XGBoost tree per class": {"color": PALETTE["brown"], "linestyle": (0, (1.2, 1.6))},
    "LightGBM tree per class": {"color": PALETTE["green"], "linestyle": (0, (6, 2, 1.2, 2))},
    "scikit-learn tree per class": {"color": PALETTE["pink"]},
    "CatBoost symmetric trees": {"color": PALETTE["orange"], "linestyle": (0, (6, 2))},
    "ChimeraBoost oblivious trees, plain": {"color": PALETTE["red"], "linestyle": (0, (6, 2))},
}


def _time(found: Findings) -> Figure:
    """Test loss within a budget of processor seconds, as ratios to the baseline's whole search."""
    figure = Figure(figsize=(10.5, 6.2), layout="constrained")
    axes = figure.add_subplot()
    for method, ratios in found.time_curves.items():
        style: dict[str, Any] = {"color": "#CCCCCC", "linewidth": 1.0, "zorder": 2}
        if method in _SHOWN:
            style = {"linewidth": 1.8, "zorder": 4, **_SHOWN[method], "label": method}
        axes.plot(BUDGETS, ratios, marker="o", markersize=3.5, **style)
    axes.axhline(1.0, color=GREY, linewidth=1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(BUDGETS)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_yticks([t for t in (0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 8.0)
                     if t <= max(r.max() for r in found.time_curves.values())])  # fmt: skip
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
    axes.minorticks_off()
    axes.set_xlabel("Processor seconds of one training")
    axes.set_ylabel(f"Test log-loss, ratio to {found.to_baseline[0].second} at its end")
    axes.legend(frameon=False, loc="upper right")
    clean(axes)
    heading(
        figure, "Test log-loss by processor time",
        f"{_scope(found)}; geometric means; grey: our other methods and other peers",
    )  # fmt: skip
    return figure
