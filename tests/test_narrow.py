"""The reasons of `narrow`: each code has a sentence with its arguments in it, and is written by some pass; as text they read back equal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from vxc.driver import compile
from vxc.ir.narrow import REASONS, listed, problem, words
from vxc.ir.printer import print_plan
from vxc.ir.reader import read_ir
from vxc.source import Source

ROOT = Path(__file__).parent.parent
WRITERS = [path for folder in ("analysis", "passes", "explain") for path in (ROOT / "vxc" / folder).glob("*.py")]
KERNEL = "kernel k(x: f32[N, 1000], out y: f32[N, 1000]) { parallel i in N { y[i] = x[i] - max(x[i]); } }"


@pytest.mark.parametrize("code", REASONS)
def test_a_code_is_written_and_has_one_sentence(code):
    written = re.compile(rf'(\(|return |else )"{code}"(,| if )')
    assert [path.name for path in WRITERS if written.search(path.read_text("utf-8"))]
    assert len(listed()) == len({*listed().values()}) == len(REASONS)


@pytest.mark.parametrize("reason, sentence", [
    (("calls", "@x", 16, "@a", 8, "@b", 8, "%N", 4),
     "for calls where `x` begins at no multiple of 16 bytes, or `a` or `b` begins at no multiple of 8 bytes, or N is no multiple of 4"),
    (("next", 4096), "the next element that the thread takes is 4,096 bytes further on"),
    (("next", "4 * N"), "the next element that the thread takes is 4 * N bytes further on"),
    (("serial", 0), "the loop around it runs its iterations one after another: it is no `unroll` loop"),
    (("holds", 3, "break"), "the loop on line 3 has a `break` in it"),
    (("holds", 3, "shfl_up"), "the loop on line 3 has an exchange between lanes in it"),
])  # fmt: skip
def test_sentences(reason, sentence):
    assert problem(reason) is None and words(reason) == sentence


def test_reasons_read_back():
    plan = compile(Source("k.vx", KERNEL)).plan
    reasons = {inst.attr("narrow") for kernel in plan.kernels for inst in kernel.insts} - {None}
    assert ("calls", "@x", 16, "@y", 16) in reasons
    assert read_ir(Source("k.vxir", print_plan(plan))) == plan


def test_the_text_is_the_same_in_every_process():
    text = "kernel k(x: f32[M, N], s: i64, out y: f32[M]) { parallel i in M { y[i] = sum(x[i, s:3]); } }"
    code = f"import vxc; print(vxc.compile(vxc.Source('k.vx', {text!r})).cuda)"
    made = {subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
                           capture_output=True, text=True, check=True).stdout for seed in "0123"}  # fmt: skip
    assert len(made) == 1
