"""The host's bins arrive unchanged, for every kind of Dataset."""

from __future__ import annotations

import json

import numpy as np
import pytest

lgb = pytest.importorskip("lightgbm")

import pandas as pd  # noqa: E402
import scipy.sparse as sp  # noqa: E402
from fullhess_lightgbm.binary import LayoutError, parse_binary  # noqa: E402
from fullhess_lightgbm.data import avoid_bundling, read_dataset, to_binned  # noqa: E402
from fullhess_lightgbm.export import to_lightgbm  # noqa: E402
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from random_trees import stump  # noqa: E402

from fullhess import Ensemble  # noqa: E402

QUIET = {"verbose": -1, "min_data_in_bin": 1, "min_data_in_leaf": 1}


def mixed(rng, n=700):
    """Numbers of every kind; columns 5 and 6 are made to be categorical."""
    X = rng.normal(size=(n, 9))
    X[rng.random(n) < 0.2, 0] = np.nan
    X[:, 1] = np.where(rng.random(n) < 0.6, 0.0, X[:, 1])
    X[:, 2] = rng.integers(-3, 4, n)
    X[rng.random(n) < 0.05, 3] = np.inf
    X[rng.random(n) < 0.05, 3] = -np.inf
    X[:, 4] = np.where(rng.random(n) < 0.5, np.nan, rng.choice([0.0, 1e-36, -1e-36, 2.0], n))
    X[:, 5] = rng.choice([-1, 0, 1, 2, 3, 7, 900, np.nan], n)
    X[:, 6] = np.minimum(rng.geometric(0.05, n), 70) + 0.5
    X[:, 7] = 3.0
    return X, rng.integers(0, 3, n).astype(float)


def host_codes(dataset, path):
    """(n, d) bins as LightGBM's own debug dump prints them, -1 for an unused feature."""
    dataset._dump_text(path)
    lines = path.read_text().splitlines()
    n, d = dataset.num_data(), dataset.num_feature()
    rows = [line.rstrip(", ").split(",") for line in lines if line][-n:]
    codes = [[-1 if cell.strip() == "NA" else int(cell) for cell in row] for row in rows]
    table = np.array(codes)
    assert table.shape == (n, d)
    return table


def expected_codes(dataset, table):
    """The engine's code of every host bin, from the documentation of ``data``."""
    stored = parse_binary_of(dataset)
    out = np.zeros_like(table)
    for j, mapper in enumerate(stored.mappers):
        column = table[:, j]
        if mapper is None:
            assert (column == -1).all()
        elif mapper.categories is not None:
            out[:, j] = np.where(column == 0, mapper.n_bins - 1, column - 1)
        else:
            last = int(np.isfinite(mapper.upper[: mapper.n_bins - 1]).sum())
            last -= mapper.missing_type == 2 and np.isfinite(mapper.upper[mapper.n_bins - 2])
            missing = {0: -1, 1: mapper.default_bin, 2: mapper.n_bins - 1}[mapper.missing_type]
            out[:, j] = np.where(column == missing, last + 1, np.minimum(column, last))
    return out


def parse_binary_of(dataset):
    from fullhess_lightgbm.data import _stored_bins

    return _stored_bins(dataset, None)


def check(dataset, tmp_path, raw=None):
    """Codes against the host's dump and, given raw values, against our own encoding."""
    dataset.construct()
    binned = to_binned(dataset)
    table = host_codes(dataset, tmp_path / "dump.txt")
    assert np.array_equal(binned.codes, expected_codes(dataset, table))
    if raw is not None:
        assert np.array_equal(binned.binning.encode(raw).codes, binned.codes)
    return binned


