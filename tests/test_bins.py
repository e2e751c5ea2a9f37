"""Raw values to bin codes: features.py, bins.py and the encoding kernel.

The oracle is ``np.searchsorted``: a code counts the cuts that a value has
passed, and a value equal to a cut has passed it for "<" but not for "<=".
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from fullhess.bins import MAX_BINS, BinnedMatrix, Binning
from fullhess.features import MISSING_NAN, MISSING_NONE, MISSING_ZERO, FeatureSpace, frozen
from fullhess.kernels.binning import ZERO_EPSILON

DTYPE = {"<": np.float32, "<=": np.float64}
SIDE = {"<": "right", "<=": "left"}
COMPARISONS = ["<", "<="]


def naive_codes(column, cuts, comparison, missing=MISSING_NAN):
    """One column's codes, value by value."""
    with np.errstate(over="ignore"):
        column = np.asarray(column).astype(DTYPE[comparison])
    cuts = np.asarray(cuts, DTYPE[comparison])
    codes = []
    for x in column:
        if np.isnan(x) and missing == MISSING_NONE:
            x = DTYPE[comparison](0)
        if np.isnan(x) or (missing == MISSING_ZERO and abs(float(x)) <= ZERO_EPSILON):
            codes.append(len(cuts) + 1)
        else:
            codes.append(int(np.searchsorted(cuts, x, side=SIDE[comparison])))
    return codes


def codes_of(X, cuts, **options):
    return BinnedMatrix.from_cuts(X, cuts, n_jobs=1, **options).codes


def around(cuts):
    """Each cut, its neighbours in its own precision, and the ends of the line."""
    cuts = np.asarray(cuts)
    infinity = cuts.dtype.type(np.inf)
    with np.errstate(over="ignore"):  # the neighbour of the largest float is infinite
        neighbours = [np.nextafter(cuts, -infinity), cuts, np.nextafter(cuts, infinity)]
    ends = np.array([-np.inf, np.inf, np.nan, 0.0, -0.0, 5e-324, -9e-36, 1.1e-35], np.float64)
    return np.concatenate([*neighbours, ends])


def ascending(comparison):
    width = 32 if comparison == "<" else 64
    floats = st.floats(allow_nan=False, allow_infinity=False, width=width)
    lists = st.lists(floats, max_size=12)
    return lists.map(lambda cuts: np.unique(np.array(cuts, DTYPE[comparison])))


# Numeric codes


@pytest.mark.parametrize("comparison", COMPARISONS)
@pytest.mark.parametrize("missing", [MISSING_NAN, MISSING_NONE, MISSING_ZERO])
@given(data=st.data())
def test_codes_equal_searchsorted_at_and_around_every_cut(data, comparison, missing):
    cuts = data.draw(ascending(comparison))
    column = around(cuts)
    codes = codes_of(column[:, None], [cuts], comparison=comparison, missing=[missing])
    assert codes[:, 0].tolist() == naive_codes(column, cuts, comparison, missing)


@pytest.mark.parametrize("comparison", COMPARISONS)
@pytest.mark.parametrize("n_cuts", [1, 2, 3, 4, 7, 8, 9, 62, 63, 64, 65, 254, 255, 256, 257, 1000])
def test_codes_equal_searchsorted_for_any_number_of_cuts(n_cuts, comparison, rng):
    """The bisection takes steps of powers of two: their neighbours are the delicate ones."""
    cuts = np.unique(rng.normal(size=2 * n_cuts).astype(DTYPE[comparison]))[:n_cuts]
    column = rng.permutation(around(cuts))
    codes = codes_of(column[:, None], [cuts], comparison=comparison)
    assert codes[:, 0].tolist() == naive_codes(column, cuts, comparison)


