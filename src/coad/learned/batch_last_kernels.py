"""The compiled loops of :mod:`coad.learned.batch_last`; arrays are laid out as its introduction says.

``rows`` are (blocks, members, channels, y, places · lanes), planes the same with their padding.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

__all__ = [
    "GROUP",
    "LANES",
    "gather",
    "input_gradient",
    "outputs",
    "place",
    "scatter_alive",
    "spread",
    "take_alive",
    "weight_gradient",
]

#: Rows of a batch side by side; two AVX registers, or one of AVX-512.
LANES = 16
#: Products are summed for so many offsets at once: as many sums as registers hold.
GROUP = 5
#: Values of a row that stay in the first-level cache while all offsets are visited.
_TILE = 1024

_compiled = numba.njit(
    cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz", "arcp"}, error_model="numpy"
)


def _tile_of(channels: int) -> Any:
    """The innermost loop for so many output channels: 16 rows of one place, kept in registers over all offsets.

    out[place + c · step :][:16] = max(floor, bias[c] + Σ_t weight[t, c] · source[base + offsets[t] :][:16]).
    Written as LLVM's instructions on vectors of 16, which it maps to those of the machine: left
    to itself, the compiler does not keep the sums in registers.
    """

    @intrinsic
    def tile(typing, source, base, offsets, weight, bias, floor, out, place, step):
        return types.void(source, base, offsets, weight, bias, floor, out, place, step), codegen

    def codegen(context, builder, signature, arguments):
        vector, index = ir.VectorType(ir.FloatType(), LANES), ir.IntType(64)
        source, offsets, weight, bias, out = (
            context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 2, 3, 4, 6)
        )
        base, floor, place, step = (arguments[i] for i in (1, 5, 7, 8))

        def at(array, place):
            return builder.gep(array.data, [place])

        def wide(pointer):
            return builder.bitcast(pointer, vector.as_pointer())

        def splat(value):
            empty = ir.Constant(vector, ir.Undefined)
            one = builder.insert_element(empty, value, ir.Constant(ir.IntType(32), 0))
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
            return builder.shuffle_vector(one, empty, zeros)

        multiply_add = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fmuladd.v{LANES}f32"
        )
        first = [splat(builder.load(at(bias, index(c)))) for c in range(channels)]
        before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
        builder.branch(loop)
        builder.position_at_end(loop)
        t, sums = builder.phi(index), [builder.phi(vector) for _ in range(channels)]
        offset = builder.add(base, builder.load(at(offsets, t)))
        x = builder.load(wide(at(source, offset)), align=4)
        row = builder.mul(t, index(channels))
        weights = [splat(builder.load(at(weight, builder.add(row, index(c))))) for c in range(channels)]
        new = [builder.call(multiply_add, [x, w, total]) for w, total in zip(weights, sums, strict=True)]
        following = builder.add(t, index(1))
        for phi, start, value in zip((t, *sums), (index(0), *first), (following, *new), strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(value, loop)
        taps = builder.extract_value(offsets.shape, 0)
        builder.cbranch(builder.icmp_signed("<", following, taps), loop, after)
        builder.position_at_end(after)
        least = splat(floor)
        for c in range(channels):
            # Unordered: a NaN stays one, as in PyTorch's ReLU, and is not hidden as a 0.
            value = builder.select(builder.fcmp_unordered(">", new[c], least), new[c], least)
            goal = builder.add(place, builder.mul(step, index(c)))
            builder.store(value, wide(at(out, goal)), align=4)
        return context.get_dummy_value()

    return tile


_tile_4, _tile_5, _tile_6 = _tile_of(4), _tile_of(5), _tile_of(6)


@_compiled
def _tiles(source, base, offsets, weight, bias, floor, out, place, step, wide):
    """One output row of ``wide`` places, for all groups of channels: weight (groups, offsets, channels)."""
    for group in range(weight.shape[0]):
        goal = place + group * weight.shape[2] * step
        w, b = weight[group], bias[group]
        for i in range(0, wide * LANES, LANES):
            if weight.shape[2] == 4:
                _tile_4(source, base + i, offsets, w, b, floor, out, goal + i, step)
            elif weight.shape[2] == 5:
                _tile_5(source, base + i, offsets, w, b, floor, out, goal + i, step)
            else:
                _tile_6(source, base + i, offsets, w, b, floor, out, goal + i, step)


@_compiled
def _add_products(first, second, g_first, g_second, source, base, offsets):
    """first[t] += Σ g_first · source[base + offsets[t] :], and the same for second."""
    for start in range(0, len(g_first), _TILE):
        g, h = g_first[start : start + _TILE], g_second[start : start + _TILE]
        for t in range(0, len(offsets), GROUP):
            x0, x1 = source[base + start + offsets[t] :], source[base + start + offsets[t + 1] :]
            x2, x3 = source[base + start + offsets[t + 2] :], source[base + start + offsets[t + 3] :]
            x4 = source[base + start + offsets[t + 4] :]
            u0 = u1 = u2 = u3 = u4 = v0 = v1 = v2 = v3 = v4 = np.float32(0.0)
            for i in range(len(g)):
                a, b = g[i], h[i]
                u0 += a * x0[i]
                v0 += b * x0[i]
                u1 += a * x1[i]
                v1 += b * x1[i]
                u2 += a * x2[i]
                v2 += b * x2[i]
                u3 += a * x3[i]
                v3 += b * x3[i]
                u4 += a * x4[i]
                v4 += b * x4[i]
            first[t], first[t + 1], first[t + 2] = first[t] + u0, first[t + 1] + u1, first[t + 2] + u2
            first[t + 3], first[t + 4] = first[t + 3] + u3, first[t + 4] + u4
            second[t], second[t + 1], second[t + 2] = second[t] + v0, second[t + 1] + v1, second[t + 2] + v2
            second[t + 3], second[t + 4] = second[t + 3] + v3, second[t + 4] + v4


@_compiled
def outputs(source, weight, bias, offsets, step, out):
    """ReLU of the convolution of (blocks, members or 1, ·) planes into out (blocks, members, channels, y, ·)."""
    high, size = out.shape[3], out.shape[4]
    for block in range(out.shape[0]):
        for k in range(out.shape[1]):
            a, goal = source[block, k if source.shape[1] > 1 else 0], out[block, k].reshape(-1)
            for y in range(high):
                _tiles(a, y * step, offsets, weight[k], bias[k], np.float32(0.0), goal, y * size, high * size,
                       size // LANES)  # fmt: skip


@_compiled
def weight_gradient(source, rows, offsets, step, of_weights, of_biases):
    spare = np.zeros(len(offsets), np.float32)
    for block in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            a = source[block, k if source.shape[1] > 1 else 0]
            for c in range(0, rows.shape[2], 2):
                after = min(c + 1, rows.shape[2] - 1)
                first, second = of_weights[k, c], of_weights[k, after] if after > c else spare
                for y in range(rows.shape[3]):
                    g, h = rows[block, k, c, y], rows[block, k, after, y]
                    _add_products(first, second, g, h, a, y * step, offsets)
            for c in range(rows.shape[2]):
                total = np.float32(0.0)
                for y in range(rows.shape[3]):
                    g = rows[block, k, c, y]
                    for i in range(len(g)):
                        total += g[i]
                of_biases[k, c] += total


@_compiled
def input_gradient(framed, weight, offsets, row, r, c, step, size, above, high, back):
    """The input rows ≡ r modulo the stride, and of these the phase c, of back (blocks, members, channels, y, ·)."""
    nothing, least = np.zeros((weight.shape[1], weight.shape[3]), np.float32), np.float32(-np.inf)
    plane = back.shape[3] * back.shape[4]
    for block in range(back.shape[0]):
        for k in range(back.shape[1]):
            a, goal = framed[block, k], back[block, k].reshape(-1)
            for y in range(r, above + high, step):
                if y >= above:
                    place = y * back.shape[4] + c * size
                    _tiles(a, (y - r) // step * row, offsets, weight[k], nothing, least, goal, place, plane,
                           size // LANES)  # fmt: skip


@_compiled
def spread(x, planes, above, columns):
    """Rows x (n, channels, y, x) into planes (blocks, 1, channels, y, ·); lanes without a row become 0."""
    for block in range(planes.shape[0]):
        here = x[block * LANES : (block + 1) * LANES]
        for c in range(x.shape[1]):
            for y in range(x.shape[2]):
                goal = planes[block, 0, c, y + above]
                for start in range(0, len(columns), 64):
                    some = columns[start : start + 64]
                    for lane in range(LANES):
                        own = goal[lane:]
                        if lane < len(here):
                            row = here[lane, c, y, start:]
                            for i in range(len(some)):
                                own[some[i]] = row[i]
                        else:
                            for i in range(len(some)):
                                own[some[i]] = np.float32(0.0)


@_compiled
def place(rows, planes, above, columns):
    """Rows of values into the middle of padded planes."""
    for block in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            for c in range(rows.shape[2]):
                for y in range(rows.shape[3]):
                    row, goal = rows[block, k, c, y], planes[block, k, c, y + above]
                    for i in range(len(columns)):
                        here, there = goal[columns[i] :], row[i * LANES :]
                        for lane in range(LANES):
                            here[lane] = there[lane]


@_compiled
def take_alive(back, planes, rows, above, columns):
    """The inverse of :func:`place`, 0 where the ReLU that made the planes gave 0."""
    for block in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            for c in range(rows.shape[2]):
                for y in range(rows.shape[3]):
                    value, alive = back[block, k, c, y + above], planes[block, k, c, y + above]
                    for i in range(len(columns)):
                        here, there = rows[block, k, c, y, i * LANES :], value[columns[i] :]
                        mask = alive[columns[i] :]
                        for lane in range(LANES):
                            here[lane] = there[lane] * np.float32(mask[lane] > 0)


@_compiled
def gather(rows, out):
    """Rows (blocks, members, channels, y, ·) into out (n, members, channels, places)."""
    wide = rows.shape[4] // LANES
    for n in range(out.shape[0]):
        for k in range(out.shape[1]):
            for c in range(out.shape[2]):
                for y in range(rows.shape[3]):
                    row, goal = rows[n // LANES, k, c, y], out[n, k, c, y * wide :]
                    for i in range(wide):
                        goal[i] = row[i * LANES + n % LANES]


@_compiled
def scatter_alive(gradient, out, rows):
    """The inverse of :func:`gather`, 0 where ``out`` is 0."""
    rows[-1] = np.float32(0.0)  # the last block may have lanes without a row
    for n in range(out.shape[0]):
        for f in range(out.shape[1]):
            rows[n // LANES, f, n % LANES] = gradient[n, f] * np.float32(out[n, f] > 0)
