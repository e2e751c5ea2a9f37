"""Growing a tree inside one kernel, by all threads together.

The leader does what lies between two phases (``_advance``): it makes nodes, decides what is
searched and opens the next phase. All others, and the leader too, take the tasks of a
phase off a counter (``tasks``). Python took a quarter of a millisecond for what the leader
does in a few microseconds; with a few thousand rows that was most of the time of a round.

The leader goes back to Python where only Python can help, and comes in again where it was.
"""

from __future__ import annotations

import numpy as np

from .compile import kernel
from .nodes import (
    add_children,
    add_node,
    give_back,
    next_batch,
    node_seed,
    prepare_pair,
    release_searched,
    take_best,
    wait,
)
from .tables import FIRST_BLOCK, KIND, N_BLOCKS, N_TASKS, PART, PLACE, SEARCH, SUM
from .tasks import add_chunks, do_task, find_places
from .team import (
    CLOSED,
    DONE,
    INSIDE,
    LEFT,
    SPINS,
    atomic_add,
    atomic_load,
    atomic_store,
    pause,
)

# Why ``grow`` returns: the tree is done; others have been at work, or nothing has been to do,
# for a while; helpers are wanted; a step's nodes need features; room is needed for
# histograms or nodes; or a while has passed.
FINISHED, BUSY, HELPERS, COLUMNS, HISTOGRAMS, ROOM, BREATH = 0, 1, 2, 3, 4, 5, 6
_RUN = 7  # no reason: the next phase is to be opened

# What the leader does next.
_SUM, _ROOT, _BATCH, _ROOM, _PART, _PARTED, _PREPARE, _FILL, _SEARCH, _FOUND = range(10)

# ``state``: numbers that stay from one entry to the next.
STAGE = 0
READY = 1  # the next phase can be opened
RUNNING = 2  # a phase is open
N_MADE = 3  # nodes
N_LEAVES = 4
N_WAITING = 5
N_FREE = 6  # histograms in the stack
FIRST_CHILD = 7  # of the batch
N_BATCH = 8  # nodes that are being split
N_TAKEN = 9  # of these: how many have been parted, then how many pairs are prepared
N_PAIRS = 10  # of children to search
N_SEARCHED = 11
N_GROUP = 12  # nodes or pairs of the present step
N_UPDATES = 13  # of numbers, in the present phase
N_SINCE = 14  # updates since the last breath
STATE_SIZE = 15

# A number of a cell that is searched takes as long as some twenty updates.
SEARCH_WEIGHT = 20
MANY_PAIRS = 4  # pairs of children a thread: enough to be shared evenly


@kernel
def grow(
    control, is_leader, state, plan, nodes, free, slots, chunks, scratch, addresses
):  # fmt: skip
    """Do tasks, together with others that are in here; the leader also what lies between.

    A leader begins with ``state`` zero, but for ``N_FREE``. Returns why it came back; a
    helper does when the tree is done or nothing has been to do for a while.

    Parameters
    ----------
    control : counters of the team, see ``team``.
    state : (STATE_SIZE,) int64, of the leader.
    plan, nodes, slots, chunks : see ``tables``; helpers do not touch ``nodes``.
    free : (m,) int64 addresses of histograms, a stack.
    scratch : of this thread.
    """
    if not is_leader:
        atomic_add(control, INSIDE, 1)
    spins = 0
    while True:
        # A thread that comes late takes a task of the next phase, or none: never an old one.
        left = atomic_add(control, LEFT, -1) if atomic_load(control, LEFT) > 0 else 0
        if left > 0:
            do_task(left - 1, plan, slots, chunks, scratch, addresses)
            atomic_add(control, DONE, 1)
            spins = 0
            continue
        if is_leader:
            if state[RUNNING] == 0 or atomic_load(control, DONE) == plan.phase[N_TASKS]:
                state[RUNNING] = 0
                if state[READY] == 0:
                    reason = _advance(state, plan, nodes, free, slots, chunks, addresses)
                    if reason != _RUN:
                        return reason
                    state[READY] = 1
                    if _wants_helpers(control, state, plan):
                        return HELPERS
                state[READY] = 0
                state[RUNNING] = 1
                atomic_store(control, DONE, 0)
                atomic_store(control, LEFT, plan.phase[N_TASKS])
                continue
        elif atomic_load(control, CLOSED) != 0:
            atomic_add(control, INSIDE, -1)
            return FINISHED
        spins += 1
        if spins > SPINS:
            if not is_leader:
                atomic_add(control, INSIDE, -1)
            return BUSY
        pause()


@kernel
def _wants_helpers(control, state, plan):
    """Whether more threads should be called for the next phase."""
    helpers = min(plan.phase[N_TASKS], plan.rules.n_threads) - 1
    return state[N_UPDATES] > plan.rules.small_step and atomic_load(control, INSIDE) < helpers


