"""The paper's equivalence: a leaf is a linear regression, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .report import markdown_table

__all__ = ["Example", "example", "section"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Example:
    """Six rows, three classes of which the last is the reference: two scores.

    Attributes
    ----------
    leaf, coefficients : (2,) x* = A⁻¹b of all rows, and least squares of the stacked system.
    twice_q, constant, rss : 2q(x*), Σ gᵀH⁻¹g, and the residual sum of least squares.
    by_split : for every split point: rows left, q of both sides, rss of both sides.
    """

    leaf: Array
    coefficients: Array
    twice_q: float
    constant: float
    rss: float
    by_split: list[tuple[int, float, float]]


def example() -> Example:
    """Both ways to fit a leaf, and both ways to score a split."""
    raw = np.array([[0.2, -0.1], [1.0, 0.3], [-0.4, 0.8], [0.0, 0.0], [0.6, -0.7], [-1.1, 0.5]])
    y = np.array([0, 0, 1, 2, 2, 1])
    power = np.exp(np.column_stack([raw, np.zeros(len(raw))]))
    p = (power / power.sum(axis=1, keepdims=True))[:, :2]
    b = (y[:, None] == np.arange(2)) - p  # minus the gradients
    H = np.einsum("ij,jk->ijk", p, np.eye(2)) - np.einsum("ij,ik->ijk", p, p)
    leaf, q = _newton(H, b)
    coefficients, rss = _regression(H, b)
    by_split = [
        (
            i,
            _newton(H[:i], b[:i])[1] + _newton(H[i:], b[i:])[1],
            _regression(H[:i], b[:i])[1] + _regression(H[i:], b[i:])[1],
        )
        for i in range(1, len(raw))
    ]
    constant = float(sum(v @ np.linalg.solve(h, v) for h, v in zip(H, b, strict=True)))
    return Example(leaf, coefficients, 2.0 * q, constant, rss, by_split)


def _newton(H: Array, b: Array) -> tuple[Array, float]:
    """x* = A⁻¹b and q(x*) = ½xᵀAx − xᵀb."""
    A, total = H.sum(axis=0), b.sum(axis=0)
    x = np.linalg.solve(A, total)
    return x, float(0.5 * x @ A @ x - x @ total)


def _regression(H: Array, b: Array) -> tuple[Array, float]:
    """Least squares on the stacked C_i and C_i⁻ᵀb_i, where H_i = C_iᵀC_i."""
    C = np.linalg.cholesky(H).transpose(0, 2, 1)
    response = [np.linalg.solve(c.T, v) for c, v in zip(C, b, strict=True)]
    X, v = np.concatenate(list(C)), np.concatenate(response)
    coefficients = np.linalg.lstsq(X, v, rcond=None)[0]
    return coefficients, float(((v - X @ coefficients) ** 2).sum())


def section(found: Example) -> str:
    splits = [["rows left", "q of both sides", "rss of both sides", "rss − 2q"]]
    splits += [[str(i), f"{q:.6f}", f"{rss:.6f}", f"{rss - 2 * q:.6f}"]
               for i, q, rss in found.by_split]  # fmt: skip
    return f"""## A leaf is a linear regression

With H = CᵀC and v = C⁻ᵀb for every row, least squares on the stacked C and v has the leaf's values
as its coefficients, and its residual sum is 2q(x*) + Σ bᵀH⁻¹b. Six rows, two free scores:

* the leaf A⁻¹b is ({found.leaf[0]:.10f}, {found.leaf[1]:.10f}), the coefficients are
  ({found.coefficients[0]:.10f}, {found.coefficients[1]:.10f});
* the residual sum is {found.rss:.10f}, 2q(x*) + Σ bᵀH⁻¹b is {found.twice_q + found.constant:.10f}.

The last sum is the same for every split, so both ways choose the same one:

{markdown_table(splits)}"""
