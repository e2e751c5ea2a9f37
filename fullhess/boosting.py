"""The boosting loop."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bins import BinnedMatrix
from .callbacks import CallbackList, Evaluation, TrainingState
from .ensemble import Ensemble
from .forest import add_tree_on_bins
from .grower import Grower, GrownTree
from .kernels.partition import add_leaf_values
from .leaves import PATH_MAX_OUTPUTS, LeafProblem, effective_solver, solve_leaves
from .objectives import CustomObjective, Objective
from .params import Params
from .sampling import ColumnSampler, round_generator, sample_rows
from .threads import Workers
from .tree import Tree
from .validation import (
    check_binned,
    check_hessians,
    check_margin,
    check_rounds,
    check_weight,
    choose_objective,
    read_metrics,
)
from .warmup import notice_cold_cache

__all__ = ["EvalSet", "train"]

logger = logging.getLogger("fullhess")

# Scores up to which ``split_hessian="auto"`` searches splits with the full matrix. On one
# thread, 20k × 30, a round in full took 1.9 times as long as with the diagonal at k=10,
# 3.0 times at 16, 5.6 times at 26.
FULL_SPLIT_MAX_OUTPUTS = 16


@dataclass(frozen=True, eq=False)
class EvalSet:
    """Data to evaluate after every round.

    Attributes
    ----------
    binned : with the binning of the training data.
    label, weight, base_margin : as in ``train``.
    name : under which the metrics appear.
    """

    binned: BinnedMatrix
    label: Any
    weight: Any = None
    base_margin: Any = None
    name: str = "valid"


def train(
    params: dict[str, Any] | Params | None,
    binned: BinnedMatrix,
    label: Any,
    *,
    weight: Any = None,
    base_margin: Any = None,
    evals: Sequence[EvalSet] = (),
    num_boost_round: int = 100,
    callbacks: Iterable[Any] = (),
    init_model: Ensemble | None = None,
    objective: Objective | None = None,
    metric: Any = None,
) -> Ensemble:
    """Boost trees with vector leaves.

    Parameters
    ----------
    params : names and values, see ``Params``.
    binned : (n_samples, n_features) bin codes.
    label : (n_samples,) classes 0 to k - 1, or (n_samples, k) targets.
    weight : (n_samples,) non-negative sample weights.
    base_margin : (n_samples, k) scores to start from instead of the intercept.
    evals : data to evaluate; the last one is what early stopping watches.
    num_boost_round : rounds to add.
    callbacks : ``Callback`` objects or functions of the training state.
    init_model : model to continue; its rounds come first in the result. With
        ``best_iteration`` set, training continues from that round.
    objective : an ``Objective`` of one's own (``CustomObjective``) in place of
        ``params["objective"]``.
    metric : name, function, or a list of these; by default the objective's own.

    Returns
    -------
    Ensemble, also after a KeyboardInterrupt: the rounds finished until then.
    """
    settings = Params.from_dict(params)
    n_rounds = check_rounds(num_boost_round)
    check_binned(binned)
    chosen = choose_objective(settings, objective, label, init_model)
    with Workers(settings.n_jobs) as workers:
        session = _Session(
            settings, chosen, binned, label, weight, base_margin, evals, metric, init_model, workers
        )
        return session.run(n_rounds, CallbackList(callbacks))


class _Session:
    """The state of one training run."""

    def __init__(
        self,
        params: Params,
        objective: Objective,
        binned: BinnedMatrix,
        label: Any,
        weight: Any,
        base_margin: Any,
        evals: Sequence[EvalSet],
        metric: Any,
        init_model: Ensemble | None,
        workers: Workers,
    ) -> None:
        self.params = params
        self.objective = objective
        self.binned = binned
        self.workers = workers
        self.label = objective.check_label(label, binned.n_samples)
        self.weight = check_weight(weight, binned.n_samples)
        if isinstance(objective, CustomObjective):
            objective.probe(self.label)
        check_hessians(params, objective)
        if params.leaf_prior == "path" and objective.n_outputs > PATH_MAX_OUTPUTS:
            raise ValueError(
                f"leaf_prior='path' keeps a k×k matrix for every node and is limited to "
                f"{PATH_MAX_OUTPUTS} outputs, got {objective.n_outputs}; use leaf_prior='ridge'"
            )
        self.split_hessian = resolve_split_hessian(params, objective, binned)
        self.trees, self.base_score = self._start(init_model)
        self.n_init = len(self.trees)
        self.init_model = init_model
        self.raw = self._margins(binned, base_margin, "base_margin")
        self.metrics = read_metrics(metric, objective)
        self.evals = [self._read_eval(item, base_margin) for item in _check_evals(evals)]
        layout = objective.layout(self.split_hessian)
        damped = params.split_gain == "guaranteed" and objective.range_bound
        self.grower = Grower(binned, layout, params, damped, workers)
        self.stats = np.zeros((binned.n_samples, layout.width), np.float32)

    def _start(self, init_model: Ensemble | None) -> tuple[list[Tree], NDArray[Any]]:
        """Trees and intercept to begin with."""
        dtype = np.dtype(self.params.margin_dtype)
        if init_model is None:
            return [], self.objective.intercept(self.label, self.weight).astype(dtype)
        if init_model.n_outputs != self.objective.n_outputs:
            raise ValueError(
                f"init_model has {init_model.n_outputs} outputs, the labels ask for "
                f"{self.objective.n_outputs}"
            )
        if init_model.dtype != dtype:
            raise ValueError(
                f"init_model has margins in {init_model.dtype}; set margin_dtype="
                f"'{init_model.dtype}' to continue it"
            )
        best = init_model.best_iteration
        kept = init_model.trees if best is None else init_model.trees[: best + 1]
        return list(kept), init_model.base_score

    def _margins(self, binned: BinnedMatrix, base_margin: Any, what: str) -> NDArray[Any]:
        """(n, k) scores before the first new round."""
        shape = (binned.n_samples, self.objective.n_outputs)
        margin = None if base_margin is None else check_margin(base_margin, shape, what)
        if self.trees:
            assert self.init_model is not None
            start = replace(self.init_model, trees=tuple(self.trees), best_iteration=None)
            return start.predict_raw(binned, base_margin=margin, n_jobs=self.workers.n_threads)
        if margin is None:
            return np.tile(self.base_score, (shape[0], 1))
        return margin.astype(self.base_score.dtype)

    def _read_eval(self, item: EvalSet, train_margin: Any) -> _Eval:
        item.binned.check_codes()
        if not item.binned.binning.same_as(self.binned.binning):
            raise ValueError(
                f"evaluation set {item.name!r} is binned with other cuts than the training data; "
                "encode it with binned.binning.encode(X)"
            )
        label = self.objective.check_label(item.label, item.binned.n_samples)
        weight = None
        if item.weight is not None:
            weight = check_weight(item.weight, item.binned.n_samples)
        # The training set among the evaluation sets shares the margins of the loop.
        shared = item.binned is self.binned and item.base_margin is train_margin
        what = f"base_margin of {item.name!r}"
        raw = self.raw if shared else self._margins(item.binned, item.base_margin, what)
        return _Eval(item.name, item.binned, label, weight, raw, shared)

    def run(self, num_boost_round: int, callbacks: CallbackList) -> Ensemble:
        state = TrainingState(self.params, num_boost_round, build_model=lambda: self._model(None))
        notice_cold_cache()
        callbacks.before_training(state)
        try:
            for iteration in range(num_boost_round):
                state.iteration = iteration
                callbacks.before_iteration(state)
                tree = self._boost(self.n_init + iteration, state.learning_rate)
                self._append(tree)
                state.record(self._evaluate())
                if callbacks.after_iteration(state):
                    break
        except KeyboardInterrupt:
            n_rounds = len(self.trees) - self.n_init
            warnings.warn(
                f"training was interrupted after {n_rounds} of {num_boost_round} rounds; "
                "the model holds these",
                UserWarning,
                stacklevel=3,
            )
        callbacks.after_training(state)
        return self._model(state.best_iteration)

    def _boost(self, round_: int, learning_rate: float) -> tuple[Tree, GrownTree, bool]:
        """Grow one tree and solve its leaves; nothing of the session changes."""
        params = self.params
        generator = round_generator(params.random_state, round_)
        columns = ColumnSampler(self.binned.n_features, params, generator)
        rows, weight = self._sample(generator)
        self.objective.write_statistics(
            self.raw, self.label, weight, rows, self.split_hessian, self.stats, self.workers
        )
        grown = self.grower.grow(self.stats, rows, columns)
        problem = LeafProblem(
            self.objective, self.raw, self.label, weight, grown, self.split_hessian, params,
            self.workers,
        )  # fmt: skip
        values = learning_rate * solve_leaves(problem)
        if not np.isfinite(values).all():
            raise FloatingPointError(
                "a leaf value is not finite; the labels, weights or scores are too extreme"
            )
        tree = grown.tree.with_values(values.astype(self.base_score.dtype))
        return tree, grown, len(rows) == self.binned.n_samples

    def _sample(
        self, generator: np.random.Generator
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Rows of the next tree and the weights of all rows."""
        params = self.params
        n = self.binned.n_samples
        importance = None
        if params.sampling_method == "gradient_based" and params.subsample < 1.0:
            everything = np.arange(n, dtype=np.int32)
            self.objective.write_statistics(
                self.raw, self.label, self.weight, everything, self.split_hessian, self.stats,
                self.workers,
            )  # fmt: skip
            importance = np.linalg.norm(
                self.stats[:, 1 : 1 + self.objective.n_outputs].astype(np.float64), axis=1
            )
        rows, factor = sample_rows(importance, n, params.subsample, generator)
        return rows, self.weight if factor is None else self.weight * factor

    def _append(self, boosted: tuple[Tree, GrownTree, bool]) -> None:
        """Add a finished tree to the model and to all margins."""
        tree, grown, has_all_rows = boosted
        if has_all_rows:
            leaves = grown.leaves
            self.workers.run(
                len(leaves),
                lambda leaf: add_leaf_values(leaves.of(leaf), tree.values[leaf], self.raw),
            )
        else:
            add_tree_on_bins(tree, self.binned, self.raw, self.workers)
        for item in self.evals:
            if not item.shared:
                add_tree_on_bins(tree, item.binned, item.raw, self.workers)
        self.trees.append(tree)

    def _evaluate(self) -> list[Evaluation]:
        results = []
        for item in self.evals:
            for metric in self.metrics:
                value = metric.evaluate(item.raw, item.label, item.weight)
                results.append(
                    Evaluation(item.name, value.name, value.value, value.greater_is_better)
                )
        return results

    def _model(self, best_iteration: int | None) -> Ensemble:
        return Ensemble(
            trees=tuple(self.trees),
            base_score=self.base_score,
            features=self.binned.binning.features,
            link=self.objective.link,
            metadata={
                **self.objective.metadata(),
                **{
                    name: value
                    for name, value in self.params.to_dict().items()
                    if name not in ("objective", "num_class", "n_jobs")
                },
                "split_hessian": self.split_hessian,
                "leaf_solver": effective_solver(self.objective, self.params),
            },
            best_iteration=None if best_iteration is None else self.n_init + best_iteration,
        )


