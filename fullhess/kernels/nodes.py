"""The nodes of a growing tree: made, valued, put in a waiting line, taken out to be split.

A node waits with its best split until it is expanded: a level at a time, or the single
node of the largest gain. A histogram is kept only while its node waits and may have
children that need it. When there are no more, the least promising node loses its own,
and children are built from their rows instead.
"""

from __future__ import annotations

import numpy as np

from .compile import kernel
from .solve import DENSE, trace_of
from .splitting import choose_feature
from .team import call_at

SEED_STEP = 0xD1B54A32D192ED03  # odd and without a pattern: seeds of nodes are far apart
SEED_BITS = 2**62 - 1


@kernel(inner=True)
def add_node(index, parent, begin, end, plan, nodes, addresses):
    """Make a node whose sums and bounds are there already; -1 stands for no parent."""
    settings = plan.settings
    nodes.begin[index] = begin
    nodes.end[index] = end
    nodes.parent[index] = parent
    nodes.depth[index] = 0 if parent < 0 else nodes.depth[parent] + 1
    nodes.left[index] = -1
    nodes.right[index] = -1
    nodes.feature[index] = -1
    nodes.histogram[index] = 0
    trace = trace_of(settings.layout, settings.k, nodes.sums[index], 1 + settings.k)
    nodes.cover[index] = max(trace, 0.0)
    nodes.wanted[index] = _may_split(index, plan, nodes)
    nodes.score[index] = 0.0
    if nodes.wanted[index]:  # of a leaf nobody asks for a value here
        value_node(index, plan, nodes, addresses)


@kernel
def _may_split(index, plan, nodes):
    settings, rules = plan.settings, plan.rules
    n_rows = nodes.end[index] - nodes.begin[index]
    return (
        (rules.max_depth == 0 or nodes.depth[index] < rules.max_depth)
        and n_rows >= 2 * settings.min_samples_leaf
        and nodes.cover[index] >= 2.0 * settings.min_child_weight * settings.k
    )


@kernel
def _children_may_split(index, plan, nodes):
    max_depth = plan.rules.max_depth
    return max_depth == 0 or nodes.depth[index] + 1 < max_depth


@kernel(inner=True)
def value_node(index, plan, nodes, addresses):
    """The value and the score of a node, and the centre around which its children are solved."""
    k, rules = plan.settings.k, plan.rules
    parent = nodes.parent[index]
    center, value = nodes.center[index], nodes.value[index]
    for j in range(k):
        center[j] = nodes.center[parent, j] if parent >= 0 else 0.0
    _solve(index, plan.settings, nodes, addresses, value)
    if rules.path_prior:
        for j in range(k):
            center[j] += value[j]
        _solve(index, plan.settings, nodes, addresses, value)
    if rules.path_smooth > 0.0 and parent >= 0:
        n_rows = nodes.end[index] - nodes.begin[index]
        share = n_rows / (n_rows + rules.path_smooth)
        for j in range(k):
            value[j] = share * value[j] + (1.0 - share) * nodes.value[parent, j]


@kernel
def _solve(index, settings, nodes, addresses, out):
    """Score of a node at its centre; its value goes to ``out``."""
    sums, where = nodes.sums[index], (nodes.score, np.int64(index))
    if settings.constrained:
        penalties = (settings.reg_lambda, settings.reg_alpha)
        bounds = (nodes.low[index], nodes.high[index])
        call_at(
            addresses.constrained_node,
            (settings.k, sums, *penalties, *bounds, settings.damped, out, *where),
        )
    else:
        limits = (settings.reg_lambda, settings.damped, settings.max_delta_step)
        given = (settings.layout, settings.k, sums, nodes.center[index], *limits)
        call_at(addresses.value_node, (*given, nodes.matrix, nodes.vector, out, *where))