@pytest.mark.parametrize("comparison", COMPARISONS)
@given(data=st.data(), n_rows=st.integers(0, 150))
def test_codes_of_a_row_do_not_depend_on_the_rows_around_it(data, comparison, n_rows):
    """Rows are searched several at a time, and the last few share a vector with none."""
    cuts = [data.draw(ascending(comparison)) for _ in range(3)]
    rng = np.random.default_rng(n_rows)
    X = np.column_stack([rng.choice(around(c), 150) for c in cuts])
    missing = data.draw(st.lists(st.integers(0, 2), min_size=3, max_size=3))
    options = {"comparison": comparison, "missing": missing}
    whole = codes_of(X, cuts, **options)
    np.testing.assert_array_equal(codes_of(X[:n_rows], cuts, **options), whole[:n_rows])
    for j in range(3):
        assert whole[:, j].tolist() == naive_codes(X[:, j], cuts[j], comparison, missing[j])


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_a_split_on_codes_is_the_split_on_values(comparison, rng):
    cuts = np.unique(rng.normal(size=20).astype(DTYPE[comparison]))
    column = around(cuts)
    column = column[~np.isnan(column)]
    codes = codes_of(column[:, None], [cuts], comparison=comparison)[:, 0]
    values = column.astype(DTYPE[comparison])
    for b, cut in enumerate(cuts):
        goes_left = values < cut if comparison == "<" else values <= cut
        np.testing.assert_array_equal(codes <= b, goes_left)


def test_strict_comparison_is_made_in_float32():
    cut = np.float32(0.1)
    just_below = np.nextafter(np.float64(cut), -np.inf)  # rounds to the cut
    X = np.array([[just_below], [np.nextafter(cut, np.float32(-1))]])
    assert codes_of(X, [[cut]], comparison="<").ravel().tolist() == [1, 0]
    assert codes_of(X, [[np.float64(cut)]], comparison="<=").ravel().tolist() == [0, 0]
    assert codes_of(np.array([[0.1]]), [[0.1]], comparison="<").ravel().tolist() == [1]


def test_values_beyond_float32_are_infinite_and_stay_in_order():
    X = np.array([[1e300], [-1e300], [3e38]])
    assert codes_of(X, [[0.0, 3.2e38]], comparison="<").ravel().tolist() == [2, 0, 1]


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_columns_are_encoded_apart(comparison, rng):
    X = rng.normal(size=(300, 7))
    X[rng.random(X.shape) < 0.1] = np.nan
    cuts = [np.unique(rng.normal(size=n).astype(DTYPE[comparison])) for n in range(7)]
    missing = rng.integers(0, 3, size=7)
    codes = codes_of(X, cuts, comparison=comparison, missing=missing)
    for j in range(7):
        assert codes[:, j].tolist() == naive_codes(X[:, j], cuts[j], comparison, missing[j])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (MISSING_NAN, [3, 1, 1, 1, 2, 0]),
        (MISSING_NONE, [1, 1, 1, 1, 2, 0]),
        (MISSING_ZERO, [3, 3, 3, 3, 2, 0]),
    ],
)
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_missing_kinds_say_what_is_missing(kind, expected, comparison):
    X = np.array([np.nan, 0.0, -0.0, 9e-36, 2.0, -2.0])[:, None]
    codes = codes_of(X, [[-1.0, 1.0]], comparison=comparison, missing=[kind])
    assert codes.ravel().tolist() == expected


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_a_feature_without_cuts_has_one_bin(comparison):
    X = np.array([[-np.inf], [0.0], [np.inf], [np.nan]])
    assert codes_of(X, [[]], comparison=comparison).ravel().tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.uint64, np.int64, np.bool_])
def test_every_numeric_dtype_is_read(dtype):
    X = np.array([[0], [1]], dtype)
    assert codes_of(X, [[0.5]]).ravel().tolist() == [0, 1]


@pytest.mark.parametrize(
    "rearranged",
    [np.asfortranarray, lambda X: np.repeat(X, 2, axis=0)[::2], lambda X: X.tolist()],
    ids=["fortran", "strided", "lists"],
)
def test_memory_layout_does_not_matter(rearranged, rng):
    X = rng.normal(size=(50, 3))
    cuts = [[-0.5, 0.5]] * 3
    np.testing.assert_array_equal(codes_of(rearranged(X), cuts), codes_of(X, cuts))


def test_no_rows_give_no_codes():
    binned = BinnedMatrix.from_cuts(np.empty((0, 2)), [[0.0], []])
    assert binned.codes.shape == (0, 2)
    assert (binned.n_samples, binned.n_features) == (0, 2)


# Categories


