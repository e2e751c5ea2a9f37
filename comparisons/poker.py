"""Poker hands, drawn and labelled: the population of UCI's *Poker Hand* set.

A row holds five cards in the order they were dealt, each as a suit (1 to 4) and a rank
(1 for the ace to 13 for the king). The label is the hand they make, which does not
depend on the order. Anyone can therefore draw as many rows as the original has, or
more, without a download.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["HANDS", "draw", "label"]

HANDS = (
    "nothing",
    "one pair",
    "two pairs",
    "three of a kind",
    "straight",
    "flush",
    "full house",
    "four of a kind",
    "straight flush",
    "royal flush",
)


def draw(n_hands: int, seed: int) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
    """Hands, (n_hands, 10) suits and ranks in turn, and their labels, (n_hands,)."""
    generator = np.random.default_rng(seed)
    deck = np.tile(np.arange(52, dtype=np.int8), (n_hands, 1))
    cards = generator.permuted(deck, axis=1)[:, :5]
    hands = np.empty((n_hands, 10), np.int8)
    hands[:, 0::2] = cards // 13 + 1
    hands[:, 1::2] = cards % 13 + 1
    return hands, label(hands)


def label(hands: NDArray[np.int8]) -> NDArray[np.int32]:
    """The index in ``HANDS`` of every hand.

    Parameters
    ----------
    hands : (n, 10) suits and ranks in turn.
    """
    ranks = np.sort(hands[:, 1::2], axis=1)
    equal = ranks[:, 1:] == ranks[:, :-1]
    n_equal = equal.sum(axis=1)
    # Two equal neighbours in a row of equalities: three cards of one rank, and so on.
    longest = np.where(equal.any(axis=1), 2, 1)
    longest[(equal[:, 1:] & equal[:, :-1]).any(axis=1)] = 3
    longest[(equal[:, 2:] & equal[:, 1:-1] & equal[:, :-2]).any(axis=1)] = 4
    flush = (hands[:, 2::2] == hands[:, :1]).all(axis=1)
    royal = (ranks == (1, 10, 11, 12, 13)).all(axis=1)
    straight = royal | ((n_equal == 0) & (ranks[:, 4] - ranks[:, 0] == 4))
    kinds = [
        (royal & flush, 9),
        (straight & flush, 8),
        (longest == 4, 7),
        ((longest == 3) & (n_equal == 3), 6),
        (flush, 5),
        (straight, 4),
        (longest == 3, 3),
        (n_equal == 2, 2),
        (n_equal == 1, 1),
    ]
    return np.select([is_kind for is_kind, _ in kinds], [k for _, k in kinds], 0).astype(np.int32)
