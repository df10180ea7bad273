"""What the emitted text of integer operations computes, without a device: NVRTC folds it on constants, and the PTX holds the
results. Right are the values of `semantics`.
"""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from semantics_kernels import with_prelude

from vxc.cuda.nvrtc import compile_cuda
from vxc.driver import compile
from vxc.dtypes import F32, I8, I16, I32, I64, U8, U16, U32, DType
from vxc.layout.placement import Placement
from vxc.semantics import c_expr, c_literal, evaluate
from vxc.source import Source

OPS = ("add", "sub", "mul", "floordiv", "mod", "ceildiv", "tdiv", "trem", "shl", "shr", "min", "max", "lt", "ge")


def folded(expressions: list[str], first: str = "", **names: str) -> list[int]:
    """The values of constant expressions, as i64, behind the statement `first`; with the given texts for names, such as `threadIdx`."""
    stores = "\n".join(f"  p[{at}] = (long long)({text});" for at, text in enumerate(expressions))
    text = with_prelude([f'extern "C" __global__ void k(long long* p) {{\n  {first}\n{stores}\n}}\n'])
    for name, value in names.items():
        text = text.replace(f"{name}.x", value)
    ptx = compile_cuda(text, "values.cu", "sm_80").ptx
    registers = dict(re.findall(r"mov\.[bu]64\s+(%rd\d+), (-?\d+);", ptx))
    stored = re.findall(r"st\.global\.[bu]64\s+\[%rd\d+(?:\+(\d+))?\], (%rd\d+|-?\d+);", ptx)
    values = {int(offset or 0) // 8: int(registers.get(value, value)) for offset, value in stored}
    return [values[at] for at in range(len(expressions))]


PLACEMENTS = [Placement(pitch=(24, 26)), Placement(swizzle=(2, 16, 64)), Placement(swizzle=(4, 4, 64, 2, 2, 1024))]


@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
def test_where_shared_elements_lie(placement):
    offsets = [0, 1, 23, 24, 63, 64, 65, 130, 1023, 1024, 2047, 3000]
    assert folded([placement.c_text(str(o)) for o in offsets]) == placement(np.array(offsets)).tolist()


def test_the_next_index_of_a_loop():
    """Up and down, over all numbers, and as far as the last of them."""
    least, most = I64.min, I64.max
    cases = [(0, 4, 10), (8, 4, 10), (6, 4, 10), (most - 3, 4, most), (most - 5, 4, most), (0, most, most), (least, most, most),
             (10, -4, 0), (2, -4, 0), (least + 3, -4, least), (least + 5, -4, least), (most, least, least), (-1, least, least)]  # fmt: skip
    want = [min(i + by, end) if by > 0 else max(i + by, end) for i, by, end in cases]
    literals = [", ".join(c_literal(np.int64(x), I64) for x in case) for case in cases]
    assert folded([f"vx_next<long long>({text})" for text in literals]) == want


def edges(dtype: DType) -> list[int]:
    negative = [-1, -2, -7, 1 - dtype.max] if dtype.kind == "i" else []
    return sorted({dtype.min, dtype.max, 0, 1, 2, 3, 7, dtype.bits - 1, dtype.bits, *negative})


@pytest.mark.parametrize("dtype", [I8, U8, I16, U16, I32, U32, I64], ids=str)
def test_integer_operations(dtype):
    pairs = list(product(edges(dtype), repeat=2))
    a, b = (np.array(side, dtype.numpy) for side in zip(*pairs))
    expressions = [c_expr(op, dtype, c_literal(x, dtype), c_literal(y, dtype)) for op in OPS for x, y in pairs]
    with np.errstate(all="ignore"):
        want = np.concatenate([np.asarray(evaluate(op, dtype, a, b)).astype(np.int64) for op in OPS])
    got = np.array(folded(expressions))
    wrong = np.flatnonzero(got != want)
    assert not wrong.size, [(expressions[i], int(got[i]), int(want[i])) for i in wrong[:5]]


def test_divisors_that_do_not_change_in_a_loop_make_no_copies_of_it():
    """NVRTC copies a loop for the combinations of invariant conditions in it: with branches on the divisors this was 5,223 lines of PTX."""
    text = """
kernel k(x0: bool[K, N], x1: i32[N], x2: bf16[M, N], x3: i16[N], x4: f32[N, K], x5: f64[2, N], x6: i16[2], inout z: f32[K, N]) {
    parallel i in K {
        @lanes(8) parallel j in N {
            z[i, j] -= (@lanes(96) dot((x5[:, N - 1 - j] as f32) + x4[0, (x1[0] as i64) % K],
                (x3[x6] as f32) + x2[(x1[(x3[j] as i64) % N] as i64) % M, (if x0[i, 0] { x1[31 % N] } else { x1[i % N] }) as i64 % N]));
        }
    }
}
"""
    assert len(compile(Source("k.vx", text)).binary.ptx.splitlines()) < 2000


@pytest.mark.parametrize("thread", [0, 5, 31, 37, 63])
def test_the_lanes_of_a_group(thread):
    widths = [1, 2, 4, 8, 16, 32]
    masks = folded([f"vx_group_mask({width})" for width in widths], threadIdx=f"{thread}u")
    assert masks == [sum(1 << lane for lane in range(32) if lane // width == thread % 32 // width) for width in widths]


def test_packed_elements():
    """Two to a byte, the low half first: -2, 5, 7, -8 and 14, 5, 7, 8."""
    first = "const signed char s[2] = {0x5e, (signed char)0x87}; const unsigned char u[2] = {0x5e, 0x87};"
    assert folded([f"vx_load_{dtype}({name}, {at}ll)" for dtype, name in (("i4", "s"), ("u4", "u")) for at in range(4)], first) == [
        -2, 5, 7, -8, 14, 5, 7, 8,
    ]  # fmt: skip


@pytest.mark.parametrize("op, instruction", [("max", "max.NaN.f32"), ("min", "min.NaN.f32"), ("maxnum", "max.f32"), ("minnum", "min.f32")])
def test_what_is_said_of_nan(op, instruction):
    """NVRTC does not look into the one instruction that each of these is, so its name must do."""
    text = f'extern "C" __global__ void k(float* p) {{ p[0] = {c_expr(op, F32, "p[0]", "p[1]")}; }}\n'
    found = re.findall(r"\b((?:max|min)\.\S+)", compile_cuda(with_prelude([text]), "k.cu", "sm_80").ptx)
    assert found == [instruction]
