"""Poker hands: the labels against the known numbers of all hands, and single hands by hand."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comparisons import poker

# Numbers of five-card hands, as any book of probability derives them.
KNOWN = [1_302_540, 1_098_240, 123_552, 54_912, 10_200, 5_108, 3_744, 624, 36, 4]


def hands_of(cards):
    """Suits and ranks in turn of cards 0 to 51."""
    cards = np.asarray(cards)
    hands = np.empty((len(cards), 10), np.int8)
    hands[:, 0::2], hands[:, 1::2] = cards // 13 + 1, cards % 13 + 1
    return hands


def test_all_hands_have_their_known_frequencies():
    every = np.fromiter(combinations(range(52), 5), dtype=(np.int8, 5), count=comb(52, 5))
    labels = poker.label(hands_of(every))
    assert np.bincount(labels, minlength=10).tolist() == KNOWN
    assert sum(KNOWN) == comb(52, 5)


@pytest.mark.parametrize(
    ("cards", "hand"),
    [
        ("S1 H2 S3 S4 S5", "straight"),
        ("S10 H11 S12 S13 S1", "straight"),
        ("S12 H13 S1 S2 S3", "nothing"),  # does not run around the ace
        ("S1 S2 S3 S4 S5", "straight flush"),
        ("S10 S11 S12 S13 S1", "royal flush"),
        ("S9 H9 D9 C9 S1", "four of a kind"),
        ("S9 H9 D9 C1 S1", "full house"),
        ("S9 H9 D9 C2 S1", "three of a kind"),
        ("S9 H9 D1 C1 S2", "two pairs"),
        ("S9 H9 D1 C3 S2", "one pair"),
        ("S9 S7 S1 S3 S2", "flush"),
    ],
)
def test_single_hands(cards, hand):
    row = [int(v) for card in cards.split() for v in ("SHDC".index(card[0]) + 1, card[1:])]
    assert poker.HANDS[poker.label(np.array([row], np.int8))[0]] == hand


@given(st.integers(0, 1000), st.permutations(range(5)))
def test_the_order_of_the_cards_does_not_matter(seed, order):
    hands, label = poker.draw(50, seed)
    cards = hands.reshape(-1, 5, 2)[:, order].reshape(-1, 10)
    assert (poker.label(cards) == label).all()


def test_drawn_hands_are_dealt_from_one_deck_and_the_same_every_time():
    hands, label = poker.draw(20_000, seed=3)
    again, label_again = poker.draw(20_000, seed=3)
    assert (hands == again).all() and (label == label_again).all()
    cards = hands[:, 0::2] * 13 + hands[:, 1::2]
    assert (np.diff(np.sort(cards, axis=1), axis=1) > 0).all()
    share = np.bincount(label, minlength=10) / len(label)
    expected = np.array(KNOWN) / sum(KNOWN)
    assert np.abs(share - expected)[:4] == pytest.approx(0.0, abs=0.012)
