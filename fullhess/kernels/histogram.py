"""Histograms of statistics rows.

A histogram cell is a float32 vector of the same width as a statistics row
(a multiple of 8), so that adding a row to a cell is a handful of vector loads,
adds and stores. Numba does not vectorise that loop itself, since it cannot prove
that the two arrays do not overlap; a small intrinsic emits the instructions.

Sums stay accurate because a cell never adds more than ``FLUSH_COUNT`` rows in
float32 before it is emptied into a float64 carry. With 128 equal terms, the worst
case for the bias of rounding, the relative error stays below 2e-6; flushing costs
about a tenth of the update (a fifth after 64 rows; float64 cells cost twice the time).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .compile import kernel
from .simd import prefetch, row_pointer

LANES = 8  # rows are padded to multiples of this
# Floats in an emitted instruction, with one of eight at the end of an odd row: one register
# of AVX-512 or two of AVX. An update of 16 floats took 2.4 ns (3.5 ns in eights); one of 32
# floats took the same either way, since it waits for memory.
WIDE = 2 * LANES
FLUSH_COUNT = 128
ROUNDING = 2.0**-23  # of float32 cells, relative to their sizes
PREFETCH_ROWS = 8  # rows ahead; 8 and 16 measured alike, none costs 30 % on scattered rows
MAX_UNROLLED_VECTORS = 16  # wider rows use a loop at run time: unrolled code stops paying
# Features whose cells a row is added to at once: the row stays in registers, and one branch
# asks whether any of the cells is full. With one at a time an update took 1.2 to 1.35 times
# as long. Rows are taken in tiles, which stay in the second-level cache from group to group.
GROUP = 8
TILE = 512

_INT64 = ir.IntType(64)


def row_vectors(width):
    """The row width as the kernels take it: a tuple (unrolled) or a number (loop)."""
    n_vectors = width // LANES
    return (0,) * n_vectors if n_vectors <= MAX_UNROLLED_VECTORS else n_vectors


def _for_each_vector(builder, vectors_type, vectors, body):
    """Emit ``body(offset, n)`` for all n-float vectors of a row, unrolled for a tuple."""
    if isinstance(vectors_type, types.BaseTuple):
        width = len(vectors_type) * LANES
        for offset in range(0, width, WIDE):
            body(ir.Constant(_INT64, offset), min(WIDE, width - offset))
        return
    one = ir.Constant(_INT64, 1)
    with cgutils.for_range(builder, builder.lshr(vectors, one)) as loop:
        body(builder.mul(loop.index, ir.Constant(_INT64, WIDE)), WIDE)
    is_odd = builder.trunc(vectors, ir.IntType(1))
    with builder.if_then(is_odd):
        body(builder.mul(builder.sub(vectors, one), ir.Constant(_INT64, LANES)), LANES)


def _width(builder, vectors_type, vectors):
    if isinstance(vectors_type, types.BaseTuple):
        return ir.Constant(_INT64, len(vectors_type) * LANES)
    return builder.mul(vectors, ir.Constant(_INT64, LANES))


def _vector(builder, pointer, offset, element, n):
    vector_type = ir.VectorType(element, n)
    return builder.bitcast(builder.gep(pointer, [offset]), vector_type.as_pointer())


def _cells_scope(builder):
    """Metadata that names the memory of histograms and carries.

    What is stored there is marked with it, and a load of statistics is marked as
    never reading it: LLVM then keeps a row in registers over all features of a block.
    """
    module = builder.module
    domain = module.add_metadata(["fullhess histogram"])
    return module.add_metadata([module.add_metadata(["cells", domain])])


def _load(builder, pointer, align):
    value = builder.load(pointer)
    value.align = align
    return value


def _load_statistics(builder, pointer):
    value = _load(builder, pointer, 4)
    value.set_metadata("noalias", _cells_scope(builder))
    return value


def _store(builder, value, pointer, align):
    store = builder.store(value, pointer)
    store.align = align
    store.set_metadata("alias.scope", _cells_scope(builder))


@intrinsic
def _add_row_to_group(typingctx, cells, codes, stats, row, columns, bases, first, vectors):
    """cells[bases[j] + codes[row, columns[j]]] += stats[row] for GROUP numbers j from first on.

    Returns the largest count of those cells. cells and stats are (n, width) float32, columns
    and bases uint64.
    """

    def codegen(context, builder, signature, args):
        single, scope = ir.FloatType(), _cells_scope(builder)
        width = _width(builder, signature.args[7], args[7])
        source = row_pointer(context, builder, signature.args[2], args[2], args[3], width)
        table, data, column_data, base_data = (
            context.make_array(signature.args[a])(context, builder, args[a]) for a in (1, 0, 4, 5)
        )
        code_row = builder.mul(args[3], builder.extract_value(table.shape, 1))

        def load(array, place):
            value = builder.load(builder.gep(array.data, [place]))
            value.set_metadata("noalias", scope)
            return value

        targets = []
        for number in range(GROUP):
            j = builder.add(args[6], ir.Constant(_INT64, number))
            code = load(table, builder.add(code_row, load(column_data, j)))
            cell = builder.add(load(base_data, j), builder.zext(code, _INT64))
            targets.append(builder.gep(data.data, [builder.mul(cell, width)]))
        heads = []

        def add(offset, n):
            term = _load_statistics(builder, _vector(builder, source, offset, single, n))
            for target in targets:
                pointer = _vector(builder, target, offset, single, n)
                total = builder.fadd(_load(builder, pointer, 4), term)
                _store(builder, total, pointer, 4)
                heads.append(total)

        _for_each_vector(builder, signature.args[7], args[7], add)
        if isinstance(signature.args[7], types.BaseTuple):
            most = _largest(builder, heads[:GROUP])
            return builder.extract_element(most, ir.Constant(ir.IntType(32), 0))
        return _largest(builder, [builder.load(target) for target in targets])

    arrays = (cells, codes, stats, types.uint64, columns, bases, types.intp, vectors)
    return types.float32(*arrays), codegen


def _largest(builder, values):
    most = values[0]
    for value in values[1:]:
        most = builder.select(builder.fcmp_ordered(">", most, value), most, value)
    return most


@intrinsic
def _add_row(typingctx, cells, cell, stats, row, vectors):
    """cells[cell] += stats[row], both (n, width) float32; returns the cell's count."""

    def codegen(context, builder, signature, args):
        single = ir.FloatType()
        width = _width(builder, signature.args[4], args[4])
        target = row_pointer(context, builder, signature.args[0], args[0], args[1], width)
        source = row_pointer(context, builder, signature.args[2], args[2], args[3], width)
        first = ir.Constant(ir.IntType(32), 0)
        counts = []

        def add(offset, n):
            pointer = _vector(builder, target, offset, single, n)
            term = _load_statistics(builder, _vector(builder, source, offset, single, n))
            total = builder.fadd(_load(builder, pointer, 4), term)
            _store(builder, total, pointer, 4)
            counts.append(builder.extract_element(total, first))

        _for_each_vector(builder, signature.args[4], args[4], add)
        if isinstance(signature.args[4], types.BaseTuple):
            return counts[0]
        return builder.load(target)  # the vectors of a loop are out of reach here

    return types.float32(cells, types.intp, stats, types.intp, vectors), codegen


