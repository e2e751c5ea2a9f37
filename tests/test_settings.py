"""Any settings together, also extreme ones: refused with a message, or a sound model."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import fullhess
from fullhess import BinnedMatrix, ParameterError, serialization
from fullhess.params import Params
from fullhess.rules import Choice, Flag, Integer, Real

N_FEATURES = 4
LARGE = {"num_parallel_tree": 3, "max_leaves": 40, "max_depth": 9, "n_jobs": 2}
FIXED = {"objective", "num_class"}


def problem() -> tuple[Any, BinnedMatrix, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, N_FEATURES))
    X[:, 3] = rng.integers(0, 9, 120)
    X[rng.random(X.shape) < 0.1] = np.nan
    label = (np.nan_to_num(X[:, :3]) + rng.gumbel(size=(120, 3))).argmax(axis=1)
    return X, BinnedMatrix.from_quantiles(X, max_bins=12, categorical=[3]), label


X, BINNED, LABEL = problem()


def values_of(name: str, rule: Any) -> st.SearchStrategy[Any]:
    """Values inside the rule's limits, the ends among them."""
    if isinstance(rule, Choice):
        return st.sampled_from(rule.options)
    if isinstance(rule, Flag):
        return st.booleans()
    if isinstance(rule, Integer):
        zero = [0] if rule.zero_means else []
        largest = LARGE.get(name, 2**62 if rule.high > 2**62 else rule.high)
        return st.sampled_from([*zero, max(rule.low, -1), min(rule.low + 2, largest), largest])
    if isinstance(rule, Real):
        top = min(rule.high, 1e300)
        low = [] if rule.open_low else [rule.low]
        return st.sampled_from([*low, 5e-324, 1e-3, 0.3, 0.5, 1.0, top])
    if name == "monotone_constraints":
        return st.none() | st.tuples(*[st.sampled_from([-1, 0, 1])] * 3, st.just(0))
    return st.none() | st.just([[0, 1], [2], [1, 3]])


FIELDS = {f.name: f.metadata["rule"] for f in fields(Params) if f.name not in FIXED}


@st.composite
def any_settings(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(sorted(FIELDS)), max_size=8, unique=True))
    return {name: draw(values_of(name, FIELDS[name])) for name in names}


@settings(max_examples=200)
@given(any_settings())
def test_any_settings_are_refused_or_give_a_sound_model(given_):
    try:
        params = Params(**given_)
    except ParameterError as error:
        assert len(str(error)) > 30
        return
    model = fullhess.train(params, BINNED, LABEL, num_boost_round=3)
    raw = model.predict_raw(X)
    assert np.isfinite(raw).all() and len(model) == 3
    assert np.array_equal(raw, model.predict_raw(BINNED))
    copy = serialization.loads(serialization.dumps(model))
    assert np.array_equal(raw, copy.predict_raw(X))


def test_every_setting_is_drawn():
    assert set(FIELDS) | FIXED == {f.name for f in fields(Params)}
