"""What the settings ``"auto"`` come to, once the objective and the data are known."""

from __future__ import annotations

import logging
from dataclasses import replace

from .bins import BinnedMatrix
from .objectives import Objective, Softmax
from .params import Params

__all__ = ["resolve_leaf_prior", "resolve_split_hessian"]

logger = logging.getLogger("fullhess")

# Scores up to which ``split_hessian="auto"`` searches splits with the full matrix. Up to here
# a statistics row is as wide as with the diagonal, and a round takes 1.1 times as long at
# most; beyond, 1.5 times at k=7, 2 times at 10, 3.5 times at 16 (one thread, 20k × 30). The
# losses that either reaches are the same: see "What each part adds" in the README.
FULL_SPLIT_MAX_OUTPUTS = 5

# Scores up to which ``leaf_prior="auto"`` may be the path prior, which solves a k×k system for
# every node. On one thread, 4000 × 10, a round with it took 1.3 times as long as with the
# ridge at k=26, 1.4 times at 60, 2.5 times at 120. Its losses have been measured up to 26.
PATH_MAX_AUTO_OUTPUTS = 32


def resolve_split_hessian(params: Params, objective: Objective, binned: BinnedMatrix) -> str:
    """The curvature of the split search.

    ``"auto"`` follows ``hessian``, but leaves the full matrix for the diagonal where it
    is costly: more than ``FULL_SPLIT_MAX_OUTPUTS`` scores, or a histogram of more than
    an eighth of the budget; and under an L1 penalty or monotone constraints, whose
    search needs scores that do not interact. Leaves keep the full matrix.
    """
    if params.split_hessian != "auto":
        return params.split_hessian
    if params.hessian != "full" or objective.layout("full").name == "diagonal":
        return params.hessian
    if params.reg_alpha > 0.0 or params.monotone_constraints is not None:
        return "diagonal"
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


def resolve_leaf_prior(params: Params, objective: Objective) -> Params:
    """The same settings with ``leaf_prior`` decided.

    ``"auto"`` is the path prior where measurements speak for it and nothing else that is
    set gets in its way: softmax with exact leaves by the true Hessian.
    """
    if params.leaf_prior != "auto":
        return params
    reason = _against_path(params, objective)
    logger.info("leaf_prior='auto': %s", f"ridge, because of {reason}" if reason else "path")
    return replace(params, leaf_prior="ridge" if reason else "path")


def _against_path(params: Params, objective: Objective) -> str:
    """What speaks against the path prior, empty if nothing does."""
    reasons = {
        f"the objective {objective.name!r}": not isinstance(objective, Softmax),
        # Single steps and stand-ins promise the trees of the host libraries.
        f"hessian={params.hessian!r}": params.hessian != "full",
        f"leaf_solver={params.leaf_solver!r}": params.leaf_solver != "exact",
        "reg_lambda=0": params.reg_lambda == 0.0,  # the prior has no strength
        # These cannot be combined with it, or only roughly: one leaf that meets
        # max_delta_step scales all leaves back.
        "reg_alpha": params.reg_alpha > 0.0,
        "monotone_constraints": params.monotone_constraints is not None,
        "path_smooth": params.path_smooth > 0.0,
        "max_delta_step": params.max_delta_step > 0.0,
        f"{objective.n_outputs} outputs": objective.n_outputs > PATH_MAX_AUTO_OUTPUTS,
    }
    return ", ".join(reason for reason, applies in reasons.items() if applies)
