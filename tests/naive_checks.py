"""Verification of a finished ``fullhess.tree.Tree``, node by node, against the oracle.

Nothing here asks for the same tree as the oracle's own: two splits whose gains
agree to rounding are both right. What is asked at every node is that the choice
was valid, that its recorded gain is the gain of that partition, and that no
candidate was better by more than the tolerance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from naive import Array, NaiveParams, Rows, leaf_objective, path_objective
from naive_tree import (
    CLEAR_GAP,
    TIE,
    NaiveNode,
    Split,
    all_splits,
    category_order,
    gain_floor,
    goes_left,
    node_value,
    score_partitions,
    structure_values,
)

from fullhess.bins import BinnedMatrix
from fullhess.tree import Tree


def to_tree(nodes: list[NaiveNode], binned: BinnedMatrix) -> Tree:
    """The oracle's own tree, with outputs set, as a ``Tree``."""
    splits = [node.split for node in nodes]
    leaves = [v for v, split in enumerate(splits) if split is None]
    sets = [_category_codes(split, binned) for split in splits]
    return Tree(
        feature=[-1 if split is None else split["feature"] for split in splits],
        threshold=[_threshold(split, binned) for split in splits],
        default_left=[split is not None and split["missing_left"] for split in splits],
        left=[node.left for node in nodes],
        right=[node.right for node in nodes],
        leaf=[leaves.index(v) if split is None else -1 for v, split in enumerate(splits)],
        gain=[0.0 if split is None else split["gain"] for split in splits],
        cover=[node.cover for node in nodes],
        count=[node.count for node in nodes],
        category_offsets=np.cumsum([0] + [len(codes) for codes in sets]),
        category_values=np.concatenate(sets),
        values=np.stack([np.asarray(nodes[v].output) for v in leaves]),
    )


def _category_codes(split: Split | None, binned: BinnedMatrix) -> Array:
    if split is None or split["left_set"] is None:
        return np.empty(0, np.int32)
    return np.sort(np.asarray(binned.binning.categories[split["feature"]])[list(split["left_set"])])


def _threshold(split: Split | None, binned: BinnedMatrix) -> float:
    if split is None or split["left_set"] is not None:
        return np.nan
    cuts = binned.binning.cuts[split["feature"]]
    return float(cuts[split["bin"]]) if split["bin"] < len(cuts) else np.inf


def tree_split(tree: Tree, node: int, binned: BinnedMatrix) -> Split:
    """The split of a node in the oracle's terms (feature, bin, missing_left, left_set)."""
    feature = int(tree.feature[node])
    binning = binned.binning
    split = {"feature": feature, "bin": -1, "missing_left": bool(tree.default_left[node])}
    if tree.is_categorical[node]:
        first, last = tree.category_offsets[node : node + 2]
        listed = tree.category_values[first:last]
        known = binning.categories[feature]
        assert known is not None, f"node {node}: feature {feature} is not categorical"
        assert np.isin(listed, known).all(), f"node {node}: unknown categories {listed}"
        return {**split, "left_set": tuple(map(int, np.flatnonzero(np.isin(known, listed))))}
    threshold = tree.threshold[node]
    if threshold == np.inf:
        return {**split, "bin": int(binning.n_bins[feature]) - 1, "left_set": None}
    cuts = binning.cuts[feature].astype(np.float64)
    assert threshold in cuts, f"node {node}: threshold {threshold} is no cut of {feature}"
    return {**split, "bin": int(np.searchsorted(cuts, threshold)), "left_set": None}


def tree_rows(tree: Tree, binned: BinnedMatrix, rows: Array | None = None) -> list[Array]:
    """The row numbers that reach each node."""
    reach: list[Array] = [np.empty(0, np.int64)] * tree.n_nodes
    reach[0] = np.arange(binned.n_samples) if rows is None else np.asarray(rows)
    for node in np.flatnonzero(tree.feature >= 0):
        split = tree_split(tree, node, binned)
        codes = binned.codes[reach[node], split["feature"]]
        left = goes_left(codes, split, binned.binning.n_bins[split["feature"]])
        reach[tree.left[node]], reach[tree.right[node]] = reach[node][left], reach[node][~left]
    return reach


