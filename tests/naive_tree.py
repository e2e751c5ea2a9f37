"""Slow, obvious oracle of the trees: histograms, splits, growing, boosting.

A candidate split is a dict with the keys

    feature, bin      column and last bin on the left (numeric), or the position of
                      the category or of the prefix (categorical)
    missing_left      where missing values go (always right at a categorical split)
    left_set          bins that go left at a categorical split, else None
    left_mask         (n,) bool over the node's rows
    gain, score       score(L) + score(R) - score(P), and score(L) + score(R)
    child_weight      the smaller trace(A)/k of the children
    determined        False where rounding decides whether this is a candidate at
                      all (ties in the order of the categories)
    extra_lambda      added to reg_lambda in the scores of the children
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from naive import (
    Array,
    NaiveParams,
    Objective,
    Rows,
    intercepts,
    node_solve,
    path_leaves,
    ridge_leaf,
    total_loss,
    weighted_stats,
)

from fullhess.bins import BinnedMatrix, Binning

Split = dict[str, Any]

TIE = 1e-6  # a later candidate must be better by this share of score(L) + score(R)
ROUNDING_GUARD = 2e-6  # a smaller share of score(L) + score(R) is no gain
CLEAR_GAP = 1e-3  # relative distance at which rounding cannot change an order
CLEAR_DIRECTION = 0.5  # second over first eigenvalue: a dozen power iterations part them


# Histograms


def histogram(codes: Array, n_bins: Array, g: Array, H: Array) -> list[tuple[Array, Array, Array]]:
    """Per feature the counts (c,), gradients (c, k) and curvatures (c, k, k) of its cells.

    codes (n, d), g (n, k), H (n, k, k) of the node's rows; c = n_bins + 1 cells, the
    missing one last.
    """
    cells = []
    k = g.shape[1]
    for j, bins in enumerate(n_bins):
        count = np.zeros(bins + 1)
        G, A = np.zeros((bins + 1, k)), np.zeros((bins + 1, k, k))
        np.add.at(count, codes[:, j], 1.0)
        np.add.at(G, codes[:, j], g)
        np.add.at(A, codes[:, j], H)
        cells.append((count, G, A))
    return cells


# Candidates


def numeric_candidates(codes: Array, feature: int, n_bins: int) -> list[Split]:
    """Every bin and missing direction; codes (n,) of the node's rows, all one column.

    "Present | missing" is the last bin: larger values than the node has seen go with
    the present ones.
    """
    missing = codes == n_bins
    found = []
    for b in range(n_bins if missing.any() else n_bins - 1):
        left = codes <= b
        if not missing.any():
            found.append(_candidate(feature, b, left.sum() > (~left).sum(), None, left))
            continue
        if b == n_bins - 1 or not np.array_equal(left, ~missing):
            found.append(_candidate(feature, b, False, None, left))
        if b < n_bins - 1:
            found.append(_candidate(feature, b, True, None, left | missing))
    return found


def _candidate(feature: int, b: int, missing_left: Any, left_set: Any, mask: Array) -> Split:
    return {
        "feature": feature,
        "bin": b,
        "missing_left": bool(missing_left),
        "left_set": left_set,
        "left_mask": mask,
        "determined": True,
        "extra_lambda": 0.0,
    }


def category_order(
    codes: Array, bins: Array, g: Array, H: Array, params: NaiveParams, x_parent: Array | None
) -> tuple[Array, bool]:
    """Projections (c,) of the non-empty categories ``bins`` (c,), and whether they
    are determined (a leading direction well ahead of the second).
    """
    k = g.shape[1]
    x = np.zeros(k) if x_parent is None else x_parent
    ridge = (params.reg_lambda + params.cat_smooth) * np.eye(k)
    G = np.stack([g[codes == c].sum(axis=0) for c in bins])
    A = np.stack([H[codes == c].sum(axis=0) for c in bins])
    values = np.stack([np.linalg.solve(A[c] + ridge, -G[c] - A[c] @ x) for c in range(len(bins))])
    weight = np.trace(A, axis1=1, axis2=2)
    if weight.sum() <= 0.0:
        return np.zeros(len(bins)), False
    centred = values - weight @ values / weight.sum()
    e, V = np.linalg.eigh((centred * weight[:, None]).T @ centred)
    leading = V[:, -1]
    first_large = leading[np.abs(leading) > 0.5 * np.abs(leading).max()][0]
    runner_up = e[-2] if k > 1 else 0.0
    projection = values @ (leading * np.sign(first_large))
    size = (np.abs(g).sum() + np.abs(A).sum() * np.abs(x).max()) / ridge[0, 0]
    noise = np.ptp(projection) <= 1e-6 * size  # all steps the same but for rounding
    return projection, bool(runner_up <= CLEAR_DIRECTION * e[-1] and not noise)


def categorical_candidates(
    codes: Array,
    feature: int,
    n_bins: int,
    g: Array,
    H: Array,
    params: NaiveParams,
    x_parent: Array | None = None,
) -> list[Split]:
    """One category against the rest, or prefixes and suffixes of the ordered categories.

    Of ordered ones those with fewer than min_data_per_group rows are never listed, and
    at most max_cat_threshold are. What is not listed goes right, as missing rows do.
    """
    missing = codes == n_bins
    bins = np.unique(codes[~missing])
    if len(bins) <= params.max_cat_to_onehot:
        listings = [(int(c), bins[bins == c], True) for c in bins]
        most, extra = len(bins), 0.0
    else:
        bins = bins[[np.sum(codes == c) >= params.min_data_per_group for c in bins]]
        listings = _prefixes(codes, bins, g, H, params, x_parent)
        most, extra = params.max_cat_threshold or len(bins), params.cat_l2
    rest = ~np.isin(codes, bins)
    found = []
    for position, chosen, sure in listings:
        others = np.setdiff1d(bins, chosen)
        options = [part for part in (chosen, others) if 0 < len(part) <= most]
        if not rest.any():  # the same partition, whichever side is listed
            options = options[:1]
        for left_set in options:
            mask = np.isin(codes, left_set)
            split = _candidate(feature, position, False, tuple(map(int, left_set)), mask)
            found.append({**split, "determined": bool(sure), "extra_lambda": extra})
    return found


def _prefixes(
    codes: Array, bins: Array, g: Array, H: Array, params: NaiveParams, x_parent: Array | None
) -> list[tuple[int, Array, bool]]:
    """Position, categories and whether they are determined, of every prefix of the order."""
    if len(bins) == 0:
        return []
    projection, sure = category_order(codes, bins, g, H, params, x_parent)
    order = np.argsort(projection, kind="stable")
    gaps = np.diff(projection[order], append=np.inf)
    spread = np.ptp(projection)
    determined = list(sure & (gaps > CLEAR_GAP * spread) & (spread > 0.0))
    determined[-1] = True  # present | missing
    return [(m, np.sort(bins[order[: m + 1]]), determined[m]) for m in range(len(bins))]


def score_partitions(
    masks: Array,
    g: Array,
    H: Array,
    params: NaiveParams,
    x_parent: Array | None = None,
    extra_lambda: float = 0.0,
) -> dict[str, Array]:
    """counts (m, 2), child_weight (m,), score (m,) and gain (m,) of masks (m, n)."""
    of_children = replace(params, reg_lambda=params.reg_lambda + extra_lambda)
    k = g.shape[1]
    flat = H.reshape(len(H), k * k)
    counts, weights, scores = [], [], []
    for side in (masks, ~masks):
        share = side.astype(np.float64)
        A = (share @ flat).reshape(-1, k, k)
        counts.append(side.sum(axis=1))
        weights.append(np.trace(A, axis1=1, axis2=2) / k)
        scores.append(node_solve(share @ g, A, of_children, x_parent).score)
    parent = node_solve(g.sum(axis=0), H.sum(axis=0), params, x_parent).score
    return {
        "counts": np.stack(counts, axis=1),
        "child_weight": np.minimum(*weights),
        "score": scores[0] + scores[1],
        "gain": scores[0] + scores[1] - parent,
    }


def all_splits(
    codes: Array,
    binning: Binning,
    g: Array,
    H: Array,
    params: NaiveParams,
    x_parent: Array | None = None,
    slack: float = 0.0,
) -> list[Split]:
    """All valid candidates of a node in the order of the tie rule.

    codes (n, d), g (n, k), H (n, k, k) of the node's rows. ``x_parent`` (k,) is the
    node's own value with the path prior, None with the ridge. ``slack`` lowers
    min_child_weight by that share, for comparisons across precisions.
    """
    found: list[Split] = []
    for j, n_bins in enumerate(binning.n_bins):
        if binning.features.categorical[j]:
            found += categorical_candidates(codes[:, j], j, n_bins, g, H, params, x_parent)
        else:
            found += numeric_candidates(codes[:, j], j, n_bins)
    if not found:
        return []
    enough = np.zeros(len(found), bool)
    extras = np.array([c["extra_lambda"] for c in found])
    for extra in np.unique(extras):
        here = np.flatnonzero(extras == extra)
        masks = np.stack([found[m]["left_mask"] for m in here])
        scored = score_partitions(masks, g, H, params, x_parent, extra)
        enough[here] = scored["counts"].min(axis=1) >= max(1, params.min_samples_leaf)
        enough[here] &= scored["child_weight"] >= params.min_child_weight * (1.0 - slack)
        for key in ("child_weight", "score", "gain"):
            for m, value in zip(here, scored[key], strict=True):
                found[m][key] = float(value)
    return [found[m] for m in np.flatnonzero(enough)]


def gain_floor(score: float, params: NaiveParams) -> float:
    """What a gain must exceed, given score(L) + score(R)."""
    return max(params.min_split_gain, ROUNDING_GUARD * score)


def best_split(candidates: list[Split], params: NaiveParams) -> Split | None:
    """The winner by the tie rule, or None when nothing is worth a split."""
    best: Split | None = None
    for candidate in candidates:
        if best is None or candidate["gain"] > best["gain"] + TIE * candidate["score"]:
            best = candidate
    if best is None or best["gain"] <= gain_floor(best["score"], params):
        return None
    return best


def goes_left(codes: Array, split: Split, n_bins: int) -> Array:
    """(n,) bool: the side of any rows, codes (n,) of the split's feature."""
    if split["left_set"] is not None:
        return np.isin(codes, split["left_set"])
    return np.where(codes == n_bins, split["missing_left"], codes <= split["bin"])


