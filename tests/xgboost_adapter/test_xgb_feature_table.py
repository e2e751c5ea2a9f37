"""What XGBoost and its neighbours can do with an exported model, feature by feature.

Every feature is tried on four kinds of models. Where XGBoost itself cannot do it with
vector leaves, the table names the error it raises; everything else must work, and give
the right numbers.
"""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_trees import random_tree, same_bits

from fullhess import Binning, Ensemble, FeatureSpace

xgboost = pytest.importorskip("xgboost")

from fullhess_xgboost.export import to_xgboost  # noqa: E402

OLD = tuple(map(int, xgboost.__version__.split(".")[:2])) < (3, 4)
KINDS = ("vector", "vector+categorical", "scalar", "scalar+categorical")
N_CLASSES, N_ROUNDS, N_FEATURES, N_VALUES = 3, 6, 4, 5

MULTI_TARGET = "IsMultiTarget"
NOT_YET = "support for multi-target tree is not yet implemented"


@dataclass(frozen=True)
class Case:
    """An exported model with the rows to try it on; values are 0 to 4 or missing."""

    kind: str
    model: Ensemble
    booster: Any
    X: np.ndarray[Any, Any]
    y: np.ndarray[Any, Any]

    @property
    def vector(self) -> bool:
        return self.kind.startswith("vector")

    @property
    def loses_categories(self) -> bool:
        """Whether this XGBoost breaks the model when it saves it."""
        return OLD and self.kind == "vector+categorical"

    @property
    def feature_types(self) -> list[str]:
        return ["c" if categorical else "q" for categorical in self.model.features.categorical]

    def data(self, **options: Any) -> Any:
        return xgboost.DMatrix(
            self.X, feature_types=self.feature_types, enable_categorical=True, **options
        )

    def labelled(self) -> Any:
        return self.data(label=self.y)

    def margins(self, booster: Any, **options: Any) -> Any:
        return booster.predict(self.data(), output_margin=True, **options)

    def safe_to_save(self) -> Any:
        """A booster that survives saving: what the default layout is for."""
        return to_xgboost(self.model) if self.loses_categories else self.booster