def tree_parents(tree: Tree) -> Array:
    """(n_nodes,) parent of each node, -1 at the root."""
    parent = np.full(tree.n_nodes, -1, np.int64)
    for node in np.flatnonzero(tree.feature >= 0):
        parent[[tree.left[node], tree.right[node]]] = node
    return parent


class _Node(NamedTuple):
    """The rows of one node: codes (n, d), g (n, k), H (n, k, k), and its path value."""

    codes: Array
    g: Array
    H: Array
    value: Array | None


class _Chance(NamedTuple):
    """The best gain of a node (0: nothing worth a split), and how exactly it is known."""

    gain: float
    tolerance: float


def check_tree(
    tree: Tree,
    binned: BinnedMatrix,
    g: Array,
    H: Array,
    params: NaiveParams,
    rtol: float = 1e-5,
    rows: Array | None = None,
    check_ties: bool = True,
) -> None:
    """Raise AssertionError unless every choice of the tree is right.

    g (n, k) and H (n, k, k) are the weighted statistics the splits were made from,
    ``rows`` the sampled rows if not all. Gains are compared with the tolerance
    rtol * (score(L) + score(R)). With ``check_ties`` a numeric split must be the
    first of its feature's that part the rows alike.
    """
    tree.check(binned.n_features, g.shape[1])
    parent, depth = tree_parents(tree), tree.depth()
    values: list[Array | None] = []
    chances: list[_Chance] = []
    for v, here in enumerate(tree_rows(tree, binned, rows)):
        A = H[here].sum(axis=0)
        assert tree.count[v] == len(here), f"node {v}: count {tree.count[v]}, not {len(here)}"
        lost = 1e-13 * tree.cover[0]  # of a child whose sums are its parent's minus its sibling's
        np.testing.assert_allclose(
            tree.cover[v], np.trace(A), rtol=rtol, atol=lost, err_msg=f"cover of node {v}"
        )
        above = values[parent[v]] if v else None
        values.append(node_value(g[here].sum(axis=0), A, params, above))
        node = _Node(binned.codes[here], g[here], H[here], values[v])
        too_deep = bool(params.max_depth) and depth[v] >= params.max_depth
        if tree.feature[v] >= 0:
            assert not too_deep, f"node {v} is split at depth {depth[v]}"
            chances.append(_check_choice(tree, v, binned, node, params, rtol, check_ties))
        else:
            missed = _Chance(0.0, 0.0) if too_deep else _missed(node, binned, params, rtol)
            chances.append(missed)
    _check_budget(tree, chances, params)


def _check_choice(
    tree: Tree,
    v: int,
    binned: BinnedMatrix,
    node: _Node,
    params: NaiveParams,
    rtol: float,
    check_ties: bool,
) -> _Chance:
    """Hold the split of node ``v`` against all candidates."""
    split, binning = tree_split(tree, v, binned), binned.binning
    where = f"node {v}: {split}"
    candidates = all_splits(node.codes, binning, node.g, node.H, params, node.value, slack=rtol)
    mask = goes_left(node.codes[:, split["feature"]], split, binning.n_bins[split["feature"]])
    chosen = _find(candidates, split, mask, check_ties, where)
    if chosen is None and split["left_set"] is not None:
        chosen = _other_order(split["feature"], mask, binned, node, params, rtol)
    assert chosen is not None, f"{where} is not a valid candidate"
    gain, tolerance = float(tree.gain[v]), rtol * chosen["score"]
    assert abs(gain - chosen["gain"]) <= tolerance, (
        f"{where} has gain {gain}, by the oracle {chosen['gain']}, tolerance {tolerance}"
    )
    floor = gain_floor(chosen["score"], params)
    assert gain > floor - tolerance, f"{where} has gain {gain}, not above {floor}"
    for other in _certain(candidates, params, rtol):
        limit = chosen["gain"] + tolerance + (rtol + TIE) * other["score"]
        assert other["gain"] <= limit, (
            f"{where} has gain {chosen['gain']}, but feature {other['feature']}, "
            f"bin {other['bin']}, missing_left {other['missing_left']}, "
            f"left {other['left_set']} has {other['gain']}"
        )
    return _Chance(gain, tolerance)