def partition(codes: Array, split: Split, n_bins: int, rows: Array) -> tuple[Array, Array]:
    """Row numbers going left and right, each in the given order; codes (N, d)."""
    left = goes_left(codes[rows, split["feature"]], split, n_bins)
    return rows[left], rows[~left]


# Growing


@dataclass
class NaiveNode:
    """One node; ``value`` is its own x with the path prior, None with the ridge."""

    rows: Array
    depth: int
    parent: int
    value: Array | None
    count: int
    cover: float
    best: Split | None
    split: Split | None = None
    left: int = -1
    right: int = -1
    output: Array | None = None  # (k,) leaf value, learning rate included


def _node(
    binned: BinnedMatrix,
    g: Array,
    H: Array,
    params: NaiveParams,
    rows: Array,
    depth: int,
    parent: int,
    x_parent: Array | None,
) -> NaiveNode:
    value = node_value(g[rows].sum(axis=0), H[rows].sum(axis=0), params, x_parent)
    best = None
    if not params.max_depth or depth < params.max_depth:
        candidates = all_splits(binned.codes[rows], binned.binning, g[rows], H[rows], params, value)
        best = best_split(candidates, params)
    cover = float(np.trace(H[rows].sum(axis=0)))
    return NaiveNode(rows, depth, parent, value, len(rows), cover, best)


