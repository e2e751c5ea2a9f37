"""Test losses after equal processor time, beside those after equal rounds.

A method that costs more a round has to pay for it here. Within a budget of processor
seconds for each training, a method is what the better of its draws had reached by then:
the draw and the round are chosen by validation loss, and tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from .data import Parts
from .libraries import Run

__all__ = ["BUDGETS", "clock", "first_rounds", "losses_within", "pack", "unpack"]

BUDGETS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)  # processor seconds of one training


def clock(run: Run, total: float) -> NDArray[np.float64]:
    """(n_rounds,) processor seconds from the start of a training to the end of a round.

    What the rounds do not account for, such as binning, counts before the first. A library
    that does not tell the time of a round is taken to need the same for all.

    Parameters
    ----------
    total : processor seconds of the whole training.
    """
    seconds = run.cpu_seconds
    if np.isnan(seconds).any():
        seconds = np.full(len(seconds), total / len(seconds))
    before = max(total - float(seconds.sum()), 0.0)
    return np.asarray(before + np.cumsum(seconds))


def first_rounds(run: Run, n: int) -> Run:
    """The first rounds of a training, with the model whole: ``best`` says where to cut it."""
    return replace(
        run, train_loss=run.train_loss[:n], loss=run.loss[:n], error=run.error[:n],
        seconds=run.seconds[:n], cpu_seconds=run.cpu_seconds[:n],
    )  # fmt: skip


def losses_within(
    budgets: Sequence[float],
    module: ModuleType,
    runs: Sequence[Run],
    totals: Sequence[float],
    parts: Parts,
) -> list[float]:
    """Test loss within each budget; before the first round it is that of the class shares.

    Parameters
    ----------
    runs, totals : the trainings of a search and the processor seconds of each.
    """
    from .study import log_loss

    clocks = [clock(run, total) for run, total in zip(runs, totals, strict=True)]
    known: dict[tuple[int, int], float] = {}
    losses = []
    for budget in budgets:
        reached = [
            (float(cut.loss.min()), i, cut)
            for i, (run, times) in enumerate(zip(runs, clocks, strict=True))
            if len((cut := first_rounds(run, int((times <= budget).sum()))).loss)
            and not np.isnan(cut.loss).any()
        ]
        if not reached:
            losses.append(_share_loss(parts))
            continue
        _, i, cut = min(reached, key=lambda item: item[:2])
        if (i, cut.best) not in known:
            known[i, cut.best] = log_loss(module.predict(cut, parts.X_test), parts.y_test)
        losses.append(known[i, cut.best])
    return losses


def _share_loss(parts: Parts) -> float:
    y = parts.problem.y_train
    share = np.bincount(y, minlength=parts.problem.n_classes) / len(y)
    return float(-np.log(share)[parts.y_test].mean())


def pack(losses: Sequence[float]) -> str:
    """One cell of a table for several numbers."""
    return " ".join(f"{loss:.5g}" for loss in losses)


def unpack(text: str) -> list[float]:
    return [float(part) for part in text.split()]
