"""Objectives: statistics, losses and leaf sums against the oracle and numerical derivatives."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from engine import packed_leaves
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import Rows, weighted_stats
from strategies import SCORES, STAND_INS, WEIGHTS, make_rows, rows_of, seeds

from fullhess.kernels.softmax_leaves import accumulate_leaves
from fullhess.objectives import CustomObjective, LeafRows, Softmax, SquaredError
from fullhess.threads import Workers

CURVATURES = ("full", *STAND_INS)
SINGLE = 2.0**-23


def objective_of(rows: Rows):
    k = rows.raw.shape[1]
    return Softmax(k) if rows.objective == "softmax" else SquaredError(k)


def labels_of(rows: Rows):
    return objective_of(rows).check_label(rows.y, len(rows.y))


def statistics(objective, rows: Rows, hessian="full", label=None, n_jobs=1):
    """Statistics rows (n, width) of all rows."""
    out = np.zeros((len(rows.raw), objective.layout(hessian).width), np.float32)
    everything = np.arange(len(rows.raw), dtype=np.int32)
    label = labels_of(rows) if label is None else label
    with Workers(n_jobs) as workers:
        objective.write_statistics(rows.raw, label, rows.weight, everything, hessian, out, workers)
    return out


def leaf_sums(rows: Rows, shift, begin=(0,), end=None):
    """Float64 gradient and edges of runs of rows, each shifted."""
    k = rows.raw.shape[1]
    begin, end = np.asarray(begin), np.asarray([len(rows.raw)] if end is None else end)
    gradient = np.empty((len(begin), k))
    edges = np.empty((len(begin), k * (k - 1) // 2))
    shift = np.broadcast_to(np.asarray(shift, np.float64), (len(begin), k)).copy()
    packed = packed_leaves(rows.raw, labels_of(rows), rows.weight, begin, end)
    accumulate_leaves(*packed, shift, gradient, edges)
    return gradient, edges


# Statistics rows


@given(rows_of(max_rows=150), st.sampled_from(CURVATURES))
def test_statistics_are_the_oracles_rounded_to_float32(rows, hessian):
    objective = objective_of(rows)
    out = statistics(objective, rows, hessian)
    expected = naive.pack(*weighted_stats(rows, hessian), objective.layout(hessian).name)
    np.testing.assert_allclose(out, expected, rtol=2 * SINGLE, atol=1e-42)
    assert (out[:, 0] == 1.0).all()


@given(rows_of(scores=("zero", "moderate")))
def test_curvature_of_a_row_has_the_true_hessians_digits_when_it_is_almost_certain(rows):
    k = rows.raw.shape[1]
    rows = rows._replace(raw=rows.raw + 30.0 * np.eye(k)[rows.y])  # p_y = 1 - 1e-13
    diagonal = statistics(Softmax(k), rows, "diagonal")[:, 1 + k : 1 + 2 * k]
    true = np.diagonal(weighted_stats(rows)[1], axis1=1, axis2=2)
    np.testing.assert_allclose(diagonal, true, rtol=4 * SINGLE)


@given(rows_of(max_rows=30), st.sampled_from(CURVATURES), seeds())
def test_only_the_given_rows_are_written_and_padding_stays_or_is_zero(rows, hessian, seed):
    objective = objective_of(rows)
    layout = objective.layout(hessian)
    chosen = np.flatnonzero(np.random.default_rng(seed).random(len(rows.raw)) < 0.5)
    out = np.full((len(rows.raw), layout.width), 7.0, np.float32)
    with Workers(1) as workers:
        objective.write_statistics(
            rows.raw, labels_of(rows), rows.weight, chosen.astype(np.int32), hessian, out, workers
        )
    used = 1 + layout.n_outputs + layout.n_curvature
    expected = np.full_like(out, 7.0)
    expected[chosen, :used] = statistics(objective, rows, hessian)[chosen, :used]
    padding = out[chosen, used:]
    assert np.all((padding == 0.0) | (padding == 7.0))
    out[chosen, used:] = 7.0
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("hessian", CURVATURES)
def test_statistics_have_the_same_bits_for_any_number_of_threads(rng, hessian):
    rows = make_rows(rng, 9000, 3)
    alone = statistics(Softmax(3), rows, hessian)
    for n_jobs in (2, 3):
        assert np.array_equal(statistics(Softmax(3), rows, hessian, n_jobs=n_jobs), alone)


def test_float32_scores_are_read_as_they_are(rng):
    rows = make_rows(rng, 100, 4)
    rows = rows._replace(raw=rows.raw.astype(np.float32))
    exact = rows._replace(raw=rows.raw.astype(np.float64))
    assert np.array_equal(statistics(Softmax(4), rows), statistics(Softmax(4), exact))


# The exponential and the losses


def test_probabilities_are_exact_to_thirteen_digits():
    z = np.concatenate([-np.linspace(0, 699.9, 200_001), -np.logspace(-18, 0, 2000)])
    rows = Rows("softmax", np.column_stack([0 * z, z]), np.zeros(len(z), int), np.ones(len(z)))
    each = np.arange(len(z))
    gradient, edges = leaf_sums(rows, 0.0, each, each + 1)
    p = np.exp(z) / (1.0 + np.exp(z))
    np.testing.assert_allclose(gradient[:, 1], p, rtol=1e-13)
    np.testing.assert_allclose(gradient[:, 0], -p, rtol=1e-13)
    np.testing.assert_allclose(edges[:, 0], p / (1.0 + np.exp(z)), rtol=1e-13)


@settings(max_examples=100)
@given(rows_of(max_rows=150), st.sampled_from([1.0, 40.0, 1e5]))
def test_losses_are_the_oracles_also_for_extreme_scores(rows, spread):
    rows = rows._replace(raw=spread * rows.raw)
    losses = objective_of(rows).losses(rows.raw, labels_of(rows))
    rounding = 1e-15 * np.abs(rows.raw).max()  # of differences of the scores themselves
    expected = naive.row_loss(rows)
    np.testing.assert_allclose(losses, expected, rtol=1e-13, atol=rounding + 1e-300)


def test_losses_and_statistics_stay_finite_where_exponentials_do_not():
    raw = np.array([[1e3, -1e3], [-1e3, 1e3], [1e300, -1e300], [0.0, 0.0]])
    rows = Rows("softmax", raw, np.zeros(4, int), np.ones(4))
    losses = Softmax(2).losses(raw, labels_of(rows))
    np.testing.assert_allclose(losses, [0.0, 2000.0, 0.0, np.log(2.0)], atol=1e-300)
    for hessian in CURVATURES:
        out = statistics(Softmax(2), rows, hessian)
        assert np.isfinite(out).all() and (out[:, 3:] >= 0.0).all()
        np.testing.assert_allclose(out[:, 1], [0.0, -1.0, 0.0, -0.5], atol=1e-30)


@given(rows_of(scores=("zero", "moderate"), max_rows=8))
def test_gradient_and_hessian_are_the_derivatives_of_the_softmax_losses(rows):
    k, step = rows.raw.shape[1], 1e-5
    objective, label = Softmax(k), labels_of(rows)
    each = np.arange(len(rows.raw))
    unit_weights = rows._replace(weight=np.ones(len(each)))

    def derivatives(shift):
        return leaf_sums(unit_weights, shift, each, each + 1)

    gradient, edges = derivatives(0.0)
    i, j = np.triu_indices(k, 1)
    for m, unit in enumerate(step * np.eye(k)):
        slope = objective.losses(rows.raw + unit, label) - objective.losses(rows.raw - unit, label)
        np.testing.assert_allclose(gradient[:, m], slope / (2 * step), atol=1e-8)
        change = (derivatives(unit)[0] - derivatives(-unit)[0]) / (2 * step)
        touching = (i == m) | (j == m)
        others = (i + j - m)[touching]
        np.testing.assert_allclose(-edges[:, touching], change[:, others], atol=1e-8)
        np.testing.assert_allclose(edges[:, touching].sum(axis=1), change[:, m], atol=1e-8)


# Sums of leaves


@given(rows_of(max_rows=300), seeds())
def test_leaf_sums_are_the_oracles_at_shifted_scores(rows, seed):
    rng = np.random.default_rng(seed)
    n, k = rows.raw.shape
    cuts = np.sort(rng.choice(np.arange(1, n), min(n - 1, 3), replace=False)) if n > 1 else []
    bounds = np.concatenate([[0], cuts, [n]]).astype(np.int64)
    shift = rng.standard_normal((len(bounds) - 1, k))
    gradient, edges = leaf_sums(rows, shift, bounds[:-1], bounds[1:])
    i, j = np.triu_indices(k, 1)
    for leaf in range(len(shift)):
        g, H = weighted_stats(
            rows.take(np.arange(bounds[leaf], bounds[leaf + 1])).shift(shift[leaf])
        )
        size = np.abs(g).sum(axis=0)
        assert (np.abs(gradient[leaf] - g.sum(axis=0)) <= 1e-12 * size + 1e-300).all()
        np.testing.assert_allclose(edges[leaf], -H[:, i, j].sum(axis=0), rtol=1e-12, atol=1e-280)


def test_sums_of_leaves_longer_than_a_run_are_complete_and_independent_of_threads(rng):
    n, k = 30_000, 3
    rows = make_rows(rng, n, k, weights="integers")
    order = rng.permutation(n).astype(np.int32)
    leaves = LeafRows(order, np.array([0, 20_000, 20_001]), np.array([20_000, 20_001, n]))
    shift = rng.standard_normal((2, k))
    active = np.array([2, 0])
    found = []
    for n_jobs in (1, 3):
        with Workers(n_jobs) as workers:
            evaluator = Softmax(k).leaf_evaluator(
                rows.raw, labels_of(rows), rows.weight, leaves, workers
            )
            found.append(evaluator.sums(active, shift))
            loss = evaluator.losses(active, shift)
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))
    i, j = np.triu_indices(k, 1)
    for position, leaf in enumerate(active):
        part = rows.take(leaves.of(leaf)).shift(shift[position])
        g, H = (s.sum(axis=0) for s in weighted_stats(part))
        np.testing.assert_allclose(found[0][0][position], g, rtol=1e-9)
        np.testing.assert_allclose(found[0][1][position], -H[i, j], rtol=1e-11)
        np.testing.assert_allclose(loss[position], naive.total_loss(part), rtol=1e-11)


# Intercepts


@given(rows_of(("softmax", "squared_error")))
def test_intercept_is_the_best_constant_score(rows):
    base = objective_of(rows).intercept(labels_of(rows), rows.weight)
    k = rows.raw.shape[1]
    expected = naive.intercepts(rows.objective, rows.y, rows.weight, k, floor=1e-10)
    np.testing.assert_allclose(base, expected, rtol=1e-12, atol=1e-12)


# Squared error


@given(rows_of(("squared_error",)))
def test_squared_error_statistics_are_the_oracles(rows):
    objective = objective_of(rows)
    expected = naive.pack(*weighted_stats(rows), "diagonal")
    np.testing.assert_allclose(statistics(objective, rows), expected, rtol=2 * SINGLE)
    losses = objective.losses(rows.raw, labels_of(rows))
    np.testing.assert_allclose(losses, naive.row_loss(rows), rtol=1e-13)


@given(rows_of(("squared_error",), scores=("zero", "moderate"), weights=("ones",)))
def test_squared_error_gradient_is_the_derivative_of_its_losses(rows):
    objective, label = objective_of(rows), labels_of(rows)
    k = rows.raw.shape[1]
    out = statistics(objective, rows)
    for m, unit in enumerate(1e-3 * np.eye(k)):
        up, down = (
            objective.losses(rows.raw + unit, label),
            objective.losses(rows.raw - unit, label),
        )
        np.testing.assert_allclose(out[:, 1 + m], (up - down) / 2e-3, rtol=1e-5, atol=1e-5)
        middle = objective.losses(rows.raw, label)
        np.testing.assert_allclose(out[:, 1 + k + m], (up - 2 * middle + down) / 1e-6, atol=1e-4)


# Custom objectives


def coupled_loss(raw, label):
    """log(1 + Σ exp(2(s - y)²)): a Hessian that is neither diagonal nor a Laplacian."""
    r = raw - label
    return np.log1p(np.exp(2 * r**2).sum(axis=1))


def coupled_derivatives(raw, label):
    r = raw - label
    e = np.exp(2 * r**2)
    share = e / (1 + e.sum(axis=1, keepdims=True))
    inner = 4 * r
    gradient = share * inner
    hessian = -gradient[:, :, None] * gradient[:, None, :]
    k = raw.shape[1]
    hessian[:, range(k), range(k)] += share * (inner**2 + 4)
    return gradient, hessian


def shaped(form):
    """The same derivatives with the Hessian as a matrix, packed, or its diagonal alone."""

    def derivatives(raw, label):
        gradient, hessian = coupled_derivatives(raw, label)
        i, j = np.triu_indices(raw.shape[1])
        diagonal = np.diagonal(hessian, axis1=1, axis2=2)
        return gradient, {"matrix": hessian, "packed": hessian[:, i, j], "diagonal": diagonal}[form]

    return derivatives


@given(seeds(), st.sampled_from([1, 2, 3, 7]), st.sampled_from(["matrix", "packed", "diagonal"]),
       st.sampled_from(WEIGHTS))  # fmt: skip
def test_custom_statistics_hold_the_weighted_derivatives_in_every_shape(seed, k, form, weights):
    rng = np.random.default_rng(seed)
    rows = make_rows(rng, 20, k, "squared_error", weights, scores="moderate")
    objective = CustomObjective(shaped(form), k, loss=coupled_loss)
    objective.probe(rows.y)
    assert objective.layout("full").name == (
        "diagonal" if form == "diagonal" or k == 1 else "dense"
    )
    gradient, hessian = coupled_derivatives(rows.raw, rows.y)
    for kind in ("full", "diagonal"):
        out = statistics(objective, rows, kind, label=rows.y)
        weighted = rows.weight[:, None] * gradient, rows.weight[:, None, None] * hessian
        expected = naive.pack(*weighted, objective.layout(kind).name)
        np.testing.assert_allclose(out, expected, rtol=2 * SINGLE)


@given(seeds(), st.sampled_from([1, 2, 3]))
def test_custom_statistics_are_the_derivatives_of_the_custom_loss(seed, k):
    rng = np.random.default_rng(seed)
    rows = make_rows(rng, 10, k, "squared_error", scores="moderate")
    rows = rows._replace(y=rows.raw + rng.uniform(-1, 1, rows.raw.shape))
    objective = CustomObjective(shaped("matrix"), k, loss=coupled_loss)
    objective.probe(rows.y)
    _, g, H = naive.unpack(
        statistics(objective, rows, label=rows.y), objective.layout("full").name, k
    )
    step = 1e-4
    for m, unit in enumerate(step * np.eye(k)):
        up, down = (objective.losses(rows.raw + sign * unit, rows.y) for sign in (1, -1))
        np.testing.assert_allclose(g[:, m], (up - down) / (2 * step), rtol=1e-5, atol=1e-5)
        ahead, behind = (coupled_derivatives(rows.raw + s * unit, rows.y)[0] for s in (1, -1))
        np.testing.assert_allclose(H[:, m], (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scores", SCORES)
def test_one_output_may_come_without_a_second_axis(rng, scores):
    rows = make_rows(rng, 12, 1, "squared_error", scores=scores)

    def flat(raw, label):
        return (raw - label)[:, 0], np.ones(len(raw))

    objective = CustomObjective(flat, 1)
    objective.probe(rows.y)
    expected = statistics(SquaredError(1), rows)
    assert np.array_equal(statistics(objective, rows, label=rows.y), expected)
