"""Objectives given as functions of the host's form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fullhess import CustomObjective

from ._host import HostDataset

__all__ = ["Function", "HostFunction"]

Function = Callable[[NDArray[Any], Any], tuple[Any, Any]]


class HostFunction(CustomObjective):
    """An objective of the host's form: ``f(scores, dataset) -> (gradient, hessian)``.

    The last call is kept: the engine asks for the derivatives of the same scores more than
    once, and a function is called once a round, as by the host.
    """

    def __init__(self, n_outputs: int) -> None:
        super().__init__(self._derivatives, n_outputs)
        self._function: Function | None = None
        self._dataset: HostDataset = None
        self._start: NDArray[np.float64] | None = None
        self._last: tuple[NDArray[Any], tuple[Any, Any]] | None = None

    def bind(self, function: Function, dataset: HostDataset, start: NDArray[np.float64]) -> None:
        """Take this function from now on.

        start : (n, k) scores before the first round, where the form of the Hessian is learnt.
        """
        self._function, self._dataset, self._start, self._last = function, dataset, start, None

    def probe(self, label: NDArray[Any]) -> None:
        """See ``CustomObjective.probe``; at the scores the run begins with."""
        assert self._start is not None
        self._dense = self._evaluate(self._start, label)[1].shape[1] != self.n_outputs

    def _derivatives(self, raw: NDArray[Any], label: NDArray[Any]) -> tuple[Any, Any]:
        assert self._function is not None
        if self._last is not None and np.array_equal(self._last[0], raw):
            return self._last[1]
        result = self._function(raw.copy(), self._dataset)
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise TypeError(
                "an objective must return (gradient, hessian), got "
                f"{type(result).__name__} from {self._function!r}"
            )
        shape = raw.shape
        gradient, hessian = (_unflattened(np.asarray(part), shape) for part in result)
        self._last = raw.copy(), (gradient, hessian)
        return gradient, hessian


def _unflattened(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """The host takes flat arrays too, class by class."""
    if array.ndim == 1 and array.size == shape[0] * shape[1]:
        return array.reshape(shape, order="F")
    return array