@kernel
def _advance(state, plan, nodes, free, slots, chunks, addresses):
    """Everything up to the next phase, or up to where Python is needed."""
    while True:
        stage = state[STAGE]
        if stage == _SUM:
            nodes.begin[0] = 0
            nodes.end[0] = plan.rows.shape[0]
            nodes.batch[0] = 0
            _list_chunks(SUM, 0, 1, state, plan, nodes, chunks)
            state[STAGE] = _ROOT
            return _RUN
        if stage == _ROOT:
            _make_root(state, plan, nodes, chunks, addresses)
            state[STAGE] = _PREPARE
        elif stage == _BATCH:
            if not _take_batch(state, plan, nodes, free):
                return FINISHED
            state[STAGE] = _ROOM
            if state[N_SINCE] > plan.rules.breath:
                state[N_SINCE] = 0
                return BREATH
        elif stage == _ROOM:
            if state[N_MADE] + 2 * state[N_BATCH] > nodes.begin.shape[0]:
                return ROOM
            state[STAGE] = _PART
        elif stage == _PART:
            n = min(plan.rules.most_nodes, state[N_BATCH] - state[N_TAKEN])
            _list_chunks(PART, state[N_TAKEN], n, state, plan, nodes, chunks)
            state[STAGE] = _PARTED
            return _RUN
        elif stage == _PARTED:
            if plan.phase[KIND] == PART:
                find_places(state[N_GROUP], chunks)
                plan.phase[KIND] = PLACE
                return _RUN
            _make_children(state, plan, nodes, chunks, addresses)
            state[STAGE] = _PART
            if state[N_TAKEN] == state[N_BATCH]:
                state[N_TAKEN] = 0
                state[STAGE] = _PREPARE
        elif stage == _PREPARE:
            if not _prepare(state, plan, nodes, free):
                return HISTOGRAMS
            state[STAGE] = _FILL
        elif stage == _FILL:
            if state[N_SEARCHED] == state[N_PAIRS]:
                state[STAGE] = _BATCH
                continue
            _fill_slots(state, plan, nodes, slots)
            state[STAGE] = _SEARCH
            if plan.rules.own_columns:
                return COLUMNS
        elif stage == _SEARCH:
            state[STAGE] = _FOUND
            return _RUN
        else:
            _keep_found(state, plan, nodes, free, slots)
            state[STAGE] = _FILL


@kernel
def _set_phase(kind, n_tasks, n_updates, state, plan):
    plan.phase[KIND] = kind
    plan.phase[N_TASKS] = n_tasks
    state[N_UPDATES] = n_updates
    state[N_SINCE] += n_updates


@kernel
def _make_root(state, plan, nodes, chunks, addresses):
    add_chunks(1, chunks)
    for w in range(chunks.total.shape[1]):
        nodes.sums[0, w] = chunks.total[0, w]
    add_node(0, -1, 0, plan.rows.shape[0], plan, nodes, addresses)
    state[N_MADE] = 1
    state[N_LEAVES] = 1
    state[N_BATCH] = 1  # the root stands for a pair of children
    _begin_pairs(state)


@kernel
def _begin_pairs(state):
    state[N_TAKEN] = 0
    state[N_PAIRS] = 0
    state[N_SEARCHED] = 0


@kernel
def _take_batch(state, plan, nodes, free):
    """Choose the nodes to split next, among them the children of the last ones."""
    for index in range(state[FIRST_CHILD], state[N_MADE]):
        if nodes.feature[index] >= 0:
            wait(index, state[N_WAITING], plan.rules.lossguide, nodes)
            state[N_WAITING] += 1
    state[FIRST_CHILD] = state[N_MADE]
    n_batch, n_waiting = next_batch(state[N_WAITING], state[N_LEAVES], plan, nodes)
    state[N_BATCH] = n_batch
    state[N_WAITING] = n_waiting
    _begin_pairs(state)
    if n_batch == 0:
        for i in range(n_waiting):
            state[N_FREE] = give_back(nodes.waiting[i], free, state[N_FREE], nodes)
    return n_batch > 0


@kernel
def _list_chunks(kind, first, n, state, plan, nodes, chunks):
    """Cut the rows of n nodes of the batch into chunks."""
    size = plan.rules.chunk_rows
    n_chunks = 0
    n_rows = 0
    for i in range(n):
        node = nodes.batch[first + i]
        begin, end = nodes.begin[node], nodes.end[node]
        n_rows += end - begin
        chunks.bounds[i] = n_chunks
        for start in range(begin, end, size):
            chunks.node[n_chunks] = i
            chunks.begin[n_chunks] = start
            chunks.end[n_chunks] = min(start + size, end)
            n_chunks += 1
        if kind == PART:
            feature = nodes.feature[node]
            chunks.feature[i] = feature
            chunks.split_bin[i] = np.int64(nodes.split[node, 2])
            chunks.default_left[i] = nodes.split[node, 3] != 0.0
            if plan.categorical[feature]:
                for b in range(plan.n_bins[feature] + 1):
                    chunks.left_bins[i, b] = nodes.left_bins[node, b]
    chunks.bounds[n] = n_chunks
    state[N_GROUP] = n
    _set_phase(kind, n_chunks, n_rows * (plan.stats.shape[1] + 8), state, plan)


