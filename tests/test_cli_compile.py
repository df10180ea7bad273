"""`vxc compile` and `vxc opt`: every form, from .vx and from IR, one kernel and several."""

from __future__ import annotations

import json
import re

import pytest
from cli_tool import SAMPLES, SCALE, TWO, vxc

from vxc.ir.printer import print_plan
from vxc.ir.reader import read_ir
from vxc.pipeline import PASSES
from vxc.source import Source

ALL_SAMPLES = sorted(SAMPLES.glob("*.vx"))


def code(text: str) -> str:
    """CUDA text without comments and `#line`, the only places that name the source."""
    return re.sub(r"^#line.*\n|//.*$|/\*.*?\*/", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("path", ALL_SAMPLES, ids=lambda path: path.stem)
def test_ir_of_samples_reads_back_and_compiles_to_the_same_code(path):
    ir = vxc("compile", path, "--emit", "ir")
    assert (ir.status, ir.err) == (0, "")
    parts = re.split(r"\n(?=plan @)", ir.out)
    assert [print_plan(read_ir(Source("ir", part))).strip() for part in parts] == [part.strip() for part in parts]
    direct, resumed = vxc("compile", path), vxc("compile", "-", "--emit", "cuda", stdin=ir.out)
    assert (direct.status, resumed.status, resumed.err) == (0, 0, "")
    assert code(resumed.out).split() == code(direct.out).split()


@pytest.mark.parametrize("name", PASSES)
def test_compiling_ir_resumes_after_the_last_pass_done(name):
    ir = vxc("compile", "-", "--emit", f"ir:{name}", stdin=SCALE)
    assert re.search(rf"done=\[[\w, -]*\b{name}\]", ir.out)
    final = vxc("compile", "-", "--emit", "ir:final", stdin=SCALE).out
    assert vxc("compile", "-", "--emit", "ir:final", stdin=ir.out).out == final


def test_a_pass_that_is_behind_the_ir_cannot_be_asked_for():
    ir = vxc("compile", "-", "--emit", "ir:map-loops", stdin=SCALE).out
    got = vxc("compile", "-", "--emit", "ir:simplify", stdin=ir)
    assert got.status == 2 and "the pass simplify is already behind this IR" in got.err


def test_ast():
    got = vxc("compile", "-", "--emit", "ast", "-k", "inc", stdin=TWO)
    assert got.out.startswith("Module @1:1\n  Kernel name='inc' @2:1\n") and "dbl" not in got.out
    assert "Kernel name='dbl'" in vxc("compile", "-", "--emit", "ast", stdin=TWO).out
    ir = vxc("compile", "-", "--emit", "ir", stdin=SCALE).out
    assert vxc("compile", "-", "--emit", "ast", stdin=ir).status == 2


def test_locations_are_printed_on_request():
    assert not re.search(r"!\d+:\d+", vxc("compile", "-", "--emit", "ir", stdin=SCALE).out)
    assert "= load @x, %i, " in (out := vxc("compile", "-", "--emit", "ir", "--locations", stdin=SCALE).out)
    assert "!2:" in out
    assert vxc("compile", "-", stdin=out).status == 0


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_ptx_and_cubin_for_an_arch_with_no_gpu(tmp_path, arch):
    ptx = vxc("compile", "-", "--emit", "ptx", "--arch", arch, stdin=SCALE)
    assert f".target {arch}" in ptx.out and ".entry scale(" in ptx.out
    assert re.match(rf"note: scale: {arch}, \d+ registers, no spills, 0 bytes shared, 64 of 64 warps a multiprocessor\n", ptx.err)
    assert vxc("compile", "-", "--emit", "cubin", "--arch", arch, "-o", tmp_path / "k.cubin", stdin=SCALE).out == ""
    assert (tmp_path / "k.cubin").read_bytes().startswith(b"\x7fELF")
    assert vxc("compile", "-", "--emit", "cubin", "--arch", arch, stdin=SCALE).raw == (tmp_path / "k.cubin").read_bytes()


def test_register_cap_and_debug_reach_the_code():
    capped = vxc("compile", SAMPLES / "attention_naive.vx", "--emit", "ptx", "--maxrregcount", "32")
    assert ", 32 registers, " in capped.err
    assert code(vxc("compile", "-", "--debug", stdin=SCALE).out) != code(vxc("compile", "-", stdin=SCALE).out)


def test_reduce_chunk_is_part_of_the_order():
    assert re.search(r"order=\[4, 2, \d+, \d+\]", vxc("compile", SAMPLES / "rowsum.vx", "--emit", "ir", "--reduce-chunk", "2").out)


def test_several_kernels(tmp_path):
    assert [line for line in vxc("compile", "-", "--emit", "ir", stdin=TWO).out.splitlines() if line.startswith("plan")] == [
        "plan @dbl(%N: i64, @x: f32[%N] in, @y: f32[%N] out) {",
        "plan @inc(%N: i64, @x: f32[%N] in, @y: f32[%N] out) {",
    ]
    got = vxc("compile", "-", "--emit", "cubin", stdin=TWO)
    assert got.status == 2 and "dbl, inc cannot be one cubin: name one with -k, or a folder with -o" in got.err
    assert vxc("compile", "-", "--emit", "cubin", "-o", tmp_path, stdin=TWO).status == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dbl.cubin", "inc.cubin"]
    assert vxc("compile", "-", "--emit", "cubin", "-k", "inc", stdin=TWO).raw.startswith(b"\x7fELF")
    text = vxc("compile", "-", "--emit", "ir", stdin=TWO).out
    assert vxc("compile", "-", "--emit", "ir", "-k", "inc", stdin=text).out.startswith("plan @inc")
    assert "error[E0234]: <stdin> has no plan `dec`" in vxc("compile", "-", "-k", "dec", stdin=text).err


def test_machine_code_does_not_go_to_a_terminal():
    got = vxc("compile", "-", "--emit", "cubin", stdin=SCALE, terminal=True)
    assert (got.status, got.raw) == (2, b"") and "binary data does not go to a terminal" in got.err


def test_an_output_that_cannot_be_written(tmp_path):
    got = vxc("compile", "-", "-o", tmp_path / "none" / "x.cu", stdin=SCALE)
    assert got.status == 1 and got.err.startswith("error[E0711]: cannot write ")


def test_lang_overrides_what_the_text_looks_like():
    got = vxc("compile", "-", "--lang", "vxir", stdin=SCALE)
    assert got.status == 1 and got.err.startswith("error[E0501]")
    assert vxc("compile", "-", stdin="# a comment\n\n" + vxc("compile", "-", "--emit", "ir", stdin=SCALE).out).status == 0


def test_a_mistake_in_the_second_plan_is_shown_at_its_line():
    text = vxc("compile", "-", "--emit", "ir", stdin=TWO).out
    at = text.rindex("load")
    line = text.count("\n", 0, at) + 1
    got = vxc("compile", "-", stdin=text[:at] + "laod" + text[at + 4 :])
    assert "error[E0502]: there is no opcode `laod`" in got.err and f"--> <stdin>:{line}:" in got.err


def test_json():
    (report,) = json.loads(vxc("compile", "-", "--emit", "ir", "--json", stdin=SCALE).out)
    assert (report["kernel"], report["emit"], report["text"]) == ("scale", "ir", vxc("compile", "-", "--emit", "ir", stdin=SCALE).out)


def test_opt_runs_passes_in_order():
    ir = vxc("compile", "-", "--emit", "ir", stdin=SCALE).out
    got = vxc("opt", "-", "-p", "prove-parallel,simplify", "--remarks", stdin=ir)
    assert got.out == vxc("compile", "-", "--emit", "ir:simplify", stdin=SCALE).out
    assert "note: applied prove-parallel scale" in got.err


@pytest.mark.parametrize(
    "passes, status, words",
    [
        ("simplfy", 2, "there is no pass `simplfy`; did you mean `simplify`?"),
        ("lower-to-threads", 1, "error[E0523]: pass lower-to-threads needs barriers, team"),
    ],
)
def test_opt_refuses(passes, status, words):
    got = vxc("opt", "-", "-p", passes, stdin=vxc("compile", "-", "--emit", "ir", stdin=SCALE).out)
    assert got.status == status and words in got.err
