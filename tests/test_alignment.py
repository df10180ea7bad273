"""What is known of where arrays lie: how it is written, what it says of dimensions, who refuses arrays that lie otherwise."""

from __future__ import annotations

import json
import pickle
from types import SimpleNamespace

import numpy as np
import pytest

from vxc.cuda.nvrtc import Binary
from vxc.diag import VxcError
from vxc.driver import compile
from vxc.interp.flat_interp import run_flat
from vxc.ir import heads
from vxc.ir.alignment import divisors, multiples, with_alignment
from vxc.ir.printer import print_plan
from vxc.ir.reader import read_ir
from vxc.runtime.launch import launch
from vxc.source import Source

ROWS = "kernel rows(x: f32[M, N], out s: f32[M]) { parallel i in M { s[i] = sum(x[i]); } }"
TWICE = """
kernel scale(x: f32[M, N], out y: f32[M, N]) { parallel i in M { y[i] = x[i] / sum(x[i]); } }
program twice(x: f32[M, N], out y: f32[M, N]) { local w: f32[M, N]; scale(x, w); scale(w, y); }
"""


def plan(header: str, passed: str) -> str:
    return f"plan @p({header}) {{\n  launch @k[1]({passed})\n}}\n\nkernel @k({header}) stage=thread {{\n}}\n"


def fault(text: str) -> str:
    with pytest.raises(VxcError) as error:
        read_ir(Source("t.vxir", text))
    return error.value.diagnostics[0].code + " " + error.value.diagnostics[0].message


def test_it_prints_reads_and_is_kept():
    text = plan("%M: i64, %N: i64, @x: f32[%M, %N] in align=16, @y: f32[%M] out align=4", "%M, %N, @x, @y")
    read = read_ir(Source("t.vxir", text))
    assert [b.align for b in read.buffers] == [16, 4] and print_plan(read) == text
    assert [b.align for b in heads.of_plain(json.loads(json.dumps(heads.plain(read)))).buffers] == [16, 4]


@pytest.mark.parametrize("array, wrong", [
    ("@x: f32[8] in align=12", "`align` of @x is 12, not one of 4, 8, 16"),
    ("@x: f64[8] in align=4", "`align` of @x is 4, not one of 8, 16"),
    ("@x: f32[8] in align=32", "`align` of @x is 32, not one of 4, 8, 16"),
    ("@x: f32[8] work align=16", "`align` is of arrays of the caller with whole bytes for elements, which @x is not"),
    ("@x: u4[8] in align=16", "`align` is of arrays of the caller with whole bytes for elements, which @x is not"),
])  # fmt: skip
def test_what_it_may_be(array, wrong):
    assert fault(f"kernel @k({array}) stage=thread {{\n}}\n") == f"E0523 {wrong}"


def test_a_launch_passes_what_is_known_to_lie_so():
    header, passed = "%N: i64, @x: f32[4, %N] in align=16", "%N, @x"
    text = plan(header, passed)
    assert "argument @x for @x of @k is not known to lie at multiples of 16 bytes" in fault(text.replace(" align=16", "", 1))
    assert "argument @x for @x of @k is not known to lie at multiples of 16 bytes" in fault(text.replace("align=16", "align=8", 1))
    constant = text.replace("%N: i64, @x: f32[4, %N]", "@x: f32[4, 6]", 1).replace("%N, @x)", "6, @x)", 1)
    assert "argument @x for @x of @k is not known to lie at multiples of 16 bytes" in fault(constant)
    read_ir(Source("t.vxir", constant.replace("4, 6]", "4, 12]").replace("(6, @x)", "(12, @x)")))
    read_ir(Source("t.vxir", text.replace("align=16", "align=8", 2).replace("align=8", "align=16", 1)))