@kernel(inner=True)
def add_children(node, left_index, n_left, fewer, plan, nodes, addresses):
    """The two children of a node; the sums of the one with more rows are the difference.

    fewer : (width,) float64, sums of the child with fewer rows, the left one on ties.
    """
    right_index = left_index + 1
    begin, end = nodes.begin[node], nodes.end[node]
    middle = begin + n_left
    left_is_fewer = n_left <= end - middle
    small, large = (left_index, right_index) if left_is_fewer else (right_index, left_index)
    # Rounding must not make a curvature negative. (A matrix has entries that may be.)
    is_dense = plan.settings.layout == DENSE
    first_floored = fewer.shape[0] if is_dense else 1 + plan.settings.k
    for w in range(fewer.shape[0]):
        nodes.sums[small, w] = fewer[w]
        rest = nodes.sums[node, w] - fewer[w]
        nodes.sums[large, w] = max(rest, 0.0) if w >= first_floored else rest
    _bound_children(node, left_index, plan, nodes, addresses)
    nodes.left[node] = left_index
    nodes.right[node] = right_index
    add_node(left_index, node, begin, middle, plan, nodes, addresses)
    add_node(right_index, node, middle, end, plan, nodes, addresses)


@kernel
def _bound_children(node, left_index, plan, nodes, addresses):
    """Bounds of both children: a monotone split separates them in the middle."""
    settings = plan.settings
    low, high = nodes.low[node], nodes.high[node]
    for child in range(left_index, left_index + 2):
        for j in range(settings.k):
            nodes.low[child, j] = low[j]
            nodes.high[child, j] = high[j]
    direction = np.int64(plan.monotone[nodes.feature[node]])
    if direction == 0:
        return
    # The values of the pair, for a moment where those of the children will be.
    values = (nodes.value[left_index], nodes.value[left_index + 1])
    penalties = (settings.reg_lambda, settings.reg_alpha)
    call_at(
        addresses.constrained_pair,
        (
            settings.k, nodes.sums[left_index], nodes.sums[node], direction, *penalties,
            low, high, *values,
        ),
    )  # fmt: skip
    upper = left_index + 1 if direction > 0 else left_index
    lower = left_index if direction > 0 else left_index + 1
    for j in range(settings.k):
        middle = 0.5 * (values[0][j] + values[1][j])
        nodes.high[lower, j] = middle
        nodes.low[upper, j] = middle


@kernel(inner=True)
def node_seed(seed, index):
    """A seed of the node's own: nodes are numbered alike for any number of threads."""
    if seed < 0:
        return np.int64(-1)
    own = np.uint64(seed) + np.uint64(index) * np.uint64(SEED_STEP)
    return np.int64(own & np.uint64(SEED_BITS))


@kernel(inner=True)
def take_best(index, splits, left_bins, plan, nodes):
    """Keep the best split of a searched node."""
    feature = choose_feature(plan.features, plan.rules.min_split_gain, splits)
    nodes.feature[index] = feature
    if feature < 0:
        return
    for i in range(splits.shape[1]):
        nodes.split[index, i] = splits[feature, i]
    if plan.categorical[feature]:
        first = plan.offsets[feature]
        for b in range(plan.offsets[feature + 1] - first):
            nodes.left_bins[index, b] = left_bins[first + b]


@kernel(inner=True)
def prepare_pair(first, second, parent, free, n_free, n_waiting, plan, nodes):
    """Decide what is searched of two children, or of the root alone, and hand out histograms.

    free : addresses of histograms, a stack.
    n_free, n_waiting : how many are in it, and how many nodes wait.

    Returns the histograms left in the stack, and the pair: (free, small, large, subtract).
    """
    small, large = first, second
    if second >= 0:
        n_first = nodes.end[first] - nodes.begin[first]
        if nodes.end[second] - nodes.begin[second] < n_first:
            small, large = second, first
    subtract = False
    if large >= 0:
        if nodes.wanted[large]:
            subtract = nodes.histogram[parent] != 0
            nodes.histogram[large] = nodes.histogram[parent]
            nodes.histogram[parent] = 0
            if not subtract and _children_may_split(large, plan, nodes):
                n_free = _take_histogram(large, free, n_free, n_waiting, nodes)
        n_free = give_back(parent, free, n_free, nodes)
    if nodes.wanted[small] and _children_may_split(small, plan, nodes):
        n_free = _take_histogram(small, free, n_free, n_waiting, nodes)
    return n_free, small, large, subtract