@dataclass(frozen=True, eq=False)
class _Eval:
    name: str
    binned: BinnedMatrix
    label: NDArray[Any]
    weight: NDArray[np.float64] | None
    raw: NDArray[Any]
    shared: bool


def resolve_split_hessian(params: Params, objective: Objective, binned: BinnedMatrix) -> str:
    """The curvature of the split search.

    ``"auto"`` follows ``hessian``, but leaves the full matrix for the diagonal where it
    is costly: more than ``FULL_SPLIT_MAX_OUTPUTS`` scores, or a histogram of more than
    an eighth of the budget. Leaves keep the full matrix.
    """
    if params.split_hessian != "auto":
        return params.split_hessian
    if params.hessian != "full" or objective.layout("full").name == "diagonal":
        return params.hessian
    layout = objective.layout("full")
    size = float(binned.binning.cell_offsets[-1]) * layout.width * 4 / 2**20
    if objective.n_outputs <= FULL_SPLIT_MAX_OUTPUTS and size <= params.max_histogram_mb / 8:
        return "full"
    logger.info(
        "split_hessian='auto': splits are searched with the diagonal of the Hessian "
        "(%d outputs, %.0f MB a full histogram); leaves use the full matrix",
        objective.n_outputs,
        size,
    )
    return "diagonal"


def _check_evals(evals: Any) -> list[EvalSet]:
    items = list(evals or ())
    for item in items:
        if not isinstance(item, EvalSet):
            raise TypeError(
                f"evals must be fullhess.EvalSet objects, got {type(item).__name__}; write "
                "evals=[fullhess.EvalSet(binned, label, name='valid')]"
            )
    names = [item.name for item in items]
    if len(set(names)) != len(names):
        raise ValueError(f"evaluation sets must have different names, got {names}")
    return items