def node_value(g: Array, A: Array, params: NaiveParams, x_parent: Array | None) -> Array | None:
    """A node's own value (k,) with the path prior, from its parent's; None with the ridge."""
    if params.leaf_prior == "ridge":
        return None
    x = np.zeros(len(g)) if x_parent is None else x_parent
    step = node_solve(g, A, params, x)
    return np.asarray(x + step.t * step.d)


def grow_tree(
    binned: BinnedMatrix, g: Array, H: Array, params: NaiveParams, rows: Array | None = None
) -> list[NaiveNode]:
    """Nodes of one tree, root first, parents before children; leaves have no output yet."""
    rows = np.arange(binned.n_samples) if rows is None else rows
    nodes = [_node(binned, g, H, params, rows, 0, -1, None)]
    open_nodes = [0]
    max_leaves = params.max_leaves or np.inf
    while open_nodes and len(nodes) // 2 + 1 < max_leaves:
        open_nodes = [v for v in open_nodes if nodes[v].best is not None]
        v = min(open_nodes, key=lambda v: _priority(nodes[v], v, params), default=-1)
        if v < 0:
            break
        open_nodes.remove(v)
        node = nodes[v]
        split = node.split = node.best
        assert split is not None
        n_bins = binned.binning.n_bins[split["feature"]]
        for side, part in zip(
            ("left", "right"), partition(binned.codes, split, n_bins, node.rows), strict=True
        ):
            setattr(node, side, len(nodes))
            open_nodes.append(len(nodes))
            nodes.append(_node(binned, g, H, params, part, node.depth + 1, v, node.value))
    return nodes


