"""Codes of XGBoost's matrices: a split on codes is XGBoost's own split on raw values."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

xgboost = pytest.importorskip("xgboost")

import fullhess_xgboost.data  # noqa: E402
from fullhess_xgboost import XGBClassifier, to_binned, to_xgboost  # noqa: E402
from fullhess_xgboost.data import HostData, keep_values  # noqa: E402

from fullhess import Ensemble, Tree  # noqa: E402


def stump(feature, threshold, default_left, codes=()):
    """A tree of one split."""
    return Tree(
        feature=[feature, -1, -1],
        threshold=[np.nan if len(codes) else threshold, np.nan, np.nan],
        default_left=[default_left, False, False],
        left=[1, -1, -1],
        right=[2, -1, -1],
        leaf=[-1, 0, 1],
        gain=[1.0, 0.0, 0.0],
        cover=[2.0, 1.0, 1.0],
        count=[2, 1, 1],
        category_offsets=[0, len(codes), len(codes), len(codes)],
        category_values=np.asarray(codes, np.int32),
        values=np.array([[0.0, 1.0], [1.0, 0.0]], np.float32),
    )


def every_split(binning):
    """One tree for every cut and default direction of every feature, and its (j, b)."""
    trees, where = [], []
    for j, cuts in enumerate(binning.cuts):
        codes = binning.categories[j]
        if codes is not None:
            for b in range(len(codes)):
                trees.append(stump(j, np.nan, False, codes[[b]]))
                where.append((j, b, False, True))
            continue
        for b, cut in enumerate([*cuts, np.inf]):
            for default_left in (False, True) if np.isfinite(cut) else (False,):
                trees.append(stump(j, float(cut), default_left))
                where.append((j, b, default_left, False))
    return trees, where


def goes_left(binned, j, b, default_left, categorical):
    codes = binned.codes[:, j].astype(np.int64)
    n_bins = int(binned.binning.n_bins[j])
    if categorical:
        return codes == b
    return np.where(codes == n_bins, default_left, codes <= b)


def assert_routes_alike(dtrain, others, max_bin=None):
    """Every split sends every row of every matrix where XGBoost's predictor sends it."""
    data = HostData.of(dtrain, max_bin, 1)
    trees, where = every_split(data.binned.binning)
    base = np.zeros(2, np.float32)
    model = Ensemble(tuple(trees), base, data.binned.binning.features, "softmax")
    booster = to_xgboost(
        model,
        "scalar",  # the class of a row tells where each tree sent it
        feature_names=data.feature_names or [],
        feature_types=data.feature_types or [],
        categories=data.categories,
    )
    for dmatrix in (dtrain, *others):
        binned = data.binned if dmatrix is dtrain else data.encode(dmatrix, "valid", 1)
        for t, split in enumerate(where):
            margin = booster.predict(dmatrix, output_margin=True, iteration_range=(t, t + 1))
            assert np.array_equal(margin[:, 1] == 1.0, goes_left(binned, *split)), split


def numbers(rng, n=150):
    X = rng.normal(size=(n, 4)).astype(np.float32)
    X[:, 1] = np.round(X[:, 1] * 2)
    X[:, 2] = 1.5  # constant
    X[rng.random((n, 4)) < 0.15] = np.nan
    X[:, 3] = np.where(rng.random(n) < 0.5, 0.0, X[:, 3])
    return X


def wider(X, rng):
    """Values beyond the training data, on its cuts and next to them."""
    more = np.concatenate([X * 3, np.nextafter(X, np.float32(9)), np.nextafter(X, np.float32(-9))])
    more[rng.random(more.shape) < 0.1] = np.nan
    return np.concatenate([X, more, np.full((1, X.shape[1]), np.finfo(np.float32).max / 2)])


@pytest.mark.parametrize("kind", [xgboost.DMatrix, xgboost.QuantileDMatrix])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_routing_on_bins_is_routing_on_raw_values(kind, weighted, sparse, rng):
    X = numbers(rng)
    weight = rng.integers(0, 3, len(X)).astype(float) if weighted else None
    more = wider(X, rng)
    wrap = sp.csr_matrix if sparse else np.asarray
    options = {"max_bin": 12} if kind is xgboost.QuantileDMatrix else {}
    dtrain = kind(wrap(X), weight=weight, **options)
    others = [xgboost.DMatrix(wrap(more))]
    assert_routes_alike(dtrain, others, max_bin=12)


def test_a_value_named_missing_is_missing(rng):
    X = numbers(rng)
    X[np.isnan(X)] = -999.0
    dtrain = xgboost.DMatrix(X, missing=-999.0)
    binned = to_binned(dtrain, max_bin=16)
    assert ((binned.codes == binned.binning.n_bins) == (X == -999.0)).all()
    assert_routes_alike(dtrain, [], max_bin=8)


def test_cuts_are_the_ones_a_quantile_matrix_has(rng):
    X = rng.normal(size=(500, 3))
    weight = rng.random(500)
    plain = to_binned(xgboost.DMatrix(X, weight=weight), max_bin=20)
    quantile = to_binned(xgboost.QuantileDMatrix(X, weight=weight, max_bin=20))
    assert plain.binning.same_as(quantile.binning)
    assert np.array_equal(plain.codes, quantile.codes)
    assert plain.binning.n_bins.max() <= 20


def test_reading_a_matrix_twice_with_other_bins(rng):
    dtrain = xgboost.DMatrix(rng.normal(size=(300, 2)))
    assert to_binned(dtrain, max_bin=8).binning.n_bins.max() <= 8
    assert to_binned(dtrain, max_bin=64).binning.n_bins.max() > 8