@kernel
def _take_histogram(index, free, n_free, n_waiting, nodes):
    """A histogram for a node, or else that of the least promising one that waits."""
    if n_free > 0:
        nodes.histogram[index] = free[n_free - 1]
        return n_free - 1
    victim = np.int64(-1)
    for i in range(n_waiting):
        node = nodes.waiting[i]
        if nodes.histogram[node] != 0 and (victim < 0 or _comes_before(victim, node, nodes)):
            victim = node
    if victim >= 0:
        nodes.histogram[index] = nodes.histogram[victim]
        nodes.histogram[victim] = 0
    return n_free


@kernel(inner=True)
def give_back(index, free, n_free, nodes):
    """Put a node's histogram back; how many there are then."""
    if nodes.histogram[index] == 0:
        return n_free
    free[n_free] = nodes.histogram[index]
    nodes.histogram[index] = 0
    return n_free + 1


@kernel(inner=True)
def release_searched(index, free, n_free, plan, nodes):
    """Give back the histogram of a searched node whose children will not need it."""
    if nodes.feature[index] >= 0 and _children_may_split(index, plan, nodes):
        return n_free
    return give_back(index, free, n_free, nodes)


@kernel
def _comes_before(a, b, nodes):
    """Whether node a is expanded before b: the larger gain, then the smaller number."""
    if nodes.split[a, 0] != nodes.split[b, 0]:
        return nodes.split[a, 0] > nodes.split[b, 0]
    return a < b


@kernel(inner=True)
def wait(index, n, lossguide, nodes):
    """Put a node among the n that wait: in a heap, or at the end of the line."""
    nodes.waiting[n] = index
    if lossguide:
        _rise(nodes.waiting, n, nodes)


@kernel(inner=True)
def next_batch(n_waiting, n_leaves, plan, nodes):
    """Take the nodes to expand next; how many, and how many still wait.

    They go to ``nodes.batch`` in the order of their numbers.
    """
    rules = plan.rules
    room = n_waiting if rules.max_leaves == 0 else rules.max_leaves - n_leaves
    size = max(0, min(1 if rules.lossguide else n_waiting, room, n_waiting))
    if rules.lossguide:
        if size == 1:
            nodes.batch[0] = _pop(nodes.waiting, n_waiting, nodes)
        return size, n_waiting - size
    if size == n_waiting:
        for i in range(size):
            nodes.batch[i] = nodes.waiting[i]
        return size, n_waiting - size
    return _best_in_line(size, n_waiting, nodes)


@kernel
def _best_in_line(size, n_waiting, nodes):
    """The nodes of the largest gains; the others stay in line."""
    ranking = nodes.ranking
    for i in range(n_waiting):
        ranking[i] = nodes.waiting[i]
        _rise(ranking, i, nodes)
    last = np.int64(-1)
    for i in range(size):
        last = _pop(ranking, n_waiting - i, nodes)
    n_batch = 0
    n_left = 0
    for i in range(n_waiting):
        node = nodes.waiting[i]
        if size > 0 and (node == last or _comes_before(node, last, nodes)):
            nodes.batch[n_batch] = node
            n_batch += 1
        else:
            nodes.waiting[n_left] = node
            n_left += 1
    return n_batch, n_left


@kernel
def _rise(heap, place, nodes):
    """Let the last entry of a heap find its place."""
    while place > 0:
        above = (place - 1) // 2
        if not _comes_before(heap[place], heap[above], nodes):
            return
        heap[place], heap[above] = heap[above], heap[place]
        place = above


@kernel
def _pop(heap, n, nodes):
    """Take the first of n entries out of a heap."""
    first = heap[0]
    heap[0] = heap[n - 1]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= n - 1:
            return first
        if child + 1 < n - 1 and _comes_before(heap[child + 1], heap[child], nodes):
            child += 1
        if not _comes_before(heap[child], heap[place], nodes):
            return first
        heap[place], heap[child] = heap[child], heap[place]
        place = child
