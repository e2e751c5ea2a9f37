"""A training run in steps, for loops of any kind: ``train``'s own or a host library's."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .auto import resolve_leaf_prior, resolve_split_hessian
from .bins import BinnedMatrix
from .ensemble import Ensemble, Scalar
from .forest import add_tree_on_bins
from .grower import Grower
from .kernels.partition import add_leaf_values
from .leaf_problem import LeafProblem
from .leaves import PATH_MAX_OUTPUTS, effective_solver, solve_leaves
from .memory import aligned_zeros
from .objectives import CustomObjective, LeafRows, Objective
from .params import ParameterError, Params
from .sampling import ColumnSampler, round_generator, sample_goss, sample_rows
from .threads import Workers
from .tree import Tree
from .validation import (
    check_base_score,
    check_binned,
    check_constraints,
    check_feature_weights,
    check_hessians,
    check_margin,
    check_weight,
    choose_objective,
)

__all__ = ["Follower", "Trainer"]

# Settings that are part of the state of a run.
_FIXED = ("objective", "num_class", "margin_dtype", "n_jobs")


class Trainer:
    """One boosting run; ``step`` adds a round.

    Parameters
    ----------
    params, binned, label, weight, base_margin, init_model, objective : as in ``train``.
    init_margin : (n_samples, k) scores of ``init_model`` on these rows. Without them they
        are computed on the bins, for which its thresholds must be cuts of the binning.
    base_score : (k,) intercept instead of the objective's own.
    feature_weights : (n_features,) chances of the features in column sampling.

    Attributes
    ----------
    params : the settings, with ``leaf_prior="auto"`` decided.
    raw : (n_samples, k) scores of the training rows after the rounds so far. The next but
        one round writes over this array.
    """

    def __init__(
        self,
        params: dict[str, Any] | Params | None,
        binned: BinnedMatrix,
        label: Any,
        *,
        weight: Any = None,
        base_margin: Any = None,
        init_model: Ensemble | None = None,
        init_margin: Any = None,
        base_score: Any = None,
        objective: Objective | None = None,
        feature_weights: Any = None,
    ) -> None:
        given = Params.from_dict(params)
        check_binned(binned)
        self.objective = choose_objective(given, objective, label, init_model)
        self.params = resolve_leaf_prior(given, self.objective)
        self.binned = binned
        self.label = self.objective.check_label(label, binned.n_samples)
        self.weight = check_weight(weight, binned.n_samples)
        self.feature_weights = check_feature_weights(feature_weights, binned.n_features)
        if isinstance(self.objective, CustomObjective):
            self.objective.probe(self.label)
        self.workers = Workers(self.params.n_jobs)
        self.init_model = init_model
        self.trees: list[Tree] = []
        self.indptr = [0]
        self.base_score = self._start(base_score)
        self.raw = self._margins(binned, base_margin, init_margin, "")
        self._next_raw = np.empty_like(self.raw)  # new memory in every round would cost more
        self._configure(self.params)

    def __enter__(self) -> Trainer:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the threads; a further step starts them again."""
        self.workers.close()

    @property
    def n_rounds(self) -> int:
        """Rounds so far, those of ``init_model`` included."""
        return len(self.indptr) - 1

    def set_params(self, params: dict[str, Any] | Params) -> None:
        """Settings of the rounds to come."""
        settings = resolve_leaf_prior(Params.from_dict(params), self.objective)
        for name in _FIXED:
            if getattr(settings, name) != getattr(self.params, name):
                raise ParameterError(
                    f"{name} is fixed when training begins: it was "
                    f"{getattr(self.params, name)!r}, got {getattr(settings, name)!r}"
                )
        if replace(settings, learning_rate=self.params.learning_rate) != self.params:
            self._configure(settings)
        self.params = settings

    def _configure(self, params: Params) -> None:
        """Everything that follows from the settings."""
        objective = self.objective
        check_hessians(params, objective)
        check_constraints(params, self.binned.binning.features)
        if params.leaf_prior == "path" and objective.n_outputs > PATH_MAX_OUTPUTS:
            raise ValueError(
                f"leaf_prior='path' keeps a k×k matrix for every node and is limited to "
                f"{PATH_MAX_OUTPUTS} outputs, got {objective.n_outputs}; use leaf_prior='ridge'"
            )
        split_hessian = resolve_split_hessian(params, objective, self.binned)
        layout = objective.layout(split_hessian)
        damped = params.split_gain == "guaranteed" and objective.range_bound
        grower = Grower(self.binned, layout, params, damped, self.workers)
        stats = aligned_zeros((self.binned.n_samples, layout.width), np.float32)
        # Only now, when nothing can fail any more, does the run change.
        self.split_hessian, self.grower, self.stats = split_hessian, grower, stats

    def _start(self, base_score: Any) -> NDArray[Any]:
        """Take over the trees to begin with; the intercept."""
        dtype = np.dtype(self.params.margin_dtype)
        k = self.objective.n_outputs
        model = self.init_model
        if model is None:
            if base_score is not None:
                return check_base_score(base_score, k, dtype)
            return self.objective.intercept(self.label, self.weight).astype(dtype)
        if base_score is not None:
            raise ValueError("base_score comes with init_model; pass one of them")
        if model.n_outputs != k:
            raise ValueError(f"init_model has {model.n_outputs} outputs, the labels ask for {k}")
        if model.dtype != dtype:
            raise ValueError(
                f"init_model has margins in {model.dtype}; set margin_dtype="
                f"'{model.dtype}' to continue it"
            )
        if model.best_iteration is not None:
            model = model[: model.best_iteration + 1]
        self.init_model = model
        self.trees = list(model.trees)
        self.indptr = model.iteration_indptr.tolist()
        return model.base_score

    def _margins(
        self, binned: BinnedMatrix, base_margin: Any, init_margin: Any, whose: str
    ) -> NDArray[Any]:
        """(n, k) scores before the first new round."""
        shape = (binned.n_samples, self.objective.n_outputs)
        dtype = self.base_score.dtype
        if init_margin is not None:
            if base_margin is not None:
                raise ValueError(
                    f"init_margin{whose} holds the scores after init_model, base_margin those "
                    "before it; pass one of them"
                )
            return check_margin(init_margin, shape, "init_margin" + whose, dtype)
        margin = None
        if base_margin is not None:
            margin = check_margin(base_margin, shape, "base_margin" + whose, dtype)
        if self.init_model is not None and self.init_model.trees:
            n_jobs = self.workers.n_threads
            return self.init_model.predict_raw(binned, base_margin=margin, n_jobs=n_jobs)
        return np.tile(self.base_score, (shape[0], 1)) if margin is None else margin

    def follow(
        self, binned: BinnedMatrix, *, base_margin: Any = None, init_margin: Any = None,
        name: str = "",
    ) -> Follower:  # fmt: skip
        """The scores of other data, kept up to date with the rounds.

        name : of the data, for messages.
        """
        binned.check_codes()
        if not binned.binning.same_as(self.binned.binning):
            raise ValueError(
                f"evaluation set {name!r} is binned with other cuts than the training data; "
                "encode it with binned.binning.encode(X)"
            )
        whose = f" of {name!r}" if name else ""
        follower = Follower(self, binned, self._margins(binned, base_margin, init_margin, whose))
        follower.n_trees = 0 if self.init_model is None else len(self.init_model.trees)
        return follower

    def step(self, learning_rate: float | None = None) -> None:
        """Add one round. When it fails or is interrupted, the run is as before.

        learning_rate : of this round, instead of the setting.
        """
        rate = self.params.learning_rate
        if learning_rate is not None:
            rate = replace(self.params, learning_rate=learning_rate).learning_rate
        generators = self._generators()
        n_trees = self.params.num_parallel_tree
        raw = self._next_raw
        np.copyto(raw, self.raw)
        if n_trees == 1:
            trees = [self._add(*self._grow(*generators, rate), raw)]
        else:  # a grown tree's rows are overwritten by the next one
            trees = [self._grow(*generators, rate / n_trees)[0] for _ in range(n_trees)]
            for tree in trees:
                add_tree_on_bins(tree, self.binned, raw, self.workers)
        trees = self.trees + trees
        indptr = [*self.indptr, len(trees)]
        self._next_raw = self.raw
        self.raw, self.trees, self.indptr = raw, trees, indptr

    def _generators(self) -> tuple[np.random.Generator, np.random.Generator]:
        """Random numbers of a round: of its rows, and of all else."""
        params = self.params
        generator = round_generator(params.random_state, self.n_rounds)
        if params.subsample_freq == 1:
            return generator, generator
        since = self.n_rounds - self.n_rounds % params.subsample_freq
        return round_generator(params.random_state, since, 1), generator

    def _grow(
        self,
        row_generator: np.random.Generator,
        generator: np.random.Generator,
        learning_rate: float,
    ) -> tuple[Tree, LeafRows | None]:
        """Grow one tree and solve its leaves; the rows of these if they are all rows."""
        params = self.params
        columns = ColumnSampler(self.binned.n_features, params, generator, self.feature_weights)
        rows, weight = self._sample(row_generator)
        seed = int(generator.integers(2**62)) if params.extra_trees else -1
        self.objective.write_statistics(
            self.raw, self.label, weight, rows, self.split_hessian, self.stats, self.workers
        )
        grown = self.grower.grow(self.stats, rows, columns, seed)
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
        return tree, grown.leaves if len(rows) == self.binned.n_samples else None

    def _sample(
        self, generator: np.random.Generator
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Rows of the next tree and the weights of all rows."""
        params = self.params
        n = self.binned.n_samples
        importance = factor = None
        if params.sampling_method == "goss":
            if self.n_rounds + 1 <= 1.0 / params.learning_rate:  # gradients still say little
                return np.arange(n, dtype=np.int32), self.weight
            gradient, curvature = self._row_statistics()
            importance = np.abs(gradient * curvature).sum(axis=1)
            rows, factor = sample_goss(importance, params.top_rate, params.other_rate, generator)
        else:
            if params.sampling_method == "gradient_based" and params.subsample < 1.0:
                importance = np.linalg.norm(self._row_statistics()[0], axis=1)
            rows, factor = sample_rows(importance, n, params.subsample, generator)
        return rows, self.weight if factor is None else self.weight * factor

    def _row_statistics(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(n, k) weighted gradients and diagonal curvatures of all rows."""
        k = self.objective.n_outputs
        everything = np.arange(self.binned.n_samples, dtype=np.int32)
        stats = np.zeros((len(everything), self.objective.layout("diagonal").width), np.float32)
        self.objective.write_statistics(
            self.raw, self.label, self.weight, everything, "diagonal", stats, self.workers
        )
        wide = stats.astype(np.float64)
        return wide[:, 1 : 1 + k], wide[:, 1 + k : 1 + 2 * k]

    def _add(self, tree: Tree, leaves: LeafRows | None, raw: NDArray[Any]) -> Tree:
        """Add a tree to scores; the tree."""
        if leaves is None:
            add_tree_on_bins(tree, self.binned, raw, self.workers)
        else:
            self.workers.run_even(
                leaves.end - leaves.begin,
                lambda leaf: add_leaf_values(leaves.of(leaf), tree.values[leaf], raw),
            )
        return tree

    def model(self, best_iteration: int | None = None) -> Ensemble:
        """The model of all rounds so far."""
        settings = {
            name: value
            for name, value in self.params.to_dict().items()
            if name not in ("objective", "num_class", "n_jobs")
        }
        return Ensemble(
            trees=tuple(self.trees),
            base_score=self.base_score,
            features=self.binned.binning.features,
            link=self.objective.link,
            metadata={
                **self.objective.metadata(),
                **{name: _as_scalar(value) for name, value in settings.items()},
                "split_hessian": self.split_hessian,
                "leaf_solver": effective_solver(self.objective, self.params),
            },
            best_iteration=best_iteration,
            iteration_indptr=np.array(self.indptr),
        )


def _as_scalar(value: Any) -> Scalar:
    return json.dumps(value) if isinstance(value, tuple) else value


@dataclass(eq=False)
class Follower:
    """Scores of data that are not trained on."""

    trainer: Trainer
    binned: BinnedMatrix
    scores: NDArray[Any]
    n_trees: int = 0  # trees in the scores

    @property
    def raw(self) -> NDArray[Any]:
        """(n, k) scores after all rounds so far."""
        trees = self.trainer.trees
        for tree in trees[self.n_trees :]:
            add_tree_on_bins(tree, self.binned, self.scores, self.trainer.workers)
        self.n_trees = len(trees)
        return self.scores
