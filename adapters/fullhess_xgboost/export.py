"""Our models as XGBoost's own: written in its model format, loaded by it.

The exported model gives the same margins as ``Ensemble.predict_raw``, bit for bit, on
dense input that XGBoost accepts: finite float32 or missing, categories as non-negative
codes. Entries not stored in a sparse matrix are missing for XGBoost, whatever the model
says of them. Leaf values of float64 models are rounded to float32, so their margins agree
up to that rounding; ``margin_dtype="float32"`` makes them equal. A model of two classes
written as one tree of differences agrees up to rounding too, and where a base margin
replaces its intercept, up to what the intercept lies beyond ±13.

A split of present from missing values has an infinite condition, as XGBoost 3.4 writes
it too. ``Booster.get_dump(dump_format="json")`` prints it as a bare ``inf``, which strict
JSON parsers refuse; every other format and dump is sound.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from fullhess import Ensemble, FeatureSpace, Tree

from .categories import encode_categories
from .host import AT_LEAST_3_4, VERSION, xgboost
from .host_trees import encode_trees, to_float32
from .ubjson import Encoded, encode, encode_items

__all__ = ["Layout", "TreeCache", "model_bytes", "to_xgboost"]

Layout = Literal["vector", "scalar"]
_Form = Literal["vector", "scalar", "difference"]

_OBJECTIVES = ("multi:softprob", "multi:softmax", "reg:squarederror", "binary:logistic")
_MAX_LOGIT = 13.0  # XGBoost cuts probabilities off at 1e-6 and 1 - 1e-6, that is at 13.8


class TreeCache:
    """Trees already encoded, for a caller that exports a growing model again and again.

    Pass the same one to every call. It keeps no tree alive, and forgets all when
    the features or the layout change.
    """

    def __init__(self) -> None:
        self._key: tuple[FeatureSpace, _Form] | None = None
        self._parts: WeakKeyDictionary[Tree, tuple[bytes, ...]] = WeakKeyDictionary()

    def encode(
        self, trees: Sequence[Tree], features: FeatureSpace, form: _Form
    ) -> list[tuple[bytes, ...]]:
        """Like ``encode_trees``."""
        if self._key is None or self._key[0] is not features or self._key[1] != form:
            self._key = (features, form)
            self._parts.clear()
        new = [tree for tree in dict.fromkeys(trees) if tree not in self._parts]
        parts = encode_trees(
            new, features, scalar=form == "scalar", difference=form == "difference"
        )
        self._parts.update(zip(new, parts, strict=True))
        return [self._parts[tree] for tree in trees]


def to_xgboost(
    model: Ensemble,
    layout: Layout | None = None,
    *,
    objective: str | None = None,
    feature_names: Sequence[str] | None = None,
    feature_types: Sequence[str] | None = None,
    categories: Sequence[tuple[str, Any]] | None = None,
    attributes: Mapping[str, str] | None = None,
) -> xgboost.Booster:
    """The model as an ``xgboost.Booster``.

    Parameters
    ----------
    model : what to export.
    layout : ``"vector"`` (trees with vector leaves, like ``multi_output_tree``) or
        ``"scalar"`` (a tree for each output with the same splits: for tools that
        know no vector leaves, such as shap). None: vector, but scalar where XGBoost
        before 3.4 would lose categorical splits of vector leaves when it saves them;
        and a softmax of two outputs becomes one tree of the difference under
        ``binary:logistic``, which is what ``XGBClassifier`` expects.
    objective : ``multi:softprob``, ``multi:softmax``, ``reg:squarederror`` or
        ``binary:logistic``. None: ``multi:softprob`` for a softmax model (for two
        outputs see ``layout``), else ``reg:squarederror`` with ``n_outputs`` targets.
    feature_names, feature_types : as ``DMatrix`` has them. None: the model's own names,
        unless they are just f0, f1, …; types only if there are categorical features.
    categories : one ``(name, values)`` for each feature, ``values`` being None or the
        categories in the order of their codes, as from
        ``DMatrix.get_categories(export_to_arrow=True).to_arrow()``. With them XGBoost
        recodes DataFrames whose categories are in another order.
    attributes : further attributes of the booster. ``best_iteration`` is set from the
        model if it has one.
    """
    booster = xgboost.Booster()
    booster.load_model(
        _encode_model(
            model,
            layout,
            objective,
            feature_names,
            feature_types,
            categories,
            attributes,
            TreeCache(),
        )
    )
    return booster


def model_bytes(
    model: Ensemble,
    layout: Layout | None = None,
    *,
    objective: str | None = None,
    feature_names: Sequence[str] | None = None,
    feature_types: Sequence[str] | None = None,
    categories: Sequence[tuple[str, Any]] | None = None,
    attributes: Mapping[str, str] | None = None,
    cache: TreeCache | None = None,
) -> bytearray:
    """The model in XGBoost's UBJSON format, for ``Booster.load_model`` or a ``.ubj`` file.

    Parameters as in ``to_xgboost``; ``cache`` saves encoding trees again.
    """
    return _encode_model(
        model,
        layout,
        objective,
        feature_names,
        feature_types,
        categories,
        attributes,
        TreeCache() if cache is None else cache,
    )


def _encode_model(
    model: Ensemble,
    layout: Layout | None,
    objective: str | None,
    feature_names: Sequence[str] | None,
    feature_types: Sequence[str] | None,
    categories: Sequence[tuple[str, Any]] | None,
    attributes: Mapping[str, str] | None,
    cache: TreeCache,
) -> bytearray:
    objective = _checked_objective(model, layout, objective)
    form = _form(model, layout, objective)
    base_score, trees = _start(model, form, objective)
    learner = {
        "attributes": _attributes(model, attributes),
        "feature_names": _feature_names(model.features, feature_names),
        "feature_types": _feature_types(model.features, feature_types),
        "learner_model_param": _learner_param(model, objective, base_score),
        "objective": _objective_block(objective, model.n_outputs),
        "gradient_booster": {
            "name": "gbtree",
            "model": _tree_block(model, cache.encode(trees, model.features, form), categories),
        },
    }
    return bytearray(encode({"version": [*VERSION, 0], "learner": learner}))


def _checked_objective(model: Ensemble, layout: Layout | None, objective: str | None) -> str:
    k = model.n_outputs
    if objective is None:
        if model.link == "identity":
            return "reg:squarederror"
        if k == 1:
            raise ValueError("a softmax of one output has no counterpart in XGBoost")
        return "binary:logistic" if k == 2 and layout is None else "multi:softprob"
    if objective not in _OBJECTIVES:
        raise ValueError(f"objective must be None or one of {_OBJECTIVES}, got {objective!r}")
    if objective.startswith("multi:") and k == 1:
        raise ValueError(f"{objective} needs at least two outputs, the model has one")
    if objective == "binary:logistic":
        if (model.link, k) not in (("softmax", 2), ("identity", 1)):
            raise ValueError(
                "binary:logistic needs a softmax model of two outputs or an identity model of "
                f"one, got {model.link} and {k}"
            )
        if layout is not None and k == 2:
            raise ValueError(
                "under binary:logistic two outputs become one tree of their difference; leave "
                f"layout at None instead of {layout!r}"
            )
    return objective


def _form(model: Ensemble, layout: Layout | None, objective: str) -> _Form:
    if layout not in (None, "vector", "scalar"):
        raise ValueError(f"layout must be None, 'vector' or 'scalar', got {layout!r}")
    if objective == "binary:logistic":
        return "difference" if model.n_outputs == 2 else "scalar"
    if model.n_outputs == 1:
        return "scalar"
    loses_categories = not AT_LEAST_3_4 and any(len(tree.category_values) for tree in model.trees)
    if layout is None:
        return "scalar" if loses_categories else "vector"
    if layout == "vector" and loses_categories:
        warnings.warn(
            f"XGBoost {xgboost.__version__} loses the categorical splits of trees with vector "
            "leaves when it saves, pickles or copies a model, and then predicts something else. "
            "Predictions of this booster itself are right. Use layout='scalar', or XGBoost 3.4",
            UserWarning,
            stacklevel=4,  # the caller of a public function
        )
    return layout


def _start(
    model: Ensemble, form: _Form, objective: str
) -> tuple[NDArray[np.float32], tuple[Tree, ...]]:
    """What XGBoost calls base_score, and the trees.

    Under binary:logistic that is a probability, near one too coarse for the margin it
    stands for, and XGBoost keeps it away from zero and one. What is missed is added to
    the first tree.
    """
    if objective != "binary:logistic":
        return to_float32(model.base_score, "the base score"), model.trees
    ends = model.base_score.astype(np.float64)
    margin = ends[1] - ends[0] if form == "difference" else ends[0]
    margin_kept = np.clip(margin, -_MAX_LOGIT, _MAX_LOGIT)
    probability = np.float32(1.0 / (1.0 + np.exp(-margin_kept)))
    missed = margin + np.log(np.float32(1.0) / probability - np.float32(1.0))
    if missed == 0.0 or not model.trees:
        return np.array([probability]), model.trees
    values = model.trees[0].values.copy()
    values[:, -1] += missed
    return np.array([probability]), (model.trees[0].with_values(values), *model.trees[1:])


def _attributes(model: Ensemble, attributes: Mapping[str, str] | None) -> dict[str, str]:
    result = {} if attributes is None else dict(attributes)
    for key, value in result.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"attributes must map strings to strings, got {key!r}: {value!r}")
    if model.best_iteration is not None:
        result.setdefault("best_iteration", str(model.best_iteration))
    return result


def _feature_names(features: FeatureSpace, names: Sequence[str] | None) -> list[str]:
    if names is None:
        generic = tuple(f"f{j}" for j in range(features.n_features))
        names = () if features.names == generic else features.names
    checked = _one_per_feature("feature_names", names, features)
    for name in checked:
        if set(name) & set("[]<"):
            raise ValueError(
                f"XGBoost allows no [, ] or < in the name of a feature, got {name!r}; give "
                "other feature_names, or [] for none"
            )
    return checked


def _feature_types(features: FeatureSpace, types: Sequence[str] | None) -> list[str]:
    if types is None:
        if not features.categorical.any():
            return []
        return ["c" if categorical else "q" for categorical in features.categorical]
    types = _one_per_feature("feature_types", types, features)
    for name, kind, categorical in zip(features.names, types, features.categorical, strict=False):
        if (kind == "c") != categorical:
            raise ValueError(
                f"feature {name!r} is {'' if categorical else 'not '}categorical in the model, "
                f"but its type is given as {kind!r}"
            )
    return types


def _one_per_feature(what: str, entries: Sequence[str], features: FeatureSpace) -> list[str]:
    if len(entries) not in (0, features.n_features):
        raise ValueError(
            f"{what} must have one entry for each of the {features.n_features} features, "
            f"got {len(entries)}"
        )
    return [str(entry) for entry in entries]


def _learner_param(
    model: Ensemble, objective: str, base_score: NDArray[np.float32]
) -> dict[str, str]:
    multiclass = objective.startswith("multi:")
    return {
        "base_score": "[" + ",".join(str(value) for value in base_score) + "]",
        "boost_from_average": "0",  # with 1 and no trees XGBoost takes the score for unset
        "num_class": str(model.n_outputs if multiclass else 0),
        "num_feature": str(model.features.n_features),
        "num_target": str(model.n_outputs if objective == "reg:squarederror" else 1),
    }


def _objective_block(objective: str, n_outputs: int) -> dict[str, Any]:
    if objective.startswith("multi:"):
        return {"name": objective, "softmax_multiclass_param": {"num_class": str(n_outputs)}}
    return {"name": objective, "reg_loss_param": {"scale_pos_weight": "1"}}


def _tree_block(
    model: Ensemble,
    parts: list[tuple[bytes, ...]],
    categories: Sequence[tuple[str, Any]] | None,
) -> dict[str, Any]:
    """The trees round by round; scalar ones of a round class by class, as XGBoost has them."""
    indptr = model.iteration_indptr.tolist()
    trees: list[bytes] = []
    info: list[int] = []
    for first, last in pairwise(indptr):
        for group, same_output in enumerate(zip(*parts[first:last], strict=True)):
            trees += same_output
            info += [group] * len(same_output)
    width = len(parts[0]) if parts else 1
    sizes = set(np.diff(model.iteration_indptr).tolist())
    return {
        "gbtree_model_param": {
            "num_parallel_tree": str(max(1, sizes.pop()) if len(sizes) == 1 else 1),
            "num_trees": str(len(trees)),
        },
        # Where there is no tree, XGBoost wants to see no round either.
        "iteration_indptr": [width * first for first in indptr] if trees else [0],
        "tree_info": info,
        "cats": encode_categories(model.features, categories),
        "trees": [
            Encoded(b"{" + encode_items({"id": i}) + tree + b"}") for i, tree in enumerate(trees)
        ],
    }