def test_category_codes_become_their_positions():
    X = np.array([7.0, 2.0, 40.0, 2.0])[:, None]
    assert codes_of(X, [[]], categories={0: [40, 2, 7]}).ravel().tolist() == [2, 1, 0, 1]


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_unseen_negative_missing_and_infinite_categories_share_the_missing_code(comparison):
    X = np.array([3, -1, -7, np.nan, np.inf, -np.inf, 1e30, 6])[:, None]
    codes = codes_of(X, [[]], comparison=comparison, categories={0: [0, 5]})
    assert (codes == 2).all()


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_categories_are_truncated_towards_zero(comparison):
    X = np.array([5.0, 5.999, 4.999, 0.5, -0.5, -0.999, -1.0])[:, None]
    codes = codes_of(X, [[]], comparison=comparison, categories={0: [0, 5]})
    assert codes.ravel().tolist() == [1, 1, 2, 0, 0, 0, 2]


@pytest.mark.parametrize("kind", [MISSING_NAN, MISSING_NONE, MISSING_ZERO])
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_of_categories_only_nan_is_missing_whatever_the_kind(kind, comparison):
    X = np.array([np.nan, 0.0, 1e-40, 5.0])[:, None]
    codes = codes_of(X, [[]], comparison=comparison, categories={0: [0, 5]}, missing=[kind])
    assert codes.ravel().tolist() == [2, 0, 0, 1]


def test_categories_and_numbers_stand_side_by_side(rng):
    X = np.column_stack([rng.integers(0, 6, 200), rng.normal(size=200), rng.integers(0, 6, 200)])
    order = rng.permutation(6)
    codes = codes_of(X, [[], [0.0], [1.5, 3.5]], categories={0: order})
    np.testing.assert_array_equal(order[codes[:, 0]], X[:, 0])
    assert codes[:, 1].tolist() == naive_codes(X[:, 1], [0.0], "<=")
    assert codes[:, 2].tolist() == naive_codes(X[:, 2], [1.5, 3.5], "<=")


# Width of the codes


@pytest.mark.parametrize(
    ("n_bins", "with_missing", "dtype"),
    [
        (255, False, np.uint8),
        (255, True, np.uint8),
        (256, False, np.uint8),
        (256, True, np.uint16),
        (257, False, np.uint16),
    ],
)
@pytest.mark.parametrize("categorical", [False, True])
def test_codes_are_as_narrow_as_they_can_be(n_bins, with_missing, dtype, categorical):
    values = np.arange(n_bins, dtype=float)
    X = np.append(values, np.nan if with_missing else 0.0)[:, None]
    cuts = [] if categorical else values[:-1] + 0.5
    categories = {0: np.arange(n_bins)} if categorical else None
    binned = BinnedMatrix.from_cuts(X, [cuts], categories=categories)
    assert binned.codes.dtype == dtype
    assert binned.codes[:, 0].tolist() == [*range(n_bins), n_bins if with_missing else 0]


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("at", [0, 5_000, 19_999])
@pytest.mark.parametrize("categorical", [False, True])
def test_one_missing_value_among_256_bins_widens_all_codes(categorical, at, n_jobs):
    X = np.tile(np.arange(20_000.0) % 256, (2, 1)).T
    X[at, 1] = np.nan
    cuts = [[]] * 2 if categorical else [np.arange(255) + 0.5] * 2
    categories = {0: np.arange(256), 1: np.arange(256)} if categorical else None
    binned = BinnedMatrix.from_cuts(X, cuts, categories=categories, n_jobs=n_jobs)
    assert binned.codes.dtype == np.uint16
    np.testing.assert_array_equal(binned.codes, np.where(np.isnan(X), 256, X))


def test_the_widest_feature_can_be_missing():
    cuts = np.arange(MAX_BINS - 1, dtype=float)
    codes = codes_of(np.array([[np.nan], [1e9]]), [cuts])
    assert codes.ravel().tolist() == [MAX_BINS, MAX_BINS - 1]
    with pytest.raises(ValueError, match="feature 'f0' has more than 65535 bins"):
        codes_of(np.zeros((1, 1)), [np.arange(MAX_BINS, dtype=float)])


@pytest.mark.parametrize("n_jobs", [2, 3])
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_threads_do_not_change_a_code(n_jobs, comparison, rng):
    X = rng.normal(size=(40_000, 3)).round(2)  # several blocks of several tasks
    cuts = [np.unique(X[:, j].astype(DTYPE[comparison]))[1::7] for j in range(3)]
    one = BinnedMatrix.from_cuts(X, cuts, comparison=comparison, n_jobs=1)
    more = BinnedMatrix.from_cuts(X, cuts, comparison=comparison, n_jobs=n_jobs)
    np.testing.assert_array_equal(one.codes, more.codes)
    for j in range(3):
        expected = np.searchsorted(
            cuts[j], X[:, j].astype(DTYPE[comparison]), side=SIDE[comparison]
        )
        np.testing.assert_array_equal(one.codes[:, j], expected)


