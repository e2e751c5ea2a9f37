"""Random valid models and rows made to trip them, and a slow, obvious walker."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fullhess.bins import Binning
from fullhess.ensemble import Ensemble
from fullhess.features import MISSING_NONE, MISSING_ZERO, Comparison, FeatureSpace
from fullhess.tree import Tree

MAX_CODE = 2**31 - 1
ZERO = float(np.float32(1e-35))  # the largest value that counts as zero, as in LightGBM


def random_binning(
    rng: np.random.Generator,
    comparison: Comparison,
    n_features: int = 6,
    max_cuts: int = 12,
    n_categories: int = 40,
    **options: Any,
) -> Binning:
    """Features of every kind of missing value, a third of them categorical."""
    categorical = np.arange(n_features) % 3 == 2
    features = FeatureSpace.of(
        n_features,
        comparison,
        missing=rng.permutation(np.arange(n_features) % 3).astype(np.uint8),
        categorical=categorical,
        **options,
    )
    special = np.array([-1.5, -1e-36, 0.0, 1e-36, 0.1, 1.0, 3e38])
    cuts: list[NDArray[Any]] = []
    categories: list[NDArray[np.int32] | None] = []
    for j in range(n_features):
        if categorical[j]:
            pool = np.append(rng.integers(0, 2 * n_categories, n_categories), [0, 1, 3, MAX_CODE])
            categories.append(rng.permutation(np.unique(pool)).astype(np.int32))
            cuts.append(np.empty(0))
        else:
            pool = np.concatenate([special, rng.normal(size=max_cuts)]).astype(features.dtype)
            cuts.append(np.unique(rng.choice(pool, rng.integers(0, max_cuts + 1))))
            categories.append(None)
    return Binning(features, tuple(cuts), tuple(categories))


def random_tree(
    rng: np.random.Generator,
    binning: Binning,
    n_outputs: int = 3,
    n_leaves: int = 8,
    dtype: Any = np.float64,
) -> Tree:
    """A tree whose thresholds are cuts of the binning; nodes in a random sound order."""
    children: dict[int, tuple[int, int]] = {}
    leaves = [0]
    while len(leaves) < n_leaves:
        node = leaves.pop(rng.integers(len(leaves)))
        children[node] = (2 * len(children) + 1, 2 * len(children) + 2)
        leaves += children[node]
    order = _random_order(rng, children)
    place = {node: i for i, node in enumerate(order)}
    splits = [_random_split(rng, binning) if node in children else None for node in order]
    rows = _random_counts(rng, children, 2 * n_leaves - 1)
    numbers = iter(rng.permutation(n_leaves))
    sets = [split[3] if split else () for split in splits]
    links = [children.get(node) for node in order]
    return Tree(
        feature=np.array([split[0] if split else -1 for split in splits], np.int32),
        threshold=np.array([split[1] if split else np.nan for split in splits]),
        default_left=np.array([split[2] if split else False for split in splits]),
        left=np.array([place[link[0]] if link else -1 for link in links], np.int32),
        right=np.array([place[link[1]] if link else -1 for link in links], np.int32),
        leaf=np.array([-1 if link else next(numbers) for link in links], np.int32),
        gain=np.array([rng.exponential() if split else 0.0 for split in splits]),
        cover=rng.exponential(size=len(order)),
        count=np.array([rows[node] for node in order]),
        category_offsets=np.cumsum([0, *map(len, sets)]).astype(np.int32),
        category_values=np.array([code for codes in sets for code in codes], np.int32),
        values=rng.normal(size=(n_leaves, n_outputs)).astype(dtype),
    )


def _random_order(rng: np.random.Generator, children: dict[int, tuple[int, int]]) -> list[int]:
    """All nodes, parents before children, otherwise at random."""
    order, ready = [], [0]
    while ready:
        node = ready.pop(rng.integers(len(ready)))
        order.append(node)
        ready += children.get(node, ())
    return order


def _random_counts(
    rng: np.random.Generator, children: dict[int, tuple[int, int]], n_nodes: int
) -> list[int]:
    counts = [0 if node in children else int(rng.integers(1, 50)) for node in range(n_nodes)]
    for node, (left, right) in reversed(children.items()):  # children are numbered later
        counts[node] = counts[left] + counts[right]
    return counts


def _random_split(
    rng: np.random.Generator, binning: Binning
) -> tuple[int, float, bool, tuple[int, ...]]:
    """Feature, threshold, default_left and the categories that go left."""
    j = int(rng.integers(binning.features.n_features))
    codes = binning.categories[j]
    if codes is not None:
        chosen = rng.choice(codes, rng.integers(1, len(codes) + 1), replace=False)
        return j, math.nan, False, tuple(np.sort(chosen).tolist())
    threshold = rng.choice(np.append(binning.cuts[j].astype(np.float64), np.inf))
    return j, float(threshold), bool(rng.integers(2)), ()


def stump(
    threshold: float = math.nan,
    default_left: bool = False,
    categories: tuple[int, ...] = (),
    values: Any = ((-1.0,), (1.0,)),
    **changes: Any,
) -> Tree:
    """A split of feature 0 with leaf 0 on the left and leaf 1 on the right."""
    parts: dict[str, Any] = {
        "feature": [0, -1, -1],
        "threshold": [threshold, math.nan, math.nan],
        "default_left": [default_left, False, False],
        "left": [1, -1, -1],
        "right": [2, -1, -1],
        "leaf": [-1, 0, 1],
        "gain": [8.0, 0.0, 0.0],
        "cover": [5.0, 2.0, 3.0],
        "count": [4, 1, 3],
        "category_offsets": [0] + 3 * [len(categories)],
        "category_values": list(categories),
        "values": np.asarray(values),
    }
    return Tree(**{**parts, **changes})


def random_ensemble(
    seed: int,
    comparison: Comparison = "<=",
    dtype: Any = np.float64,
    n_trees: int = 5,
    n_outputs: int = 3,
    n_leaves: int = 8,
    **options: Any,
) -> tuple[Ensemble, Binning]:
    """An ensemble, and the binning its thresholds come from."""
    rng = np.random.default_rng(seed)
    binning = random_binning(rng, comparison, **options)
    trees = tuple(
        random_tree(rng, binning, n_outputs, int(rng.integers(1, n_leaves + 1)), dtype)
        for _ in range(n_trees)
    )
    base_score = rng.normal(size=n_outputs).astype(dtype)
    metadata: dict[str, Any] = {"objective": "softmax", "n_classes": n_outputs, "rate": 0.1}
    return Ensemble(trees, base_score, binning.features, "softmax", metadata), binning


def telling_values(binning: Binning, j: int) -> NDArray[np.float64]:
    """Every cut and its neighbours, or categories and what is almost one; odd values too."""
    features = binning.features
    odd = [math.nan, math.inf, -math.inf, -0.5, -0.0, 0.0, 3.7, -1.0, -3.0, 1e9, 1e-36, 1e-35, ZERO]
    odd += [2.0**31, -(2.0**31), 2.0**32, 2.0**63, 1e300, -1e300, 5e-324]
    codes = binning.categories[j]
    if codes is not None:
        near = np.concatenate([codes - 0.5, codes, codes + 0.5, codes + 1.0])
    else:
        cuts = binning.cuts[j]
        up, down = features.dtype.type(math.inf), features.dtype.type(-math.inf)
        near = np.concatenate([cuts, np.nextafter(cuts, up), np.nextafter(cuts, down)])
    return np.concatenate([np.array(odd), near.astype(np.float64)])


def random_rows(
    rng: np.random.Generator, binning: Binning, n_samples: int = 64
) -> NDArray[np.float64]:
    """Rows of telling values."""
    columns = [
        rng.choice(telling_values(binning, j), n_samples)
        for j in range(binning.features.n_features)
    ]
    return np.column_stack(columns)


def goes_left(tree: Tree, node: int, features: FeatureSpace, value: float) -> bool:
    """What the documentation of ``Tree`` and ``FeatureSpace`` says, word for word."""
    j = tree.feature[node]
    with np.errstate(over="ignore"):
        x = float(features.dtype.type(value))
    if features.categorical[j]:
        codes = slice(tree.category_offsets[node], tree.category_offsets[node + 1])
        return math.isfinite(x) and x > -1 and int(x) in tree.category_values[codes].tolist()
    if math.isnan(x) and features.missing[j] == MISSING_NONE:
        x = 0.0
    if math.isnan(x) or (features.missing[j] == MISSING_ZERO and abs(x) <= ZERO):
        return bool(tree.default_left[node])
    threshold = float(tree.threshold[node])
    if threshold == math.inf:
        return True
    return x < threshold if features.comparison == "<" else x <= threshold


def walk(tree: Tree, features: FeatureSpace, row: NDArray[np.float64]) -> int:
    """The leaf of one row."""
    node = 0
    while tree.feature[node] >= 0:
        left = goes_left(tree, node, features, float(row[tree.feature[node]]))
        node = int(tree.left[node] if left else tree.right[node])
    return int(tree.leaf[node])


def naive_leaves(ensemble: Ensemble, X: NDArray[np.float64]) -> NDArray[np.int64]:
    """(n_samples, n_trees) leaves."""
    leaves = [[walk(tree, ensemble.features, row) for tree in ensemble.trees] for row in X]
    return np.array(leaves, dtype=np.int64).reshape(len(X), len(ensemble))


def naive_raw(ensemble: Ensemble, X: NDArray[np.float64]) -> NDArray[Any]:
    """(n_samples, n_outputs) sums in the dtype of the model, tree after tree."""
    raw = np.tile(ensemble.base_score, (len(X), 1))
    for tree, leaves in zip(ensemble.trees, naive_leaves(ensemble, X).T, strict=True):
        raw += tree.values[leaves]
    return raw


def same_bits(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Whether two arrays agree in dtype, shape and every bit, also of NaN and -0.0."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