@intrinsic
def _flush_cell(typingctx, carry, slot, cells, cell, vectors):
    """carry[slot] += cells[cell] in float64, then cells[cell] = 0."""

    def codegen(context, builder, signature, args):
        single, double = ir.FloatType(), ir.DoubleType()
        width = _width(builder, signature.args[4], args[4])
        target = row_pointer(context, builder, signature.args[0], args[0], args[1], width)
        source = row_pointer(context, builder, signature.args[2], args[2], args[3], width)

        def flush(offset, n):
            cell_pointer = _vector(builder, source, offset, single, n)
            carry_pointer = _vector(builder, target, offset, double, n)
            term = builder.fpext(_load(builder, cell_pointer, 4), ir.VectorType(double, n))
            total = builder.fadd(_load(builder, carry_pointer, 8), term)
            _store(builder, total, carry_pointer, 8)
            zero = ir.Constant(ir.VectorType(single, n), [0.0] * n)
            _store(builder, zero, cell_pointer, 4)

        _for_each_vector(builder, signature.args[4], args[4], flush)
        return context.get_dummy_value()

    return types.void(carry, types.intp, cells, types.intp, vectors), codegen


@kernel
def _prefetch_row(rows, r, stats, codes, column):
    """Ask for a row some places ahead: its statistics, and its codes from ``column`` on."""
    ahead = np.int64(rows[min(r + PREFETCH_ROWS, rows.shape[0] - 1)])
    for line in range(0, stats.shape[1], 16):
        prefetch(stats, ahead * stats.shape[1] + line)
    prefetch(codes, ahead * codes.shape[1] + column)


