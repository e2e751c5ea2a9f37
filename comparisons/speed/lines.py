"""Results: one measured number a line, with what it is compared to and aimed at."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..report import text_table

__all__ = ["Line", "cautions", "summary", "table", "write"]

STEADY = 1.25  # quartiles of repeats on a machine without other work lie closer
SAME_SIZE = 1.1  # trees whose leaves differ by more are not of the same size

Kind = Literal["ratio", "speed-up", "absolute"]


@dataclass(frozen=True)
class Line:
    """One number.

    Attributes
    ----------
    part, problem, method, threads : what was measured.
    unit : of ``own`` and ``host``.
    own, host : fullhess and the other library (medians); None where there is no other.
    against : the other library, with its version.
    kind : what the target is about: own / host ("ratio", at most the target), ``own``
        itself as a speed-up (at least the target) or as an amount (at most).
    target : None where nothing is aimed at.
    own_leaves, host_leaves : mean leaves of a tree.
    own_samples, host_samples : the repeats.
    """

    part: str
    problem: str
    method: str
    threads: int
    unit: str
    own: float
    host: float | None = None
    against: str = ""
    kind: Kind = "ratio"
    target: float | None = None
    own_leaves: float | None = None
    host_leaves: float | None = None
    own_samples: tuple[float, ...] = ()
    host_samples: tuple[float, ...] = ()

    @property
    def value(self) -> float | None:
        """What the target is about; None if the other library could not be measured."""
        if self.kind != "ratio":
            return self.own
        return self.own / self.host if self.host else None

    @property
    def fastest(self) -> float | None:
        """The ratio of the fastest repeats, which other work on the machine disturbs least."""
        if self.kind != "ratio" or not self.own_samples or not self.host_samples:
            return None
        return min(self.own_samples) / min(self.host_samples)

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without one."""
        if self.target is None or self.value is None:
            return None
        return self.value >= self.target if self.kind == "speed-up" else self.value <= self.target

    def record(self) -> dict[str, Any]:
        """All fields and what follows from them."""
        known = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**known, "value": self.value, "fastest_ratio": self.fastest, "met": self.met}


def table(lines: Sequence[Line]) -> str:
    """Lines of one part: a heading for each problem, under it one number a row."""
    rows: list[Sequence[str] | None] = []
    for (problem, against, unit), group in groupby(
        lines, key=lambda line: (line.problem, line.against, line.unit)
    ):
        heading = f"{problem}: {unit}" + (f", beside {against}" if against else "")
        rows += [None, [heading], ["", "threads", "fullhess", "other", "value", "target", ""]]
        rows += [_row(line) for line in group]
    return text_table(rows)


def _row(line: Line) -> list[str]:
    bound = "≥" if line.kind == "speed-up" else "≤"
    return [
        f"  {line.method}",
        str(line.threads),
        _digits(line.own),
        _digits(line.host),
        "-" if line.value is None else f"{line.value:.2f}",
        "" if line.target is None else f"{bound} {line.target:g}",
        {True: "met", False: "missed", None: ""}[line.met],
    ]


def _digits(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def summary(lines: Sequence[Line]) -> str:
    """How many targets were reached, in all and in each part."""
    aimed = [line for line in lines if line.met is not None]
    if not aimed:
        return "none: targets are for the full sizes"
    parts = []
    for part in dict.fromkeys(line.part for line in aimed):
        verdicts = [line.met for line in aimed if line.part == part]
        parts.append(f"{part} {sum(map(bool, verdicts))} of {len(verdicts)}")
    text = f"{sum(bool(line.met) for line in aimed)} of {len(aimed)} reached: {', '.join(parts)}"
    return text + ("; not to be relied on, see the cautions" if cautions(lines) else "")


def cautions(lines: Sequence[Line]) -> list[str]:
    """Signs in the measurements themselves that they say little."""
    found = []
    spread = max((_spread(line) for line in lines), default=1.0)
    if spread > STEADY:
        found.append(
            f"repeats of the same kind differ (the middle half by up to {spread:.1f} times): "
            "other work was running, and the numbers are rough"
        )
    slower = [x.problem for x in lines if x.kind == "speed-up" and x.host and x.host < 1.0]
    if slower:
        found.append(
            f"the other library was slower on several threads than on one ("
            f"{'; '.join(dict.fromkeys(slower))}): the cores were not free, and lines of several "
            "threads say nothing of an idle machine"
        )
    for line in lines:
        if line.own_leaves and line.host_leaves:
            ratio = line.own_leaves / line.host_leaves
            if max(ratio, 1.0 / ratio) > SAME_SIZE:
                found.append(
                    f"{line.problem}: trees of {line.method} have {line.own_leaves:.0f} leaves, "
                    f"those of {line.against} {line.host_leaves:.0f}"
                )
    return list(dict.fromkeys(found))


def _spread(line: Line) -> float:
    """How far repeats lie apart: upper over lower quartile."""
    spreads = [1.0]
    for samples in (line.own_samples, line.host_samples):
        if len(samples) > 2:
            lower, upper = np.quantile(samples, [0.25, 0.75])
            spreads.append(float(upper / lower))
    return max(spreads)


def write(lines: Sequence[Line], facts: dict[str, Any], directory: Path, name: str) -> list[Path]:
    """The lines as CSV, and with the repeats and everything about them as JSON."""
    paths = [directory / f"{name}.csv", directory / f"{name}.json"]
    records = [line.record() for line in lines]
    with paths[0].open("w", newline="", encoding="utf-8") as file:
        columns = [name for name in records[0] if not name.endswith("samples")]
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(records)
    content = json.dumps({**facts, "lines": records}, indent=2, ensure_ascii=False)
    paths[1].write_text(content + "\n", encoding="utf-8")
    return paths