# Sparse matrices


def sparse_example(rng):
    dense = rng.integers(-2, 3, size=(400, 4)).astype(float)
    return dense, scipy.sparse.csr_matrix(dense)


@pytest.mark.parametrize("kind", ["csr_matrix", "csc_matrix", "coo_matrix", "csr_array"])
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_absent_entries_are_zeros(kind, comparison, rng):
    dense, sparse = sparse_example(rng)
    sparse = getattr(scipy.sparse, kind)(sparse)
    cuts = [[-1.5, -0.5, 0.5, 1.5]] * 4
    np.testing.assert_array_equal(
        codes_of(sparse, cuts, comparison=comparison), codes_of(dense, cuts, comparison=comparison)
    )


def test_absent_entries_may_stand_for_missing(rng):
    dense, sparse = sparse_example(rng)
    cuts = [[-0.5, 0.5]] * 4
    holes = np.where(dense == 0, np.nan, dense)
    np.testing.assert_array_equal(
        codes_of(sparse, cuts, absent="missing"), codes_of(holes, cuts, absent="missing")
    )


def test_a_stored_zero_is_a_zero():
    stored = scipy.sparse.csr_matrix(([0.0, np.nan], [0, 1], [0, 2, 2]), shape=(2, 2))
    codes = codes_of(stored, [[-1.0, 1.0]] * 2, absent="missing")
    assert codes.tolist() == [[1, 3], [3, 3]]


@pytest.mark.parametrize("absent", ["zero", "missing"])
def test_entries_stored_twice_are_summed_and_left_alone(absent):
    twice = scipy.sparse.csr_matrix(([1.0, 2.0], [0, 0], [0, 2]), shape=(1, 2))
    codes = codes_of(twice, [[0.5, 1.5, 2.5]] * 2, absent=absent)
    assert codes[0, 0] == 3
    assert twice.nnz == 2


@pytest.mark.parametrize("absent", ["zero", "missing"])
@given(data=st.data())
def test_sparse_rows_equal_dense_ones(absent, data):
    """Whatever the order of the entries, their type, and the entries stored twice."""
    n, d = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 5))
    n_entries = data.draw(st.integers(0, 40))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    i, j = rng.integers(0, n, n_entries), rng.integers(0, d, n_entries)
    values = rng.integers(-3, 4, n_entries).astype(rng.choice(["f4", "f8", "i4", "i8"]))
    dense = np.full((n, d), 0.0 if absent == "zero" else np.nan)
    for row, column, value in zip(i, j, values, strict=True):
        before = dense[row, column]
        dense[row, column] = value if np.isnan(before) else before + value
    order = np.argsort(i, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(i, minlength=n))])
    indptr = indptr.astype(rng.choice(["i4", "i8"]))
    sparse = scipy.sparse.csr_matrix((values[order], j[order], indptr), shape=(n, d))
    cuts = [np.arange(-4, 4) + 0.5] * d
    np.testing.assert_array_equal(
        codes_of(sparse, cuts, absent=absent), codes_of(dense, cuts, absent=absent)
    )
    assert sparse.nnz == n_entries


@pytest.mark.parametrize(
    ("indices", "indptr"),
    [
        ([0, 2], [0, 1, 2]),
        ([0, -1], [0, 1, 2]),
        ([0, 1], [0, 9, 2]),
        ([0, 1], [0, -1, 2]),
        ([1, 0, 7], [0, 2, 3]),
    ],
)
@pytest.mark.parametrize("absent", ["zero", "missing"])
def test_a_damaged_sparse_matrix_is_refused(absent, indices, indptr):
    sparse = scipy.sparse.csr_matrix((2, 2))
    sparse.data = np.ones(len(indices))
    sparse.indices, sparse.indptr = np.array(indices, np.int32), np.array(indptr, np.int32)
    with pytest.raises(ValueError, match="out of range"):
        codes_of(sparse, [[0.5]] * 2, absent=absent)


# Data frames


