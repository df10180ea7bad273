"""Reductions and scans against scalar models written straight from their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from vxc.dtypes import BOOL, F16, F32, F64, I4, I8, I32, I64, U8, U32
from vxc.passes.lower_reduce import fold_order
from vxc.semantics import REDUCTIONS, Order, accumulator, check_order, dot, evaluate, parse_order, reduce, reduce_order, scan

ORDERS = [(4, 1, 1, 1), (4, 3, 8, 1), (4, 8, 4, 1), (8, 12, 16, 2), (4, 16, 32, 3), (2, 1, 96, 2), (8, 64, 4, 1)]
ORDERS += [(4, 0, 8, 3), (1, 4, 1, 1)]
LENGTHS = [1, 2, 3, 5, 31, 33, 64, 127, 229, 1000]


def fold(values, op):
    values = list(values)
    while len(values) > 1:
        h = (len(values) + 1) // 2
        values = [op(values[i], values[i + h]) if i + h < len(values) else values[i] for i in range(h)]
    return values[0]


def model(n, order, op, join, start):
    """The definition of `Order`, element by element; `join(acc, e)` adds element e to a partial."""
    v, c, lanes = order.v, order.chunk, order.lanes
    parts = order.parts or (1 if n < 32768 else 16 if n < 262144 else 64)
    span, warp = order.span(n), min(order.lanes, 32)
    results = []
    for p in range(parts):
        acc = [[start] * (c or span // lanes) for _ in range(lanes)]
        for at in range(p * span, min((p + 1) * span, n)):
            e = at - p * span
            lane, k = (e // v) % lanes, ((e // (v * lanes)) * v + e % v) % (c or span // lanes)
            acc[lane][k] = join(acc[lane][k], at)
        values = [fold(row, op) for row in acc]
        total = None
        for w in range(0, lanes, warp):
            a, d = values[w : w + warp], warp // 2
            while d:
                a, d = [op(a[i], a[i ^ d]) for i in range(warp)], d // 2
            total = a[0] if total is None else op(total, a[0])
        results.append(total)
    return fold(results, op)


def rough(n, seed=1, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(n) * 10.0 ** rng.integers(-3, 4, n)).astype(dtype)


@pytest.mark.parametrize("fields", ORDERS)
def test_sum_prod_and_dot_follow_the_definition(fields):
    order = Order(*fields)
    with np.errstate(all="ignore"):
        for n in LENGTHS:
            x, y = rough(n), rough(n, 2)
            add, zero = np.add, np.float32(-0.0)
            assert reduce("sum", x, F32, order) == model(n, order, add, lambda a, e: a + x[e], zero)
            assert reduce("prod", x, F32, order).tobytes() == model(n, order, np.multiply, lambda a, e: a * x[e], np.float32(1)).tobytes()
    n = 100
    x, y = rough(n), rough(n, 2)
    want = model(n, order, np.add, lambda a, e: evaluate("fma", F32, x[e], y[e], a)[()], np.float32(-0.0))
    assert dot(x, y, F32, order) == want


@pytest.mark.parametrize("n", [1, 32767, 32768, 32769, 262143, 262144])
def test_parts_by_the_length(n):
    order, x = Order(4, 4, 32, 0), rough(n)
    assert reduce("sum", x, F32, order) == model(n, order, np.add, lambda a, e: a + x[e], np.float32(-0.0))


@pytest.mark.parametrize("parts", [1, 2, 3, 8, 16, 48, 64, 256])
def test_partial_results_fold_in_the_order_of_a_reduction(parts):
    x = rough(parts)
    for lanes in (32, 16, 1):
        assert reduce("sum", x, F32, fold_order(parts, lanes)) == fold(x, np.add)


@pytest.mark.parametrize("n", [1, 3, 40, 63, 64])
def test_lanes_that_idle_change_nothing(n):
    """split-lengths counts on it: up to a vector for each of 16 lanes, an order of 32 gives the bits of one of 16."""
    x = rough(n)
    for c in (1, 4, 5, 0):
        assert reduce("sum", x, F32, Order(4, c, 32)) == reduce("sum", x, F32, Order(4, c, 16))


def test_leading_axes_reduce_separately():
    x, order = rough(6 * 77).reshape(2, 3, 77), Order(4, 4, 8, 2)
    got = reduce("sum", x, F32, order)
    assert got.shape == (2, 3)
    assert all(got[i, j] == reduce("sum", x[i, j], F32, order) for i in range(2) for j in range(3))


def test_no_rows_give_no_results():
    order = Order(4, 4, 32, 2)
    for name in ("sum", "max", "argmax"):
        assert reduce(name, np.zeros((0, 5), np.float32), F32, order).shape == (0,)
    assert dot(np.zeros((2, 0, 5)), np.zeros((2, 0, 5)), F64, order).shape == (2, 0)


def scan_model(x, op, order):
    """The definition in the docstring of `scan`, absent terms being None."""

    def join(a, b):
        return b if a is None else op(a, b)

    v, warp = order.v, min(order.lanes, 32)
    out, tiles_before = [], None
    for at in range(0, len(x), v * order.lanes):
        warps_before = None
        for w in range(at, at + v * order.lanes, v * warp):
            own = []
            for lane in range(w, w + v * warp, v):
                run = []
                for e in range(lane, lane + v):
                    run.append(join(run[-1] if run else None, x[e] if e < len(x) else x.dtype.type(0)))
                own.append(run)
            upto, d = [run[-1] for run in own], 1
            while d < warp:
                upto, d = [upto[i] if i < d else op(upto[i - d], upto[i]) for i in range(warp)], 2 * d
            for lane, run in enumerate(own):
                before = join(tiles_before, warps_before) if warps_before is not None else tiles_before
                if lane:
                    before = join(before, upto[lane - 1])
                out += [join(before, value) for value in run]
            warps_before = join(warps_before, upto[-1])
        tiles_before = join(tiles_before, warps_before)
    return np.array(out[: len(x)], x.dtype)


@pytest.mark.parametrize("fields", [(4, 1, 1), (1, 1, 8), (4, 4, 32), (2, 1, 96), (8, 3, 4)])
def test_scan_follows_its_definition(fields):
    order = Order(*fields)
    with np.errstate(all="ignore"):
        for n in LENGTHS:
            x = rough(n)
            for name, op in [("sum", np.add), ("prod", np.multiply)]:
                assert scan(name, x, F32, order).tobytes() == scan_model(x, op, order).tobytes(), (name, n)
    assert (scan("max", x, F32, order) == np.maximum.accumulate(x)).all()
    assert scan("sum", np.array([-0.0], np.float32), F32, order).tobytes() == np.float32(-0.0).tobytes()
    assert scan("sum", np.zeros((3, 0), np.float32), F32, order).shape == (3, 0)


def test_scans_of_extremes_and_narrow_ints():
    got = scan("max", [-0.0, 0.0, -0.0, np.nan, 9.0], F64, Order(2, 1, 4))
    assert got[:3].tobytes() == np.array([-0.0, 0.0, 0.0]).tobytes() and np.isnan(got[3:]).all()
    sums = scan("sum", [100, 100, 100], I8, Order(8, 1, 4))
    assert sums.dtype == np.int32 and sums.tolist() == [100, 200, 300]
    assert scan("prod", [16] * 9, U32, Order(1, 1, 1)).tolist()[-2:] == [0, 0]


@pytest.mark.parametrize(
    ("name", "dtype", "want"),
    [
        ("sum", F32, 0.0), ("prod", F64, 1.0), ("max", F32, -np.inf), ("min", F32, np.inf), ("max", I8, -128), ("min", U8, 255),
        ("absmax", F32, 0.0), ("any", BOOL, False), ("all", BOOL, True), ("argmax", F32, -1), ("argmin", I32, -1), ("maxnum", F32, np.nan),
    ],
)  # fmt: skip
def test_empty(name, dtype, want):
    got = reduce(name, np.zeros((2, 0), dtype.numpy), dtype, Order(1, 1, 1))
    assert got.dtype == accumulator(name, dtype).numpy
    assert got.tobytes() == np.full(2, want, got.dtype).tobytes()


def test_sum_keeps_a_negative_zero():
    order = Order(4, 4, 32, 2)
    assert np.signbit(reduce("sum", np.full(7, -0.0), F64, order))
    assert not np.signbit(reduce("sum", np.zeros(0), F64, order))


@pytest.mark.parametrize("n", [4, 31, 32, 33, 1000])
@pytest.mark.parametrize("dtype", [F32, F64])
def test_nan_wins_max_min_and_loses_maxnum(n, dtype):
    order, x = reduce_order(n, dtype, True), np.zeros(n, dtype.numpy)
    x[:4] = [1, np.nan, 3, -np.inf]
    assert all(np.isnan(reduce(name, x, dtype, order)) for name in ("max", "min", "absmax"))
    assert reduce("maxnum", x, dtype, order) == 3 and reduce("minnum", x, dtype, order) == -np.inf
    assert reduce("argmax", x, dtype, order) == 1 == reduce("argmin", x, dtype, order)
    every = np.full(n, -np.nan, dtype.numpy)
    assert all(np.isnan(reduce(name, every, dtype, order)) for name in ("max", "min", "maxnum", "minnum"))
    assert reduce("argmax", every, dtype, order) == 0


def test_identities_lose_to_every_element():
    order = Order(4, 4, 8)
    assert reduce("max", [-np.inf] * 5, F32, order) == -np.inf and reduce("argmax", [-np.inf] * 5, F32, order) == 0
    assert reduce("argmin", [np.inf], F32, order) == 0 and reduce("argmax", np.zeros(3, np.uint32), U32, order) == 0
    assert reduce("max", [-(2**31)] * 7, I32, order) == -(2**31)


def test_max_orders_zeros():
    for x in ([-0.0, 0.0], [0.0, -0.0]):
        assert not np.signbit(reduce("max", x, F32, Order(1, 1, 1)))
        assert np.signbit(reduce("min", x, F32, Order(1, 1, 1)))


def test_ints_below_32_bits_sum_wide_and_wide_ones_wrap():
    order = Order(16, 16, 1)
    assert reduce("sum", [101, 101], I8, order) == 202 and reduce("sum", [255] * 3, U8, order).dtype == np.uint32
    assert reduce("sum", [2**31 - 1, 1], I32, order) == -(2**31)
    assert dot([100, 100], [100, 100], I8, order) == 20000
    assert accumulator("argmax", F32) == I64 and accumulator("any", BOOL) == BOOL and accumulator("sum", F32) == F32


def test_dot_agrees_with_sum_of_products_over_f16():
    a, b = (rough(300, s).astype(np.float16).astype(np.float32) for s in (1, 2))
    order = reduce_order(300, F16, True)
    assert dot(a, b, F32, order) == reduce("sum", a * b, F32, order)


def test_default_orders():
    assert reduce_order(64, F32, True) == Order(4, 4, 16)
    assert [reduce_order(n, F32, True).lanes for n in (512, 513, 1000, 4096, 8192, 16384)] == [32, 64, 64, 256, 512, 512]
    assert [reduce_order(n, F16, True).lanes for n in (1000, 2048, 4096, 8192, 16384)] == [32, 64, 64, 128, 256]
    assert reduce_order(1 << 20, F32, True) == Order(4, 4, 512, 64)
    assert reduce_order(None, F16, True) == Order(8, 8, 32, 0)
    assert reduce_order(None, F16, False).parts == reduce_order(None, None, True).parts == 1
    assert [reduce_order(n, F32, True).parts for n in (131071, 131072, 3 << 17)] == [1, 16, 32]  # none, or a power of two
    assert reduce_order(None, I4, True).v == 32
    assert reduce_order(100, F32, False).lanes == 1 and reduce_order(100, None, True).v == 1
    assert reduce_order(None, F32, True, alone=True).parts > 1
    assert reduce_order(8192, F32, True, chunk=16, lanes=96, parts=2) == Order(4, 16, 96, 2)
    for n in [None, *range(0, 200000, 3777)]:
        for alone in (False, True):
            assert check_order(reduce_order(n, F32, True, alone=alone)) is None


def test_orders_print_and_are_checked():
    assert parse_order(str(Order(4, 8, 32, 2))) == Order(4, 8, 32, 2)
    assert check_order(Order(4, 0, 1024, 1)) is None and check_order(Order(1, 1, 96)) is None
    for bad in (Order(0, 1, 1), Order(1, -1, 1), Order(1, 1, 48), Order(1, 1, 2048), Order(1, 1, 0), Order(1, 1, 1, -1)):
        assert check_order(bad)


def test_every_reduction_combines_by_a_scalar_operation():
    for row in REDUCTIONS.values():
        for dtype in (d for d in (F32, F64, I8, U32, BOOL) if d.kind in row.kinds):
            evaluate(row.combine, dtype, 0, 1)
