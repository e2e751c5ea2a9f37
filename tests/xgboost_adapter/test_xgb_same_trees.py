"""With XGBoost's own curvature the trees are XGBoost's own trees.

``hessian="upper_bound"`` (2p(1 − p), the rule of XGBoost 3.4), one plain Newton step and
the quadratic gain are what ``multi_strategy="multi_output_tree"`` does. Then every split
is the same and every leaf agrees to 1e-5: nothing but the curvature sets us apart.

Where equality must not be expected:

* the default direction of a split whose node has no missing values: both directions
  score the same, and XGBoost keeps whichever its float sums favour;
* splits of equal score, and nearly equal ones: the sums are made in another order;
* the cut inside a gap without rows where missing values go left: XGBoost then scans from
  above and meets the gap's other end first, which sends the same rows the same way;
* XGBoost 3.2, whose ``min_child_weight`` never blocks a split of vector leaves, unless it
  is zero;
* categorical columns of more than ``max_cat_to_onehot`` categories, which are put in
  another order, and every kind of sampling, which draws other numbers.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from sklearn import datasets

xgboost = pytest.importorskip("xgboost")

from fullhess_xgboost.host import AT_LEAST_3_4  # noqa: E402

import fullhess.xgboost as xgb  # noqa: E402

OURS = {"hessian": "upper_bound", "leaf_solver": "newton", "split_gain": "quadratic"}
ROUNDS = 5


def embedded():
    """Name to (X, y) of the data sets that come with scikit-learn, and a generated one."""
    made = datasets.make_classification(
        3000, 12, n_informative=8, n_classes=5, random_state=1, flip_y=0.1
    )
    holes = made[0].copy()
    holes[np.random.default_rng(0).random(holes.shape) < 0.2] = np.nan
    return {
        "iris": datasets.load_iris(return_X_y=True),
        "wine": datasets.load_wine(return_X_y=True),
        "digits": datasets.load_digits(return_X_y=True),
        "generated": made,
        "missing values": (holes, made[1]),
    }


def from_files():
    """Names of further sets in the directory of the environment variable FULLHESS_DATA."""
    folder = os.environ.get("FULLHESS_DATA")
    wanted = ("pendigits", "satimage", "segment", "letter", "covertype", "shuttle", "yeast")
    return [name for name in wanted if folder and (Path(folder) / f"{name}.npz").exists()]


def load_file(name):
    with np.load(Path(os.environ["FULLHESS_DATA"]) / f"{name}.npz", allow_pickle=False) as file:
        X, y = file["X"][:20_000].astype(np.float32), file["y"][:20_000]
    return X, np.unique(y, return_inverse=True)[1]


def structure(booster):
    """Splits (feature, condition) and leaves of all trees, in one order of walking."""
    model = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]
    splits, leaves = [], []
    for number, tree in enumerate(model["trees"]):
        k = int(tree["tree_param"]["size_leaf_vector"])
        stack = [0]
        while stack:
            node = stack.pop()
            left, right = tree["left_children"][node], tree["right_children"][node]
            if left == -1:
                leaves.append(tree["leaf_weights"][right * k : (right + 1) * k])
            else:
                condition = float(np.float32(tree["split_conditions"][node]))
                splits.append((number, tree["split_indices"][node], condition))
                stack += [right, left]
    return splits, np.array(leaves)


def both(X, y, **params):
    """The host's model and ours, and the data."""
    params = {
        "objective": "multi:softprob",
        "num_class": int(y.max()) + 1,
        "multi_strategy": "multi_output_tree",
        "nthread": 1,
        **({} if AT_LEAST_3_4 else {"min_child_weight": 0}),
        **params,
    }
    dtrain = xgb.QuantileDMatrix(X, label=y)
    host = xgboost.train(params, dtrain, ROUNDS)
    return host, xgb.train({**params, **OURS}, dtrain, ROUNDS), dtrain


def assert_same_trees(X, y, **params):
    host, ours = (structure(booster) for booster in both(X, y, **params)[:2])
    assert ours[0] == host[0]
    assert np.abs(ours[1] - host[1]).max() < 1e-5


@pytest.mark.parametrize("name", sorted(set(embedded()) - {"missing values"}))
def test_trees_are_the_hosts_on_embedded_data(name):
    assert_same_trees(*embedded()[name])


def test_trees_send_every_row_where_the_hosts_do_with_missing_values():
    host, ours, dtrain = both(*embedded()["missing values"])
    features = [[split[:2] for split in structure(booster)[0]] for booster in (host, ours)]
    assert features[0] == features[1]
    margins = [booster.predict(dtrain, output_margin=True) for booster in (host, ours)]
    assert margins[0] == pytest.approx(margins[1], abs=1e-5)


@pytest.mark.parametrize("name", from_files())
def test_trees_are_the_hosts_on_data_from_files(name):
    assert_same_trees(*load_file(name))


@pytest.mark.parametrize(
    "params",
    [
        {"max_depth": 3, "eta": 1.0},
        {"lambda": 10.0},
        {"gamma": 5.0},
        {"grow_policy": "lossguide", "max_leaves": 12, "max_depth": 0},
        pytest.param(
            {"max_delta_step": 0.3},
            marks=pytest.mark.skipif(not AT_LEAST_3_4, reason="XGBoost 3.2: not in the gain"),
        ),
        {"alpha": 2.0},
        pytest.param(
            {"min_child_weight": 20.0},
            marks=pytest.mark.skipif(not AT_LEAST_3_4, reason="XGBoost 3.2 ignores it"),
        ),
        pytest.param(
            {"monotone_constraints": "(1,-1,0,1)"},
            marks=pytest.mark.skipif(not AT_LEAST_3_4, reason="not in XGBoost 3.2"),
        ),
        pytest.param(
            {"interaction_constraints": "[[0, 1, 2], [2, 3, 4, 5]]"},
            marks=pytest.mark.skipif(not AT_LEAST_3_4, reason="not in XGBoost 3.2"),
        ),
    ],
    ids=lambda params: ",".join(params),
)
def test_parameters_mean_what_they_mean_to_the_host(params):
    assert_same_trees(*embedded()["generated"], **params)


@pytest.mark.skipif(not AT_LEAST_3_4, reason="not in XGBoost 3.2")
def test_one_hot_categories_are_the_hosts():
    rng = np.random.default_rng(5)
    X = rng.integers(0, 4, (1500, 3)).astype(np.float32)
    y = ((X[:, 0] == 2) + (X[:, 1] == 1) * 1 + (rng.random(1500) < 0.1)).astype(int) % 3
    types = ["c", "c", "q"]
    params = {"objective": "multi:softprob", "num_class": 3, "multi_strategy": "multi_output_tree"}
    dtrain = xgb.QuantileDMatrix(X, label=y, feature_types=types, enable_categorical=True)
    host = xgboost.train(params | {"max_cat_to_onehot": 8}, dtrain, 3)
    ours = xgb.train({**params, **OURS, "max_cat_to_onehot": 8}, dtrain, 3)
    margins = [b.predict(xgb.DMatrix(X, feature_types=types, enable_categorical=True),
                         output_margin=True) for b in (host, ours)]  # fmt: skip
    assert margins[0] == pytest.approx(margins[1], abs=1e-5)
