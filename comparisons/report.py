"""Plain text tables, and what to say of the machine."""

from __future__ import annotations

import os
import platform
import sys
import textwrap
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = [
    "environment",
    "environment_line",
    "markdown_table",
    "named_line",
    "output_directory",
    "shown",
    "text_table",
]

OUTPUT = Path(__file__).resolve().parent / "output"
_WIDTH = 117  # of the widest table
_PACKAGES = ("numpy", "numba", "scikit-learn", "xgboost", "lightgbm")


def text_table(rows: Sequence[Sequence[str] | None], left: int = 1) -> str:
    """Rows of text in columns; None is a rule.

    The first ``left`` columns are flush left, the others flush right. A row of a
    single cell is a heading: it may run over the columns.
    """
    full = [row for row in rows if row is not None and len(row) > 1]
    widths = [max(len(row[j]) for row in full) for j in range(len(full[0]))]
    total = sum(widths) + len(widths) - 1
    lines = []
    for row in rows:
        if row is None:
            lines.append("─" * total)
        elif len(row) == 1:
            lines.append(row[0])
        else:
            cells = [
                cell.ljust(width) if j < left else cell.rjust(width)
                for j, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append(" ".join(cells).rstrip())
    return "\n".join(lines)


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text as a table in Markdown; the first row is the heading.

    A bar within a cell, as in |p − y|, would end it and is escaped.
    """
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def environment() -> dict[str, Any]:
    """Versions of what takes part, and the machine; a package not installed is None."""
    import fullhess

    versions: dict[str, str | None] = {"fullhess": fullhess.__version__}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        **versions,
    }


def environment_line(facts: dict[str, Any]) -> str:
    """The environment in one line."""
    versions = [f"{name} {facts[name]}" for name in ("fullhess", *_PACKAGES) if facts[name]]
    load = facts["load_average"]
    busy = "" if load is None else f", load {load:.1f}"
    return (
        f"Python {facts['python']}, {', '.join(versions)}; "
        f"{facts['system']}, {facts['cpus']} CPUs{busy}"
    )


def named_line(name: str, text: str) -> str:
    """A fact under its name, folded where it is long."""
    return textwrap.fill(
        text, _WIDTH, initial_indent=f"{name:<10}", subsequent_indent=" " * 10,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def output_directory(path: str | os.PathLike[str] | None) -> Path:
    """The directory to write to, made if need be."""
    directory = OUTPUT if path is None else Path(path)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"cannot write to {directory}: {error}; choose another with --output")
    return directory


def shown(path: Path) -> str:
    """A path relative to the working directory where that is shorter."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