@pytest.mark.parametrize("array, expected", [
    ("f32[%M, %N]", {"N": 4}),
    ("f16[%M, %N]", {"N": 8}),
    ("f64[%M, %N]", {"N": 2}),
    ("u8[%M, %N, %K]", {"K": 16}),
    ("f32[%M, %N, 6]", {"N": 2}),
    ("f32[%M, %N, 12]", {}),
    ("f32[%M, 3]", {}),
    ("f32[%M]", {}),
    ("f32[%M, %N; %K, 1]", {"K": 4}),
    ("f32[%M, 8; 1, %K]", {"K": 4}),
])  # fmt: skip
def test_what_it_says_of_dimensions_and_strides(array, expected):
    """Against all sizes: rows begin at multiples of 16 bytes just where these are multiples."""
    read = read_ir(Source("t.vxir", plan(f"%M: i64, %N: i64, %K: i64, @x: {array} in align=16", "%M, %N, %K, @x")))
    (x,) = read.buffers
    assert divisors(x) == expected == multiples(read.params)
    for k, n in np.ndindex(33, 33):
        sizes = {"M": 3, "N": n, "K": k}
        parts = (x.shape, x.strides or ())
        extents, strides = ([sizes.get(getattr(p, "name", ""), getattr(p, "value", 0)) for p in part] for part in parts)
        open_ = [any(hasattr(p, "name") for p in x.shape[d + 1 :]) for d in range(len(extents))]
        strides = [s for s, p in zip(strides, x.strides or ()) if hasattr(p, "name")]
        strides = strides or [int(np.prod(extents[d + 1 :])) for d in range(len(extents)) if open_[d]]
        assert all(s * x.dtype.bytes % 16 == 0 for s in strides) == all(sizes[name] % by == 0 for name, by in expected.items()), sizes


def test_a_kernel_knows_what_holds_in_all_its_launches():
    def known(aligned):
        made = compile(Source("t.vx", TWICE), aligned=aligned)
        return [[b.align for b in k.params if hasattr(b, "align")] for k in made.tile.kernels]

    assert known({}) == [[None, None], [None, None]]
    assert known({"x": True, "y": False}) == [[16, None], [None, 4]]  # what lies between them is no array of the caller
    text = plan("@x: f32[8] in, @y: f32[8] in", "@x, @y").replace("@x, @y)\n", "@x, @y)\n  launch @k[1](@y, @x)\n")
    both = with_alignment(read_ir(Source("t.vxir", text)), {"x": True, "y": False})
    assert [b.align for b in both.buffers] == [16, 4] and [b.align for b in both.kernels[0].params] == [4, 4]


def test_who_says_so_of_an_array_that_there_is_not():
    with pytest.raises(VxcError, match="`z` is said to be aligned or not, and is no array of `rows`"):
        compile(Source("t.vx", ROWS), aligned={"z": True})


# ---- calls that contradict it ----------------------------------------------------------------------------------------


def message(error) -> str:
    (diagnostic,) = error.value.diagnostics
    return f"{diagnostic.code} {diagnostic.message}"


def test_the_interpreter_places_arrays_so_and_refuses_others():
    made = compile(Source("t.vx", ROWS), aligned={"x": True, "s": False})
    x = np.ones((5, 8), np.float32)
    for seed in range(20):
        assert (run_flat(made.plan, {"x": x}, {}, seed=seed)["s"] == 8).all()
    assert (run_flat(made.plan, {"x": x}, {}, bases={"s": 12})["s"] == 8).all()
    with pytest.raises(VxcError) as error:
        run_flat(made.plan, {"x": x}, {}, bases={"x": 4})
    assert message(error) == "E0706 argument `x` starts at an address that is no multiple of 16 bytes, for which this was compiled"
    with pytest.raises(VxcError) as error:
        run_flat(made.plan, {"x": x[:, :6]}, {})
    assert message(error) == "E0706 `x` is compiled for rows that begin at multiples of 16 bytes, so N has to be a multiple of 4, and is 6"


def test_launching_refuses_others(cuda):
    made = compile(Source("t.vx", ROWS), aligned={"x": True, "s": True})
    code = pickle.dumps({made.symbol(k.name): k for k in made.plan.kernels})
    kernel = SimpleNamespace(source=made.source, plan=made.plan, binary=Binary("sm_90a", code, "", "", {}))
    memory = np.ones(64, np.float32)

    def device(array):
        interface = {"shape": array.shape, "typestr": "<f4", "data": (array.ctypes.data, False), "version": 3}
        return SimpleNamespace(__cuda_array_interface__=interface, array=array)

    x, s = memory[:40].reshape(5, 8), np.zeros(5, np.float32)
    launch(kernel, {"x": device(x), "s": device(s)}, stream=0)
    assert (s == 8).all()
    with pytest.raises(VxcError) as error:
        launch(kernel, {"x": device(memory[1:41].reshape(5, 8)), "s": device(s)}, stream=0)
    assert message(error) == "E0706 argument `x` starts at an address that is no multiple of 16 bytes, for which this was compiled"
    with pytest.raises(VxcError) as error:
        launch(kernel, {"x": device(memory[:30].reshape(5, 6)), "s": device(s)}, stream=0)
    assert message(error) == "E0706 `x` is compiled for rows that begin at multiples of 16 bytes, so N has to be a multiple of 4, and is 6"
    launch(kernel, {"x": device(x), "s": device(s)}, stream=0)
