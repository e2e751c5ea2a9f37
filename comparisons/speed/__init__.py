"""``python -m comparisons speed``: how long things take, beside the host libraries.

One file a question: ``rounds`` (a round of training), ``memory`` (what training adds),
``prediction``, ``binning`` (preparing data through the adapters) and ``cold`` (the first
training of a new process). ``cases`` says what is trained and which ratio is aimed at,
``clocks`` how a round is timed, ``lines`` how results are shown and kept.
"""

from .command import add_arguments, run

__all__ = ["add_arguments", "run"]
