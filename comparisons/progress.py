"""One progress bar over several trainings."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

__all__ = ["ProgressBar"]


class ProgressBar:
    """Counts the rounds of all trainings; without tqdm, a line for each training.

    Used as a context manager.

    Parameters
    ----------
    total : rounds of all trainings, or other units of work.
    unit : what is counted.
    """

    def __init__(self, total: int, unit: str = "round") -> None:
        self.total = total
        self.unit = unit
        self.done = 0
        self._bar: Any = None

    def __enter__(self) -> ProgressBar:
        try:
            from tqdm import tqdm
        except ImportError:
            return self
        self._bar = tqdm(total=self.total, unit=self.unit, leave=False, dynamic_ncols=True)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def start(self, name: str) -> None:
        """Say which training begins."""
        if self._bar is None:
            print(f"{name} ({self.unit} {self.done} of {self.total})", file=sys.stderr, flush=True)
        else:
            self._bar.set_description_str(name, refresh=True)

    def advance(self, loss: float | None = None, rounds: int = 1) -> None:
        """Count finished rounds and show the held-out loss, if there is one."""
        self.done += rounds
        if self._bar is not None:
            if loss is not None:
                self._bar.set_postfix_str(f"held-out loss {loss:.4f}", refresh=False)
            self._bar.update(rounds)
