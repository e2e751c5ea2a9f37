"""What all figures share; needs matplotlib."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

__all__ = ["GREY", "PALETTE", "clean", "heading", "save"]

# Okabe and Ito's palette, which colour-blind readers can tell apart.
PALETTE = {
    "blue": "#0072B2", "sky": "#56B4E9", "red": "#D55E00", "orange": "#E69F00",
    "pink": "#CC79A7", "green": "#009E73", "black": "#000000", "brown": "#8C6D31",
}  # fmt: skip
GREY = "#777777"


def clean(axes: Any, grid: str = "both") -> None:
    """No frame at the top and right, a faint grid behind the data."""
    axes.grid(color="#E6E6E6", linewidth=0.8, axis=grid)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def heading(figure: Figure, title: str, facts: str) -> None:
    """A title that says what is seen, and under it the facts of the measurement."""
    height = figure.get_figheight()
    layout: Any = figure.get_layout_engine()
    if layout is not None:
        layout.set(rect=(0.008, 0.0, 0.984, 1.0 - 0.75 / height))
    figure.text(0.012, 1.0 - 0.14 / height, title, fontsize=15, fontweight="bold", va="top")
    figure.text(0.012, 1.0 - 0.48 / height, facts, fontsize=10, color="#444444", va="top")


def save(figure: Figure, directory: Path, name: str) -> list[Path]:
    """The figure as PNG and SVG."""
    paths = [directory / f"{name}.png", directory / f"{name}.svg"]
    figure.savefig(paths[0], dpi=150)
    # Text stays text, which keeps the file small; the salt makes it the same every time.
    short: Any = {"svg.fonttype": "none", "svg.hashsalt": name, "font.sans-serif": ["DejaVu Sans"]}
    with matplotlib.rc_context(short):
        figure.savefig(paths[1], metadata={"Date": None})
    paths[1].write_text(_shortened(paths[1].read_text(encoding="utf-8")), encoding="utf-8")
    return paths


def _shortened(svg: str) -> str:
    """Places cut to two decimals, which nobody sees; what is written in the figure stays."""
    svg = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\.\d\d)\d+", r"\1", tag[0]), svg)
    return re.sub(r" *\n *", "\n", svg)