def test_frames_are_matched_by_column_name():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [0.0, 2.0], "b": [5, 7]})
    binned = BinnedMatrix.from_cuts(frame, [[1.0], [6.0]])
    assert binned.binning.features.names == ("a", "b")
    again = binned.binning.encode(frame[["b", "a"]])
    np.testing.assert_array_equal(again.codes, binned.codes)
    np.testing.assert_array_equal(binned.binning.encode(frame.to_numpy()).codes, binned.codes)


def test_frames_of_other_columns_are_refused():
    pd = pytest.importorskip("pandas")
    binning = BinnedMatrix.from_cuts(pd.DataFrame({"a": [0.0], "b": [5.0]}), [[1.0], []]).binning
    with pytest.raises(ValueError, match=r"lacking \['b'\], not known \['c'\]"):
        binning.encode(pd.DataFrame({"a": [0.0], "c": [5.0]}))
    with pytest.raises(ValueError, match=r"lacking \['b'\], not known \[\]"):
        binning.encode(pd.DataFrame({"a": [0.0]}))
    with pytest.raises(ValueError, match="lacking"):
        binning.encode(pd.DataFrame([[0.0, 1.0]], columns=["a", "a"]))


def test_frames_are_read_by_position_where_columns_have_no_names():
    pd = pytest.importorskip("pandas")
    binned = BinnedMatrix.from_cuts(np.array([[0.0, 5.0]]), [[1.0], [6.0]])
    frame = pd.DataFrame({"x": [0.0], "y": [7.0]})
    assert binned.binning.encode(frame).codes.tolist() == [[0, 1]]
    shuffled = pd.DataFrame({"f1": [7.0], "f0": [0.0]})
    assert binned.binning.encode(shuffled).codes.tolist() == [[0, 1]]


def test_nullable_columns_of_a_frame_are_missing_where_na():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "i": pd.array([1, None], dtype="Int64"),
            "f": pd.array([None, 0.5], dtype="Float64"),
            "b": pd.array([True, None], dtype="boolean"),
        }
    )
    codes = codes_of(frame, [[0.5], [1.0], [0.5]])
    assert codes.tolist() == [[1, 2, 1], [2, 0, 2]]


@pytest.mark.parametrize("kind", ["object", "category", "datetime64[ns]"])
def test_frame_columns_that_are_no_numbers_are_refused(kind):
    pd = pytest.importorskip("pandas")
    column = pd.Series(["2020-01-01", "2021-01-01"]).astype(kind)
    with pytest.raises(TypeError, match=r"column 'a' has dtype .*; expected numbers\. Convert"):
        codes_of(pd.DataFrame({"a": column}), [[]])


# Quantiles


columns = st.lists(
    st.one_of(
        st.integers(-5, 5).map(float),
        st.floats(allow_nan=True, allow_infinity=True),
        st.sampled_from([np.finfo(float).max, -np.finfo(float).max, 5e-324]),
    ),
    min_size=1,
    max_size=60,
)


@given(columns, st.integers(2, 12))
def test_quantile_codes_are_few_and_keep_the_order(column, max_bins):
    column = np.array(column)
    binned = BinnedMatrix.from_quantiles(column[:, None], max_bins=max_bins)
    codes = binned.codes[:, 0].astype(int)
    n_bins = int(binned.binning.n_bins[0])
    present = ~np.isnan(column)
    assert n_bins <= max_bins
    assert (codes[~present] == n_bins).all()
    order = np.argsort(column[present], kind="stable")
    assert (np.diff(codes[present][order]) >= 0).all()
    assert codes[present].max(initial=0) < n_bins


@given(columns)
def test_few_distinct_values_get_a_bin_each(column):
    column = np.array(column)
    distinct = np.unique(column[np.isfinite(column)])
    binned = BinnedMatrix.from_quantiles(column[:, None], max_bins=100)
    assert binned.binning.n_bins[0] == max(1, len(distinct))
    finite = np.isfinite(column)
    positions = np.searchsorted(distinct, column[finite])
    np.testing.assert_array_equal(binned.codes[finite, 0], positions)


def test_quantile_bins_are_even_in_rank(rng):
    X = rng.lognormal(size=(10_000, 1))
    binned = BinnedMatrix.from_quantiles(X, max_bins=16)
    counts = np.bincount(binned.codes[:, 0])
    assert len(counts) == 16
    assert abs(counts - 625).max() <= 1


