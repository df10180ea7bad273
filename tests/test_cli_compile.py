"""`vxc compile` and `vxc opt`: every form, from .vx and from IR, one kernel and several."""

from __future__ import annotations

import json
import re
import subprocess
import sys

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


def test_how_arrays_lie_is_known_to_the_kernel():
    lying = ("--aligned", "x=false", "--aligned", "s=true")
    got = vxc("compile", SAMPLES / "rowsum.vx", "--emit", "ir", *lying)
    assert "@x: f32[%M, %N] in align=4, @s: f32[%M] out align=16" in got.out
    final = ("--emit", "ir:final")
    assert vxc("compile", "-", *final, stdin=got.out).out == vxc("compile", SAMPLES / "rowsum.vx", *final, *lying).out
    assert vxc("run", SAMPLES / "rowsum.vx", "--on", "flat", "--check", *lying).status == 0
    odd = ("run", SAMPLES / "rowsum.vx", "-a", "x=rand:f32[4,33]", "--on", "flat", "--aligned", "x=true")
    assert vxc(*odd).status == 0  # where N is a constant, where rows begin is no matter of `--aligned`
    assert "E0706]: `x` is compiled for rows that begin at multiples of 16 bytes, so N has to be a multiple of 4, and is 33\n" in (
        vxc(*odd, "--dynamic").err
    )
    unknown = vxc("compile", SAMPLES / "rowsum.vx", "--aligned", "z=true")
    assert unknown.status == 1 and "error[E0708]: `z` is said to be aligned or not, and is no array of `rowsum`" in unknown.err
    neither = vxc("compile", SAMPLES / "rowsum.vx", "--aligned", "x=16")
    assert neither.status == 2 and "the value of `x`, `16`, is neither true nor false" in neither.err


@pytest.mark.parametrize("form", ["cuda", "ptx"])
def test_a_kernel_that_launches_nothing_says_so(form):
    none, some = (vxc("compile", SAMPLES / "add.vx", "-D", f"N={n}", "--emit", form) for n in (0, 4))
    said = "note: add launches nothing: none of what it writes has elements\n"
    assert none.status == 0 and said in none.err and "z[" not in none.out
    assert some.status == 0 and said not in some.err


def test_a_reduce_chunk_of_0_is_a_whole_row():
    args = ("compile", SAMPLES / "rowsum.vx", "--emit", "ir", "--reduce-chunk", "0")
    assert re.search(r"order=\[4, 0, \d+, \d+\]", vxc(*args, "-D", "N=64").out)
    assert "E0220" in vxc(*args).err and vxc(*args[:-1], "-1").status == 2


def test_several_kernels(tmp_path):
    assert [line for line in vxc("compile", "-", "--emit", "ir", stdin=TWO).out.splitlines() if line.startswith("plan")] == [
        "plan @dbl(%N: i64, @x: f32[%N] in, @y: f32[%N] out) {",
        "plan @inc(%N: i64, @x: f32[%N] in, @y: f32[%N] out) {",
    ]
    got = vxc("compile", "-", "--emit", "cubin", stdin=TWO)
    assert got.status == 2 and "dbl, inc cannot be one cubin: name one with -k, or a folder with -o, as -o DIR/" in got.err
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


def test_a_path_that_ends_as_a_folder_gets_a_file_for_each_kernel(tmp_path):
    assert vxc("compile", "-", "--emit", "cubin", "-o", f"{tmp_path}/a/b/", stdin=TWO).status == 0
    assert sorted(p.name for p in (tmp_path / "a" / "b").iterdir()) == ["dbl.cubin", "inc.cubin"]
    assert vxc("compile", "-", "-k", "inc", "-o", f"{tmp_path}/one/", stdin=TWO).status == 0
    assert (tmp_path / "one" / "inc.cu").read_text() == vxc("compile", "-", "-k", "inc", stdin=TWO).out
    (tmp_path / "file").write_text("")
    got = vxc("compile", "-", "-o", f"{tmp_path}/file/", stdin=TWO)
    assert got.status == 1 and got.err.startswith("error[E0711]: cannot write ")