@kernel
def _make_children(state, plan, nodes, chunks, addresses):
    """Two children for every node whose rows have been parted."""
    add_chunks(state[N_GROUP], chunks)
    for i in range(state[N_GROUP]):
        node = nodes.batch[state[N_TAKEN] + i]
        fewer = chunks.total[i]
        add_children(
            node, state[N_MADE], chunks.node_left[i], fewer, plan, nodes, addresses
        )  # fmt: skip
        state[N_MADE] += 2
        state[N_LEAVES] += 1
    state[N_TAKEN] += state[N_GROUP]


@kernel
def _prepare(state, plan, nodes, free):
    """List the pairs to search, with their histograms; False where more of these are needed."""
    for i in range(state[N_TAKEN], state[N_BATCH]):
        state[N_TAKEN] = i
        if state[N_FREE] < 2 and free.shape[0] < plan.rules.max_histograms:
            return False
        node = np.int64(-1)
        first, second = np.int64(0), np.int64(-1)
        if state[N_MADE] > 1:
            node = nodes.batch[i]
            first, second = nodes.left[node], nodes.right[node]
        n_free, small, large, subtract = prepare_pair(
            first, second, node, free, state[N_FREE], state[N_WAITING], plan, nodes
        )
        state[N_FREE] = n_free
        if nodes.wanted[small] or (large >= 0 and nodes.wanted[large]):
            pair = state[N_PAIRS]
            nodes.small[pair] = small
            nodes.large[pair] = large
            nodes.subtract[pair] = subtract
            state[N_PAIRS] += 1
    return True


@kernel
def _fill_slots(state, plan, nodes, slots):
    """Set out the next pairs to search."""
    rules = plan.rules
    first = state[N_SEARCHED]
    n = min(rules.most_pairs, state[N_PAIRS] - first)
    _sort_by_rows(first, first + n, nodes)
    n_rows = 0
    for i in range(n):
        small, large = nodes.small[first + i], nodes.large[first + i]
        n_rows += nodes.end[small] - nodes.begin[small]
        _fill_slot(2 * i, small, plan, nodes, slots)
        _fill_slot(2 * i + 1, large, plan, nodes, slots)
        slots.subtract[2 * i] = False
        slots.subtract[2 * i + 1] = nodes.subtract[first + i]
    many = n >= MANY_PAIRS * rules.n_threads
    plan.phase[FIRST_BLOCK] = plan.n_blocks[0] if many else 0
    n_blocks = plan.n_blocks[1 if many else 0]
    plan.phase[N_BLOCKS] = n_blocks
    state[N_GROUP] = n
    n_cells = plan.offsets[plan.offsets.shape[0] - 1]
    updates = n_rows * plan.features.shape[0] + 2 * n * SEARCH_WEIGHT * n_cells
    _set_phase(SEARCH, n * n_blocks, updates * plan.stats.shape[1], state, plan)


@kernel
def _sort_by_rows(first, last, nodes):
    """The task that is listed last is taken first: let it be one of the largest."""
    for i in range(first + 1, last):
        small, large, subtract = nodes.small[i], nodes.large[i], nodes.subtract[i]
        n_rows = nodes.end[small] - nodes.begin[small]
        place = i
        while place > first:
            other = nodes.small[place - 1]
            if nodes.end[other] - nodes.begin[other] <= n_rows:
                break
            nodes.small[place] = other
            nodes.large[place] = nodes.large[place - 1]
            nodes.subtract[place] = nodes.subtract[place - 1]
            place -= 1
        nodes.small[place] = small
        nodes.large[place] = large
        nodes.subtract[place] = subtract


@kernel
def _fill_slot(slot, index, plan, nodes, slots):
    slots.node[slot] = index
    slots.wanted[slot] = index >= 0 and nodes.wanted[index]
    if index < 0:
        return
    slots.begin[slot] = nodes.begin[index]
    slots.end[slot] = nodes.end[index]
    slots.histogram[slot] = nodes.histogram[index]
    slots.score[slot] = nodes.score[index]
    slots.seed[slot] = node_seed(plan.rules.seed, index)
    for w in range(slots.sums.shape[1]):
        slots.sums[slot, w] = nodes.sums[index, w]
    for j in range(slots.center.shape[1]):
        slots.center[slot, j] = nodes.center[index, j]
        slots.low[slot, j] = nodes.low[index, j]
        slots.high[slot, j] = nodes.high[index, j]
    for cell in range(slots.left_bins.shape[1]):
        slots.left_bins[slot, cell] = 0


@kernel
def _keep_found(state, plan, nodes, free, slots):
    """The best splits of the nodes that have been searched."""
    for slot in range(2 * state[N_GROUP]):
        if slots.wanted[slot]:
            index = slots.node[slot]
            take_best(index, slots.splits[slot], slots.left_bins[slot], plan, nodes)
            state[N_FREE] = release_searched(index, free, state[N_FREE], plan, nodes)
    state[N_SEARCHED] += state[N_GROUP]
