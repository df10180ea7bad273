"""The program generator: well-typed programs, every construct and opcode, the same program and arguments for one seed anywhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest

from vxc.diag import VxcError
from vxc.diff import flat_executor
from vxc.driver import Compiled, compile
from vxc.frontend.check import check
from vxc.frontend.lower import lower
from vxc.frontend.parse import parse
from vxc.fuzz.case import Case
from vxc.fuzz.counts import UNREACHED, constructs, known
from vxc.fuzz.gen import generate
from vxc.fuzz.program import Program
from vxc.ir.kernel import Value
from vxc.ir.plan import Plan
from vxc.pipeline import PIPELINE
from vxc.source import Source

MANY = [generate(seed) for seed in range(1000)]
TEXTS = "\n".join(p.text for p in MANY)
COMPILED = 120  # of them


def compiled(program: Program) -> Compiled | VxcError:
    """A program, compiled, or why it is refused."""
    try:
        return compile(Source("k.vx", program.text))
    except VxcError as error:
        return error


def plans(made: Compiled) -> list[Plan]:
    """Those after lowering and after each pass."""
    return [made.tile, *(made.after(p.name) for p in PIPELINE.passes)]


@pytest.fixture(scope="module")
def made() -> dict[int, Compiled | VxcError]:
    return {program.seed: compiled(program) for program in MANY[:COMPILED]}


def test_few_programs_are_rejected_and_only_by_the_prover(made):
    rejected = {seed: m.diagnostics[0].code for seed, m in made.items() if isinstance(m, VxcError)}
    assert set(rejected.values()) <= {"E0313"} and len(rejected) < 0.05 * len(made), rejected


def test_programs_run_without_a_fault(made):
    """What is read was written, indices are in range, iterations do not collide."""
    for seed, m in [*made.items()][::4]:
        if isinstance(m, Compiled):
            flat_executor("flat", m.typed, m.tile).run(MANY[seed].call(), 0)


def test_no_bits_of_a_nan_are_shown():
    """Which NaN an operation gives is not the language's to say, so a GPU gives others."""
    shown = 0
    for program in [p for p in MANY if "reinterpret(" in p.text or "copysign(" in p.text][:150]:
        for kernel in lower(Case.of(program).typed()[1]).kernels:
            defined = {inst.result: inst.op for inst in kernel.insts if isinstance(inst.result, Value)}
            for inst in kernel.insts:
                if inst.op in ("reinterpret", "copysign") and inst.operands[-1].dtype.is_float:
                    assert defined[inst.operands[-1]] in ("maxnum", "minnum"), f"{inst} of seed {program.seed}"
                    shown += 1
    assert shown > 20


# ---- constructs ------------------------------------------------------------------------------------------------------


def test_every_construct_is_reached(made):
    texts = [constructs(program.text) for program in MANY]
    found = {name for names in texts for name in names}
    found.update(*(constructs(MANY[n].text, plans(m)) for n, m in made.items() if isinstance(m, Compiled)))
    assert found <= known()
    for program, names in zip(MANY[COMPILED:], texts[COMPILED:]):  # functions that the others have only where nothing is left of them
        missing = {name[: name.index("@")].replace("opcode", "builtin") for name in known() - found if name.endswith(("@team", "@thread"))}
        if missing & set(names) and isinstance(m := compiled(program), Compiled):
            found.update(constructs(program.text, plans(m)))
    programs = (p for p in (*MANY, *map(generate, range(len(MANY), 1500))) if "program p(" in p.text)
    while found | set(UNREACHED) < known() and (program := next(programs, None)):  # what a program computes for its launches
        source = Source("k.vx", program.text)
        found.update(f"opcode {entry.op}@plan" for entry in lower(check(parse(source), source, "p")).entries)
    assert known() - found == set(UNREACHED)


def test_counts_of_a_program():
    text = "kernel k(x: f16[N], out y: i32[N]) { @threads(32) grid b in N { y[b] = if x[b] > 1.0 { 1 } else { max(2, b as i32) }; } }"
    found = constructs(text, plans(compile(Source("k.vx", text))))
    assert found["rule loop grid"] == found["rule if_expr else"] == found["builtin max"] == found["attribute threads"] == 1
    assert found["type i32"] == 2 and found["opcode thread_index@thread"] > 2 and found["opcode launch@plan"] > 3
    assert not found["opcode thread_index@tile"] and set(found) <= known() and not constructs(text)["opcode load@tile"]


