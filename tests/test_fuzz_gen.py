"""The program generator: well-typed programs, every construct, the same program and arguments for one seed anywhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest

from vxc.diag import VxcError
from vxc.driver import compile
from vxc.fuzz.gen import generate
from vxc.source import Source

MANY = [generate(seed) for seed in range(400)]
TEXTS = "\n".join(p.text for p in MANY)


def test_few_programs_are_rejected():
    rejected = []
    for program in MANY[:100]:
        try:
            compile(Source("k.vx", program.text))
        except VxcError as error:
            rejected.append(f"{program.seed}: {error.diagnostics[0].code}")
    assert len(rejected) < 5, rejected


@pytest.mark.parametrize(
    "construct",
    [
        r"parallel \w+ in \S+ {", r"parallel \w+ in [^,{]+, \w+ in [^,{]+, \w+ in [^,{]+, \w+ in", r"^        parallel", r" step \d",
        "while ", "break;", "continue;", "else if", r"} else \{$", r"= \(if .*else", "unroll ", "@unroll", "local ", "var ", r"let r\d+ =",
        "@independent", r"@lanes\(\d+\)", r"@chunk\(\d+\)", r"@parts\(\d+\)", "atomic_add", "atomic_max", "atomic_min",
        r"let o\d+ = atomic", "fn f", "extern fn", r"kernel k<", r"\d+:\d+:\d", r"\d+ :\+ ", r"\[:, ", r"% \(\w+\)", "- 1 - i", "sat\\(",
        "reinterpret\\(", "select\\(", "fma\\(", "clamp\\(", "rand\\(", "cumsum", "cumprod", "cummax", "cummin", r"assert\(", "<<=", r"\^=",
        "<< 33", r"// -\d", r" % -\d", "ceildiv", "tdiv", "trem", "&& ", r"x\d+\[x\d+\]",
        *(rf"\b{op}\(" for op in ("sum", "prod", "dot", "max", "min", "maxnum", "minnum", "absmax", "any", "all", "argmax", "argmin")),
        *(rf" as {name}\b" for name in ("f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool")),
        *(rf": {name}\[" for name in ("f16", "bf16", "f8e4m3", "f8e5m2", "f64", "i8", "u64", "bool")),
    ],
)  # fmt: skip
def test_construct_is_generated(construct):
    assert re.search(construct, TEXTS, re.MULTILINE)


def test_sizes_and_values():
    sizes = {d.size for p in MANY for a in p.arrays for d in a.dims}
    assert {0, 1, 3, 7, 13, 31, 32, 33, 257} <= sizes
    floats = np.concatenate([a.ravel() for p in MANY for a in p.call().arrays.values() if a.dtype == np.float32])
    with np.errstate(invalid="ignore"):  # a signalling NaN is a value like any other
        assert np.isnan(floats).any() and np.isinf(floats).any() and (np.signbit(floats) & (floats == 0)).any()
        assert np.nanmin(np.abs(floats[floats != 0])) < np.finfo(np.float32).tiny


def test_everything_follows_from_the_seed():
    one, two = generate(5), generate(5)
    assert one == two and str(one) == str(two) != str(generate(6))
    for name, array in one.call().arrays.items():
        assert array.tobytes() == two.call().arrays[name].tobytes()


def test_command_prints_the_same_program_in_another_process():
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    command = [sys.executable, "-m", "vxc.fuzz.gen", "7", "--size", "4"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{generate(7, 4)}\n"


def test_size_is_the_length():
    lengths = [sum(len(generate(seed, size).text.splitlines()) for seed in range(60)) for size in (1, 6, 20)]
    assert lengths == sorted(lengths) and lengths[0] * 3 < lengths[2]
