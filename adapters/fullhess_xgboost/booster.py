"""A genuine ``xgboost.Booster`` whose vector trees are grown by the engine.

While it trains, the trees live in the engine and the host's handle knows none of
them: a model that is evaluated every round need not be written every round. Whoever
asks for the handle (every method of the host that looks at trees does) gets it
brought up to date first.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from fullhess.ensemble import Ensemble

from .export import TreeCache, model_bytes
from .host import AT_LEAST_3_4, xgboost
from .importer import from_xgboost
from .objective import Problem, find_problem
from .params import NEW, check_new_unused, merge, translate
from .run import Derivatives, Derive, Run

__all__ = ["Booster"]

_EVALUATION = ("eval_metric", "disable_default_eval_metric", "nthread", "verbosity", "seed")
_INFINITY = re.compile(r'("split_condition": -?)inf\b')
_KEPT_IN_PICKLES = ("handle", "_params")


def _without_export(name: str) -> Callable[..., Any]:
    """A method of the host that uses the handle, but not its trees."""
    original = getattr(xgboost.Booster, name)

    @functools.wraps(original)
    def method(self: Booster, *args: Any, **kwargs: Any) -> Any:
        with self._stale_handle():
            return original(self, *args, **kwargs)

    return method


class Booster(xgboost.Booster):  # type: ignore[misc]
    """XGBoost's booster; vector objectives are trained with the full Hessian.

    Multinomial objectives, and custom ones of several outputs, are trained by fullhess;
    everything else by XGBoost itself. ``native`` is the model in fullhess' own form.
    """

    _run: Run | None = None
    _native: Ensemble | None = None
    _exported = 0  # rounds of the run that the handle knows
    _may_be_stale = False
    _changed = False  # parameters, since the last round
    _encoded: TreeCache

    def __init__(self, params: Any = None, cache: Any = None, model_file: Any = None) -> None:
        self._params: dict[str, Any] = {}
        super().__init__(params, cache, model_file)

    # The handle.

    @property
    def handle(self) -> Any:
        """The host's pointer to the model, with all trees."""
        if not self._may_be_stale:
            self._export()
        return self.__dict__.get("handle")

    @handle.setter
    def handle(self, value: Any) -> None:
        self.__dict__["handle"] = value

    @contextmanager
    def _stale_handle(self) -> Iterator[None]:
        before = self._may_be_stale
        self._may_be_stale = True
        try:
            yield
        finally:
            self._may_be_stale = before

    attr = _without_export("attr")
    attributes = _without_export("attributes")
    set_attr = _without_export("set_attr")
    _get_feature_info = _without_export("_get_feature_info")
    _set_feature_info = _without_export("_set_feature_info")

    def _export(self) -> None:
        """Write the trees of the run into the handle."""
        run = self._run
        if run is None or self._exported == run.trainer.n_rounds:
            return
        with self._stale_handle():
            model = run.trainer.model()
            has_categories = any(tree.is_categorical.any() for tree in model.trees)
            data = model_bytes(
                model,
                # Older readers lose the categories of vector leaves when they save.
                layout="scalar" if has_categories and not AT_LEAST_3_4 else "vector",
                objective=run.problem.objective,
                feature_names=self.feature_names or [],
                feature_types=self.feature_types or [],
                categories=run.data.categories,
                attributes=self.attributes(),
                cache=self._encoded,
            )
            super().load_model(bytearray(data))
        self._exported = run.trainer.n_rounds

    def __del__(self) -> None:
        self._run = None  # nothing is exported any more
        super().__del__()

    # Parameters.

    def set_param(self, params: Any, value: Any = None) -> None:
        """As the host's; fullhess' own parameters are known here, too."""
        if isinstance(params, Mapping):
            items = list(params.items())
        elif isinstance(params, str):
            items = [(params, value)]
        else:
            items = list(params)
        self._params = merge(self._params, items)
        self._changed = True
        with self._stale_handle():
            super().set_param([(name, entry) for name, entry in items if name not in NEW])

    def _metrics(self) -> dict[str, Any]:
        return {name: self._params[name] for name in _EVALUATION if name in self._params}

    # Training.

    def update(self, dtrain: Any, iteration: int, fobj: Any = None) -> None:
        """Add one round, see ``xgboost.Booster.update``.

        fobj : may return the Hessian as (n, k), (n, k, k) or packed (n, k(k+1)/2).
        """
        problem = self._problem(dtrain, fobj)
        if problem is None:
            self._leave_to_host()
            super().update(dtrain, iteration, fobj)
            return
        derive = None if fobj is None else _derivation(fobj, iteration, dtrain)
        self._boost(problem, dtrain, derive)

    def boost(
        self, dtrain: Any, iteration: int = 0, *, grad: Any = None, hess: Any = None,
        fobj: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        """Add one round from derivatives, see ``xgboost.Booster.boost``."""
        given = grad is not None and hess is not None
        problem = self._problem(dtrain, fobj if fobj is not None else given or None)
        if problem is None or not (given or fobj is not None) or (given and fobj is not None):
            self._leave_to_host()
            super().boost(dtrain, iteration, grad=grad, hess=hess, fobj=fobj, **kwargs)
            return
        derive = _derivation(fobj, iteration, dtrain) if fobj else lambda raw: (grad, hess)
        self._boost(problem, dtrain, derive)

    def _problem(self, dtrain: Any, fobj: Any) -> Problem | None:
        if not isinstance(dtrain, xgboost.DMatrix):
            raise TypeError(f"Invalid training matrix: {type(dtrain).__name__}")
        return find_problem(self, self._params, dtrain, fobj)

    def _leave_to_host(self) -> None:
        why = f"objective {self._params.get('objective', 'reg:squarederror')!r} is not one of "
        check_new_unused(self._params, why + "several interacting scores")
        self._end_run()
        self._native = None

    def _boost(self, problem: Problem, dtrain: Any, derive: Derive | None) -> None:
        self._assign_dmatrix_features(dtrain)
        run = self._run
        if run is None or not run.trains_on(dtrain) or run.problem != problem:
            self._end_run()
            self._run = run = self._begin(problem, dtrain, derive)
            self._encoded = TreeCache()
        elif self._changed:
            run.set_settings(translate(self._params, warn=False))
            run.set_metrics(self._metrics())
        self._changed = False
        run.step(derive)
        self._native = None

    def _begin(self, problem: Problem, dtrain: Any, derive: Derive | None) -> Run:
        """A run on this data that continues whatever model there is."""
        settings = translate(self._params)
        self._changed = False
        self._exported = self.num_boosted_rounds()
        if not self._exported:
            return Run(problem, settings, dtrain, self._metrics(), derive)
        # What the model so far predicts, whatever becomes of this booster.
        before = xgboost.Booster(model_file=self)
        model = replace(self.native, best_iteration=None)

        def start(dmatrix: Any) -> Any:
            margin = before.predict(dmatrix, output_margin=True, strict_shape=True)
            return margin.reshape(-1, problem.n_outputs)

        return Run(problem, settings, dtrain, self._metrics(), derive, model, start)

    def _end_run(self) -> None:
        """Keep the trees, let go of the data."""
        if self._run is not None:
            self._export()
            self._native = self.native
            self._run.close()
            self._run = None

    # Evaluation and what else changes with a run.

    def eval_set(
        self, evals: Sequence[tuple[Any, str]], iteration: int = 0, feval: Any = None,
        output_margin: bool = True,
    ) -> str:  # fmt: skip
        """The host's metrics as a line of text, see ``xgboost.Booster.eval_set``."""
        if self._run is None:
            return str(super().eval_set(evals, iteration, feval, output_margin))
        for dmatrix, name in evals:
            if not isinstance(dmatrix, xgboost.DMatrix):
                raise TypeError(f"expected DMatrix, got {type(dmatrix).__name__}")
            if not isinstance(name, str):
                raise TypeError(f"expected string, got {type(name).__name__}")
            self._assign_dmatrix_features(dmatrix)
        return self._run.evaluate(evals, iteration, feval, output_margin)

    def num_boosted_rounds(self) -> int:
        """Number of rounds."""
        if self._run is not None:
            return self._run.trainer.n_rounds
        return int(super().num_boosted_rounds())

    def num_features(self) -> int:
        """Number of features."""
        if self._run is not None:
            return self._run.data.binned.n_features
        return int(super().num_features())

    def get_dump(
        self, fmap: Any = "", with_stats: bool = False, dump_format: str = "text"
    ) -> list[str]:
        """The trees as text, see ``xgboost.Booster.get_dump``."""
        trees = super().get_dump(fmap, with_stats, dump_format)
        if dump_format != "json":
            return list(trees)
        # "Present against missing" has an infinite condition, which JSON has no word for.
        return [_INFINITY.sub(r"\g<1>3.40282347e+38", tree) for tree in trees]

    def reset(self) -> Booster:
        """Release the data of training."""
        self._end_run()
        super().reset()
        return self

    def load_model(self, fname: Any) -> None:
        """Load a model of XGBoost or fullhess.xgboost in place of this one."""
        with self._stale_handle():
            super().load_model(fname)
        self._run = self._native = None

    @property
    def native(self) -> Ensemble:
        """The model as a ``fullhess.Ensemble``: the same margins, bit for bit."""
        if self._native is None:
            model = from_xgboost(self) if self._run is None else self._run.trainer.model()
            best = self.attr("best_iteration")
            if best is not None and model.best_iteration is None and int(best) < model.n_rounds:
                model = replace(model, best_iteration=int(best))
            self._native = model
        return self._native

    # Copies.

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: state[name] for name in _KEPT_IN_PICKLES}

    def __deepcopy__(self, memo: Any) -> Booster:
        return type(self)(model_file=self)

    def __getitem__(self, rounds: Any) -> Booster:
        sliced = super().__getitem__(rounds)
        result = type(self)()
        sliced.__dict__["handle"], result.__dict__["handle"] = (
            result.__dict__["handle"],
            sliced.__dict__["handle"],
        )
        result._params = dict(self._params)
        return result


def _derivation(fobj: Any, iteration: int, dtrain: Any) -> Derive:
    """An objective function of XGBoost as a function of the scores."""

    def derive(raw: Any) -> Derivatives:
        if isinstance(fobj, xgboost.objective.Objective):
            found = fobj(iteration, raw, dtrain)
        else:
            found = fobj(raw, dtrain)
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            raise TypeError(
                f"a custom objective must return (gradient, hessian), got {type(found).__name__}"
            )
        gradient, hessian = (np.asarray(part) for part in found)
        return gradient, hessian

    return derive