@cache
def make_case(kind: str) -> Case:
    rng = np.random.default_rng(11)
    categorical = np.arange(N_FEATURES) == (0 if "categorical" in kind else -1)
    cuts = tuple(np.empty(0) if is_set else np.arange(1.0, N_VALUES) for is_set in categorical)
    categories = tuple(np.arange(N_VALUES) if is_set else None for is_set in categorical)
    features = FeatureSpace.of(N_FEATURES, "<", categorical=categorical)
    binning = Binning(features, cuts, categories)
    trees = tuple(random_tree(rng, binning, N_CLASSES, 8, np.float32) for _ in range(N_ROUNDS))
    model = Ensemble(trees, rng.normal(size=N_CLASSES).astype(np.float32), features, "softmax")
    X = rng.integers(0, N_VALUES, (100, N_FEATURES)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        booster = to_xgboost(model, "vector" if kind.startswith("vector") else "scalar")
    warned = any("loses the categorical splits" in str(warning.message) for warning in caught)
    assert warned == (OLD and kind == "vector+categorical")
    return Case(kind, model, booster, X, rng.integers(0, N_CLASSES, len(X)))


Check = Callable[[Case, Path], None]
TABLE: list[tuple[Check, dict[str, str]]] = []


def feature(**errors: str) -> Callable[[Check], Check]:
    """Add a row: keys ``<kind>_<old or new>`` with the error to expect; none: it works.

    The kind ``vector`` stands for both vector kinds, ``vector_categorical`` for one.
    """

    def add(check: Check) -> Check:
        TABLE.append((check, errors))
        return check

    return add


def expected_error(errors: dict[str, str], case: Case) -> str | None:
    version = "old" if OLD else "new"
    kinds = [case.kind.replace("+", "_"), case.kind.split("+")[0]]
    return next((errors[f"{k}_{version}"] for k in kinds if f"{k}_{version}" in errors), None)


# Predictions


@feature()
def predict(case: Case, tmp_path: Path) -> None:
    assert same_bits(case.margins(case.booster), case.model.predict_raw(case.X))
    probability = case.booster.predict(case.data())
    np.testing.assert_allclose(probability, case.model.predict(case.X), atol=1e-6)


@feature()
def predict_with_base_margin(case: Case, tmp_path: Path) -> None:
    base_margin = np.random.default_rng(0).normal(size=(len(case.X), 3)).astype(np.float32)
    data = case.data(base_margin=base_margin)
    expected = case.model.predict_raw(case.X, base_margin=base_margin)
    assert same_bits(case.booster.predict(data, output_margin=True), expected)


@feature()
def predict_with_iteration_range(case: Case, tmp_path: Path) -> None:
    expected = case.model.predict_raw(case.X, rounds=slice(2, 5))
    assert same_bits(case.margins(case.booster, iteration_range=(2, 5)), expected)


@feature()
def inplace_predict(case: Case, tmp_path: Path) -> None:
    margins = case.booster.inplace_predict(case.X, predict_type="margin")
    assert same_bits(np.asarray(margins), case.model.predict_raw(case.X))


@feature()
def predict_on_quantised_data(case: Case, tmp_path: Path) -> None:
    data = xgboost.QuantileDMatrix(
        case.X, feature_types=case.feature_types, enable_categorical=True
    )
    margins = case.booster.predict(data, output_margin=True)
    assert same_bits(margins, case.model.predict_raw(case.X))


@feature()
def predict_leaf(case: Case, tmp_path: Path) -> None:
    leaves = case.booster.predict(case.data(), pred_leaf=True)
    assert leaves.shape == (len(case.X), N_ROUNDS * (1 if case.vector else N_CLASSES))


@feature(vector_old=MULTI_TARGET)
def predict_contributions(case: Case, tmp_path: Path) -> None:
    contributions = case.booster.predict(case.data(), pred_contribs=True)
    assert contributions.shape == (len(case.X), N_CLASSES, N_FEATURES + 1)
    np.testing.assert_allclose(contributions.sum(axis=2), case.margins(case.booster), atol=1e-4)


@feature(vector_old=MULTI_TARGET, vector_new=NOT_YET)
def predict_approximate_contributions(case: Case, tmp_path: Path) -> None:
    contributions = case.booster.predict(case.data(), pred_contribs=True, approx_contribs=True)
    np.testing.assert_allclose(contributions.sum(axis=2), case.margins(case.booster), atol=1e-4)


@feature(vector_old=MULTI_TARGET)
def predict_interactions(case: Case, tmp_path: Path) -> None:
    interactions = case.booster.predict(case.data(), pred_interactions=True)
    total = interactions.sum(axis=(2, 3))
    np.testing.assert_allclose(total, case.margins(case.booster), atol=1e-4)


# Importances, dumps, plots


@feature()
def importances(case: Case, tmp_path: Path) -> None:
    copies = 1 if case.vector else N_CLASSES
    for kind in ("weight", "total_gain", "total_cover", "gain", "cover"):
        score = case.booster.get_score(importance_type=kind)
        theirs = np.array([score.get(f"f{j}", 0.0) for j in range(N_FEATURES)])
        if kind in ("weight", "total_gain"):  # our random covers do not add up, theirs must
            ours = case.model.importance(kind)  # type: ignore[arg-type]
            np.testing.assert_allclose(theirs, copies * ours, rtol=1e-5)
        assert (theirs > 0).all()


@feature()
def estimator_importances(case: Case, tmp_path: Path) -> None:
    classifier = xgboost.XGBClassifier(importance_type="total_gain")
    classifier.load_model(case.safe_to_save().save_raw("ubj"))
    gain = case.model.importance("total_gain")
    np.testing.assert_allclose(classifier.feature_importances_, gain / gain.sum(), rtol=1e-5)


@feature()
def plot_importance(case: Case, tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    axes = xgboost.plot_importance(case.booster)
    assert len(axes.patches) == N_FEATURES
    axes.figure.clf()


@feature()
def split_value_histogram(case: Case, tmp_path: Path) -> None:
    values = np.asarray(case.booster.get_split_value_histogram("f1", as_pandas=False))
    thresholds = np.concatenate([t.threshold[t.feature == 1] for t in case.model.trees])
    count = np.isfinite(thresholds).sum()  # a split by missing values has no place in it
    assert values[:, 1].sum() == count * (1 if case.vector else N_CLASSES)


@feature()
def dump(case: Case, tmp_path: Path) -> None:
    n_trees = N_ROUNDS * (1 if case.vector else N_CLASSES)
    for dump_format in ("text", "json", "dot"):
        trees = case.booster.get_dump(dump_format=dump_format)
        assert len(trees) == n_trees
        if dump_format == "json":
            # XGBoost prints the condition of a split by missing values as a bare inf.
            sound = [
                tree.replace('"split_condition": inf', '"split_condition": 1e39') for tree in trees
            ]
            assert all(json.loads(tree)["nodeid"] == 0 for tree in sound)


@feature()
def graphviz(case: Case, tmp_path: Path) -> None:
    pytest.importorskip("graphviz")
    assert "digraph" in str(xgboost.to_graphviz(case.booster))


@feature(vector_old=NOT_YET)
def dump_with_statistics(case: Case, tmp_path: Path) -> None:
    for tree in case.booster.get_dump(with_stats=True):
        assert "cover=" in tree


@feature(vector_old=NOT_YET)
def trees_to_dataframe(case: Case, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    frame = case.booster.trees_to_dataframe()
    n_leaves = sum(tree.n_leaves for tree in case.model.trees) * N_CLASSES
    assert (frame["Feature"] == "Leaf").sum() == n_leaves
    gain = frame.loc[frame["Feature"] == "Leaf", "Gain"]  # where XGBoost puts leaf values
    values = np.concatenate([tree.values.ravel() for tree in case.model.trees])
    np.testing.assert_allclose(np.sort(gain), np.sort(values), atol=1e-5)


# Copies


@feature()
def save_and_load(case: Case, tmp_path: Path) -> None:
    booster = case.safe_to_save()
    for suffix in ("json", "ubj"):
        booster.save_model(tmp_path / f"model.{suffix}")
        again = xgboost.Booster(model_file=tmp_path / f"model.{suffix}")
        assert same_bits(case.margins(again), case.model.predict_raw(case.X))


@feature()
def pickle_and_copy(case: Case, tmp_path: Path) -> None:
    booster = case.safe_to_save()
    for again in (pickle.loads(pickle.dumps(booster)), copy.deepcopy(booster), booster.copy()):
        assert same_bits(case.margins(again), case.model.predict_raw(case.X))


@feature()
def slices(case: Case, tmp_path: Path) -> None:
    booster = case.safe_to_save()
    part = booster[1:4]
    assert part.num_boosted_rounds() == 3
    expected = case.model[1:4].predict_raw(case.X)
    assert same_bits(case.margins(part), expected)
    for i, single in enumerate(booster):
        expected = case.model[i : i + 1].predict_raw(case.X)
        assert same_bits(case.margins(single), expected)


# Training on


def continued(case: Case, params: dict[str, Any]) -> Any:
    params = {"objective": "multi:softprob", "num_class": N_CLASSES, **params}
    return xgboost.train(params, case.labelled(), 2, xgb_model=case.booster)


@feature(vector_categorical_old=NOT_YET, scalar_categorical_old=NOT_YET)
def train_on_with_vector_leaves(case: Case, tmp_path: Path) -> None:
    more = continued(case, {"multi_strategy": "multi_output_tree"})
    assert more.num_boosted_rounds() == N_ROUNDS + 2
    margins = case.margins(more, iteration_range=(0, N_ROUNDS))
    assert same_bits(margins, case.model.predict_raw(case.X))


@feature()
def train_on_with_scalar_leaves(case: Case, tmp_path: Path) -> None:
    more = continued(case, {"multi_strategy": "one_output_per_tree"})
    assert more.num_boosted_rounds() == N_ROUNDS + 2
    if not case.loses_categories:  # xgb.train copies the booster
        margins = case.margins(more, iteration_range=(0, N_ROUNDS))
        assert same_bits(margins, case.model.predict_raw(case.X))
        log_loss = [float(b.eval(case.labelled()).split(":")[1]) for b in (case.booster, more)]
        assert log_loss[1] < log_loss[0]


@feature(vector_old=MULTI_TARGET, vector_new=MULTI_TARGET)
def refresh(case: Case, tmp_path: Path) -> None:
    params = {"process_type": "update", "updater": "refresh", "refresh_leaf": True}
    params |= {"objective": "multi:softprob", "num_class": N_CLASSES, "tree_method": "exact"}
    fresh = xgboost.train(params, case.labelled(), N_ROUNDS, xgb_model=case.booster)
    assert fresh.num_boosted_rounds() == N_ROUNDS
    assert not same_bits(case.margins(fresh), case.margins(case.booster))


# Estimators, metrics, neighbours


@feature()
def classifier(case: Case, tmp_path: Path) -> None:
    case.safe_to_save().save_model(tmp_path / "model.ubj")
    loaded = xgboost.XGBClassifier()
    loaded.load_model(tmp_path / "model.ubj")
    probability = case.model.predict(case.X)
    np.testing.assert_allclose(loaded.predict_proba(case.X), probability, atol=1e-6)
    np.testing.assert_array_equal(loaded.predict(case.X), probability.argmax(axis=1))
    assert loaded.apply(case.X).shape[0] == len(case.X)


@feature()
def classifier_stops_at_the_best_iteration(case: Case, tmp_path: Path) -> None:
    stopped = case.model.with_trees(case.model.trees, best_iteration=2)
    to_xgboost(stopped, None if case.vector else "scalar").save_model(tmp_path / "model.ubj")
    loaded = xgboost.XGBClassifier()
    loaded.load_model(tmp_path / "model.ubj")
    assert loaded.best_iteration == 2
    expected = stopped.predict(case.X)
    np.testing.assert_allclose(loaded.predict_proba(case.X), expected, atol=1e-6)


@feature()
def metrics(case: Case, tmp_path: Path) -> None:
    case.booster.set_param({"eval_metric": "mlogloss"})
    value = float(case.booster.eval(case.labelled()).split(":")[1])
    probability = case.model.predict(case.X)[np.arange(len(case.X)), case.y]
    assert value == pytest.approx(-np.log(probability).mean(), rel=1e-5)


@feature(vector_old="vector-leaf is not yet supported", vector_new="vector-leaf")
def shap_values(case: Case, tmp_path: Path) -> None:
    shap = pytest.importorskip("shap")
    explainer = shap.TreeExplainer(case.booster, feature_perturbation="tree_path_dependent")
    values = explainer.shap_values(case.data())
    total = np.asarray(values).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, case.margins(case.booster), atol=1e-3)


@feature()
def treelite_predictions(case: Case, tmp_path: Path) -> None:
    treelite = pytest.importorskip("treelite")
    model = treelite.frontend.from_xgboost(case.safe_to_save())
    raw = treelite.gtil.predict(model, case.X, pred_margin=True).reshape(len(case.X), -1)
    np.testing.assert_allclose(raw, case.model.predict_raw(case.X), atol=1e-5)


@feature()
def dask_predictions(case: Case, tmp_path: Path) -> None:
    pytest.importorskip("dask.array")
    distributed = pytest.importorskip("distributed")
    import dask.array as da
    import xgboost.dask as dxgb

    booster = case.safe_to_save()
    with (
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            dashboard_address=None,
            local_directory=str(tmp_path),
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        X = da.from_array(case.X, chunks=(40, N_FEATURES))
        for function in (dxgb.predict, dxgb.inplace_predict):
            probability = function(client, booster, X).compute()
            np.testing.assert_allclose(probability, case.model.predict(case.X), atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*manually specified the `updater`")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("check", "errors"), TABLE, ids=[check.__name__ for check, _ in TABLE])
def test_feature(check: Check, errors: dict[str, str], kind: str, tmp_path: Path) -> None:
    case = make_case(kind)
    message = expected_error(errors, case)
    if message is None:
        check(case, tmp_path)
        return
    if "shap" in check.__name__:
        pytest.importorskip("shap")
    with pytest.raises((xgboost.core.XGBoostError, ValueError), match=message):
        check(case, tmp_path)
