"""Every executor gives the same bits: the syntax tree, the IR as lowered, and the IR after every pass, on generated programs and on
the samples. A failure names the first pass after which results differ, and prints the program with the command that makes it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import programs

from vxc.diag import VxcError
from vxc.diff import ast_executor, findings, flat_executor, prefix_executors
from vxc.driver import compile
from vxc.frontend.check import kernel_names, program_names
from vxc.frontend.parse import parse
from vxc.fuzz.case import Case
from vxc.fuzz.examine import UNPROVEN, Executors, examine
from vxc.fuzz.gen import generate
from vxc.fuzz.program import Program
from vxc.inputs import Call, complete
from vxc.runtime.driver import driver
from vxc.source import Source
from vxc.target import for_capability

SAMPLES = Path(__file__).parent.parent / "samples"
MODULES = {path: parse(Source(str(path), path.read_text())) for path in sorted(SAMPLES.glob("*.vx"))}
KERNELS = [(path, name) for path, module in MODULES.items() for name in program_names(module) or kernel_names(module)]
SEEDS = 96


def agree(program: Program, executors: Executors = Executors()) -> None:
    """Executors agree, or the prover cannot tell, which test_fuzz_gen.py bounds."""
    outcome = examine(Case.of(program), executors)
    assert not outcome.failure, f"{outcome.failure.headline}\n{outcome.failure.why}\n{program}"
    assert outcome.code in ("", UNPROVEN), f"{outcome.error}\n{program}"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_generated_programs(seed):
    agree(generate(seed))


@settings(max_examples=15, deadline=None, derandomize=True, database=None)
@given(programs())
def test_small_programs(program):
    agree(program)


@pytest.mark.parametrize("path, name", KERNELS, ids=[name for _, name in KERNELS])
def test_samples(path, name):
    made = compile(Source(str(path), path.read_text()), name)
    calls = {"the example": complete(made.typed, seed=1), "special values": complete(made.typed, seed=2, special=True)}
    assert not [str(found) for found in findings(prefix_executors(made), calls)]


@pytest.mark.parametrize("seed", range(0, SEEDS, 8))
def test_generated_programs_are_accepted_by_nvrtc(seed):
    try:
        made = compile(Source("k.vx", generate(seed).text))
    except VxcError as error:
        assert {d.code for d in error.diagnostics} == {UNPROVEN}
    else:
        assert made.binary.cubin


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(SEEDS))
def test_generated_programs_on_the_gpu(seed):
    agree(generate(seed), Executors(for_capability(driver().capability(0)).name, gpu=True))


def test_a_wrong_pass_is_named():
    made = compile(Source("k.vx", "kernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i] + 1.0; } }"))
    other = compile(Source("k.vx", "kernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i] + 2.0; } }"))
    plans = {"lowering": made.tile, "simplify": other.tile}
    executors = [ast_executor(made.typed), *(flat_executor(name, made.typed, plan) for name, plan in plans.items())]
    call = Call({"x": np.arange(5, dtype=np.float32)}, {}, {})
    (found,) = findings(executors, {"call": call})
    assert found.pair == ("ast", "simplify") and "y[0] is" in found.why