@given(columns, st.integers(2, 12))
def test_cuts_stand_above_the_quantiles(column, max_bins):
    """One for each quantile that is not the greatest value, before the next greater value."""
    column = np.array(column)
    present = column[np.isfinite(column)]
    distinct = np.unique(present)
    if len(distinct) <= max_bins:
        lower = distinct[:-1]
    else:
        levels = np.arange(1, max_bins) / max_bins
        lower = np.unique(np.quantile(present, levels, method="inverted_cdf"))
        lower = lower[lower < distinct[-1]]
    upper = np.array([distinct[distinct > value].min() for value in lower])
    cuts = BinnedMatrix.from_quantiles(column[:, None], max_bins=max_bins).binning.cuts[0]
    assert len(cuts) == len(lower)
    assert (lower <= cuts).all()
    assert (cuts < upper).all()


def test_quantile_cuts_stand_between_values():
    binned = BinnedMatrix.from_quantiles(np.array([[1.0], [2.0], [4.0]]))
    assert binned.binning.cuts[0].tolist() == [1.5, 3.0]
    assert binned.binning.features.comparison == "<="


def test_quantiles_of_sparse_equal_those_of_dense(rng):
    dense, sparse = sparse_example(rng)
    from_dense = BinnedMatrix.from_quantiles(dense, max_bins=3)
    from_sparse = BinnedMatrix.from_quantiles(sparse, max_bins=3)
    assert from_sparse.binning.same_as(from_dense.binning)
    np.testing.assert_array_equal(from_sparse.codes, from_dense.codes)


def test_quantiles_leave_categories_as_they_are():
    X = np.array([[3, 0.0], [9, 1.0], [3.7, 2.0], [-4, 3.0], [np.nan, 4.0]])
    binned = BinnedMatrix.from_quantiles(X, categorical=[0], feature_names=["c", "x"])
    assert binned.binning.categories[0].tolist() == [3, 9]
    assert binned.binning.categories[1] is None
    assert binned.codes[:, 0].tolist() == [0, 1, 0, 2, 2]
    assert binned.binning.features.names == ("c", "x")


def test_a_category_column_without_values_has_one_bin():
    X = np.array([[np.nan], [-2.0]])
    assert BinnedMatrix.from_quantiles(X, categorical=[0]).codes.ravel().tolist() == [1, 1]


def test_quantiles_of_a_frame_keep_its_names():
    pd = pytest.importorskip("pandas")
    binned = BinnedMatrix.from_quantiles(pd.DataFrame({"u": [1.0, 2.0], "v": [1, 1]}))
    assert binned.binning.features.names == ("u", "v")
    assert binned.codes.tolist() == [[0, 0], [1, 0]]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_quantile_codes_do_not_depend_on_threads(n_jobs):
    X = np.random.default_rng(5).normal(size=(5_000, 4))
    binned = BinnedMatrix.from_quantiles(X, max_bins=64, n_jobs=n_jobs)
    for j, cuts in enumerate(binned.binning.cuts):
        np.testing.assert_array_equal(binned.codes[:, j], np.searchsorted(cuts, X[:, j]))


@pytest.mark.parametrize("max_bins", [1, 0, -3, MAX_BINS + 1])
def test_max_bins_out_of_range_is_refused(max_bins):
    with pytest.raises(ValueError, match=rf"max_bins must be in \[2, 65535\], got {max_bins}"):
        BinnedMatrix.from_quantiles(np.zeros((2, 1)), max_bins=max_bins)


@pytest.mark.parametrize("column", [2, -1, "f0", True, 0.0])
def test_categorical_columns_that_do_not_exist_are_refused(column):
    with pytest.raises(ValueError, match="categorical must hold column numbers 0 to 1, got"):
        BinnedMatrix.from_quantiles(np.zeros((2, 2)), categorical=[column])


@pytest.mark.parametrize("X", [np.zeros(3), np.zeros((2, 2, 2)), 1.0])
def test_quantiles_need_a_matrix(X):
    with pytest.raises(
        ValueError, match=r"expected a 2-D matrix of shape \(n_samples, n_features\)"
    ):
        BinnedMatrix.from_quantiles(X)


@pytest.mark.parametrize("code", [2.0**31, 1e300])
def test_quantiles_refuse_category_codes_beyond_int32(code):
    with pytest.raises(
        ValueError, match=r"category codes of feature 'f0' must be in \[0, 2\*\*31\)"
    ):
        BinnedMatrix.from_quantiles(np.array([[0.0], [code]]), categorical=[0])


