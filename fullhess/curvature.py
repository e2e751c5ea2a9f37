"""Layouts of a statistics row.

A row is one padded float32 vector ``[count | gradient | curvature]``; a histogram
cell is the same vector summed. The layout says how the k×k curvature is packed:

===========  =============================================  ============
layout       entries                                        numbers
===========  =============================================  ============
laplacian    p_i p_j, i < j: softmax, whose Hessian is      k(k-1)/2
             the Laplacian of these edge weights
dense        upper triangle with the diagonal, by rows      k(k+1)/2
diagonal     the diagonal                                   k
===========  =============================================  ============
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .kernels.histogram import LANES
from .kernels.solve import DENSE, DIAGONAL, LAPLACIAN

__all__ = ["Layout", "LayoutName"]

LayoutName = Literal["laplacian", "dense", "diagonal"]

_CODES: dict[LayoutName, int] = {"laplacian": LAPLACIAN, "dense": DENSE, "diagonal": DIAGONAL}


@dataclass(frozen=True)
class Layout:
    """How curvature is packed in a statistics row of ``n_outputs`` scores."""

    name: LayoutName
    n_outputs: int

    @property
    def code(self) -> int:
        """The kernels' number of this layout."""
        return _CODES[self.name]

    @property
    def n_curvature(self) -> int:
        k = self.n_outputs
        return {"laplacian": k * (k - 1) // 2, "dense": k * (k + 1) // 2, "diagonal": k}[self.name]

    @property
    def width(self) -> int:
        """Floats in a row, padded to whole vectors."""
        used = 1 + self.n_outputs + self.n_curvature
        return -(-used // LANES) * LANES