@pytest.mark.parametrize("kind", [xgboost.DMatrix, xgboost.QuantileDMatrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_codes_from_the_array_are_those_from_the_matrix(kind, dtype, order, rng):
    X = rng.normal(size=(700, 3))
    X[:, 1] = np.round(X[:, 1], 1)
    X[:, 2] = np.nextafter(X[:, 1].astype(np.float32), np.float32(9)) - 1e-9  # round in float32
    X[rng.random(X.shape) < 0.1] = np.nan
    X = np.asarray(X, dtype, order=order)
    dmatrix = kind(X)
    from_matrix = to_binned(dmatrix)
    keep_values(dmatrix, X, np.nan)
    from_array = to_binned(dmatrix)
    assert from_array.binning.same_as(from_matrix.binning)
    assert np.array_equal(from_array.codes, from_matrix.codes)


def test_estimators_bin_the_array_they_are_given(rng, monkeypatch):
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 3, 200)
    X[rng.random(X.shape) < 0.1] = np.nan
    read_back = XGBClassifier(n_estimators=3, missing=-999.0)
    read_back.fit(np.where(np.isnan(X), -999.0, X), y)

    def fail(dmatrix):
        raise AssertionError("the values were read back")

    monkeypatch.setattr(fullhess_xgboost.data, "_read_back", fail)
    kept = XGBClassifier(n_estimators=3).fit(X, y, eval_set=[(X[:50], y[:50])], verbose=False)
    with pytest.raises(AssertionError, match="read back"):
        read_back.fit(X, y)
    assert not fullhess_xgboost.data._kept
    monkeypatch.undo()
    assert np.array_equal(
        kept.predict_proba(X), read_back.predict_proba(np.where(np.isnan(X), -999.0, X))
    )


def frame(rng, n=120, order=None):
    pd = pytest.importorskip("pandas")
    levels = ["low", "mid", "high", "top"]
    values = rng.choice(levels, n)
    data = pd.DataFrame(
        {
            "number": rng.normal(size=n),
            "level": pd.Categorical(values, categories=order or levels),
            "flag": rng.random(n) < 0.5,
            "count": rng.integers(0, 5, n),
        }
    )
    data.loc[::9, "number"] = np.nan
    data.loc[::11, "level"] = None
    return data


@pytest.mark.parametrize("kind", [xgboost.DMatrix, xgboost.QuantileDMatrix])
def test_frames_with_categories(kind, rng):
    pytest.importorskip("pyarrow")
    options = {"max_bin": 8} if kind is xgboost.QuantileDMatrix else {}
    dtrain = kind(frame(rng), enable_categorical=True, **options)
    other = frame(rng, order=["top", "low", "high", "mid"])
    other = xgboost.DMatrix(other, enable_categorical=True)
    data = HostData.of(dtrain, 8, 1)
    assert data.binned.binning.features.names == ("number", "level", "flag", "count")
    assert data.binned.binning.features.categorical.tolist() == [False, True, False, False]
    assert_routes_alike(dtrain, [other], max_bin=8)


def test_reordered_categories_of_a_quantile_matrix_are_matched_by_name(rng):
    pytest.importorskip("pyarrow")
    train, valid = frame(rng), frame(rng, order=["top", "low", "high", "mid"])
    dtrain = xgboost.QuantileDMatrix(train, enable_categorical=True)
    dvalid = xgboost.QuantileDMatrix(valid, ref=dtrain, enable_categorical=True)
    codes = HostData.of(dtrain, None, 1).encode(dvalid, "valid", 1).codes[:, 1]
    wanted = [{"low": 0, "mid": 1, "high": 2, "top": 3}.get(v, 4) for v in valid["level"]]
    assert codes.tolist() == wanted


def test_an_unknown_category_is_refused_by_name(rng):
    pytest.importorskip("pyarrow")
    dtrain = xgboost.DMatrix(frame(rng), enable_categorical=True)
    other = frame(rng)
    other["level"] = other["level"].cat.rename_categories({"mid": "medium"})
    dvalid = xgboost.DMatrix(other, enable_categorical=True)
    with pytest.raises(ValueError, match="'valid' has the category 'medium' in 'level'"):
        HostData.of(dtrain, None, 1).encode(dvalid, "valid", 1)


def test_arrow_tables(rng):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": rng.normal(size=60), "b": [None, 1.0, 2.0] * 20})
    dtrain = xgboost.DMatrix(table)
    assert to_binned(dtrain).binning.features.names == ("a", "b")
    assert_routes_alike(dtrain, [], max_bin=8)


def test_quantile_matrix_needs_the_cuts_of_the_training_data(rng):
    data = HostData.of(xgboost.QuantileDMatrix(rng.normal(size=(50, 2))), None, 1)
    with pytest.raises(ValueError, match=r"ref=dtrain"):
        data.encode(xgboost.QuantileDMatrix(rng.normal(size=(50, 2))), "valid", 1)


def test_matrix_of_other_width_is_refused(rng):
    data = HostData.of(xgboost.DMatrix(rng.normal(size=(50, 2))), None, 1)
    with pytest.raises(ValueError, match="'valid' has 3 features, the training data 2"):
        data.encode(xgboost.DMatrix(rng.normal(size=(50, 3))), "valid", 1)


def test_quantile_matrix_with_another_max_bin_is_refused(rng):
    dtrain = xgboost.QuantileDMatrix(rng.normal(size=(50, 2)), max_bin=16)
    with pytest.raises(ValueError, match=r"max_bin=32, but .* built with max_bin=16"):
        to_binned(dtrain, max_bin=32)


def test_arrays_are_not_matrices(rng):
    with pytest.raises(TypeError, match=r"expected an xgboost\.DMatrix .* got ndarray"):
        to_binned(rng.normal(size=(5, 2)))