# What a binning knows


def make_binning(comparison="<="):
    features = FeatureSpace.of(3, comparison, categorical=[False, True, False])
    return Binning(features, ([0.0, 1.0], [], []), (None, [4, 2], None))


def test_binning_counts_bins_and_cells():
    binning = make_binning()
    assert binning.n_bins.tolist() == [3, 2, 1]
    assert binning.cell_offsets.tolist() == [0, 4, 7, 9]
    assert binning.encoder.edge_offsets.tolist() == [0, 2, 4, 4]
    assert binning.encoder.edges.tolist() == [0.0, 1.0, 2.0, 4.0]
    assert binning.encoder.edge_bins.tolist() == [0, 1, 1, 0]


def test_binning_is_frozen_and_leaves_the_callers_arrays_alone():
    cuts = np.array([0.0, 1.0])
    binned = BinnedMatrix.from_cuts(np.zeros((1, 1)), [cuts])
    for array in (binned.codes, binned.binning.cuts[0], binned.binning.features.missing):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    cuts[0] = -1.0
    assert cuts.flags.writeable


def test_frozen_copies_only_what_is_not_contiguous():
    array = np.arange(6).reshape(2, 3)
    assert np.shares_memory(frozen(array), array)
    assert not np.shares_memory(frozen(array.T), array)
    assert frozen(array.T).flags.c_contiguous


def test_binnings_are_the_same_when_their_codes_mean_the_same():
    assert make_binning().same_as(make_binning())
    assert not make_binning().same_as(make_binning("<"))
    features = make_binning().features
    other = Binning(features, ([0.0, 1.5], [], []), (None, [4, 2], None))
    assert not make_binning().same_as(other)
    swapped = Binning(features, ([0.0, 1.0], [], []), (None, [2, 4], None))
    assert not make_binning().same_as(swapped)
    moved = FeatureSpace.of(3, "<=", categorical=[False, True, False], missing=[2, 0, 0])
    assert not make_binning().same_as(Binning(moved, ([0.0, 1.0], [], []), (None, [4, 2], None)))


def test_cuts_take_the_precision_of_the_comparison():
    assert make_binning("<").cuts[0].dtype == np.float32
    assert make_binning("<=").cuts[0].dtype == np.float64


# Refusals


@pytest.mark.parametrize(
    ("cuts", "error", "message"),
    [
        ([1.0, 0.0], ValueError, "finite and strictly ascending in float64"),
        ([0.0, 0.0], ValueError, "finite and strictly ascending"),
        ([0.0, np.inf], ValueError, "finite and strictly ascending"),
        ([np.nan], ValueError, "finite and strictly ascending"),
        (["a"], TypeError, "cuts of feature 'f0' must be numbers"),
        ([[0.0], [1.0]], ValueError, r"cuts of feature 'f0' must be 1-D, got shape \(2, 1\)"),
        (3.0, ValueError, r"cuts of feature 'f0' must be 1-D, got shape \(\)"),
    ],
)
def test_unusable_cuts_are_refused(cuts, error, message):
    with pytest.raises(error, match=message):
        codes_of(np.zeros((1, 1)), [cuts])


@pytest.mark.parametrize("cuts", [[1.0, 1.0 + 1e-12], [0.0, 1e300]])
def test_cuts_that_float32_cannot_hold_are_refused(cuts):
    with pytest.raises(ValueError, match="finite and strictly ascending in float32"):
        codes_of(np.zeros((1, 1)), [cuts], comparison="<")
    codes_of(np.zeros((1, 1)), [cuts], comparison="<=")


@pytest.mark.parametrize(
    ("categories", "error", "message"),
    [
        ([], ValueError, "categorical feature 'f0' needs the code of each category"),
        ([0.5], TypeError, "categories of feature 'f0' must be 1-D integers"),
        ([[1], [2]], TypeError, "must be 1-D integers"),
        ([-1, 0], ValueError, r"must be in \[0, 2\*\*31\)"),
        ([2**31], ValueError, r"must be in \[0, 2\*\*31\)"),
        ([1, 1], ValueError, "category codes of feature 'f0' must be unique"),
    ],
)
def test_unusable_categories_are_refused(categories, error, message):
    with pytest.raises(error, match=message):
        codes_of(np.zeros((1, 1)), [[]], categories={0: categories})


