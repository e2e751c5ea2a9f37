"""Values, scores and splits under an L1 penalty and bounds, against slow solvers."""

from __future__ import annotations

from dataclasses import replace

import naive
import numpy as np
import pytest
from engine import Search, oracle_params
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from naive import NaiveParams, separable_solve
from naive_penalty import optimality_gap, penalised_minimum
from strategies import Problem, make_binned, make_rows, seeds

from fullhess.curvature import Layout
from fullhess.kernels.compile import kernel
from fullhess.kernels.constraints import (
    constrained_directions,
    constrained_value,
    solve_constrained_node,
    solve_constrained_pair,
)
from fullhess.kernels.nodes import add_children

ALPHAS = (0.0, 1e-3, 0.3, 5.0)
LAMBDAS = (0.0, 1e-6, 1.0, 10.0)
OUTPUTS = (1, 2, 3, 7, 12)
LIMITS = (np.inf, 2.0, 0.1)


def make_bounds(rng, k, limit):
    """(k,) bounds; some leave zero out."""
    if limit == np.inf:
        return np.full(k, -np.inf), np.full(k, np.inf)
    ends = np.sort(limit * rng.standard_normal((2, k)), axis=0)
    return ends[0], ends[1]


def diagonal_sums(rng, k, n):
    """(n, width) sums [count | gradient | curvature] of n nodes."""
    layout = Layout("diagonal", k)
    sums = np.zeros((n, layout.width))
    sums[:, 0] = 10.0
    sums[:, 1 : 1 + k] = rng.standard_normal((n, k)) * 10.0 ** rng.uniform(-2, 2)
    sums[:, 1 + k : 1 + 2 * k] = rng.exponential(size=(n, k)) * 10.0 ** rng.uniform(-2, 2)
    return sums


# One score


@given(st.floats(-50, 50), st.floats(0.01, 50), st.sampled_from(ALPHAS), seeds())
def test_value_of_one_score_is_the_best_of_a_fine_grid(g, a, alpha, seed):
    low, high = np.sort(np.random.default_rng(seed).normal(size=2))

    def model(w):
        return g * w + 0.5 * a * w * w + alpha * np.abs(w)

    w = constrained_value(g, a, alpha, low, high)
    grid = np.append(np.linspace(low, high, 2001), np.clip(0.0, low, high))
    assert low <= w <= high
    assert model(w) <= model(grid).min() + 1e-12 * (abs(g) + a + alpha)


@given(seeds(), st.sampled_from(OUTPUTS), st.sampled_from(ALPHAS), st.sampled_from(LAMBDAS),
       st.sampled_from(LIMITS), st.sampled_from(["guaranteed", "quadratic"]))  # fmt: skip
def test_node_is_the_oracles(seed, k, alpha, lam, limit, gain):
    rng = np.random.default_rng(seed)
    sums = diagonal_sums(rng, k, 1)[0]
    low, high = make_bounds(rng, k, limit)
    params = NaiveParams(reg_lambda=lam, reg_alpha=alpha, split_gain=gain)
    expected = separable_solve(sums[1 : 1 + k], sums[1 + k : 1 + 2 * k], params, low, high)
    value = np.empty(k)
    score = solve_constrained_node(k, sums, lam, alpha, low, high, gain == "guaranteed", value)
    np.testing.assert_allclose(value, expected.d, rtol=1e-12)
    room = 1e-9 * (np.abs(sums[1 : 1 + k] * value).sum() + 1e-12)
    if np.ptp(value) < 400:  # beyond, the bound is cut off
        np.testing.assert_allclose(score, expected.score, rtol=1e-6, atol=room)


@settings(max_examples=80)
@given(seeds(), st.sampled_from([1, 3]), st.sampled_from(ALPHAS), st.sampled_from([0.1, 1.0]),
       st.sampled_from(LIMITS), st.sampled_from([-1, 0, 1]))  # fmt: skip
