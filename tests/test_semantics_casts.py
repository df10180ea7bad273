"""Conversions against independent models: sorted tables of all values of a type, and Python integers and fractions."""

from __future__ import annotations

import itertools
import math
import struct
from fractions import Fraction

import numpy as np
import pytest

from vxc.dtypes import BF16, BOOL, DTYPES, F8E4M3, F8E5M2, F16, F32, F64, I4, I8, I32, I64, U4, U8, U16, U32, U64
from vxc.semantics import FLOAT_MAX, cast, reinterpret, sat

NARROW = [F16, BF16, F8E4M3, F8E5M2]
SMALL = [d for d in DTYPES.values() if d.bits <= 16]
FORMATS = {F16: (11, -14, 15), BF16: (8, -126, 127), F32: (24, -126, 127), F64: (53, -1022, 1023), F8E4M3: (4, -6, 8), F8E5M2: (3, -14, 15)}


def every(dtype):
    """All values of a type of at most 16 bits."""
    if dtype == BOOL:
        return np.array([False, True])
    if dtype.bits == 4:
        return np.arange(dtype.min, dtype.max + 1, dtype=dtype.numpy)
    return np.arange(2**dtype.bits, dtype=f"u{dtype.bytes}").view(dtype.numpy)


def as_f64(x, dtype):
    with np.errstate(invalid="ignore"):
        return x.astype(np.float32).astype(np.float64) if dtype in NARROW else x.astype(np.float64)


def nearest(x, dst, saturate=False):
    """Round f64 to a narrow float type by searching the table of its values; bits, with any NaN as one pattern."""
    table = as_f64(every(dst), dst)[: 2 ** (dst.bits - 1)]
    table = table[np.isfinite(table)]
    top = len(table) - 1
    beyond = table[top] + (table[top] - table[top - 1])
    edges = np.append(table, beyond)
    size = np.minimum(np.abs(x), beyond)
    i = np.minimum(np.searchsorted(table, np.nan_to_num(size), side="right") - 1, top)
    middle = (edges[i] + edges[i + 1]) / 2
    bits = i + ((size > middle) | (size == middle) & (i % 2 == 1))
    if saturate:
        bits = np.minimum(bits, top)
    nan = (1 << dst.bits - 1) - 1
    bits = np.where(np.isnan(x) | (bits > top) & (dst == F8E4M3), nan, bits)
    return bits | (np.signbit(x) & (bits != nan)).astype(np.int64) << dst.bits - 1


def bits_of(x, dtype):
    """Bits, with any NaN as one pattern."""
    ints = x.view(f"u{dtype.bytes}").astype(np.int64)
    return np.where(np.isnan(x.astype(np.float32)), (1 << dtype.bits - 1) - 1, ints)


def test_narrow_float_tables_decode_as_their_formats_say():
    assert as_f64(every(F16), F16)[:0x7C00].tolist() == [struct.unpack("<e", struct.pack("<H", i))[0] for i in range(0x7C00)]
    assert as_f64(every(BF16), BF16)[:0x7F80].tolist() == [struct.unpack("<f", struct.pack("<I", i << 16))[0] for i in range(0x7F80)]
    for dtype, mantissa, bias in [(F8E4M3, 3, 7), (F8E5M2, 2, 15)]:
        for i in range(int(reinterpret(cast(FLOAT_MAX[dtype], F64, dtype), dtype, U8)) + 1):
            e, m = i >> mantissa, i & (1 << mantissa) - 1
            want = (m if e == 0 else m + (1 << mantissa)) * 2.0 ** (max(e, 1) - bias - mantissa)
            assert float(every(dtype)[i]) == want


@pytest.mark.parametrize("dst", NARROW)
@pytest.mark.parametrize("src", SMALL)
def test_every_small_value_to_narrow_floats(src, dst):
    x = every(src)
    assert (bits_of(cast(x, src, dst), dst) == nearest(as_f64(x, src), dst)).all()
    assert (bits_of(sat(x, src, dst), dst) == nearest(as_f64(x, src), dst, saturate=True)).all()


