"""Which positions of a feature are tried as splits, and what a categorical split lists.

A categorical split lists the categories that go left. All else goes right: missing values,
categories never seen, and at a split of ordered categories those with too few rows to
be listed. These together are the *rest*.
"""

from __future__ import annotations

import numpy as np

from .compile import kernel

MISSING_RIGHT = 0
MISSING_LEFT = 1


@kernel
def count_positions(order):
    """Entries of a category order before its end mark."""
    n = 0
    while n < order.shape[0] and order[n] >= 0:
        n += 1
    return n


@kernel
def count_filled(cells):
    """Bins of values that hold rows."""
    n = 0
    for cell in range(cells.shape[0] - 1):
        if cells[cell, 0] > 0:
            n += 1
    return n


@kernel
def add_unlisted(cells, least, rest):
    """Add the categories with fewer rows than ``least`` to the missing rows."""
    for cell in range(cells.shape[0] - 1):
        if 0 < cells[cell, 0] < least:
            for w in range(rest.shape[0]):
                rest[w] += cells[cell, w]


@kernel
def count_listed(position, n_positions, direction, missing_count):
    """Categories that a split of ordered ones lists: those on the side without the rest.

    Without rows in the rest either side may be listed.
    """
    before = position + 1
    after = n_positions - before
    if after == 0:  # present | missing
        return before
    if missing_count == 0:
        return min(before, after)
    return before if direction == MISSING_RIGHT else after


@kernel
def draw_position(
    cells, n_positions, order, categorical, one_hot, most, n_rows, missing_count, seed, feature
):
    """One of the positions that part the rows, all alike; -2 without any."""
    wanted = -1
    for sweep in range(2):
        candidates = 0
        seen = 0.0
        for position in range(n_positions):
            count = cells[order[position] if categorical else position, 0]
            seen += count
            nothing_left = missing_count == 0 and not one_hot and seen >= n_rows
            listed = min(
                count_listed(position, n_positions, MISSING_RIGHT, missing_count),
                count_listed(position, n_positions, MISSING_LEFT, missing_count),
            )
            if count == 0 or nothing_left or (most < n_positions and listed > most):
                continue
            if candidates == wanted:
                return position
            candidates += 1
        if candidates == 0:
            return -2
        if sweep == 0:
            wanted = random_below(seed, feature, candidates)
    return -2


@kernel
def random_below(seed, stream, n):
    """An integer in [0, n), a fixed function of the seed and the stream."""
    z = np.uint64(seed) + np.uint64(stream + 1) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.int64((z >> np.uint64(11)) % np.uint64(n))


@kernel
def mark_left_bins(order, n_positions, one_hot, swapped, left_bins, best):
    """Write the category set, or with ``swapped`` the others: what is listed goes left."""
    last = int(best[2])
    for position in range(n_positions):
        inside = position == last if one_hot else position <= last
        left_bins[order[position]] = 1 if inside != swapped else 0
    if swapped:
        count = best[4]
        best[4] = best[5]
        best[5] = count
        best[3] = MISSING_RIGHT
    best[2] = 0
