"""Rows that lanes keep (keep-rows): the same bits at every length, one access to memory for each element, all of it in registers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.everywhere import outputs
from vxc.diag import read_source
from vxc.driver import Compiled, compile
from vxc.dtypes import DTYPES

SAMPLES = Path(__file__).parent.parent / "samples"
NUMPY = {"f16": np.float16, "f32": np.float32}
LENGTHS = [1, 3, 31, 32, 33, 96, 100, 127, 229, 768, 1000, 1280, 2560]
LONG = [8192, 20224]
ROWS = 3

SOFTMAX = """kernel k(x: {t}[M, {n}], out y: {t}[M, {n}]) {{ {lanes} parallel i in M {{
    let m = max(x[i]); let z = sum(exp(x[i] - m)); y[i] = exp(x[i] - m) / z; }} }}"""
LAYERNORM = """kernel k(x: {t}[M, {n}], w: f32[{n}], out y: {t}[M, {n}], out at: i64[M]) {{ {lanes} parallel i in M {{
    let d = x[i] - sum(x[i]) / ({n} as f32); at[i] = argmax(d); y[i] = d * rsqrt(sum(d * d) / ({n} as f32) + 0.001) * w; }} }}"""


def rows(dtype: str, n: int) -> np.ndarray:
    """Random rows, one with what softmax and quotients find hard: zeros, infinities, subnormals, equal elements."""
    x = np.random.default_rng(n).standard_normal((ROWS, n)) * 4
    x[1] = np.resize([0.0, -np.inf, 1e-6, -200.0, -0.0, 60.0], n)
    return x.astype(NUMPY[dtype])


def same_bits(text: str, dtype: str, n: int, lanes: str = "") -> None:
    arrays = {"x": rows(dtype, n)} | ({"w": rows("f32", n)[0]} if "w: f32" in text else {})
    outputs(text.format(t=dtype, n=n, lanes=lanes), binary=False, **arrays)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("text, dtype", [(SOFTMAX, "f16"), (LAYERNORM, "f32")], ids=["softmax", "layernorm"])
def test_every_length_gives_the_same_bits(text, dtype, n):
    same_bits(text, dtype, n)


@pytest.mark.parametrize("n", LONG)
@pytest.mark.parametrize("dtype", NUMPY)
def test_a_block_to_a_row(dtype, n):
    same_bits(SOFTMAX, dtype, n)


@pytest.mark.parametrize("lanes", [1, 2, 8, 32, 96, 128, 256])
@pytest.mark.parametrize("n", [100, 1000])
def test_every_number_of_lanes_gives_the_same_bits(lanes, n):
    same_bits(LAYERNORM, "f16", n, f"@lanes({lanes})")


def test_columns():
    """A strided reduction has one lane: a thread keeps its column."""
    text = """kernel k(x: f32[12, N], out y: f32[12, N]) { parallel j in N {
        let m = max(x[:, j]); parallel i in 12 { y[i, j] = x[i, j] - m; } } }"""
    outputs(text, binary=False, x=np.random.default_rng(1).standard_normal((12, 70)).astype(np.float32))


def test_a_row_that_is_overwritten_is_read_again():
    text = """kernel k(inout x: f32[M, 40], out s: f32[M]) { parallel i in M {
        let m = max(x[i]); x[i] = x[i] - m; s[i] = sum(x[i]); } }"""
    outputs(text, binary=False, x=rows("f32", 40) ** 2)


def test_a_row_that_is_dealt_otherwise_is_no_part_of_what_lanes_keep():
    """16 bytes of `w` are half as many elements as 16 bytes of `x`."""
    text = """kernel k(x: f16[3, 96], w: f32[3, 96], out y: f32[3, 96], out z: f32[3, 96]) { parallel i in 3 {
        let a = max(w[i]); let b = sum(x[i]); y[i] = w[i] - b; z[i] = x[i] / a; } }"""
    outputs(text, binary=False, x=rows("f16", 96), w=rows("f32", 96))


ARRAYS = {"softmax": ("x", "y"), "rmsnorm": ("x", "w", "y"), "layernorm": ("x", "w", "b", "y")}


def sample(name: str, dtype: str, m: int, n: int) -> Compiled:
    source, defines = read_source(SAMPLES / f"{name}.vx"), {"T": DTYPES[dtype], "M": m, "N": n}
    return compile(source, defines=defines, target="sm_90a", aligned=dict.fromkeys(ARRAYS[name], True))


@pytest.mark.parametrize("m, n", [(8192, 8192), (16384, 1000)])
@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("name", ["softmax", "rmsnorm", "layernorm"])
def test_rows_are_read_once_and_stay_in_registers(name, dtype, m, n):
    made = sample(name, dtype, m, n)
    kernel = made.after("map-loops").kernels[0]
    loads = [inst for inst in kernel.insts if inst.op == "load" and inst.operands[0].name == "x"]
    assert len(loads) == 1
    (resources,) = made.binary.kernels.values()
    assert (resources.spill_stores, resources.spill_loads, resources.stack) == (0, 0, 0)
    slots = -(-n // (kernel.attr("group") * (16 // DTYPES[dtype].bytes)))  # wide accesses of a lane
    forms = 2 if (name, dtype) == ("softmax", "f16") else 1  # by the reciprocal of the sum, and by division
    assert made.ptx.count("st.global.v4") == slots * forms


def test_wide_stores_stay_whole_where_the_rows_are_not_counted_yet():
    """LLVM splits a store whose offset is a 64-bit sum of block and row."""
    made = compile(read_source(SAMPLES / "rmsnorm.vx"), defines={"T": DTYPES["f16"], "N": 1000}, target="sm_90a",
        aligned=dict.fromkeys(ARRAYS["rmsnorm"], True))  # fmt: skip
    assert made.ptx.count("st.global.v4") == 4
