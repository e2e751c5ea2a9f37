"""The paper's second experiment: one split on one column, and the values of its leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fullhess

from .report import markdown_table

__all__ = ["FirstColumn", "Split", "compare", "loss_rows", "section", "threshold_rows"]

Array = NDArray[np.float64]
CURVATURES = ("true Hessian", "2p(1−p)")
Model = tuple[str, float | None, Array | None, float]  # name, threshold, leaves, loss


@dataclass(frozen=True, eq=False)
class FirstColumn:
    """One feature, (n,) float32, and the classes, (n,); whether it is the paper's."""

    origin: str
    real: bool
    x: NDArray[np.float32]
    y: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Split:
    """What one split gives.

    Attributes
    ----------
    thresholds : (m,) midpoints between neighbouring values.
    decrease : for each curvature the (m,) decreases of the quadratic model.
    chosen : for each curvature the threshold of the largest decrease.
    models : name, threshold, (2, k) leaf values, multinomial loss over all rows.
    """

    thresholds: Array
    decrease: dict[str, Array]
    chosen: dict[str, float]
    models: list[Model]


def compare(column: FirstColumn) -> Split:
    """Criterion over all thresholds, and the loss of every way to set two leaves."""
    y, k = column.y, int(column.y.max()) + 1
    share = np.bincount(y, minlength=k) / len(y)
    values, first = np.unique(np.sort(column.x), return_index=True)
    thresholds = (values[1:] + values[:-1]).astype(np.float64) / 2.0
    sorted_y = y[np.argsort(column.x, kind="stable")]
    counts = np.zeros((len(thresholds), k))  # of the classes left of each threshold
    for c in range(k):
        counts[:, c] = np.cumsum(sorted_y == c)[first[1:] - 1]
    decrease = {name: _decrease(counts, share, len(y), name) for name in CURVATURES}
    chosen = {name: float(thresholds[d.argmax()]) for name, d in decrease.items()}
    models: list[Model] = [
        ("intercepts only", None, None, _loss(np.log(share)[None].repeat(len(y), 0), y))
    ]
    models += _xgboost_model(column, share)
    for name, solver in (("one full Newton step", "newton"), ("exact leaves", "exact")):
        models.append(_own_model(column, name, solver))
    return Split(thresholds, decrease, chosen, models)


def _decrease(left: Array, share: Array, n: int, curvature: str) -> Array:
    """½(b_LᵀA_L⁻¹b_L + b_RᵀA_R⁻¹b_R) of every threshold; at the intercepts b of all is zero.

    The last class is the reference of the true Hessian, which is singular otherwise.
    """
    H = np.diag(share) - np.outer(share, share)
    n_left = left.sum(axis=1)
    b = left - n_left[:, None] * share
    if curvature == "true Hessian":
        per_row = np.einsum("ij,jk,ik->i", b[:, :-1], np.linalg.inv(H[:-1, :-1]), b[:, :-1])
    else:
        per_row = (b**2 / (2.0 * share * (1.0 - share))).sum(axis=1)
    # All rows have the same p, so that A_L = n_L·H and A_R = n_R·H; b_R = -b_L.
    return np.asarray(0.5 * per_row * (1.0 / n_left + 1.0 / (n - n_left)))


def _loss(raw: Array, y: NDArray[np.int32]) -> float:
    """Multinomial loss over all rows."""
    shifted = raw - raw.max(axis=1, keepdims=True)
    return float((np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(y)), y]).sum())


_TREE = {"learning_rate": 1.0, "max_depth": 1, "reg_lambda": 0.0, "min_child_weight": 0.0}


def _own_model(column: FirstColumn, name: str, solver: str) -> Model:
    X = column.x[:, None]
    binned = fullhess.BinnedMatrix.from_quantiles(X, max_bins=len(np.unique(X)) + 1)
    params = {
        **_TREE, "split_hessian": "full", "leaf_solver": solver, "split_gain": "quadratic",
        "n_jobs": 1,
    }  # fmt: skip
    model = fullhess.train(params, binned, column.y, num_boost_round=1)
    tree = model.trees[0]
    threshold = float(tree.threshold[0])
    sides = np.array([[threshold - 1.0], [threshold + 1.0]])
    values = model.predict_raw(sides) - model.base_score
    return f"fullhess, {name}", threshold, values, _loss(model.predict_raw(X), column.y)


def _xgboost_model(column: FirstColumn, share: Array) -> list[Model]:
    """XGBoost's own tree, if it is installed."""
    try:
        import xgboost
    except ImportError:
        return []
    X, base = column.x[:, None], np.log(share)
    n_bins = len(np.unique(X)) + 1
    model = xgboost.train(
        {
            "objective": "multi:softprob", "num_class": len(share), "max_bin": n_bins,
            "multi_strategy": "multi_output_tree", "tree_method": "hist", "nthread": 1,
            "base_score": base.tolist(), **_TREE,
        },
        xgboost.QuantileDMatrix(X, label=column.y, max_bin=n_bins), 1,
    )  # fmt: skip
    raw = np.asarray(model.inplace_predict(X, predict_type="margin"), np.float64)
    left = np.isclose(raw, raw[column.x.argmin()], rtol=0.0, atol=1e-7).all(axis=1)
    low, high = column.x[left].max(), column.x[~left].min()
    values = np.array([raw[left][0], raw[~left][0]]) - base
    name = f"XGBoost {xgboost.__version__}, multi_output_tree"
    return [(name, float(low + high) / 2.0, values, _loss(raw, column.y))]


def threshold_rows(split: Split) -> list[list[Any]]:
    """The criterion, as rows of a CSV."""
    columns = [split.thresholds, *(split.decrease[name] for name in CURVATURES)]
    heading = ["threshold", *(f"decrease, {name}" for name in CURVATURES)]
    return [heading] + [[f"{v:.9g}" for v in row] for row in zip(*columns, strict=True)]


def loss_rows(split: Split) -> list[list[str]]:
    """Loss of every model and its leaf values."""
    k = max(values.shape[1] for _, _, values, _ in split.models if values is not None)
    table = [["model", "threshold", "multinomial loss", *(f"class {c + 1}" for c in range(k))]]
    for name, threshold, values, loss in split.models:
        if values is None:
            table.append([name, "", f"{loss:.2f}", *[""] * k])
            continue
        for side, leaf in zip(("left", "right"), values, strict=True):
            leaf = leaf - leaf.mean()  # a constant added to all scores changes nothing
            total = f"{loss:.2f}" if side == "left" else ""
            table.append([f"{name}: {side}", f"{threshold:g}", total, *(f"{v:.3f}" for v in leaf)])
    return table


def section(split: Split, column: FirstColumn) -> str:
    full, bound = (split.chosen[name] for name in CURVATURES)
    same = "both choose" if full == bound else f"the bound chooses {bound:g}, the true Hessian"
    note = "" if column.real else "\n**These are not the paper's rows.**\n"
    return f"""## One split

On {column.origin}, from the best intercepts, without regularisation.
{note}
Of {len(split.thresholds)} thresholds {same} {full:g}. The trees then differ in their leaf values
(shown with mean zero), and so in the multinomial loss over all rows:

{markdown_table(loss_rows(split))}

A class without rows on one side has no finite best value there; exact leaves are cut off at a range
of 10.

![Criterion over all thresholds, and losses](paper_split.svg)"""