@kernel
def build_histogram(codes, rows, stats, features, cell_offsets, vectors, places, carry, out):
    """Sum the statistics of some rows into the cells of a block of features.

    Parameters
    ----------
    codes : (n, d) uint8 or uint16 bin codes.
    rows : (m,) int32 rows of the node.
    stats : (n, width) float32 statistics rows, the count first.
    features : (f,) int32 the block.
    cell_offsets : (d + 1,) int64 first cell of each feature.
    vectors : ``row_vectors(width)``.
    places : (3, at least f) uint64 scratch.
    carry : (at least the cells of the block, width) float64, zeros; left as zeros.
    out : (n_cells, width) float32; the block's cells are overwritten.
    """
    n = rows.shape[0]
    width = stats.shape[1]
    n_features = features.shape[0]
    # Unsigned numbers: Numba would test a signed index for being negative, every time.
    column = places[0]
    base = places[1]  # first cell of the feature
    slot = places[2]  # its first row of the carry
    used = 0
    flush_count = np.float32(FLUSH_COUNT)
    flushed = False
    for j in range(n_features):
        first = cell_offsets[features[j]]
        last = cell_offsets[features[j] + 1]
        for cell in range(first, last):
            for w in range(width):
                out[cell, w] = 0.0
        column[j] = features[j]
        base[j] = first
        slot[j] = used
        used += last - first
    n_grouped = n_features // GROUP * GROUP
    for start in range(0, n, TILE):
        end = min(start + TILE, n)
        for group in range(0, n_grouped, GROUP):
            for r in range(start, end):
                row = np.uint64(rows[r])
                if group == 0:
                    _prefetch_row(rows, r, stats, codes, features[0])
                most = _add_row_to_group(out, codes, stats, row, column, base, group, vectors)
                if most >= flush_count:
                    flushed = True
                    for j in range(group, group + GROUP):
                        code = np.uint64(codes[row, column[j]])
                        if out[base[j] + code, 0] >= flush_count:
                            _flush_cell(carry, slot[j] + code, out, base[j] + code, vectors)
        for r in range(start, end if n_grouped < n_features else start):
            row = np.uint64(rows[r])
            if n_grouped == 0:
                _prefetch_row(rows, r, stats, codes, features[0])
            for j in range(n_grouped, n_features):
                code = np.uint64(codes[row, column[j]])
                if _add_row(out, base[j] + code, stats, row, vectors) >= flush_count:
                    _flush_cell(carry, slot[j] + code, out, base[j] + code, vectors)
                    flushed = True
    if not flushed:
        return
    for j in range(n_features):
        first = cell_offsets[features[j]]
        for code in range(cell_offsets[features[j] + 1] - first):
            row_carry = carry[slot[j] + np.uint64(code)]
            if row_carry[0] > 0.0:
                cell = out[first + code]
                for w in range(width):
                    cell[w] = row_carry[w] + cell[w]
                    row_carry[w] = 0.0


