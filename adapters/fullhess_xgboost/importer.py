"""XGBoost's models as ours.

Margins of the result are those of ``Booster.predict(..., output_margin=True)``, bit
for bit. A categorical value between -1 and 0 is the one exception: XGBoost calls it
invalid, here it is cut off to category 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from fullhess import Ensemble, FeatureSpace, Tree
from fullhess.tree_arrays import offsets_of

from .ubjson import decode, encode

__all__ = ["from_xgboost"]


def from_xgboost(booster: xgboost.Booster) -> Ensemble:
    """The booster's trees and intercept as an ``Ensemble`` with float32 margins.

    Every tree booster (``gbtree``) is read: trees with vector leaves, trees with scalar
    leaves (each becomes a vector tree that adds to one output), mixtures of the two,
    parallel trees, categorical splits. The link is softmax for ``multi:softprob`` and
    ``multi:softmax``, otherwise identity: predictions are then margins, for
    ``binary:logistic`` those of the positive class. An attribute ``best_iteration``
    becomes the model's, which predicts up to it like XGBoost's estimators do.

    Raises ValueError for ``dart`` and ``gblinear``, and for a categorical split that
    sends missing values the way of its listed categories.
    """
    if not isinstance(booster, xgboost.Booster):
        raise TypeError(f"expected an xgboost.Booster, got {type(booster).__name__}")
    learner = decode(booster.save_raw("ubj"))["learner"]
    gbtree = learner["gradient_booster"]
    _check_kind(gbtree)
    base_score = _base_margin(learner)
    features = _features(learner)
    model = gbtree["model"]
    trees = []
    for t, (source, group) in enumerate(zip(model["trees"], model["tree_info"], strict=True)):
        try:
            nodes = _HostTree.of(source)
            nodes.check(features)
            trees.append(nodes.tree(int(group), len(base_score)))
        except ValueError as error:
            raise ValueError(f"tree {t} of the booster: {error}") from error
    objective = learner["objective"]["name"]
    best = learner["attributes"].get("best_iteration")
    return Ensemble(
        trees=tuple(trees),
        base_score=base_score,
        features=features,
        link="softmax" if objective in ("multi:softprob", "multi:softmax") else "identity",
        metadata={"objective": objective},
        best_iteration=None if best is None else int(best),
        iteration_indptr=np.array(model["iteration_indptr"], np.int64),
    )


def _check_kind(gradient_booster: dict[str, Any]) -> None:
    name = gradient_booster["name"]
    if name != "gbtree":
        raise ValueError(f"only boosters of kind 'gbtree' can be imported, got {name!r}")
    if len(gradient_booster["model"].get("weight_drop", ())):
        raise ValueError("a booster trained with dropout (dart) cannot be imported")


def _base_margin(learner: dict[str, Any]) -> NDArray[np.float32]:
    """(n_outputs,) the margin XGBoost starts from: asked of it, with all trees removed.

    The base score it stores went through the objective's link, whose float32 logarithm
    cannot be repeated to the last bit elsewhere.
    """
    model = learner["gradient_booster"]["model"]
    bare = {
        **model,
        "trees": [],
        "tree_info": [],
        "iteration_indptr": [0],
        "gbtree_model_param": {**model["gbtree_model_param"], "num_trees": "0"},
    }
    param = dict(learner["learner_model_param"])
    if model["trees"]:
        param["boost_from_average"] = "0"  # without trees 1 means that the score is not set yet
    empty = {
        **learner,
        "attributes": {},
        "learner_model_param": param,
        "gradient_booster": {"name": "gbtree", "model": bare},
    }
    booster = xgboost.Booster()
    booster.load_model(bytearray(encode({"version": [3, 2, 0], "learner": empty})))
    row = np.zeros((1, int(learner["learner_model_param"]["num_feature"])), np.float32)
    margin = booster.predict(xgboost.DMatrix(row), output_margin=True, validate_features=False)
    return np.asarray(margin, np.float32).reshape(-1)


def _features(learner: dict[str, Any]) -> FeatureSpace:
    types = list(learner.get("feature_types", ()))
    n_features = int(learner["learner_model_param"]["num_feature"])
    categorical = np.array([kind == "c" for kind in types] or [False] * n_features)
    for tree in learner["gradient_booster"]["model"]["trees"]:  # types may not be stored
        categorical[tree["split_indices"][tree["categories_nodes"]]] = True
    return FeatureSpace.of(
        n_features,
        "<",
        names=list(learner.get("feature_names", ())) or None,
        categorical=categorical,
        absent="missing",
    )


@dataclass(frozen=True, eq=False)
class _HostTree:
    """The nodes of a stored tree that are in use, level by level.

    Pruning leaves deleted nodes behind, so not every stored one is.

    Attributes
    ----------
    fields : the stored tree.
    order : (n_nodes,) int64, stored numbers of the nodes, parents first.
    left, right : (n_nodes,) int32 children as positions in ``order``, in XGBoost's
        sense; -1 at a leaf.
    set_sizes : (n_nodes,) int64 number of listed categories.
    """

    fields: dict[str, Any]
    order: NDArray[np.int64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    set_sizes: NDArray[np.int64]

    @classmethod
    def of(cls, fields: dict[str, Any]) -> _HostTree:
        stored_left = fields["left_children"].astype(np.int64)
        stored_right = fields["right_children"].astype(np.int64)
        levels, level = [], np.zeros(1, np.int64)
        while len(level):
            levels.append(level)
            splits = level[stored_left[level] >= 0]
            level = np.column_stack([stored_left[splits], stored_right[splits]]).ravel()
        order = np.concatenate(levels)
        is_leaf = stored_left[order] < 0
        place = np.full(len(stored_left), -1, np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        sizes = np.zeros(len(stored_left), np.int64)
        sizes[fields["categories_nodes"]] = fields["categories_sizes"]
        return cls(
            fields=fields,
            order=order,
            left=np.where(is_leaf, -1, place[stored_left[order]]),
            # A leaf keeps its row of values where a split has its right child.
            right=np.where(is_leaf, -1, place[np.where(is_leaf, 0, stored_right[order])]),
            set_sizes=sizes[order],
        )

    def check(self, features: FeatureSpace) -> None:
        """Raise ValueError where our trees cannot say what this one does."""
        categorical = self.set_sizes > 0
        if (categorical & (self._stored("default_left") == 0)).any():
            raise ValueError(
                "a categorical split sends missing values the way of its listed categories; "
                "here they always go with the categories not listed. Give missing values a "
                "category of their own and train again"
            )
        numeric = (self.left >= 0) & ~categorical
        if features.categorical[self._stored("split_indices")[numeric]].any():
            raise ValueError(
                "a categorical feature is split without a set of categories. XGBoost before 3.4 "
                "loses the sets of trees with vector leaves when it saves them"
            )

    def tree(self, group: int, n_outputs: int) -> Tree:
        is_leaf = self.left < 0
        categorical = self.set_sizes > 0
        offsets, codes = self._sets()
        conditions = self._stored("split_conditions").astype(np.float64)
        return Tree(
            feature=np.where(is_leaf, -1, self._stored("split_indices")),
            threshold=np.where(is_leaf | categorical, np.nan, conditions),
            default_left=~is_leaf & ~categorical & (self._stored("default_left") != 0),
            # XGBoost's listed categories go right, ours left.
            left=np.where(categorical, self.right, self.left),
            right=np.where(categorical, self.left, self.right),
            leaf=np.where(is_leaf, np.cumsum(is_leaf) - 1, -1),
            gain=np.where(is_leaf, 0.0, np.nan_to_num(self._stored("loss_changes"))),
            cover=np.maximum(np.nan_to_num(self._stored("sum_hessian")), 0.0),
            count=np.zeros(len(self.order), np.int64),  # not stored
            category_offsets=offsets,
            category_values=codes,
            values=self._values(is_leaf, group, n_outputs),
        )

    def _stored(self, name: str) -> NDArray[Any]:
        return np.asarray(self.fields[name])[self.order]

    def _sets(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """(n_nodes + 1,) offsets, and the listed categories of each node, ascending."""
        first = np.zeros(len(self.fields["left_children"]), np.int64)
        first[self.fields["categories_nodes"]] = self.fields["categories_segments"]
        offsets = offsets_of(self.set_sizes)
        node = np.repeat(np.arange(len(self.order)), self.set_sizes)
        source = first[self.order][node] + np.arange(offsets[-1]) - offsets[node]
        codes = self.fields["categories"][source]
        return offsets.astype(np.int32), codes[np.lexsort([codes, node])]

    def _values(
        self, is_leaf: NDArray[np.bool_], group: int, n_outputs: int
    ) -> NDArray[np.float32]:
        """(n_leaves, n_outputs)"""
        width = int(self.fields["tree_param"]["size_leaf_vector"])
        if width > 1:
            rows = self._stored("right_children")[is_leaf]
            return np.asarray(self.fields["leaf_weights"].reshape(-1, width)[rows])
        # Adding -0.0 changes no number, not even the sign of a zero.
        values = np.full((np.count_nonzero(is_leaf), n_outputs), -0.0, np.float32)
        values[:, group] = self._stored("split_conditions")[is_leaf]
        return values