def test_numbers_and_categories_do_not_mix():
    with pytest.raises(ValueError, match="categorical feature 'f0' must have no cuts"):
        codes_of(np.zeros((1, 1)), [[0.0]], categories={0: [1]})
    with pytest.raises(ValueError, match="numeric feature 'f0' must have no categories"):
        Binning(FeatureSpace.of(1, "<"), ([],), ([1],))
    with pytest.raises(ValueError, match="categories name a column outside 0 to 0"):
        codes_of(np.zeros((1, 1)), [[]], categories={1: [1]})


def test_a_binning_needs_cuts_and_categories_for_every_feature():
    features = FeatureSpace.of(2, "<")
    with pytest.raises(ValueError, match="cuts must have one entry for each of the 2 features"):
        Binning(features, ([],), (None, None))
    with pytest.raises(ValueError, match="categories must have one entry for each of the 2"):
        Binning(features, ([], []), (None,))


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.zeros((2, 3)), ValueError, "expected 2 features, got 3"),
        (np.zeros(2), ValueError, r"2-D matrix of shape \(n_samples, 2\), got 1 dimension"),
        (np.zeros((1, 2, 1)), ValueError, "got 3 dimension"),
        ([["a", "b"]], TypeError, "expected numbers, got an array of dtype"),
        ([[None, 1.0]], TypeError, "expected numbers, got an array of dtype object"),
        (np.zeros((1, 2), complex), TypeError, "expected numbers"),
        (scipy.sparse.csr_matrix((1, 3)), ValueError, "expected 2 features, got 3"),
        (scipy.sparse.csr_matrix((1, 2), dtype=complex), TypeError, "expected numbers"),
    ],
)
def test_matrices_that_do_not_fit_are_refused(X, error, message):
    with pytest.raises(error, match=message):
        codes_of(X, [[0.0], [0.0]])


def test_cuts_that_do_not_fit_a_frame_are_refused():
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="expected 1 feature names, got 2"):
        codes_of(pd.DataFrame({"a": [0.0], "b": [1.0]}), [[0.0]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"comparison": ">"}, "comparison must be '<' or '<=', got '>'"),
        ({"absent": "nan"}, "absent must be 'zero' or 'missing', got 'nan'"),
        ({"names": ["a", "a"]}, "feature names must be unique, 'a' stands twice"),
        ({"names": ["a"]}, "expected 2 feature names, got 1"),
        ({"missing": [0]}, r"missing must have one entry for each of the 2 features, got shape"),
        ({"missing": [0, 3]}, "missing kinds must be among"),
        ({"missing": np.array([0, 256])}, "missing kinds must be among"),
        ({"missing": [0, -1]}, "missing kinds must be among"),
        ({"missing": [0, 0.5]}, "missing kinds must be among"),
        ({"categorical": [True]}, "categorical must have one entry for each of the 2 features"),
    ],
)
def test_unusable_feature_spaces_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        FeatureSpace.of(2, **{"comparison": "<", **options})


def test_a_feature_space_needs_a_feature():
    with pytest.raises(ValueError, match="expected at least one feature, got none"):
        FeatureSpace.of(0, "<")
    with pytest.raises(ValueError, match="expected at least one feature, got none"):
        BinnedMatrix.from_quantiles(np.zeros((3, 0)))


@pytest.mark.parametrize(
    ("codes", "error", "message"),
    [
        (np.zeros(3, np.uint8), ValueError, r"codes must be \(n_samples, 3\), got \(3,\)"),
        (np.zeros((1, 2), np.uint8), ValueError, r"codes must be \(n_samples, 3\)"),
        (np.zeros((1, 3), np.int64), TypeError, "codes must be uint8 or uint16, got int64"),
        (
            np.array([[0, 3, 0]], np.uint8),
            ValueError,
            "feature 'f1' has codes up to 3, but only 2 bins and the missing code",
        ),
    ],
)
def test_codes_outside_their_binning_are_refused(codes, error, message):
    with pytest.raises(error, match=message):
        BinnedMatrix(codes, make_binning())


def test_the_missing_code_is_the_largest_allowed():
    binned = BinnedMatrix(np.array([[3, 2, 1]], np.uint16), make_binning())
    assert binned.codes.tolist() == [[3, 2, 1]]