@pytest.mark.parametrize(
    "construct",
    [
        r"parallel \w+ in \S+ {", r"parallel [^,{]+, [^,{]+, [^,{]+, \w+ in", r"^        parallel", r" step \d",
        r"else if", r"} else \{$", r"= \(if .*else", r"let r\d+ =", r"let o\d+ = atomic", r"kernel k<",
        r"\d+:\d+:\d", r"\d+ :\+ ", r"\[:, ",
        r"% \(\w+\)", "- 1 - i", "<< 33", r"// -\d", r" % -\d", r"x\d+\[x\d+\]", r"grid [^,{]+, [^,{]+, [^,{]+ {", r"in ceildiv\(",
        r"step 8589934592", r"shared \w+: \w+\[\w+\]", r"fragment \w+: \w+\[\w+, \w+, \w+\]", r"copy\(f\d+, y",
        r"copy\(s\d+(\[[^\]]*\])?, f\d", r"copy\(f\d+(\[[^\]]*\])?, s\d", r"copy\(x\d+[^;]* : \d[^,]*\]",
        r"copy\(x\d+\[x\d+\[[^;]*\* \w+ :\+", r"pad = (-99|inf|nan)", r"trans_a = true", r"axis = 0\)", r"axis = 2\)",
        r"pipelined \w+ in 0 {", r"pipelined \w+ in 1 {", r"pipelined \w+ in 3 {", r"@stages\(4\)",
        r"cum\w+\([^;]*axis = 1\)", r"persistent \w+ in w\d", r"if b\d+ \* \w+ \+ i\d+ < ", r"\w : ld\d", r": dtype = ", r": bool = ",
        r"program p\(", r"    local w\d+: ", r"^    k0\(.*\);\n(    .*\n)*    k[012]\(", r"let t\d+ = ",
        *(rf"@threads\({n}\)" for n in (32, 64, 96, 128, 160, 192, 224, 256)),
        *(rf"(shared|fragment) \w+: {name}\[" for name in ("f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2", "i8", "i16", "i32", "i64")),
        *(rf"(shared|fragment) \w+: {name}\[" for name in ("u8", "u16", "u32", "u64", "bool")),
        *(rf" as {name}\b" for name in ("f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool")),
    ],
)  # fmt: skip
def test_form_is_generated(construct):
    assert re.search(construct, TEXTS, re.MULTILINE)


def test_sizes_and_values():
    sizes = {d.size for p in MANY for a in p.arrays for d in a.dims}
    assert {0, 1, 3, 7, 13, 31, 32, 33, 64, 65, 129, 257} <= sizes
    floats = np.concatenate([a.ravel() for p in MANY for a in p.call().arrays.values() if a.dtype == np.float32])
    with np.errstate(invalid="ignore"):  # a signalling NaN is a value like any other
        assert np.isnan(floats).any() and np.isinf(floats).any() and (np.signbit(floats) & (floats == 0)).any()
        assert np.nanmin(np.abs(floats[floats != 0])) < np.finfo(np.float32).tiny
    assert any(a.strides[0] != a.itemsize * a[0].size for p in MANY for a in p.call().arrays.values() if a.ndim > 1 and len(a) > 1)


# ---- seeds -----------------------------------------------------------------------------------------------------------


def test_everything_follows_from_the_seed():
    one, two = generate(5), generate(5)
    assert one == two and str(one) == str(two) != str(generate(6))
    for name, array in one.call().arrays.items():
        assert array.tobytes() == two.call().arrays[name].tobytes()


def test_command_prints_the_same_program_in_another_process():
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    for seed in (7, next(p.seed for p in MANY if "program p(" in p.text)):
        command = [sys.executable, "-m", "vxc.fuzz.gen", str(seed), "--size", "4"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == f"{generate(seed, 4)}\n"


def test_size_is_the_length():
    lengths = [sum(len(generate(seed, size).text.splitlines()) for seed in range(60)) for size in (1, 6, 20)]
    assert lengths == sorted(lengths) and lengths[0] * 2 < lengths[2]


def test_the_generator_is_free_of_the_test_tools():
    code = "import sys, vxc.fuzz.gen, vxc.fuzz.counts; print('hypothesis' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n"