OPTIONS = {
    "plain": {},
    "no bundles": {"enable_bundle": False},
    "zero as missing": {"zero_as_missing": True},
    "no missing": {"use_missing": False},
    "few bins": {"max_bin": 15},
    "many bins": {"max_bin": 1023},
    "bins by feature": {"max_bin_by_feature": [9, 20, 30, 4, 5, 11, 60, 8, 3]},
    "no filter": {"feature_pre_filter": False},
    "small sample": {"bin_construct_sample_cnt": 50},
    "wide bins": {"min_data_in_bin": 40},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dense_data_keep_every_bin(rng, tmp_path, options, dtype):
    X, y = mixed(rng)
    X = X.astype(dtype)
    data = lgb.Dataset(X, y, categorical_feature=[5, 6], params={**QUIET, **options})
    avoid_bundling(data)
    binned = check(data, tmp_path, X.astype(np.float64))
    assert binned.binning.features.categorical[[5, 6]].all()
    if not {"feature_pre_filter", "bin_construct_sample_cnt"} & set(options):
        assert binned.binning.n_bins[7] == 1  # constant: never split


@pytest.mark.parametrize("matrix", [sp.csr_matrix, sp.csc_matrix])
@pytest.mark.parametrize("options", [{}, {"zero_as_missing": True}, {"is_enable_sparse": False}])
def test_sparse_data_keep_every_bin(rng, tmp_path, matrix, options):
    X, y = mixed(rng)
    X[rng.random(X.shape) < 0.8] = 0.0
    data = lgb.Dataset(matrix(X), y, params={**QUIET, "enable_bundle": False, **options})
    check(data, tmp_path, X)


def test_wide_sparse_data_are_read_from_groups_of_many_values(rng, tmp_path):
    X = sp.random(400, 300, density=0.05, random_state=1, format="csr")
    y = rng.integers(0, 3, 400)
    data = lgb.Dataset(X, y, params={**QUIET, "enable_bundle": False})
    check(data, tmp_path, X.toarray())


def test_data_frames_with_categories_and_missing_values(rng, tmp_path):
    n = 500
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "b": pd.Categorical(rng.choice(["x", "y", "z", None], n)),
            "c": rng.integers(0, 5, n),
            "d": rng.random(n) < 0.5,
            "e f": rng.normal(size=n).astype(np.float32),
        }
    )
    data = lgb.Dataset(frame, rng.integers(0, 3, n), params=QUIET)
    avoid_bundling(data)
    binned = check(data, tmp_path)
    assert binned.binning.features.categorical.tolist() == [False, True, False, False, False]
    assert binned.binning.features.names == tuple(data.get_feature_name())


def test_arrow_tables(rng, tmp_path):
    pa = pytest.importorskip("pyarrow")
    if lgb.__version__ < "4.7":
        pytest.importorskip("cffi")  # how older versions read Arrow
    X, y = mixed(rng)
    table = pa.table({f"c{j}": X[:, j] for j in range(X.shape[1])})
    data = lgb.Dataset(table, y, params={**QUIET, "enable_bundle": False})
    check(data, tmp_path, X)


def test_validation_data_and_subsets_have_the_bins_of_their_reference(rng, tmp_path):
    X, y = mixed(rng)
    other, label = mixed(rng, 123)
    data = lgb.Dataset(X, y, categorical_feature=[5, 6], params={**QUIET, "enable_bundle": False})
    valid = data.create_valid(other, label)
    binned = check(data, tmp_path, X)
    shared = check(valid, tmp_path, other)
    rows = np.sort(rng.choice(len(X), 200, replace=False))
    part = check(data.subset(rows.tolist()), tmp_path, X[rows])
    assert shared.binning.same_as(binned.binning) and part.binning.same_as(binned.binning)
    assert np.array_equal(part.codes, binned.codes[rows])


def test_forced_bins_and_binary_files(rng, tmp_path):
    X, y = mixed(rng)
    forced = tmp_path / "forced.json"
    forced.write_text(json.dumps([{"feature": 2, "bin_upper_bound": [-1.5, 0.25, 2.5]}]))
    params = {**QUIET, "forcedbins_filename": str(forced), "max_bin": 6, "enable_bundle": False}
    data = lgb.Dataset(X, y, params=params)
    binned = check(data, tmp_path, X)
    assert {-1.5, 0.25, 2.5} <= set(binned.binning.cuts[2].tolist())
    data.save_binary(tmp_path / "saved.bin")
    again = lgb.Dataset(str(tmp_path / "saved.bin"), params=params)
    assert np.array_equal(to_binned(again).codes, binned.codes)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_every_split_of_the_bins_is_a_split_of_the_values(rng, options):
    """For each cut, category and direction of missing values, the host predicts by raw values
    what the engine says by bins."""
    X, y = mixed(rng, 300)
    params = {**QUIET, "enable_bundle": False, "max_bin": 12, **options}
    binned = to_binned(lgb.Dataset(X, y, categorical_feature=[5, 6], params=params))
    trees = []
    for j, (cuts, codes) in enumerate(
        zip(binned.binning.cuts, binned.binning.categories, strict=True)
    ):
        if codes is not None:
            sets = [codes[:1], codes[1:], codes[::2]]
            splits = [{"categories": tuple(np.sort(c).tolist())} for c in sets if len(c)]
        else:
            splits = [
                {"threshold": float(cut), "default_left": left}
                for cut in [*cuts[:40], np.inf]
                for left in (False, True)
            ]
        trees += [stump(feature=[j, -1, -1], **split) for split in splits]
    model = Ensemble(tuple(trees), np.zeros(1), binned.binning.features, "identity")
    by_values = to_lightgbm(model).predict(X, pred_leaf=True)
    assert np.array_equal(by_values, model.apply(binned))
    assert np.array_equal(by_values, model.apply(X))