def test_pair_is_the_best_in_its_order(seed, k, alpha, lam, limit, direction):
    rng = np.random.default_rng(seed)
    children = diagonal_sums(rng, k, 2)
    low, high = make_bounds(rng, k, limit)
    left, right = np.empty(k), np.empty(k)
    total = children.sum(axis=0)
    solve_constrained_pair(
        k, children[0], total, direction, lam, alpha, low, high, left, right
    )  # fmt: skip
    assert (direction * (right - left) >= 0.0).all()
    assert (np.minimum(left, right) >= low).all() and (np.maximum(left, right) <= high).all()

    def model(a, b, j):
        pairs = zip(children, (a, b), strict=True)
        return sum(
            s[1 + j] * w + 0.5 * (s[1 + k + j] + lam) * w**2 + alpha * np.abs(w) for s, w in pairs
        )

    for j in range(k):
        reach = [max(low[j], -300.0), min(high[j], 300.0)]
        grid = np.unique([*np.linspace(*reach, 200), *np.clip([0, left[j], right[j]], *reach)])
        a, b = np.meshgrid(grid, grid)
        ordered = direction * (b - a) >= 0.0
        best = model(a, b, j)[ordered].min()
        assert model(left[j], right[j], j) <= best + 1e-9 * (1 + abs(best))


# Full matrices


def packed_curvature(rng, layout, k):
    """A random curvature, packed and as a matrix (k, k)."""
    if layout == "diagonal":
        h = rng.exponential(size=k) * 10.0 ** rng.uniform(-3, 3)
        return h, np.diag(h)
    if layout == "laplacian":
        p = rng.dirichlet(np.full(k, rng.choice([0.2, 1.0])), size=30)
        A = np.einsum("ni,nj->ij", -p, p)
        A[range(k), range(k)] -= A.sum(axis=1)
        return -A[np.triu_indices(k, 1)], A
    B = rng.standard_normal((k, int(rng.integers(1, k + 2))))
    A = B @ B.T
    return A[np.triu_indices(k)], A


@settings(max_examples=150)
@given(seeds(), st.sampled_from(["laplacian", "dense", "diagonal"]), st.sampled_from(OUTPUTS),
       st.sampled_from(ALPHAS), st.sampled_from(LAMBDAS), st.sampled_from(LIMITS),
       st.booleans())  # fmt: skip
def test_step_ends_in_the_minimum_of_the_penalised_model(seed, name, k, alpha, lam, limit, moved):
    assume(k > 1 or name != "laplacian")
    rng = np.random.default_rng(seed)
    packed, A = packed_curvature(rng, name, k)
    g = rng.standard_normal(k) * 10.0 ** rng.uniform(-2, 2)
    if name == "laplacian":
        g -= g.mean()
    low, high = make_bounds(rng, k, limit)
    x = np.clip(moved * rng.standard_normal(k), low, high)
    M, linear = A + lam * np.eye(k), g - A @ x  # the model of g at x, as one at zero
    if limit == np.inf and lam < 1e-3:  # else without a minimum, or one far away
        low, high = np.full(k, -30.0), np.full(k, 30.0)
    step, slope, second = np.empty((1, k)), np.empty(1), np.empty(1)
    constrained_directions(
        Layout(name, k).code, g[None], packed[None], x[None], lam, alpha, low[None], high[None],
        step, slope, second,
    )  # fmt: skip
    z = x + step[0]
    size = np.abs(g).max() + np.abs(M).max() * (np.abs(z).max() + np.abs(x).max()) + alpha
    assert (z >= low - 1e-12 * size).all() and (z <= high + 1e-12 * size).all()
    for place in (low, high, np.zeros(k)):  # x + (place - x) may miss it by a bit
        with np.errstate(invalid="ignore"):
            z = np.where(np.abs(z - place) < 1e-14 * (1 + np.abs(x) + np.abs(z)), place, z)
    assert optimality_gap(linear + M @ z, z, alpha, low, high) <= 1e-8 * size

    def model(y):
        return 0.5 * y @ M @ y + linear @ y + alpha * np.abs(y).sum()

    best = penalised_minimum(M, linear, alpha, low, high)
    assert model(z) <= model(best) + 1e-9 * size * (1 + np.abs(best).max())
    d = step[0]
    np.testing.assert_allclose(second[0], d @ M @ d, rtol=1e-6, atol=1e-9 * size)
    promised = model(x) - model(z)  # = slope - second / 2
    np.testing.assert_allclose(slope[0] - 0.5 * second[0], promised, rtol=1e-6, atol=1e-8 * size)


