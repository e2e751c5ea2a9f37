"""Compiling the kernels ahead of time: ``python -m fullhess.warmup``.

Numba compiles a kernel when it is first called and keeps the result on disk. The
first training on a machine therefore takes some seconds longer; this command
takes them beforehand (in an image build, before a benchmark).
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import numpy as np

from .kernels.splitting import find_best_splits

__all__ = ["is_cold", "notice_cold_cache", "warm_up"]

logger = logging.getLogger("fullhess")
_noticed = False


def is_cold() -> bool:
    """Whether the split search, the largest kernel, is neither loaded nor on disk."""
    if find_best_splits.signatures:
        return False
    path = find_best_splits.stats.cache_path
    if path is None:
        return True
    return not any(Path(path).glob("splitting.find_best_splits-*.nbi"))


def notice_cold_cache() -> None:
    """Say once why the first training takes longer."""
    global _noticed
    if _noticed or not is_cold():
        return
    _noticed = True
    print(
        "fullhess: compiling kernels for this machine (once, about 30 s; "
        "'python -m fullhess.warmup' does it ahead of time)",
        flush=True,
    )


def warm_up(n_classes: tuple[int, ...] = (3, 5, 7, 10)) -> float:
    """Train and predict on a few rows so that the kernels are compiled; seconds taken.

    ``n_classes`` are numbers of classes whose histogram kernels (one for each row
    width) are wanted.
    """
    from .bins import BinnedMatrix
    from .boosting import EvalSet, train

    global _noticed
    _noticed = True
    start = time.perf_counter()
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 4))
    X[:, 3] = generator.integers(0, 6, 200)
    X[::9, 1] = np.nan
    binned = BinnedMatrix.from_quantiles(X, max_bins=32, categorical=[3])
    # As XGBoost has it: in float32, and with 256 bins and missing values, which take uint16.
    cuts = [[0.0], np.linspace(-3, 3, 255), [0.0], []]
    single = BinnedMatrix.from_cuts(X, cuts, comparison="<", categories={3: range(6)})
    settings: list[tuple[BinnedMatrix, dict[str, Any]]] = [
        (binned, {}),
        (single, {"margin_dtype": "float32"}),
        (binned, {"leaf_prior": "ridge"}),
        (binned, {"split_hessian": "diagonal", "leaf_solver": "damped"}),
    ]
    for k in n_classes:
        label = np.arange(200) % k
        for data, extra in settings if k == n_classes[0] else settings[:1]:
            params = {"max_depth": 3, "min_child_weight": 0.0, **extra}
            model = train(params, data, label, evals=[EvalSet(data, label)], num_boost_round=2)
            model.predict(X)
    return time.perf_counter() - start


def main() -> None:
    was_cold = is_cold()
    seconds = warm_up()
    path = find_best_splits.stats.cache_path or "nowhere: no cache directory is writable"
    print(f"kernels {'compiled' if was_cold else 'checked'} in {seconds:.1f} s, kept in {path}")


if __name__ == "__main__":
    main()
