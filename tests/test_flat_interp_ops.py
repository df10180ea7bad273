"""Every opcode at every stage in which it is legal: scalar operations and conversions against `vxc.semantics`, the rest run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from flat_kernels import run
from ir_samples import sample

from vxc.diag import VxcError
from vxc.dtypes import BOOL, DTYPES, I64, DType
from vxc.interp.flat_interp import HANDLERS
from vxc.ir.builder import Builder
from vxc.ir.kernel import STAGES, Buffer, Const, Inst, Kernel
from vxc.ir.ops import OPS
from vxc.ir.plan import Plan
from vxc.ir.tiles import TILE_OPS
from vxc.semantics import SCALAR_OPS, accepts, cast, evaluate, reinterpret, result_dtype, sat

N = 64
FLOATS = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 3e38, 1e-40, 255.5, 1e10, -7.0] * 6)[:N]
INTS = np.array([0, 1, -1, 2, 7, -7, 31, 64, 1 << 31, -(1 << 31), (1 << 63) - 1, -(1 << 63)] * 6)[:N]
CONVERSIONS = {"cast": cast, "sat": sat, "reinterpret": reinterpret}


def values(dtype: DType, turn: int) -> np.ndarray:
    """N special values of a dtype, rotated by `turn` so that operands differ."""
    if dtype.is_float:
        return cast(np.roll(FLOATS, 5 * turn), DTYPES["f64"], dtype)
    return cast(np.roll(INTS, 5 * turn), I64, dtype)


def bits(x: np.ndarray) -> np.ndarray:
    """What an array holds, every NaN alike."""
    return np.where(x == x, x.view(f"u{x.itemsize}"), 1)


def apply(stage: str, op: str, sources: list[DType], result: DType) -> tuple[list[np.ndarray], np.ndarray]:
    """Operand arrays, and what the kernel `y[i] = op(x0[i], x1[i], ..)` gives for them."""
    xs = [Buffer(f"x{k}", dtype, (Const(N),), "param", "in") for k, dtype in enumerate(sources)]
    y = Buffer("y", result, (Const(N),), "param", "out")
    b = Builder([p.name for p in (*xs, y)])

    def body(i):
        b.emit("store", y, i, b.emit(op, *(b.emit("load", x, i) for x in xs), dtype=result))

    if stage == "thread":
        body(b.emit("thread_index"))
    else:
        with b.loop(0, N, kind="parallel", **({"map": "blocks"} if stage == "team" else {})) as i:
            body(i)
    kernel = b.build("k", (*xs, y), stage=stage, attrs=(("group", 1), ("threads", N)))
    plan = Plan("k", kernel.params, (Inst("launch", (Const(1), *kernel.params), None, (("kernel", "k"),)),), (kernel,))
    arrays = [values(dtype, turn) for turn, dtype in enumerate(sources)]
    return arrays, run(plan, {x.name: a for x, a in zip(xs, arrays)})["y"]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("op", SCALAR_OPS)
def test_scalar_operations(stage, op):
    for dtype in DTYPES.values():
        if accepts(op, dtype):
            sources = [dtype] * SCALAR_OPS[op].arity
            if op == "select":
                sources[0] = BOOL
            arrays, got = apply(stage, op, sources, result_dtype(op, dtype))
            np.testing.assert_array_equal(bits(got), bits(evaluate(op, dtype, *arrays)))


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("op", CONVERSIONS)
def test_conversions(stage, op):
    for source in DTYPES.values():
        for target in DTYPES.values():
            if op != "reinterpret" or source.bits == target.bits:
                (x,), got = apply(stage, op, [source], target)
                np.testing.assert_array_equal(bits(got), bits(CONVERSIONS[op](x, source, target)))


OTHERS = [(op, stage) for op, row in OPS.items() for stage in row.stages if op not in SCALAR_OPS and op not in CONVERSIONS]


@pytest.mark.parametrize("op, stage", OTHERS)
def test_every_other_opcode_is_run_where_it_is_legal(op, stage):
    plan = sample(op)
    (kernel,) = plan.kernels
    if stage != "plan":
        if op == "continue" or not legal(kernel, stage):
            kernel = Kernel(kernel.name, kernel.params, _only(op), stage, (), kernel.attrs)
        plan = plan.with_kernels([replace(kernel, stage=stage)])
    n = 3 if op == "require" else 8
    arrays = {"x": np.ones((n, 8), np.float32), "y": np.zeros(2 * n, np.float32)[::2]}
    if op == "assert":
        with pytest.raises(VxcError, match="E0723.*no\tway"):
            run(plan, arrays)
        return
    assert run(plan, arrays, debug=False)["y"].shape == (n,)


def legal(kernel: Kernel, stage: str) -> bool:
    return all(stage in OPS[i.op].stages and (stage != "thread" or i.attr("kind") != "parallel") for i in kernel.insts)


def _only(op: str) -> tuple[Inst, ...]:
    """A body legal at every stage, for opcodes whose sample has a parallel loop or never ends."""
    b = Builder(["n", "x", "y"])
    cell = b.declare("cell", "c", I64)
    with b.loop(0, 3, kind="serial") as i:
        b.emit("store", cell, i)
        with b.if_(b.emit("lt", b.emit("load", cell), 1)):
            b.emit("continue")
        with b.while_():
            b.emit("break")
    assert any(inst.op == op for inst in b.insts)
    return tuple(b.insts)


@pytest.mark.parametrize("stage", STAGES)
def test_handlers_are_total(stage):
    assert set(HANDLERS[stage]) == {name for name, row in OPS.items() if stage in row.stages} - set(TILE_OPS)  # run as loops