@given(seeds(), st.sampled_from([2, 3, 7]), st.sampled_from(["laplacian", "dense"]))
def test_step_without_penalty_and_bounds_is_newtons(seed, k, name):
    rng = np.random.default_rng(seed)
    packed, A = packed_curvature(rng, name, k)
    g = rng.standard_normal(k)
    free = np.full((1, k), np.inf)
    step, slope, second = np.empty((1, k)), np.empty(1), np.empty(1)
    constrained_directions(
        Layout(name, k).code, g[None], packed[None], np.zeros((1, k)), 0.5, 0.0, -free, free,
        step, slope, second,
    )  # fmt: skip
    np.testing.assert_allclose(step[0], np.linalg.solve(A + 0.5 * np.eye(k), -g), rtol=1e-7)
    np.testing.assert_allclose(slope, second, rtol=1e-7)


# Splits of one node


def constrained_search(seed, k, direction, low, high, **settings_):
    """A node with bounds, and its splits on two columns, the first one monotone."""
    rng = np.random.default_rng(seed)
    binned = make_binned(rng, 60, ("holes", "normal"), True, 8)
    rows = make_rows(rng, 60, k)
    params = oracle_params(NaiveParams(max_depth=1, **settings_), "softmax")
    problem = Problem(binned, rows)
    search = Search(problem, params, "diagonal", *problem.stats("diagonal"), (direction, 0))
    search.low[:], search.high[:] = low, high
    return search, search.run()


def pair_score(search, mask, direction, low, high):
    """The oracle's score of a partition: both children in the order of the constraint."""
    sides = [
        (search.g[side].sum(axis=0), search.H[side].sum(axis=0).diagonal())
        for side in (mask, ~mask)
    ]
    params = search.params
    w = [separable_solve(g, h, params, low, high).d for g, h in sides]
    wrong = direction * (w[1] - w[0]) < 0.0
    both = replace(params, reg_lambda=2 * params.reg_lambda, reg_alpha=2 * params.reg_alpha)
    common = separable_solve(*(sum(s) for s in zip(*sides, strict=True)), both, low, high).d
    score = 0.0
    for (g, h), value in zip(sides, w, strict=True):
        held = np.where(wrong, common, value)
        # Bounds that meet in the value make the oracle score just this value; zero is
        # allowed too where the node's own bounds have it.
        has_zero = (low <= 0.0).all() and (high >= 0.0).all()
        score += score_at(g, h, held, params, has_zero)
    return score


def score_at(g, h, w, params, scalable):
    slope = -g @ w - params.reg_alpha * np.abs(w).sum()
    second = ((h + params.reg_lambda) * w * w).sum()
    beta = np.ptp(w)
    if params.split_gain == "quadratic":
        return 2 * slope - second
    if scalable and slope <= 0.0:
        return 0.0
    t = 1.0
    if scalable and second > 0.0:
        t = min(1.0, float(naive.damped_step(beta, slope / second)))
    return 2 * (t * slope - second * float(naive.bound_growth(t, beta)))