@kernel
def build_sparse_histogram(
    indptr, entries, cells, rows, stats, total, features, prevailing, cell_offsets, vectors,
    remains, carry, out,
):  # fmt: skip
    """Sum the statistics of some rows into the cells of sparse columns.

    Parameters
    ----------
    indptr, entries, cells, features, prevailing : see ``sparse.SparseBlock``.
    total : (width,) float64 sum of the rows' statistics.
    rows, stats, cell_offsets, vectors, out : as in ``build_histogram``.
    remains : (2, width) float64 scratch.
    carry : (at least the number of cells, width) float64, zeros; left as zeros.
    """
    n = rows.shape[0]
    width = stats.shape[1]
    flush_count = np.float32(FLUSH_COUNT)
    flushed = False
    for number in range(cells.shape[0]):
        for w in range(width):
            out[cells[number], w] = 0.0
    for r in range(n):
        row = np.uint64(rows[r])
        ahead = np.int64(rows[min(r + PREFETCH_ROWS, n - 1)])
        for line in range(0, width, 16):
            prefetch(stats, ahead * width + line)
        prefetch(entries, indptr[ahead])
        for e in range(np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])):
            number = np.uint64(entries[e])
            cell = np.uint64(cells[number])
            if _add_row(out, cell, stats, row, vectors) >= flush_count:
                _flush_cell(carry, number, out, cell, vectors)
                flushed = True
    if flushed:
        for number in range(cells.shape[0]):
            row_carry = carry[number]
            if row_carry[0] > 0.0:
                cell = out[cells[number]]
                for w in range(width):
                    cell[w] = row_carry[w] + cell[w]
                    row_carry[w] = 0.0
    rest = remains[0]
    size = remains[1]
    for j in range(features.shape[0]):
        for w in range(width):
            rest[w] = total[w]
            size[w] = abs(total[w])
        for cell in range(cell_offsets[features[j]], cell_offsets[features[j] + 1]):
            if out[cell, 0] > 0.0:
                for w in range(width):
                    rest[w] -= out[cell, w]
                    size[w] += abs(out[cell, w])
        if rest[0] > 0.5:  # counts are whole numbers
            for w in range(width):
                # What is left of numbers that cancel is their rounding.
                lost = abs(rest[w]) < ROUNDING * size[w]
                out[prevailing[j], w] = 0.0 if lost else rest[w]


@cache
def builders(width):
    """``build_histogram`` and ``build_sparse_histogram`` for rows of this width.

    A kernel that knows the width is compiled once for each; those that call it by its
    address (``team.call_at``) are not.
    """
    vectors = row_vectors(width)

    @kernel
    def build(codes, rows, stats, features, cell_offsets, places, carry, out):
        build_histogram(codes, rows, stats, features, cell_offsets, vectors, places, carry, out)

    @kernel
    def build_sparse(
        indptr, entries, cells, rows, stats, total, features, prevailing, cell_offsets, remains,
        carry, out,
    ):  # fmt: skip
        build_sparse_histogram(
            indptr, entries, cells, rows, stats, total, features, prevailing, cell_offsets, vectors,
            remains, carry, out,
        )  # fmt: skip

    return build, build_sparse


@kernel
def subtract_histogram(features, cell_offsets, child, out):
    """Turn a parent's cells (``out``) into those of the child's sibling.

    A cell without rows becomes exactly zero, so that the rounding of the
    subtraction leaves no phantom statistics there.
    """
    for j in range(features.shape[0]):
        for cell in range(cell_offsets[features[j]], cell_offsets[features[j] + 1]):
            if child[cell, 0] == 0.0:
                continue
            if out[cell, 0] == child[cell, 0]:
                for w in range(out.shape[1]):
                    out[cell, w] = 0.0
            else:
                for w in range(out.shape[1]):
                    out[cell, w] -= child[cell, w]


@kernel
def sum_rows(rows, stats, out):
    """Sum of the statistics of some rows, (width,) float64."""
    n = rows.shape[0]
    width = stats.shape[1]
    for w in range(width):
        out[w] = 0.0
    for r in range(n):
        ahead = np.int64(rows[min(r + PREFETCH_ROWS, n - 1)])
        for line in range(0, width, 16):
            prefetch(stats, ahead * width + line)
        values = stats[rows[r]]
        for w in range(width):
            out[w] += values[w]