@pytest.mark.parametrize("dst", NARROW)
def test_f32_and_f64_around_every_midpoint(dst):
    """Each value of the type, each midpoint, and their neighbours in f32 and f64: where rounding twice goes wrong."""
    table = as_f64(every(dst), dst)
    table = np.unique(np.abs(table[np.isfinite(table)]))
    top, step = table[-1], table[-1] - table[-2]
    points = np.concatenate([table, (table[1:] + table[:-1]) / 2, [2 * top, top + step / 2, 1e300, np.inf, 0, np.nan]])
    points = np.concatenate([points, -points])
    for src, kind in ((F32, np.float32), (F64, np.float64)):
        with np.errstate(all="ignore"):
            x = points.astype(kind)
            x = np.concatenate([x, np.nextafter(x, kind(np.inf)), np.nextafter(x, kind(-np.inf)), x * kind(1 + 2.0**-20)])
        assert (bits_of(cast(x, src, dst), dst) == nearest(x.astype(np.float64), dst)).all()
        assert (bits_of(sat(x, src, dst), dst) == nearest(x.astype(np.float64), dst, saturate=True)).all()


def exact_round(value, dtype):
    """A Fraction rounded to nearest even in the format, as f64 (exact); inf where it overflows."""
    precision, least, most = FORMATS[dtype]
    if value == 0:
        return 0.0
    size = abs(value)
    e = size.numerator.bit_length() - size.denominator.bit_length()
    e -= Fraction(2) ** e > size
    unit = Fraction(2) ** (max(e, least) - precision + 1)
    result = round(size / unit) * unit  # Fraction rounds half to even
    top = Fraction(2) ** most * (2 - Fraction(2) ** (1 - precision)) if dtype != F8E4M3 else Fraction(448)
    return math.copysign(float(result) if result <= top else math.inf, value)