def test_files_and_sequences(rng, tmp_path):
    X, y = mixed(rng, 200)
    X = np.nan_to_num(X, posinf=9.0, neginf=-9.0)[:, :4]
    path = tmp_path / "data.csv"
    np.savetxt(path, np.column_stack([y, X]), delimiter=",", fmt="%.17g")
    params = {**QUIET, "enable_bundle": False}
    expected = to_binned(lgb.Dataset(X, y, params=params)).codes
    precise = {**params, "precise_float_parser": True}
    assert np.array_equal(to_binned(lgb.Dataset(str(path), params=precise)).codes, expected)

    class Rows(lgb.Sequence):
        batch_size = 50

        def __getitem__(self, rows):
            return X[rows]

        def __len__(self):
            return len(X)

    assert np.array_equal(to_binned(lgb.Dataset(Rows(), y, params=params)).codes, expected)
    parts = lgb.Dataset([X[:80], X[80:]], y, params=params)
    assert np.array_equal(to_binned(parts).codes, expected)


def bundles(rng, n=4000, free_raw_data=True):
    """One-hot columns with a few rows where two are set: what the host may lose."""
    X = np.zeros((n, 12))
    X[np.arange(n), rng.integers(0, 12, n)] = rng.integers(1, 4, n)
    X[rng.random(n) < 0.0005, 3] = 2.0
    y = rng.integers(0, 3, n)
    return X, lgb.Dataset(X, y, params=QUIET, free_raw_data=free_raw_data)


def test_bundled_data_are_refused_when_nothing_better_can_be_had(rng):
    _, data = bundles(rng)
    data.construct()
    assert parse_binary_of(data).bundled
    with pytest.raises(ValueError, match="enable_bundle"):
        to_binned(data)


def test_bundles_are_undone_while_raw_data_are_there(rng, tmp_path):
    X, data = bundles(rng, free_raw_data=False)
    data.construct()
    assert parse_binary_of(data).bundled
    binned = to_binned(data)
    assert np.array_equal(binned.binning.encode(X).codes, binned.codes)
    part = data.subset(list(range(0, 4000, 3)))
    assert np.array_equal(to_binned(part).codes, binned.codes[::3])


def test_bundles_are_avoided_before_construction(rng, tmp_path):
    X, data = bundles(rng)
    avoid_bundling(data)
    check(data, tmp_path, X)


@given(st.integers(0, 10**6), st.integers(1, 60), st.sampled_from(list(OPTIONS.values())))
def test_random_small_data_keep_every_bin(seed, n, options):
    rng = np.random.default_rng(seed)
    X = rng.choice([np.nan, 0.0, -0.0, 1.0, -1.0, 1e-36, 1e35, 2.5, 7.0], size=(n, 9))
    X[:, 8] = rng.normal(size=n)
    params = {**QUIET, **options, "enable_bundle": False}
    data = lgb.Dataset(X, np.zeros(n), categorical_feature=[5], params=params)
    binned = to_binned(data)
    assert np.array_equal(binned.binning.encode(X).codes, binned.codes)


def test_every_damage_of_the_file_is_noticed_or_harmless(rng):
    X, y = mixed(rng, 60)
    data = lgb.Dataset(X, y, params={**QUIET, "enable_bundle": False}).construct()
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        data.save_binary(f"{folder}/x")
        good = Path(f"{folder}/x").read_bytes()
    parse_binary(good)
    for cut in (0, 10, 64, len(good) // 2, len(good) - 1):
        with pytest.raises(LayoutError, match=r"4\.5 to 4\.7"):
            parse_binary(good[:cut])
    with pytest.raises(LayoutError):
        parse_binary(good + bytes(8))
    for at in rng.integers(0, len(good), 300):
        bad = bytearray(good)
        bad[at] ^= 1 << int(rng.integers(8))
        try:
            stored = parse_binary(bytes(bad))
        except LayoutError:
            continue
        for mapper, column in zip(stored.mappers, stored.columns, strict=True):
            assert mapper is None or column.max() < mapper.n_bins


def test_other_objects_are_refused():
    with pytest.raises(TypeError, match=r"lightgbm\.Dataset"):
        to_binned(np.zeros((3, 2)))


def test_feature_infos_are_the_hosts(rng):
    X, y = mixed(rng)
    data = lgb.Dataset(X, y, categorical_feature=[5], params={**QUIET, "enable_bundle": False})
    model = lgb.train({**QUIET, "num_leaves": 3}, data, 1).model_to_string()
    infos = read_dataset(data).infos
    line = next(line for line in model.splitlines() if line.startswith("feature_infos="))
    assert line == "feature_infos=" + " ".join(infos)


def test_reading_says_nothing_and_leaves_the_level_of_messages_alone(rng, capfd):
    X, y = mixed(rng, 100)
    for level, expected in ((1, True), (-1, False)):
        data = lgb.Dataset(X, y, init_score=np.zeros(100), params={**QUIET, "verbose": level})
        data.construct()
        capfd.readouterr()
        to_binned(data)
        assert capfd.readouterr() == ("", "")
        other = lgb.Dataset(X, y, params={"min_data_in_leaf": 1, "verbose": level}).construct()
        lgb.train({"verbose": level}, other, 1)
        assert bool(capfd.readouterr().out) == expected
