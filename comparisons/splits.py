"""How different are the splits? The paper's open question, asked of single trees.

From the same scores one tree is grown with each curvature in its split search; everything
else is the same, exact leaves included. Compared are the root, the leaves that the
training rows fall into, and the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import fullhess

from .contenders import for_classes
from .data import Parts

__all__ = ["RULES", "Tree", "compare_trees", "summary"]

RULES = {
    "full": "diag(p) − ppᵀ",
    "upper_bound": "2p(1−p)",
    "absolute_residual": "|p−y|",
    "diagonal": "p(1−p)",
}
ROUNDS = (0, 10, 40)  # of boosting before the tree
_TREE = {"max_depth": 4, "learning_rate": 1.0, "split_gain": "quadratic", "leaf_prior": "ridge",
         "n_jobs": 1}  # fmt: skip


@dataclass(frozen=True)
class Tree:
    """One tree beside the one of the true Hessian.

    Attributes
    ----------
    same_feature, same_root : whether the roots split by the same feature, and at the same
        threshold.
    rand : adjusted Rand index of the leaves of the training rows; 1: the same leaves,
        0: as like as chance would have them.
    train_loss, valid_loss : mean log-loss with the tree.
    """

    data: str
    rounds: int
    rule: str
    same_feature: bool
    same_root: bool
    rand: float
    train_loss: float
    valid_loss: float


def compare_trees(parts: Parts, rounds: Sequence[int] = ROUNDS) -> list[Tree]:
    """One tree a rule after so many rounds with the ridge, which is what the paper has."""
    from sklearn.metrics import adjusted_rand_score

    from .study import log_loss

    problem = parts.problem
    binned = fullhess.BinnedMatrix.from_quantiles(problem.X_train, max_bins=64, n_jobs=1)
    params = {"split_hessian": "full", "leaf_prior": "ridge", "n_jobs": 1}
    boosted = fullhess.train(
        for_classes(params, problem.n_classes), binned, problem.y_train, num_boost_round=max(rounds)
    )
    found = []
    for n_rounds in rounds:
        start = boosted[:n_rounds] if n_rounds else None
        trees = {rule: _grow(start, binned, problem.y_train, rule) for rule in RULES}
        reference, leaves = trees["full"].trees[-1], {}
        for rule, model in trees.items():
            tree = model.trees[-1]
            leaves[rule] = model.apply(problem.X_train)[:, -1]
            same_feature = bool(tree.feature[0] == reference.feature[0])
            same_root = same_feature and bool(tree.threshold[0] == reference.threshold[0])
            rand = float(adjusted_rand_score(leaves["full"], leaves[rule]))
            losses = [
                log_loss(model.predict(X), y)
                for X, y in ((problem.X_train, problem.y_train), (problem.X_valid, problem.y_valid))
            ]
            found.append(Tree(problem.name, n_rounds, rule, same_feature, same_root, rand, *losses))
    return found


def _grow(start: fullhess.Ensemble | None, binned: Any, label: Any, rule: str) -> fullhess.Ensemble:
    params = {**_TREE, "split_hessian": rule}
    return fullhess.train(params, binned, label, num_boost_round=1, init_model=start)


def summary(rows: Sequence[dict[str, str]]) -> list[list[str]]:
    """What the trees of each rule have in common with those of the true Hessian."""
    table = [
        ["splits by", "rounds before", "same root feature", "same root split",
         "median Rand index", "training loss, ratio", "validation loss, ratio"]
    ]  # fmt: skip
    by = {(row["data"], row["rounds"], row["rule"]): row for row in rows}
    for rule in [rule for rule in RULES if rule != "full"]:
        for rounds in sorted({row["rounds"] for row in rows}, key=int):
            pairs = [
                (row, by[row["data"], rounds, "full"])
                for row in rows
                if (row["rule"], row["rounds"]) == (rule, rounds)
            ]
            table.append([RULES[rule], rounds, *_common(pairs)])
    return table


def _common(pairs: Sequence[tuple[dict[str, str], dict[str, str]]]) -> list[str]:
    def share(name: str) -> str:
        return f"{100 * np.mean([row[name] == 'True' for row, _ in pairs]):.0f} %"

    def ratio(name: str) -> str:
        logs = [np.log(float(row[name]) / float(full[name])) for row, full in pairs]
        return f"{np.exp(np.mean(logs)):.3f}"

    rand = np.median([float(row["rand"]) for row, _ in pairs])
    return [
        share("same_feature"), share("same_root"), f"{rand:.2f}", ratio("train_loss"),
        ratio("valid_loss"),
    ]  # fmt: skip