@settings(max_examples=60)
@given(seeds(), st.sampled_from([2, 3, 7]), st.sampled_from([-1, 0, 1]), st.sampled_from(ALPHAS),
       st.sampled_from(LIMITS), st.sampled_from(["guaranteed", "quadratic"]))  # fmt: skip
def test_best_split_under_constraints_is_the_oracles(seed, k, direction, alpha, limit, gain):
    rng = np.random.default_rng(seed)
    low, high = make_bounds(rng, k, limit)
    search, splits = constrained_search(
        seed, k, direction, low, high, reg_alpha=alpha or 1e-12, split_gain=gain
    )
    for feature, sign in ((0, direction), (1, 0)):
        mask = search.left_mask(feature)
        score = pair_score(search, mask, sign, low, high)
        room = 1e-5 * (np.abs(search.g).sum() * (np.abs(score) + 1) + 1)
        assert abs(splits[feature, 1] - score) <= room
        for other in search.candidates(feature, slack=0.0)[0]:
            assert pair_score(search, other["left_mask"], sign, low, high) <= score + room


@kernel
def call_add_children(n_left, fewer, plan, nodes, addresses):
    add_children(0, 1, n_left, fewer, plan, nodes, addresses)


def child_bounds(search, feature, mask):
    """Bounds of the children of the root: rows of the mask left, by this feature."""
    nodes = search.nodes
    nodes.feature[0] = feature
    nodes.begin[0], nodes.end[0] = 0, len(mask)
    rows = mask if 2 * mask.sum() <= len(mask) else ~mask
    fewer = naive.pack(search.g, search.H, "diagonal", np.float64)[rows].sum(axis=0)
    call_add_children(int(mask.sum()), fewer, search.plan, nodes, search.addresses)
    return [(nodes.low[i].copy(), nodes.high[i].copy()) for i in (1, 2)]


def test_children_of_a_monotone_split_are_parted_in_the_middle_of_their_values():
    for direction in (-1, 1):
        free = np.full(3, np.inf)
        search, _ = constrained_search(4, 3, direction, -free, free, reg_alpha=0.1)
        mask = search.left_mask(0)
        bounds = child_bounds(search, 0, mask)
        lower, upper = bounds if direction > 0 else bounds[::-1]
        np.testing.assert_array_equal(lower[1], upper[0])
        assert (lower[0] == -np.inf).all() and (upper[1] == np.inf).all()
        values = [
            separable_solve(search.g[side].sum(axis=0), search.H[side].sum(axis=0).diagonal(),
                            search.params).d
            for side in (mask, ~mask)
        ]  # fmt: skip
        in_order = direction * (values[1] - values[0]) >= 0
        np.testing.assert_allclose(
            lower[1][in_order], np.mean(values, axis=0)[in_order], rtol=1e-5, atol=1e-6
        )
        assert in_order.any()
        for low, high in child_bounds(search, 1, mask):  # a free feature passes the bounds on
            assert np.array_equal(low, search.low) and np.array_equal(high, search.high)


@pytest.mark.parametrize("name", ["laplacian", "dense"])
def test_tied_scores_need_few_sweeps(name):
    """A large matrix with a small ridge: coordinates alone would creep along (1, …, 1)."""
    rng = np.random.default_rng(0)
    k = 20
    packed, A = packed_curvature(rng, "laplacian", k)
    if name == "dense":
        packed = A[np.triu_indices(k)]
    g = 1e6 * (np.eye(k)[0] - 1.0 / k)
    bound = np.full((1, k), 0.4)
    step, slope, second = np.empty((1, k)), np.empty(1), np.empty(1)
    constrained_directions(
        Layout(name, k).code, g[None], 1e6 * packed[None], np.zeros((1, k)), 1e-2, 0.0, -bound,
        bound, step, slope, second,
    )  # fmt: skip
    best = penalised_minimum(1e6 * A + 1e-2 * np.eye(k), g, 0.0, -bound[0], bound[0])
    np.testing.assert_allclose(step[0], best, atol=1e-6)
