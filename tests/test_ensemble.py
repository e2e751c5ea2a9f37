"""An ensemble: its inputs, its rounds, its copies."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from random_trees import naive_raw, random_ensemble, random_rows, random_tree, same_bits, stump

from fullhess.ensemble import Ensemble
from fullhess.features import FeatureSpace


def model(seed: int = 0, n_samples: int = 50, **options: Any) -> tuple[Ensemble, Any]:
    ensemble, binning = random_ensemble(seed, **options)
    return ensemble, random_rows(np.random.default_rng(seed), binning, n_samples)


def rebuilt(ensemble: Ensemble, **changes: Any) -> Ensemble:
    parts = {
        name: getattr(ensemble, name)
        for name in ("trees", "base_score", "features", "link", "metadata", "best_iteration")
    }
    return Ensemble(**{**parts, **changes})


def test_sizes_are_those_of_trees_and_base_score() -> None:
    ensemble, _ = model(n_trees=4, n_outputs=2)
    assert (len(ensemble), ensemble.n_rounds, ensemble.n_outputs) == (4, 4, 2)
    assert ensemble.dtype == np.float64
    assert "n_rounds=4" in repr(ensemble)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), dtype=st.sampled_from([np.float32, np.float64]))
def test_consecutive_slices_add_up_bit_for_bit(seed: int, dtype: Any) -> None:
    ensemble, X = model(seed, dtype=dtype, n_trees=6)
    whole = ensemble.predict_raw(X)
    for cut in range(1, 6):
        first = ensemble[:cut].predict_raw(X)
        assert same_bits(ensemble[cut:].predict_raw(X, base_margin=first), whole)
        assert same_bits(ensemble.predict_raw(X, rounds=slice(None, cut)), first)
        assert np.array_equal(ensemble.apply(X)[:, cut:], ensemble.apply(X, rounds=slice(cut, 9)))


@pytest.mark.parametrize("rounds", [slice(2, 4), slice(-3, None), slice(None, -1), slice(1, 99)])
def test_a_slice_predicts_like_the_whole_with_these_rounds(rounds: slice) -> None:
    ensemble, X = model(n_trees=5)
    ensemble = rebuilt(ensemble, best_iteration=1)
    part = ensemble[rounds]
    assert part.best_iteration is None
    assert part.trees == ensemble.trees[rounds]
    assert same_bits(part.predict_raw(X), ensemble.predict_raw(X, rounds=rounds))


def test_prediction_stops_at_the_best_iteration_unless_told() -> None:
    ensemble, X = model(n_trees=5)
    stopped = rebuilt(ensemble, best_iteration=2)
    assert same_bits(stopped.predict_raw(X), ensemble[:3].predict_raw(X))
    assert stopped.apply(X).shape == (len(X), 3)
    assert same_bits(stopped.predict_raw(X, rounds=slice(None)), ensemble.predict_raw(X))
    assert same_bits(stopped.importance("weight"), ensemble[:3].importance("weight"))


@pytest.mark.parametrize("rounds", [slice(2, 2), slice(3, 1), slice(5, None), slice(0, 0)])
def test_a_slice_without_rounds_is_refused(rounds: slice) -> None:
    ensemble, X = model(n_trees=5)
    with pytest.raises(ValueError, match="none of the 5 rounds"):
        ensemble.predict_raw(X, rounds=rounds)
    with pytest.raises(ValueError, match="none of the 5 rounds"):
        ensemble[rounds]


def test_only_slices_of_step_one_are_rounds() -> None:
    ensemble, X = model()
    with pytest.raises(ValueError, match="step 1"):
        ensemble[::2]
    with pytest.raises(TypeError, match="slice of rounds"):
        ensemble[0]  # type: ignore[index]
    with pytest.raises(TypeError, match="slice or None"):
        ensemble.predict_raw(X, rounds=3)  # type: ignore[arg-type]


def test_without_trees_the_base_score_is_predicted() -> None:
    ensemble, X = model(n_trees=0)
    assert same_bits(ensemble.predict_raw(X), np.tile(ensemble.base_score, (len(X), 1)))
    assert ensemble.apply(X).shape == (len(X), 0)


def test_appended_trees_are_added_last() -> None:
    ensemble, X = model(n_trees=5)
    best = rebuilt(ensemble[:3], best_iteration=1)
    longer = best.append(*ensemble.trees[3:])
    assert longer.best_iteration is None
    assert same_bits(longer.predict_raw(X), ensemble.predict_raw(X))
    assert len(best) == 3
    swapped = ensemble.with_trees(ensemble.trees[1:], best_iteration=0)
    assert same_bits(swapped.predict_raw(X), ensemble[1:2].predict_raw(X))


# Rounds of several trees


def test_a_round_is_all_its_trees_in_slices_predictions_and_leaves() -> None:
    ensemble, X = model(n_trees=6)
    indptr = np.array([0, 2, 2, 5, 6])  # the second round has none
    grouped = rebuilt(ensemble, iteration_indptr=indptr)
    assert (len(grouped), grouped.n_rounds) == (4, 4)
    for first in range(4):
        for last in range(first + 1, 5):
            trees = slice(indptr[first], indptr[last])
            part = grouped[first:last]
            assert part.trees == ensemble.trees[trees] and len(part) == last - first
            assert (
                part.iteration_indptr.tolist() == (indptr[first : last + 1] - trees.start).tolist()
            )
            expected = ensemble.with_trees(ensemble.trees[trees]).predict_raw(X)
            assert same_bits(part.predict_raw(X), expected)
            assert same_bits(grouped.predict_raw(X, rounds=slice(first, last)), expected)
            assert grouped.apply(X, rounds=slice(first, last)).shape[1] == trees.stop - trees.start
    best = rebuilt(ensemble, iteration_indptr=indptr, best_iteration=2)
    assert same_bits(best.predict_raw(X), ensemble[:5].predict_raw(X))
    assert same_bits(best.importance("weight"), ensemble[:5].importance("weight"))


def test_trees_appended_to_rounds_of_several_are_rounds_of_their_own() -> None:
    ensemble, X = model(n_trees=5)
    grouped = ensemble.with_trees(ensemble.trees[:3], iteration_indptr=[0, 3])
    longer = grouped.append(*ensemble.trees[3:])
    assert longer.iteration_indptr.tolist() == [0, 3, 4, 5]
    assert same_bits(longer.predict_raw(X), ensemble.predict_raw(X))


def test_appended_trees_are_checked() -> None:
    ensemble, _ = model(n_trees=2)
    other, binning = random_ensemble(1, n_outputs=2)
    with pytest.raises(ValueError, match="tree 2: values must be"):
        ensemble.append(other.trees[0])
    with pytest.raises(ValueError, match="tree 0: leaf values must be float64"):
        ensemble.with_trees([random_tree(np.random.default_rng(0), binning, 3, 2, np.float32)])


def test_base_margin_replaces_the_base_score() -> None:
    ensemble, X = model()
    margin = np.random.default_rng(0).normal(size=(len(X), 3))
    expected = naive_raw(rebuilt(ensemble, base_score=np.zeros(3)), X)
    raw = ensemble.predict_raw(X, base_margin=margin)
    np.testing.assert_allclose(raw, expected + margin, rtol=1e-12, atol=1e-12)
    assert same_bits(
        ensemble.predict_raw(X, base_margin=np.tile(ensemble.base_score, (len(X), 1))),
        ensemble.predict_raw(X),
    )


def test_base_margin_is_not_written_to() -> None:
    ensemble, X = model()
    margin = np.zeros((len(X), 3))
    ensemble.predict(X, base_margin=margin)
    assert not margin.any()


@pytest.mark.parametrize(
    ("margin", "error", "message"),
    [
        (np.zeros((50, 2)), ValueError, r"shape \(50, 3\), got \(50, 2\)"),
        (np.zeros(150), ValueError, r"got \(150,\)"),
        (np.full((50, 3), np.nan), ValueError, "must be finite"),
        (np.full((50, 3), np.inf), ValueError, "must be finite"),
        (np.full((50, 3), 1e300), ValueError, "finite in float32"),
        (np.full((50, 3), "a"), TypeError, "must be numbers"),
    ],
)
def test_an_unusable_base_margin_is_refused(margin: Any, error: Any, message: str) -> None:
    ensemble, X = model(dtype=np.float32)
    with pytest.raises(error, match=message):
        ensemble.predict_raw(X, base_margin=margin)


def test_softmax_predictions_are_probabilities() -> None:
    ensemble, X = model()
    probability = ensemble.predict(X)
    odds = np.exp(ensemble.predict_raw(X))
    np.testing.assert_allclose(probability, odds / odds.sum(axis=1, keepdims=True), rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_softmax_survives_huge_margins(dtype: Any) -> None:
    ensemble, X = model(dtype=dtype)
    margin = np.tile([1e6, -1e6, 1e6], (len(X), 1))
    probability = ensemble.predict(X, base_margin=margin)
    assert probability.dtype == dtype
    assert np.isfinite(probability).all()
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=1e-6)
    assert (probability[:, 1] == 0).all()


def test_identity_predictions_are_raw() -> None:
    ensemble, X = model()
    identity = rebuilt(ensemble, link="identity")
    assert same_bits(identity.predict(X), ensemble.predict_raw(X))


def with_gaps(X: Any) -> sp.csr_matrix:
    """A sparse matrix that lacks about a third of the entries of X."""
    rng = np.random.default_rng(0)
    rows, columns = np.nonzero(rng.random(X.shape) < 0.7)
    return sp.csr_matrix((X[rows, columns], (rows, columns)), shape=X.shape)


@pytest.mark.parametrize("comparison", ["<", "<="])
@pytest.mark.parametrize(("absent", "filler"), [("zero", 0.0), ("missing", np.nan)])
def test_sparse_equals_dense_for_both_meanings_of_absent(
    comparison: Any, absent: Any, filler: float
) -> None:
    ensemble, X = model(comparison=comparison, absent=absent, n_samples=300)
    sparse = with_gaps(X)
    dense = np.full(X.shape, filler)
    stored = sparse.tocoo()
    dense[stored.row, stored.col] = stored.data
    expected = ensemble.predict_raw(dense)
    assert same_bits(expected, naive_raw(ensemble, dense))
    for data in (sparse, sp.csr_array(sparse), sparse.tocsc(), sparse.tocoo()):
        assert same_bits(ensemble.predict_raw(data), expected)
        assert np.array_equal(ensemble.apply(data), ensemble.apply(dense))


@pytest.mark.parametrize("absent", ["zero", "missing"])
def test_repeated_entries_of_a_sparse_matrix_add_up(absent: Any) -> None:
    features = FeatureSpace.of(2, "<=", absent=absent)
    ensemble = Ensemble((stump(0.9),), np.zeros(1), features, "identity")
    twice = sp.csr_matrix(([0.25, 0.75, 2.0], [0, 0, 1], [0, 3]), shape=(1, 2))
    assert ensemble.predict_raw(twice) == 1.0  # neither entry alone would go right


def test_dataframes_are_matched_by_name() -> None:
    ensemble, X = model(names=list("abcdef"))
    frame = pd.DataFrame(X, columns=list("abcdef"))
    assert same_bits(ensemble.predict_raw(frame[list("fbdace")]), ensemble.predict_raw(X))
    with pytest.raises(ValueError, match=r"lacking \['f'\], not known \['g'\]"):
        ensemble.predict_raw(frame.rename(columns={"f": "g"}))


def test_memory_order_and_integers_do_not_matter() -> None:
    ensemble, X = model()
    whole = np.clip(np.nan_to_num(np.trunc(X)), -5, 5).astype(np.int64)
    expected = naive_raw(ensemble, whole.astype(np.float64))
    for data in (whole, np.asfortranarray(whole), whole.astype(np.int8), whole[::-1][::-1]):
        assert same_bits(ensemble.predict_raw(data), expected)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.zeros(6), ValueError, "2-D"),
        (np.zeros((2, 5)), ValueError, "expected 6 features, got 5"),
        (np.zeros((2, 6), complex), TypeError, "expected numbers"),
        (np.full((2, 6), "x"), TypeError, "expected numbers"),
    ],
)
def test_input_of_another_shape_or_kind_is_refused(X: Any, error: Any, message: str) -> None:
    ensemble, _ = model()
    for method in (ensemble.predict_raw, ensemble.predict, ensemble.apply):
        with pytest.raises(error, match=message):
            method(X)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_keeps_every_bit_and_no_cache(protocol: int) -> None:
    ensemble, X = model()
    before = len(pickle.dumps(ensemble, protocol))
    expected = ensemble.predict_raw(X)
    text = pickle.dumps(ensemble, protocol)
    assert len(text) == before
    assert same_bits(pickle.loads(text).predict_raw(X), expected)


def test_copies_predict_alike() -> None:
    ensemble, X = model()
    expected = ensemble.predict_raw(X)
    for other in (copy.copy(ensemble), copy.deepcopy(ensemble)):
        assert same_bits(other.predict_raw(X), expected)
        assert other.metadata == ensemble.metadata


def test_the_model_does_not_see_later_changes_of_its_arguments() -> None:
    ensemble, X = model()
    base_score, metadata = np.zeros(3), {"a": 1}
    kept = rebuilt(ensemble, base_score=base_score, metadata=metadata)
    expected = kept.predict_raw(X)
    base_score[:] = 7.0
    metadata["a"] = 2
    assert same_bits(kept.predict_raw(X), expected)
    assert kept.metadata == {"a": 1}
    with pytest.raises(ValueError, match="read-only"):
        kept.base_score[0] = 1.0


def test_metadata_of_numpy_becomes_plain() -> None:
    ensemble, _ = model()
    metadata = {"n": np.int64(3), "rate": np.float32(0.5), "on": np.True_, "none": None}
    plain = rebuilt(ensemble, metadata=metadata).metadata
    assert plain == {"n": 3, "rate": 0.5, "on": True, "none": None}
    assert [type(value) for value in plain.values()] == [int, float, bool, type(None)]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"base_score": np.zeros(3, int)}, TypeError, "float32 or float64"),
        ({"base_score": np.zeros((3, 1))}, ValueError, r"shape \(n_outputs,\)"),
        ({"base_score": np.zeros(0)}, ValueError, r"shape \(n_outputs,\)"),
        ({"base_score": np.array([0.0, np.nan, 0.0])}, ValueError, "must be finite"),
        ({"base_score": np.zeros(2)}, ValueError, "tree 0: values must be"),
        ({"base_score": np.zeros(3, np.float32)}, ValueError, "float32 like base_score"),
        ({"link": "logit"}, ValueError, "link must be one of"),
        ({"metadata": {1: 2}}, TypeError, "keys must be strings"),
        ({"metadata": {"a": [1]}}, TypeError, "encode it as a string"),
        ({"metadata": {"a": 2**64}}, ValueError, r"below 2\*\*64"),
        ({"best_iteration": 5}, ValueError, r"in \[0, 5\)"),
        ({"best_iteration": -1}, ValueError, r"in \[0, 5\)"),
        ({"best_iteration": 1.0}, TypeError, "must be an integer"),
        ({"iteration_indptr": [0, 4]}, ValueError, "ascend from 0 to the number of trees, 5"),
        ({"iteration_indptr": [1, 5]}, ValueError, "ascend from 0"),
        ({"iteration_indptr": [0, 3, 2, 5]}, ValueError, "ascend from 0"),
        ({"iteration_indptr": [0, 2**63, 5]}, ValueError, "iteration_indptr must"),
        ({"iteration_indptr": []}, ValueError, "1-D array of integers"),
        ({"iteration_indptr": [[0, 5]]}, ValueError, "1-D array of integers"),
        ({"iteration_indptr": [0.0, 5.0]}, ValueError, "1-D array of integers"),
        ({"iteration_indptr": [0, 5], "best_iteration": 1}, ValueError, r"in \[0, 1\)"),
        ({"features": FeatureSpace.of(1, "<=")}, ValueError, "beyond the model's 1"),
        ({"features": FeatureSpace.of(6, "<=")}, ValueError, "split by sets of categories"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes: Any, error: Any, message: str) -> None:
    ensemble, _ = model(seed=1)
    with pytest.raises(error, match=message):
        rebuilt(ensemble, **changes)


def test_a_threshold_that_float32_cannot_hold_is_refused_where_it_compares_in_float32() -> None:
    strict, closed = FeatureSpace.of(1, "<"), FeatureSpace.of(1, "<=")
    for threshold in (0.5, np.inf):
        Ensemble((stump(threshold),), np.zeros(1), strict, "identity")
    for threshold in (0.1, 1e300):
        Ensemble((stump(threshold),), np.zeros(1), closed, "identity")
        with pytest.raises(ValueError, match="must be float32 values"):
            Ensemble((stump(threshold),), np.zeros(1), strict, "identity")
