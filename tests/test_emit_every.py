"""Every opcode and dtype is emitted, and NVRTC accepts the text."""

from __future__ import annotations

import pytest
from emit_text import plan

from vxc.cuda.emit import emit
from vxc.cuda.nvrtc import compile_cuda
from vxc.dtypes import BOOL, DTYPES
from vxc.ir.builder import Builder
from vxc.ir.kernel import Buffer, Const, Kernel
from vxc.ir.ops import OPS, THREAD
from vxc.ir.plan import Plan
from vxc.ir.reader import plan_of
from vxc.ir.verify import verify
from vxc.semantics import SCALAR_OPS, accepts

ARCHS = ("sm_80", "sm_90a")

PARAMETERS = "%N: i64, %s: i64, @x: f32[%N] in, @y: f32[%N] out, @n: i32[4] inout, @z: f32[8, %N; %s, 2] in"
EVERYTHING = f"kernel @everything({PARAMETERS}) stage=thread {{threads=64}} {{" + """
  shared @sh: f32[64]
  %b = block_index
  %t = thread_index
  cell @c: f32
  local @p: f32[2, 3]
  store @c, 0.0:f32
  %lane: i64 = mod %t, 8
  %inside: bool = lt %t, %N
  store @sh, %t, 1.0:f32
  barrier {scope="block"}
  %i = loop %t, %N, 64 {kind="serial"}
    %v: f32 = load @x, %i
    %w: f32 = load @z, 3, %i
    %q: bool = lt %v, %w
    if %q
      continue
    else
      store @y, %i, %v
    end
    extern @c, %v, %w {cuda="return __sinf(a) + b;", name="wave", params="a, b"}
      store @c, %v
    end
  end %i
  %k = loop 0, 3 {kind="unroll"}
    store @p, 1, %k, 2.0:f32
  end %k
  while
    break
  end
  local @u: f32[4]
  shared @sv: f32[64]
  %wide: bool = aligned @x {bytes=16}
  %near: i64 = ahead @x, 3 {bytes=16}
  if %wide
    move @u, 0, @x, 4 {width=4}
    move @sv, 8, @u, 2 {width=2}
    move @u, 0, @z, 4 {width=2}
    move @u, 0, @x, 4, %near {width=4}
    move @u, 0, @x, 3, %near {anywhere="straight", width=4}
    move @u, 0, @x, 3, %near {anywhere="branch", width=4}
    move @y, 4, @u, 0, %near {width=4}
    move @y, 3, @u, 0, %near {anywhere="branch", width=4}
    move.async @sv, 16, @x, 4 {width=4}
    move.async @sv, 20, @x, 8 {width=1}
    await
  end
  %m: f32 = load @c
  %0: f32 = shfl_xor %m {distance=4, width=8}
  %1: f32 = shfl_up %0 {distance=1, width=8}
  %2: f32 = shfl_idx %1, %lane {width=8}
  store @y, 0, %2
  barrier {scope="group", width=8}
  %3: i32 = cast %2
  %4: i8 = sat %2
  %5: i32 = reinterpret %2
  %6: i32 = atomic @n, 0, %3 {op="add"}
  assert %inside {message="of 100%"}
  print %3, %2, %inside, %4 {label="values"}
  print {label="no \\"values\\""}
}
"""


def scalars() -> Kernel:
    """Every scalar operation at every dtype that it takes, results stored."""
    b = Builder()
    arrays = {d: Buffer(f"a_{d}", d, (Const(4),), "param", "inout") for d in DTYPES.values() if not d.is_storage}
    for name, row in SCALAR_OPS.items():
        for dtype in (d for d in arrays if accepts(name, d)):
            operands = [b.emit("load", arrays[dtype], k) for k in range(row.arity)]
            if name == "select":
                operands[0] = b.emit("load", arrays[BOOL], 0)
            made = b.emit(name, *operands)
            b.emit("store", arrays[made.dtype], 0, made)
    return b.build("scalars", arrays.values(), stage="thread", attrs={"threads": 32}.items())


def memory() -> Kernel:
    """A load and a store of every dtype in every space, and a shuffle of it."""
    b = Builder()
    params = []
    for dtype in DTYPES.values():
        source = Buffer(f"in_{dtype}", dtype, (Const(8), Const(8)), "param", "in")
        target = Buffer(f"out_{dtype}", dtype.compute if dtype.bits == 4 else dtype, (Const(8), Const(8)), "param", "out")
        params += [source, target]
        shared, local, cell = (b.declare(space, space, dtype, (4,) * (space != "cell")) for space in ("shared", "local", "cell"))
        value = b.emit("load", source, 1, 2)
        b.emit("store", shared, 0, value)
        b.emit("store", local, 1, b.emit("load", shared, 0))
        b.emit("store", cell, b.emit("load", local, 1))
        value = b.emit("shfl_xor", b.emit("load", cell), distance=1, width=32)
        b.emit("store", target, 1, 2, b.emit("cast", value, dtype=target.dtype) if dtype is not target.dtype else value)
    return b.build("memory", params, stage="thread", attrs={"threads": 32}.items())


def test_the_table_below_holds_every_opcode():
    used = {inst.op for k in (plan(EVERYTHING).kernels[0], scalars()) for inst in k.insts}
    assert used == {name for name, row in OPS.items() if THREAD in row.stages}


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("arch", ARCHS)
def test_every_opcode_and_dtype_compiles(arch, debug):
    kernels = [plan(EVERYTHING).kernels[0], scalars(), memory()]
    for kernel in kernels:
        verify(plan_of(kernel))
    binary = compile_cuda(emit(Plan("all", (), (), tuple(kernels)), debug=debug), "all.cu", arch)
    assert set(binary.kernels) == {"everything", "scalars", "memory"}
    assert debug or all(r.spill_stores == 0 for r in binary.kernels.values())