def _find(
    candidates: list[Split], split: Split, mask: Array, check_ties: bool, where: str
) -> Split | None:
    """The first candidate of the feature that parts the rows as ``mask`` does."""
    for c in candidates:
        if c["feature"] == split["feature"] and np.array_equal(c["left_mask"], mask):
            found = (split["bin"], split["missing_left"])
            first = (c["bin"], c["missing_left"])
            if check_ties and split["left_set"] is None:
                assert found == first, f"{where}: expected (bin, missing_left) {first}"
            return c
    return None


def _other_order(
    feature: int, mask: Array, binned: BinnedMatrix, node: _Node, params: NaiveParams, rtol: float
) -> Split | None:
    """A set of categories in an order that differs from the oracle's only by rounding or
    by the sign of the leading direction; None if the set is not of this kind.
    """
    codes = node.codes[:, feature]
    bins = np.unique(codes[codes < binned.binning.n_bins[feature]])
    if len(bins) <= params.max_cat_to_onehot:
        return None
    bins = bins[[np.sum(codes == c) >= params.min_data_per_group for c in bins]]
    left = np.isin(bins, codes[mask])
    listed = left.sum() if np.isin(codes, bins).all() else min(left.sum(), (~left).sum())
    if left.all() or not left.any() or listed > (params.max_cat_threshold or len(bins)):
        return None
    if not np.isin(codes[mask], bins).all():  # a category that is too small to be listed
        return None
    value, extra = node.value, params.cat_l2
    scored = score_partitions(mask[None], node.g, node.H, params, value, extra)
    enough = scored["counts"].min() >= max(1, params.min_samples_leaf)
    if not enough or scored["child_weight"][0] < params.min_child_weight * (1.0 - rtol):
        return None
    projection, sure = category_order(codes, bins, node.g, node.H, params, node.value)
    room = CLEAR_GAP * np.ptp(projection)
    low_first = projection[left].max() <= projection[~left].min() + room
    high_first = projection[~left].max() <= projection[left].min() + room
    if sure and not (low_first or high_first):
        return None
    return {"gain": float(scored["gain"][0]), "score": float(scored["score"][0])}


def _certain(candidates: list[Split], params: NaiveParams, rtol: float) -> list[Split]:
    """The candidates that another precision cannot have missed or found too light."""
    enough = params.min_child_weight * (1.0 + rtol)
    return [c for c in candidates if c["determined"] and c["child_weight"] >= enough]


def _missed(node: _Node, binned: BinnedMatrix, params: NaiveParams, rtol: float) -> _Chance:
    """The best split a leaf could certainly have made."""
    best = _Chance(0.0, 0.0)
    # What float32 gradients that cancel leave of each other is no gain: its square, twice over.
    size = np.abs(node.g).sum() ** 2 / (params.reg_lambda + np.trace(node.H.sum(axis=0)) + 1e-300)
    candidates = all_splits(node.codes, binned.binning, node.g, node.H, params, node.value)
    for c in _certain(candidates, params, rtol):
        tolerance = rtol * c["score"] + 1e-13 * size
        if c["gain"] > gain_floor(c["score"], params) + tolerance and c["gain"] > best.gain:
            best = _Chance(c["gain"], tolerance)
    return best