def _priority(node: NaiveNode, number: int, params: NaiveParams) -> tuple[float, ...]:
    """Smallest is split next: the highest level first if depth-wise, then the best gain."""
    assert node.best is not None
    level = node.depth if params.grow_policy == "depthwise" else 0
    return (level, -node.best["gain"], number)


def apply(nodes: list[NaiveNode], binned: BinnedMatrix) -> Array:
    """(n,) node number of the leaf of every row."""
    at = np.zeros(binned.n_samples, np.int64)
    for v, node in enumerate(nodes):
        if node.split is not None:
            feature = node.split["feature"]
            here = np.flatnonzero(at == v)
            left = goes_left(
                binned.codes[here, feature], node.split, binned.binning.n_bins[feature]
            )
            at[here] = np.where(left, node.left, node.right)
    return at


def structure_values(
    parent: Array, leaf_rows: dict[int, Array], rows: Rows, params: NaiveParams, kind: str
) -> dict[int, Array]:
    """Values (k,) by leaf number, learning rate included; leaf_rows holds row numbers."""
    leaves = {v: rows.take(numbers) for v, numbers in leaf_rows.items()}
    if params.leaf_prior == "path":
        z = path_leaves(parent, leaves, params, kind)
        return {v: params.learning_rate * z[v] for v in leaves}
    return {v: params.learning_rate * ridge_leaf(part, params, kind) for v, part in leaves.items()}


def set_outputs(nodes: list[NaiveNode], rows: Rows, params: NaiveParams, kind: str) -> None:
    """Solve the leaves of a grown tree."""
    parent = np.array([node.parent for node in nodes])
    leaf_rows = {v: node.rows for v, node in enumerate(nodes) if node.split is None}
    for v, value in structure_values(parent, leaf_rows, rows, params, kind).items():
        nodes[v].output = value


# Boosting


def predict_raw(trees: list[list[NaiveNode]], base: Array, binned: BinnedMatrix) -> Array:
    """(n, k) base score, then one tree after the other."""
    raw = np.tile(base, (binned.n_samples, 1))
    for nodes in trees:
        outputs = np.stack([node.output if node.output is not None else base for node in nodes])
        raw += outputs[apply(nodes, binned)]
    return raw


def naive_boost(
    binned: BinnedMatrix,
    objective: Objective,
    y: Array,
    weight: Array,
    k: int,
    params: NaiveParams,
    n_rounds: int,
    hessian: str = "full",
    split_hessian: str | None = None,
) -> dict[str, Any]:
    """A whole run: ``trees``, ``base`` (k,), ``raw`` (n, k) and ``losses`` before each
    round and after the last.
    """
    base = intercepts(objective, y, weight, k)
    rows = Rows(objective, np.tile(base, (binned.n_samples, 1)), y, weight)
    trees, losses = [], [total_loss(rows)]
    for _ in range(n_rounds):
        g, H = weighted_stats(rows, split_hessian or hessian)
        nodes = grow_tree(binned, g, H, params)
        set_outputs(nodes, rows, params, hessian)
        trees.append(nodes)
        rows = rows._replace(raw=predict_raw(trees, base, binned))
        losses.append(total_loss(rows))
    return {"trees": trees, "base": base, "raw": rows.raw, "losses": losses}
