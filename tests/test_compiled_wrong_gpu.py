"""Kernels that a CUDA compiler made wrong machine code of, from the text that vxc once wrote for them. Found by `vxc fuzz`."""

from __future__ import annotations

import pytest

from vxc.diff import first_difference
from vxc.driver import compile
from vxc.fuzz.case import Case
from vxc.interp.ast_interp import run_ast
from vxc.runtime.launch import run_numpy
from vxc.source import Source

pytestmark = pytest.mark.gpu

ONE_LOAD_OF_TWO = """# LLVM joins the last two loads, and moves what it has then before the store. NVRTC 13.0 to 13.5.
# run: N=17 z=special:f32[17,3] c=randint:u32[17]:0:2 x=special:f32[17,3]
kernel k(inout z: f32[N, 3], c: u32[N], x: f32[N, 3]) {
    parallel i in N, j in 3 {
        z[i, j] = z[i, j] as i8 as f32;
        z[i, j] = select(c[i] as bool, z[i, j], x[i, j]);
    }
}
"""
LOST_BIT = """# Ptxas of CUDA 13.0 knows the block index to be 0 behind the test of the window, and loses the last index, 1.
# run: x=rand:f64[1,2,2] y=rand:f32[1,2] z=rand:i32[1,2,2,2]
kernel k(x: f64[1, 2, 2], inout y: f32[1, 2], inout z: i32[1, 2, 2, 2]) {
    grid b in 1 {
        let r = (x[0] as i32);
        y[0] = (r[0] as f32);
        copy(r[:, :], z[b, 1 :+ 2, :, (b + 1) % 2]);
    }
}
"""
BYTES = """# LLVM takes a magnitude of 8 bits to be extended to the 16 in which it is compared. NVRTC 13.0 to 13.5.
# run: z=rand:i8[65] x=range:i64[64,2]
kernel k(inout z: i8[65], x: i64[64, 2]) {
    z[:64] = absmax((x as i8), axis = 1);
}
"""


@pytest.mark.parametrize("text", [ONE_LOAD_OF_TWO, LOST_BIT, BYTES], ids=["one load of two", "a lost bit", "bytes"])
def test_what_a_compiler_got_wrong(text):
    (case,) = Case.read(Source("k.vx", text))
    compiled = compile(case.source)
    call = case.call(case.typed()[1])
    expected = run_ast(compiled.typed, call.arrays, call.scalars)
    assert first_difference(expected, run_numpy(compiled, call.arrays, call.scalars, dims=call.dims)) is None
