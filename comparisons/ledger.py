"""An append-only CSV of finished work, so that a long command resumes where it stopped."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Ledger"]


class Ledger:
    """Rows of a CSV file, each flushed to the disk when it is added.

    Parameters
    ----------
    path : made with its heading if it does not exist.
    columns : names of all columns.
    key : names of the columns that tell one piece of work from another.
    """

    def __init__(self, path: Path, columns: Sequence[str], key: Sequence[str]) -> None:
        self.path = path
        self.columns = list(columns)
        self.key = list(key)
        self.rows: list[dict[str, str]] = []
        if path.exists():
            self._read()
        else:
            with path.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerow(self.columns)

    def _read(self) -> None:
        with self.path.open(newline="", encoding="utf-8") as file:
            text = file.read()
        rows = list(csv.reader(text.splitlines()))
        if not rows or rows[0] != self.columns:
            raise ValueError(
                f"{self.path} has other columns than this version writes; move it away, or "
                "choose another directory with --output"
            )
        if not text.endswith("\n"):  # an interrupted write
            rows.pop()
            self.path.write_text(text[: text.rindex("\n") + 1], encoding="utf-8")
        self.rows = [dict(zip(self.columns, row, strict=True)) for row in rows[1:]]

    def done(self) -> set[tuple[str, ...]]:
        """Keys of all rows."""
        return {tuple(row[name] for name in self.key) for row in self.rows}

    def add(self, row: Mapping[str, Any]) -> None:
        """Append a row; floats are kept to six digits."""
        text = {name: _shown(row[name]) for name in self.columns}
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(text.values())
            file.flush()
            os.fsync(file.fileno())
        self.rows.append(text)


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