def test_long_lists_of_kernels_are_cut():
    many = "".join(TWO.splitlines(True)[0].replace("dbl", f"k{n}") for n in range(12))
    names = ", ".join(f"k{n}" for n in range(8))
    assert f"{names} and 4 more cannot be one cubin" in vxc("compile", "-", "--emit", "cubin", stdin=many).err
    quoted = names.replace(", ", "`, `")
    assert f"defines 12 kernels: `{quoted}` and 4 more" in vxc("run", "-", stdin=many).err


def test_a_full_device_is_no_internal_error():
    command = f"{sys.executable} -m vxc compile {SAMPLES / 'softmax.vx'} > /dev/full"
    got = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=SAMPLES.parent)
    assert got.returncode == 1 and got.stderr.startswith("error[E0711]: cannot write standard output: No space left on device\n")
    assert "Traceback" not in got.stderr and "Exception ignored" not in got.stderr


COLLIDING = """\
kernel @f(%N: i64, @x: f32[%N] in, @s: f32[1] out) stage=tile {
  %i = loop 0, %N {kind="parallel"}
    %0: i64 = add %i, 1
    %1: f32 = load @x, %0
    store @s, 0, %1
  end %i
}
"""


@pytest.mark.parametrize("command", [["compile", "-"], ["opt", "-", "-p", "prove-parallel"]])
def test_findings_about_ir_are_placed_in_its_text(command):
    got = vxc(*command, stdin="\n" + COLLIDING)
    assert got.status == 1 and "error[E0310]: index i + 1 of `x` reaches N, past its extent N\n  --> <stdin>:5:15\n" in got.err
    assert "both write `s[0]`\n  --> <stdin>:6:5\n   |\n 6 |     store @s, 0, %1\n   |     ^^^^^ written here" in got.err


def test_findings_about_ir_with_places_of_another_text_show_the_instruction():
    got = vxc("compile", "-", stdin=COLLIDING.replace("store @s, 0, %1", "store @s, 0, %1 !3:4"))
    assert "both write `s[0]`\n   = note: in kernel @f at line 3, column 4: `store @s, 0, %1`\n" in got.err


def test_each_kernel_keeps_its_own_list_of_passes():
    """One that a pass makes, here to fold the parts of a sum, has the list of the kernel that it comes from."""
    text = "kernel big(x: f32[N], out s: f32[1]) { s[0] = @parts(4) sum(x); }"
    plan = vxc("compile", "-", "--emit", "ir:split-launches", stdin=text).out
    other = "kernel @other(%N: i64, @x: f32[%N] in, @y: f32[%N] out) stage=tile {\n  store @y, 0, 1.0:f32\n}\n"
    mixed = plan.replace("  launch", "  launch @other[1](%N, @x, @y)\n  launch", 1) + "\n" + other
    mixed = mixed.replace("@x: f32[%N] in", "@x: f32[%N] in, @y: f32[%N] out", 1)
    got = vxc("opt", "-", "-p", "split-reductions", stdin=mixed)
    assert got.status == 1 and got.err.startswith("error[E0523]: pass split-reductions needs one-nest, which no pass before it gives")
    lists = re.findall(r"kernel @(\w+).*done=\[(.*)\]", vxc("opt", "-", "-p", "simplify", stdin=mixed).out)
    assert lists == [("big", "prove-parallel, simplify, doubt-indices, fuse-siblings, split-launches, simplify"), ("other", "simplify")]
    parts = vxc("opt", "-", "-p", "split-reductions", stdin=plan).out
    lists = re.findall(r"kernel @\S+\(.*done=\[(.*)\]", parts)
    assert len(lists) == 2 and set(lists) == {"prove-parallel, simplify, doubt-indices, fuse-siblings, split-launches, split-reductions"}
