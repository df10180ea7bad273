"""Every sample gives the same in all interpreters, compiles for both targets, and its IR is a fixed point of print and read after
every pass. Maths kernels compute their float64 reference at the example's sizes, odd ones, 1 and 0; for tiles see `test_ast_samples.py`."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from references import REFERENCES, mismatch, reference

from vxc.diff import Executor, ast_executor, disagreements, flat_executor
from vxc.driver import Compiled, compile_typed
from vxc.frontend.check import check, kernel_names, program_names
from vxc.frontend.parse import parse
from vxc.frontend.typed import Const, TypedKernel
from vxc.inputs import Call, complete
from vxc.ir.printer import print_plan
from vxc.ir.reader import read_ir
from vxc.pipeline import PIPELINE
from vxc.runtime.generate import generate
from vxc.source import Source

SAMPLES = Path(__file__).parent.parent / "samples"
ODD = (5, 37, 11)
ARCHS = ("sm_80", "sm_90a")
# A dimension that cannot be 0: something is taken from it, or another size would be negative.
NOT_EMPTY = {"argmax_rows": "N", "cross_entropy": "N", "gather": "V", "scatter": "V", "conv1d": "N"}
MODULES = {path: parse(Source(str(path), path.read_text())) for path in sorted(SAMPLES.glob("*.vx"))}
FILES = {name: path for path, module in MODULES.items() for name in program_names(module) or kernel_names(module)}
HAS_TILES = re.compile(r"^ *(@\S+ )?grid |^program ", re.M)
MATHS = [name for name, path in FILES.items() if not HAS_TILES.search(path.read_text()) and name in REFERENCES]
TILES = [name for name in FILES if name not in MATHS]


@cache
def kernel(name: str) -> TypedKernel:
    source = Source(str(FILES[name]), FILES[name].read_text())
    return check(parse(source), source, name, {})


@cache
def compiled(name: str, arch: str = "sm_90a") -> Compiled:
    return compile_typed(kernel(name), arch)


def call_of(name: str, dims: dict[str, int]) -> Call:
    """The example's arguments in other sizes; indices stay within what they index."""
    typed = kernel(name)
    given = [a for a in typed.arrays if a.mode != "out"]
    shapes = {a.name: tuple(x.value if isinstance(x, Const) else dims[x.symbol.name] for x in a.shape) for a in given}
    indexed = {"label": dims.get("N"), "index": dims.get("V")}
    arrays = {}
    for array, kind, dtype, _, bounds in typed.example.arrays:
        bounds = bounds if indexed.get(array) is None else (0, indexed[array])
        arrays[array] = generate(kind, dtype, shapes[array], bounds, name=array, seed=7)
    return Call(arrays, dict(typed.example.scalars), {})


def sizes(name: str) -> dict[str, dict[str, int]]:
    """Odd sizes, all 1, and each dimension 0."""
    dims = [d.name for d in kernel(name).dims]
    found = {"odd": dict(zip(dims, ODD)), "one": dict.fromkeys(dims, 1)}
    found |= {f"{d}=0": dict.fromkeys(dims, 3) | {d: 0} for d in dims if d != NOT_EMPTY.get(name)}
    return found


def executors_of(name: str) -> list[Executor]:
    made = compiled(name)
    return [ast_executor(made.typed), flat_executor("flat", made.typed, made.tile), flat_executor("threads", made.typed, made.plan)]


@pytest.mark.parametrize("name", TILES)
def test_tiles_agree_at_the_example_and_on_special_values(name):
    calls = {"example": complete(kernel(name)), "special": complete(kernel(name), seed=5, special=True)}
    assert not list(map(str, disagreements(executors_of(name), calls, seed=3)))


@pytest.mark.parametrize("name", MATHS)
def test_reference_and_interpreters(name):
    calls = {"example": complete(kernel(name))} | {label: call_of(name, dims) for label, dims in sizes(name).items()}
    executors = executors_of(name)
    for label, call in calls.items():
        got = executors[0].run(call, 0)
        for output, want in reference(name, {**call.arrays, **call.scalars}).items():
            assert not mismatch(f"{name} ({label})", output, want, got[output])
    assert not list(map(str, disagreements(executors, calls, seed=3)))


@pytest.mark.parametrize("name", FILES)
def test_machine_code_for_both_targets(name):
    for arch in ARCHS:
        binary = compiled(name, arch).binary
        assert binary.cubin.startswith(b"\x7fELF")
        if name in MATHS:
            assert not any(k.spill_stores or k.spill_loads for k in binary.kernels.values()), arch


@pytest.mark.parametrize("name", FILES)
def test_ir_text_is_a_fixed_point_after_every_pass(name):
    made = compiled(name)
    for plan in (made.tile, *(made.after(p.name) for p in PIPELINE.passes)):
        text = print_plan(plan)
        assert print_plan(read_ir(Source("plan.vxir", text))) == text


def test_a_reference_notices():
    x = np.ones((2, 3), np.float32)
    want = reference("rowsum", {"x": x})["s"]
    assert not mismatch("rowsum", "s", want, np.full(2, 3, np.float32))
    assert "expected 3.0" in mismatch("rowsum", "s", want, np.full(2, 3.001, np.float32))
