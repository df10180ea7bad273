"""Every executor gives the same bits: the syntax tree, the IR as lowered, and the IR after every pass, on generated programs and on
the samples. A failure names the first pass after which results differ, and prints the program with the command that makes it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from strategies import programs

from vxc.diag import VxcError
from vxc.diff import ast_executor, disagreements, flat_executor, gpu_executor, prefix_executors
from vxc.driver import Compiled, compile
from vxc.frontend.check import kernel_names, program_names
from vxc.frontend.parse import parse
from vxc.fuzz.gen import generate
from vxc.fuzz.program import Program
from vxc.inputs import Call, complete
from vxc.source import Source

SAMPLES = Path(__file__).parent.parent / "samples"
MODULES = {path: parse(Source(str(path), path.read_text())) for path in sorted(SAMPLES.glob("*.vx"))}
KERNELS = [(path, name) for path, module in MODULES.items() for name in program_names(module) or kernel_names(module)]
SEEDS = 96
SCHEDULES = (1, 2)  # further orders of the warps at stage=thread


def compiled(program: Program) -> Compiled | None:
    """None where the prover cannot tell (E0313), which test_fuzz_gen.py bounds: nothing runs then."""
    try:
        return compile(Source("k.vx", program.text))
    except VxcError as error:
        if {d.code for d in error.diagnostics} != {"E0313"}:
            raise
    return None


def agree(made: Compiled, calls: dict[str, Call], text: object) -> None:
    """Every prefix of the pipeline agrees with the syntax tree."""
    executors = prefix_executors(made)
    found = [f"after {d.pair[1]}: {d}" for d in disagreements(executors, calls)]
    assert not found, f"{found[0]}\n{text}"
    for schedule in SCHEDULES:
        found = [f"warps in order {schedule}: {d}" for d in disagreements([executors[0], executors[-1]], calls, schedule)]
        assert not found, f"{found[0]}\n{text}"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_generated_programs(seed):
    program = generate(seed)
    if made := compiled(program):
        agree(made, {"its arguments": program.call()}, program)


@settings(max_examples=15, deadline=None, derandomize=True, database=None)
@given(programs())
def test_small_programs(program):
    if made := compiled(program):
        agree(made, {"its arguments": program.call()}, program)


@pytest.mark.parametrize("path, name", KERNELS, ids=[name for _, name in KERNELS])
def test_samples(path, name):
    made = compile(Source(str(path), path.read_text()), name)
    calls = {"the example": complete(made.typed, seed=1), "special values": complete(made.typed, seed=2, special=True)}
    agree(made, calls, name)


@pytest.mark.parametrize("seed", range(0, SEEDS, 8))
def test_generated_programs_are_accepted_by_nvrtc(seed):
    made = compiled(generate(seed))
    assert made is None or made.binary.cubin


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(SEEDS))
def test_generated_programs_on_the_gpu(seed):
    program = generate(seed)
    made = compiled(program)
    if made is None:
        return
    executors = [flat_executor("flat", made.typed, made.plan), gpu_executor(made)]
    found = [str(d) for d in disagreements(executors, {"its arguments": program.call()})]
    assert not found, f"{found[0]}\n{program}"


def test_a_wrong_pass_is_named():
    made = compile(Source("k.vx", "kernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i] + 1.0; } }"))
    other = compile(Source("k.vx", "kernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i] + 2.0; } }"))
    flat = [flat_executor("lowering", made.typed, made.tile), flat_executor("simplify", made.typed, other.tile)]
    executors = [ast_executor(made.typed), *flat]
    program = generate(1)
    call = Call({"x": program.call().arrays["x1"].astype("f4")}, {}, {})
    (found,) = disagreements(executors, {"call": call})
    assert found.pair == ("ast", "simplify") and "y[0] is" in found.why
