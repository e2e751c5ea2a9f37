"""LightGBM's Booster, whose training with several scores is the engine's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fullhess import Ensemble, ParameterError

from ._host import HostDataset, lightgbm
from .data import avoid_bundling, check_raw_label
from .importer import from_lightgbm_text
from .params import HostParams, is_vector, split_own
from .run import Run

__all__ = ["Booster", "CVBooster"]

_EvalResult = getattr(lightgbm, "EvalResult", None)  # since 4.7; plain tuples before


class Booster(lightgbm.Booster):  # type: ignore[misc]
    """A Booster of LightGBM in every respect; ``native`` is its model of vector trees.

    Created with a training set and an objective of several scores, it trains with the
    engine. The model is then kept twice: the engine's own trees, which grow, and the
    host's, made of them whenever a method of the host asks for its handle. With any
    other objective, or from a model text, it is the host's own.
    """

    def __init__(
        self,
        params: Mapping[str, Any] | None = None,
        train_set: HostDataset | None = None,
        model_file: Any = None,
        model_str: str | None = None,
    ) -> None:
        self.params: dict[str, Any]
        host = split_own(params)
        if train_set is not None and is_vector(host):
            self._begin(host, train_set)
            return
        if train_set is not None:
            refuse_own(host)
        super().__init__(
            params=dict(host) or None, train_set=train_set, model_file=model_file,
            model_str=model_str,
        )  # fmt: skip
        if train_set is None and not self.params:
            self.params = self._get_loaded_param()  # which 4.5 leaves out for a text

    def _begin(self, params: HostParams, train_set: Any) -> None:
        """Begin a run: what the host's constructor leaves behind, without its trees."""
        if not isinstance(train_set, lightgbm.Dataset):
            raise TypeError(
                f"Training data should be Dataset instance, met {type(train_set).__name__}"
            )
        self.__dict__["_handle"] = None
        self._network = False
        self._Booster__need_reload_eval_info = True
        self._Booster__set_objective_to_none = False
        self._train_data_name = "training"
        self.best_iteration = -1
        self.best_score: Any = {}
        check_raw_label(train_set)
        avoid_bundling(train_set)
        train_set.construct()
        predictor = train_set._predictor
        self._Booster__init_predictor = predictor
        n_init = 0 if predictor is None else predictor.current_iteration()
        everything = {**params, **params.own}
        self._run = Run(everything, train_set, n_init)
        self._Booster__num_class = self._run.n_outputs
        self.params = everything
        self.train_set = train_set
        self.valid_sets: list[Any] = []
        self.name_valid_sets: list[str] = []
        self.train_set_version = train_set.version
        self.pandas_categorical = train_set.pandas_categorical

    @property
    def _training(self) -> Run | None:
        return self.__dict__.get("_run")

    @property
    def _handle(self) -> Any:
        """The host's model, up to date."""
        run = self._training
        if run is not None and run.changed:
            self._replace_handle(run)
            run.changed = False
        return self.__dict__.get("_handle")

    @_handle.setter
    def _handle(self, handle: Any) -> None:
        self.__dict__["_handle"] = handle

    def _replace_handle(self, run: Run) -> None:
        fresh = lightgbm.Booster(model_str=run.text())
        library = lightgbm.basic._LIB
        predictor = self._Booster__init_predictor
        if predictor is not None:  # its trees come first
            lightgbm.basic._safe_call(library.LGBM_BoosterMerge(fresh._handle, predictor._handle))
        old = self.__dict__.get("_handle")
        self.__dict__["_handle"] = fresh._handle
        fresh._handle = None
        if old is not None:
            lightgbm.basic._safe_call(library.LGBM_BoosterFree(old))

    def __del__(self) -> None:
        self.__dict__.pop("_run", None)  # no model is made for the sake of its end
        super().__del__()

    def __deepcopy__(self, *args: Any, **kwargs: Any) -> Booster:
        copy = type(self)(model_str=self.model_to_string(num_iteration=-1))
        copy.params = dict(self.params)
        return copy

    def __getstate__(self) -> dict[str, Any]:
        if self._training is not None:
            self._handle  # noqa: B018  brings the host's model up to date
        state: dict[str, Any] = super().__getstate__()
        for name in ("_run", "_Booster__init_predictor", "_native"):
            state.pop(name, None)
        return state

    @property
    def native(self) -> Ensemble:
        """The model in the engine's form: k trees of one structure are one vector tree.

        Made from the host's text and kept until the model changes.
        """
        if "_native" not in self.__dict__:
            self._native: Ensemble = from_lightgbm_text(self.model_to_string(num_iteration=-1))
        return self._native

    def _model_changes(self) -> None:
        self.__dict__.pop("_native", None)

    def model_from_string(self, model_str: str) -> Booster:
        """Load a model; a run in progress ends."""
        self.__dict__.pop("_run", None)
        self._model_changes()
        super().model_from_string(model_str)
        return self

    def free_dataset(self) -> Booster:
        """Let go of the data; a run in progress ends."""
        if self._training is not None:
            self._handle  # noqa: B018  the last chance to make the host's model
            self.__dict__.pop("_run")
        super().free_dataset()
        return self

    def update(self, train_set: Any = None, fobj: Callable[..., Any] | None = None) -> bool:
        """Add one round; returns whether its tree found no split."""
        run = self._training
        self._model_changes()
        if run is None:
            return bool(super().update(train_set=train_set, fobj=fobj))
        replaced = train_set is not None and train_set is not self.train_set
        if replaced or self.train_set.version != self.train_set_version:
            raise ValueError(
                "the training data of a run, their labels and weights cannot be replaced; train "
                "on the new data with init_model=booster"
            )
        return run.update(fobj)

    def add_valid(self, data: Any, name: str) -> Booster:
        """Add data to evaluate."""
        run = self._training
        if run is None:
            super().add_valid(data, name)
            return self
        if not isinstance(data, lightgbm.Dataset):
            raise TypeError(
                f"Validation data should be Dataset instance, met {type(data).__name__}"
            )
        if data._predictor is not self._Booster__init_predictor:
            raise lightgbm.basic.LightGBMError(
                "Add validation data failed, you should use same predictor for these data"
            )
        check_raw_label(data)
        avoid_bundling(data)
        run.add_valid(data.construct(), name)
        self.valid_sets.append(data)
        self.name_valid_sets.append(name)
        return self

    def reset_parameter(self, params: Mapping[str, Any]) -> Booster:
        """Change parameters of the rounds to come."""
        run = self._training
        if run is None:
            host = split_own(params)
            refuse_own(host)
            super().reset_parameter(dict(host))
            return self
        changed = _without_names_of(self.params, params) | dict(params)
        run.set_params(changed)
        self.params = changed
        return self

    def eval(self, data: Any, name: str, feval: Any = None) -> list[Any]:
        """Evaluate data; new ones are followed from now on."""
        run = self._training
        if run is None:
            return list(super().eval(data, name, feval))
        if not isinstance(data, lightgbm.Dataset):
            raise TypeError("Can only eval for Dataset instance")
        if run.index_of(data) is None:
            self.add_valid(data, name)
        return self._evaluate(run.index_of(data) or 0, name, feval)

    def eval_train(self, feval: Any = None) -> list[Any]:
        """Evaluate the training data."""
        if self._training is None:
            return list(super().eval_train(feval))
        return self._evaluate(0, self._train_data_name, feval)

    def eval_valid(self, feval: Any = None) -> list[Any]:
        """Evaluate all data added."""
        if self._training is None:
            return list(super().eval_valid(feval))
        return [
            result
            for i, name in enumerate(self.name_valid_sets)
            for result in self._evaluate(i + 1, name, feval)
        ]

    def _evaluate(self, index: int, name: str, feval: Any) -> list[Any]:
        run = self._training
        assert run is not None
        functions = [feval] if callable(feval) else [f for f in feval or [] if f is not None]
        results = run.evaluate(index, name, functions)
        return [r if _EvalResult is None else _EvalResult(*r) for r in results]

    def current_iteration(self) -> int:
        """Rounds so far."""
        run = self._training
        return int(super().current_iteration()) if run is None else run.n_rounds

    def num_trees(self) -> int:
        """Scalar trees so far: num_class a round."""
        run = self._training
        return int(super().num_trees()) if run is None else run.n_rounds * run.n_outputs

    def rollback_one_iter(self) -> Booster:
        """Take the last round back."""
        self._model_changes()
        run = self._training
        if run is None:
            super().rollback_one_iter()
        else:
            run.rollback()
        return self

    def shuffle_models(self, start_iteration: int = 0, end_iteration: int = -1) -> Booster:
        """Shuffle the trees (not during a run of the engine)."""
        self._change_when_done("shuffle_models", "call it on the finished model")
        super().shuffle_models(start_iteration, end_iteration)
        return self

    def set_leaf_output(self, tree_id: int, leaf_id: int, value: float) -> Booster:
        """Change a leaf (not during a run of the engine)."""
        self._change_when_done("set_leaf_output", "call it on the finished model")
        super().set_leaf_output(tree_id, leaf_id, value)
        return self

    def _change_when_done(self, what: str, advice: str) -> None:
        if self._training is not None:
            raise NotImplementedError(f"{what} is not possible while training goes on; {advice}")
        self._model_changes()

    def refit(self, *args: Any, **kwargs: Any) -> Booster:
        """The same trees with leaf values for other data.

        By LightGBM's own rule (its diagonal Newton step, mixed with ``decay_rate``), which
        does not reach the values that the full Hessian gives.
        """
        plain = lightgbm.Booster(model_str=self.model_to_string(num_iteration=-1))
        plain.params = dict(split_own(self.params))
        new = plain.refit(*args, **kwargs)
        result = type(self)(model_str=new.model_to_string(num_iteration=-1))
        result.params = dict(self.params)
        return result


class CVBooster(lightgbm.CVBooster):  # type: ignore[misc]
    """The boosters of ``cv``."""

    def _from_dict(self, models: dict[str, Any]) -> None:
        super()._from_dict({**models, "boosters": []})
        self.boosters = [Booster(model_str=text) for text in models["boosters"]]


def refuse_own(params: HostParams) -> None:
    """Our parameters mean nothing to the host's own training."""
    if params.own:
        raise ParameterError(
            f"{', '.join(params.own)}: for objective='multiclass' (or a function) with num_class "
            "above 1; this objective is trained by LightGBM itself, so leave them out"
        )


def _without_names_of(params: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters less those that the other ones set, under whatever name."""
    names = lightgbm.basic._ConfigAliases.get_by_alias(*other)
    return {name: value for name, value in params.items() if name not in names}
