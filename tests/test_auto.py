"""What ``leaf_prior="auto"`` comes to, and where that can be seen."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from engine import same_tree

import fullhess
from fullhess import BinnedMatrix, CustomObjective, Params
from fullhess.auto import PATH_MAX_AUTO_OUTPUTS, resolve_leaf_prior
from fullhess.objectives import Softmax, SquaredError

FAST = {"max_depth": 3, "min_child_weight": 0.01, "learning_rate": 0.3, "n_jobs": 1}
AGAINST = [
    {"hessian": "upper_bound"},
    {"hessian": "absolute_residual"},
    {"hessian": "diagonal"},
    {"hessian": "scaled_diagonal"},
    {"leaf_solver": "newton"},
    {"leaf_solver": "damped"},
    {"reg_lambda": 0.0},
    {"reg_alpha": 0.5},
    {"monotone_constraints": (1, 0, 0)},
    {"path_smooth": 2.0},
    {"max_delta_step": 0.5},
]


def problem(k=3, n=240):
    generator = np.random.default_rng(0)
    label = np.arange(n) % k
    X = np.sin(label[:, None] + np.arange(3)) + generator.normal(size=(n, 3))
    return BinnedMatrix.from_quantiles(X, max_bins=16), label


def words(changes):
    return " ".join(changes)


def test_exact_softmax_leaves_have_the_path_prior():
    for changes in ({}, {"split_hessian": "diagonal"}, {"split_gain": "quadratic"},
                    {"subsample": 0.5}, {"num_parallel_tree": 3}):  # fmt: skip
        assert resolve_leaf_prior(Params(**changes), Softmax(3)).leaf_prior == "path"


@pytest.mark.parametrize("changes", AGAINST, ids=words)
def test_what_gets_in_the_way_of_the_path_prior_brings_the_ridge(changes):
    resolved = resolve_leaf_prior(Params(**changes), Softmax(3))
    assert resolved == Params(**changes, leaf_prior="ridge")


@pytest.mark.parametrize("changes", AGAINST, ids=words)
def test_auto_trains_whatever_else_is_set_and_gives_the_trees_of_the_ridge(changes):
    binned, label = problem()
    auto, ridge = (
        fullhess.train({**FAST, **changes, **prior}, binned, label, num_boost_round=2)
        for prior in ({}, {"leaf_prior": "ridge"})
    )
    assert all(same_tree(a, b) for a, b in zip(auto.trees, ridge.trees, strict=True))
    assert auto.metadata == ridge.metadata and auto.metadata["leaf_prior"] == "ridge"


def test_other_objectives_and_many_classes_have_the_ridge():
    def derivatives(raw, label):
        return raw - label[:, None], np.ones_like(raw)

    for objective in (SquaredError(2), CustomObjective(derivatives, 2),
                      Softmax(PATH_MAX_AUTO_OUTPUTS + 1)):  # fmt: skip
        assert resolve_leaf_prior(Params(), objective).leaf_prior == "ridge"
    assert resolve_leaf_prior(Params(), Softmax(PATH_MAX_AUTO_OUTPUTS)).leaf_prior == "path"


@pytest.mark.parametrize("prior", ["ridge", "path"])
def test_what_is_asked_for_is_left_alone(prior):
    params = Params(leaf_prior=prior, leaf_solver="newton")
    assert resolve_leaf_prior(params, Softmax(3)) is params


def test_the_choice_is_seen_in_the_trainer_the_model_the_callbacks_and_the_log(caplog):
    binned, label = problem()
    seen = []
    with caplog.at_level(logging.INFO, logger="fullhess"):
        model = fullhess.train(
            FAST, binned, label, num_boost_round=1,
            callbacks=[lambda state: seen.append(state.params.leaf_prior)],
        )  # fmt: skip
    assert model.metadata["leaf_prior"] == "path" and seen == ["path"]
    assert "leaf_prior='auto': path" in caplog.text
    with caplog.at_level(logging.INFO, logger="fullhess"):
        fullhess.Trainer({**FAST, "max_delta_step": 1.0}, binned, label).close()
    assert "ridge, because of max_delta_step" in caplog.text


def test_settings_of_later_rounds_are_decided_anew():
    binned, label = problem()
    with fullhess.Trainer(FAST, binned, label) as trainer:
        assert trainer.params.leaf_prior == "path"
        trainer.step()
        trainer.set_params({**FAST, "leaf_solver": "newton"})
        assert trainer.params.leaf_prior == "ridge"
        trainer.step()
        trainer.set_params({**FAST, "learning_rate": 0.1})
        assert trainer.params.leaf_prior == "path"
        trainer.step()
        assert trainer.model().metadata["leaf_prior"] == "path"


def test_a_model_of_one_prior_is_continued_with_another(tmp_path):
    binned, label = problem()
    old = fullhess.train({**FAST, "leaf_prior": "ridge"}, binned, label, num_boost_round=2)
    old.save(tmp_path / "old")
    start = fullhess.load(tmp_path / "old")
    model = fullhess.train(FAST, binned, label, num_boost_round=2, init_model=start)
    assert all(same_tree(a, b) for a, b in zip(old.trees, model.trees, strict=False))
    assert len(model.trees) == 4 and model.metadata["leaf_prior"] == "path"