@pytest.mark.parametrize("dst", [*NARROW, F32, F64])
@pytest.mark.parametrize("src", [I32, U32, I64, U64])
def test_wide_ints_round_once(src, dst):
    rng = np.random.default_rng(11)
    powers = [1 << k for k in range(src.bits)]
    halves = (16, 2048, 1 << 12, 1 << 24, 1 << 25, 1 << 53)
    near = {p + half + d for p in powers for half in (0, *(p // q for q in halves)) for d in (-1, 0, 1)}
    near |= {int(v) for v in rng.integers(src.min, src.max, 200, src.numpy)}
    values = [v for v in near | {-v for v in near} if src.min <= v <= src.max]
    got = cast(np.array(values, src.numpy), src, dst)
    want = [exact_round(Fraction(v), dst) for v in values]
    wide = got.astype(np.float32).astype(np.float64) if dst in NARROW else got.astype(np.float64)
    if dst == F8E4M3:
        want = [math.nan if math.isinf(v) else v for v in want]
    np.testing.assert_array_equal(wide, want)
    top = FLOAT_MAX[dst]
    clamped = [top if v > top else -top if v < -top else exact_round(Fraction(v), dst) for v in values]
    np.testing.assert_array_equal(sat(np.array(values, src.numpy), src, dst).astype(np.float64), clamped)


def test_f64_to_f32_rounds_to_even():
    x = np.random.default_rng(2).integers(0, 2**64, 2000, np.uint64, endpoint=False).view(np.float64)
    ties = [1 + 2.0**-24, 1 + 2.0**-24 + 2.0**-50, 1e39, 3.4028235677973366e38, 2.0**-150, 2.0**-149 * 1.5]
    x = np.concatenate([x[np.isfinite(x)], ties])
    np.testing.assert_array_equal(cast(x, F64, F32), [exact_round(Fraction(float(v)), F32) for v in x])
    assert sat(1e39, F64, F32) == np.float32(FLOAT_MAX[F32]) and sat(-np.inf, F32, F32) == -np.float32(FLOAT_MAX[F32])
    assert sat(np.inf, F32, F64) == FLOAT_MAX[F64] and np.isnan(sat(np.nan, F32, F16).astype(np.float32))


@pytest.mark.parametrize("dst", [d for d in DTYPES.values() if d.is_int or d == BOOL])
@pytest.mark.parametrize("src", [d for d in SMALL if d.kind in "iub"])
def test_every_small_int_to_ints_wraps_or_saturates(src, dst):
    values = every(src)
    if dst == BOOL:
        assert cast(values, src, dst).tolist() == [v != 0 for v in values.tolist()]
        return
    wrapped = [(int(v) - dst.min) % (1 << dst.bits) + dst.min for v in values.tolist()]
    assert cast(values, src, dst).tolist() == wrapped
    assert sat(values, src, dst).tolist() == [min(max(int(v), dst.min), dst.max) for v in values.tolist()]


@pytest.mark.parametrize("dst", [d for d in DTYPES.values() if d.is_int])
@pytest.mark.parametrize("src", NARROW)
def test_every_narrow_float_to_ints_truncates_and_saturates(src, dst):
    x = every(src)
    floats = as_f64(x, src).tolist()
    want = [0 if math.isnan(v) else dst.max if v > dst.max else dst.min if v < dst.min else math.trunc(v) for v in floats]
    assert cast(x, src, dst).tolist() == want == sat(x, src, dst).tolist()


def test_wide_floats_to_ints():
    x = np.array([np.inf, -np.inf, np.nan, 3e9, -3e9, -0.9, 127.99, 2.0**63, -(2.0**63), 2.0**64, 2.0**63 - 1024, 1e-310])
    top, bottom = 2**31 - 1, -(2**31)
    assert cast(x, F64, I32).tolist() == [top, bottom, 0, top, bottom, 0, 127, top, bottom, top, top, 0]
    assert cast(x, F64, U8).tolist() == [255, 0, 0, 255, 0, 0, 127, 255, 0, 255, 255, 0]
    assert cast(x, F64, I64).tolist()[-5:] == [2**63 - 1, -(2**63), 2**63 - 1, 2**63 - 1024, 0]
    assert cast(x, F64, U64).tolist()[-5:] == [2**63, 0, 2**64 - 1, 2**63 - 1024, 0]
    assert cast(np.array([510.0, -200.0], np.float32), F32, I8).tolist() == [127, -128]
    assert cast([-0.0, 0.0, np.nan, 1e-45, np.inf], F32, BOOL).tolist() == [False, False, True, True, True]


def test_known_answers():
    assert cast(1 + 2.0**-11 + 2.0**-40, F64, F16).view(np.uint16) == 0x3C01
    x = np.array([0x7FFF8C22, 0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF], np.uint32).view(np.float32)
    narrow = cast(x, F32, BF16)
    assert np.isnan(narrow).all() and np.signbit(narrow.astype(np.float32)).tolist() == [False, False, True, False, True]
    assert np.isinf(cast(2 * FLOAT_MAX[BF16], F64, BF16).astype(np.float32))
    assert cast([259, 33000, -259], I32, BF16).astype(np.float32).tolist() == [260, 33024, -260]
    assert cast(-1, I8, U16) == 65535 and cast([65535, 65534], U16, I8).tolist() == [-1, -2] and cast(-3.0, F32, U8) == 0
    assert cast(65510.0, F64, F16) == 65504 and np.isinf(cast(65520.0, F64, F16))
    assert cast([7, 8, 15, 16], I32, I4).tolist() == [7, -8, -1, 0] and cast([-1, 17], I32, U4).tolist() == [15, 1]


SAME_WIDTH = [(s, d) for s, d in itertools.product(DTYPES.values(), repeat=2) if s.bits == d.bits and BOOL not in (s, d)]


@pytest.mark.parametrize(("src", "dst"), SAME_WIDTH)
def test_reinterpret_goes_there_and_back(src, dst):
    random = np.random.default_rng(1).integers(0, 2**src.bits, 500, f"u{src.bytes}", endpoint=False)
    x = every(src) if src in SMALL else random.view(src.numpy)
    there = reinterpret(x, src, dst)
    assert there.dtype == dst.numpy and reinterpret(there, dst, src).tobytes() == x.tobytes()


def test_reinterpret_wants_equal_widths():
    assert reinterpret(1.0, F32, I32) == 0x3F800000 and reinterpret(-1, I4, U4) == 15
    assert reinterpret([0, 1], U8, BOOL).tolist() == [False, True]
    with pytest.raises(ValueError, match="equal widths"):
        reinterpret(1.0, F32, I64)