def _check_budget(tree: Tree, chances: list[_Chance], params: NaiveParams) -> None:
    """A leaf with a chance is right only where the leaves ran out and better ones took them."""
    inner, leaves = np.flatnonzero(tree.feature >= 0), np.flatnonzero(tree.feature < 0)
    depth = tree.depth()
    if params.max_leaves:
        assert tree.n_leaves <= params.max_leaves, f"{tree.n_leaves} leaves are too many"
    if not params.max_leaves or tree.n_leaves < params.max_leaves:
        for v in leaves:
            assert chances[v].gain == 0.0, f"leaf {v} could gain {chances[v].gain}"
    elif params.grow_policy == "depthwise" and len(inner):
        last = depth[inner].max()
        for v in leaves[depth[leaves] < last]:
            assert chances[v].gain == 0.0, f"leaf {v} of a full level could gain {chances[v].gain}"
        for v in leaves[depth[leaves] == last]:
            _check_better([chances[u] for u in inner[depth[inner] == last]], chances[v], v)
    elif params.grow_policy == "lossguide":
        frontier = {0}
        while taken := [v for v in frontier if tree.feature[v] >= 0]:
            node = max(taken, key=lambda v: chances[v].gain)
            for v in frontier.difference(taken):
                _check_better([chances[node]], chances[v], v)
            frontier = frontier - {node} | {int(tree.left[node]), int(tree.right[node])}


def _check_better(taken: list[_Chance], passed: _Chance, leaf: int) -> None:
    worst = min(taken)
    room = worst.tolerance + passed.tolerance
    assert passed.gain <= worst.gain + room, f"leaf {leaf} was better than a node that was split"


def oracle_values(
    tree: Tree,
    binned: BinnedMatrix,
    rows: Rows,
    params: NaiveParams,
    kind: str = "full",
    sample: Array | None = None,
) -> Array:
    """(n_leaves, k) values of the oracle's leaf solver for this structure."""
    reach = tree_rows(tree, binned, sample)
    leaf_rows = {int(v): reach[v] for v in np.flatnonzero(tree.feature < 0)}
    solved = structure_values(tree_parents(tree), leaf_rows, rows, params, kind)
    values = np.empty((tree.n_leaves, rows.raw.shape[1]))
    for v, x in solved.items():
        values[tree.leaf[v]] = x
    return values


def check_leaf_values(
    tree: Tree,
    binned: BinnedMatrix,
    rows: Rows,
    params: NaiveParams,
    kind: str = "full",
    rtol: float = 1e-6,
    atol: float = 1e-8,
    sample: Array | None = None,
) -> None:
    """Compare the leaf values with the oracle's solver, given the tree's structure.

    ``rows`` holds the scores before this tree; ``sample`` the sampled rows if not all.
    """
    expected = oracle_values(tree, binned, rows, params, kind, sample)
    np.testing.assert_allclose(tree.values, expected, rtol=rtol, atol=atol)


def regularised_loss(
    tree: Tree, binned: BinnedMatrix, rows: Rows, params: NaiveParams, sample: Array | None = None
) -> float:
    """What exact leaves minimise, at the tree's values before the learning rate.

    For leaves without a unique or finite optimum: compare this instead of values.
    With the path prior the inner nodes take their best values given the leaves'.
    """
    reach, parent = tree_rows(tree, binned, sample), tree_parents(tree)
    leaves = {int(v): rows.take(reach[v]) for v in np.flatnonzero(tree.feature < 0)}
    x = {v: tree.values[tree.leaf[v]] / params.learning_rate for v in leaves}
    if params.leaf_prior == "ridge" or params.reg_lambda == 0.0:
        penalties = (params.reg_lambda, params.reg_alpha)
        return sum(leaf_objective(part, x[v], *penalties) for v, part in leaves.items())
    return path_objective(parent, leaves, _inner_values(parent, x), params.reg_lambda)


def _inner_values(parent: Array, leaf_values: dict[int, Array]) -> Array:
    """(m, k): the mean of its neighbours at every inner node, the root tied to zero too."""
    m = len(parent)
    k = len(next(iter(leaf_values.values())))
    M, right = np.eye(m), np.zeros((m, k))
    for v, x in leaf_values.items():
        right[v] = x
    for v in set(range(m)) - set(leaf_values):
        children = np.flatnonzero(parent == v)
        M[v, v] = 1.0 + len(children)
        M[v, children] = -1.0
        if parent[v] >= 0:
            M[v, parent[v]] = -1.0
    return np.linalg.solve(M, right)
