"""Why accesses are of fewer than 16 bytes, as `vxc explain` has it: always said, never contradicted, and true: else they are wider."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest
from cli_tool import SAMPLES, vxc

from vxc.driver import Compiled, compile
from vxc.explain.measure import Measured, accesses_of
from vxc.frontend.parse import parse
from vxc.frontend.syntax import Kernel
from vxc.diag import read_source
from vxc.ir.narrow import words
from vxc.passes.prove_parallel_text import source_name

FILES = sorted(path.stem for path in SAMPLES.glob("*.vx"))


def accesses(text: str, *options) -> list[dict]:
    """Of the launches that run."""
    got = vxc("explain", "-", "--json", *options, stdin=text)
    assert got.status == 0, got.err
    (kernel,) = json.loads(got.out)["kernels"]
    return [a for launch in kernel["launches"] if launch["grid"] for a in launch["accesses"]]


def every(name: str) -> list[Compiled]:
    """Each kernel of a sample, for arrays that may begin anywhere, and at multiples of 16 bytes or elsewhere."""
    source = read_source(SAMPLES / f"{name}.vx")
    found = []
    for item in parse(source).items:
        if isinstance(item, Kernel):
            arrays = [p.name for p in compile(source, item.name).plan.buffers]
            found += [compile(source, item.name, aligned=dict.fromkeys(arrays, lie)) for lie in (True, False)]
            found.append(compile(source, item.name))
    return found


@pytest.mark.parametrize("name", FILES)
def test_every_narrow_access_says_why(name):
    for compiled in every(name):
        for kernel in compiled.plan.kernels:
            for access in accesses_of(kernel, Measured()):
                assert bool(access.why_not_wider) == (access.bytes_per_access < 16), (kernel.name, access)
                assert access.why_not_wider == ("; ".join(map(words, access.narrow)) or None)
    for kernel in json.loads(vxc("explain", SAMPLES / f"{name}.vx", "--json").out)["kernels"]:  # what moves are of, by their addresses
        for access in (a for launch in kernel["launches"] for a in launch["accesses"]):
            assert bool(access["why_not_wider"]) == (access["bytes_per_access"] < 16), access


@pytest.mark.parametrize("name", FILES)
def test_no_width_is_said_that_the_end_does_not_have(name):
    for compiled in every(name):
        there = {(k.name, a.line, a.kind, a.buffer, a.bytes_per_access) for k in compiled.plan.kernels for a in accesses_of(k, Measured())}
        said = [r for r in compiled.remarks if r.about[:1] == ("width",)]
        for remark in said:
            _, kind, buffer = remark.about
            size = int(remark.message.partition("-")[0])
            holds = (remark.kernel, remark.loc[0], kind, source_name(buffer), size) in there
            if remark.superseded_by:
                assert [r for r in said if (r.pass_name, r.about, r.loc) == (remark.superseded_by, remark.about, remark.loc)]
            else:
                assert holds, str(remark)


def test_a_width_that_a_later_pass_changes_is_superseded():
    options = "--aligned", "x=true", "-a", "x=rand:f16[64,128]"
    (kernel,) = json.loads(vxc("explain", SAMPLES / "transpose_tile.vx", "--json", *options).out)["kernels"]
    widths = [(r["message"], r["superseded_by"]) for r in kernel["remarks"] if "stores of `tile`" in r["message"]]
    assert [by for _, by in widths] == ["avoid-bank-conflicts", None]
    assert widths[0][0].startswith("8-byte") and widths[1][0].startswith("4-byte stores of `tile`, not 8: against bank conflicts")
    said = vxc("explain", SAMPLES / "transpose_tile.vx", *options).out
    assert "8-byte stores of `tile` (avoid-bank-conflicts has changed that)" in said


class Case(NamedTuple):
    """A kernel whose accesses to `buffer` in a space are narrow for a reason, and what to put instead of part of its text."""

    why: str
    buffer: str
    text: str
    instead: str
    by: str
    space: str = "global"
    options: tuple = ()


def kernel(body: str, params: str = "x: f32[N, 64], out y: f32[N, 64]", call: str = "x = rand(f32, 256, 64)") -> str:
    return f"kernel k({params}) {{ {body} }}\nexample k({call});\n"


TILE = """kernel k(x: f16[64, 64], out y: f16[64, 64]) {
    @threads(256) grid bx in 64 // B, by in 64 // B {
        shared tile: f16[B, B];
        copy(x[by*B :+ B, bx*B :+ B], tile);
        parallel i in B, j in B { y[bx*B + i, by*B + j] = tile[j, i]; }
    }
}
example k(x = rand(f16, 64, 64));
""".replace("B", "32")
ADD = kernel("parallel i in N, j in 64 { y[i, j] = x[i, j] + 1.0; }")
FLIP = (SAMPLES / "transpose_tile.vx").read_text()
CASES = {
    "the run is short": Case(
        "the 2 elements that a thread takes in a row are 8 bytes", "x", ADD.replace("parallel", "@vector(2) parallel"), "@vector(2) ", "",
    ),
    "a row of them is short": Case(
        "the 2 elements that a thread takes in a row may begin at any multiple of 4 bytes", "f.shared",
        (SAMPLES / "layernorm_tile.vx").read_text(), "229", "232", "shared",
    ),
    "apart": Case(
        "consecutive iterations are 64 elements apart", "x",
        kernel("parallel j in 64 { local s: f32[4] = 0.0; unroll u in 4 { s[u] = x[u, j]; } y[0, j] = s[0] + s[1] + s[2] + s[3]; }"),
        "x[u, j]", "x[j, u]",
    ),
    "next": Case(
        "the next element that the thread takes is 256 bytes further on", "x",
        kernel("parallel j in 64 { var s = 0.0; serial u in 6 { s = s + x[u, j]; } y[0, j] = s; }"),
        "serial u in 6 { s = s + x[u, j]; }", "unroll u in 4 { s = s + x[j, u]; }",
    ),
    "serial": Case(
        "it is no `unroll` loop", "x",
        kernel("parallel i in N { var s = 0.0; serial u in 16 { s = s + x[i, u]; } y[i, 0] = s; }"), "serial u", "unroll u",
    ),
    "no power of two": Case(
        "has 6 iterations, and a vector has 2 to 32, a power of two", "x",
        kernel("parallel i in N { var s = 0.0; unroll u in 6 { s = s + x[i, u]; } y[i, 0] = s; }"), "u in 6", "u in 8",
    ),
    "a loop in it": Case(
        "has a loop in it", "x",
        kernel("parallel i in N { var s = 0.0; unroll u in 4 { serial v in N { s = s + x[i, u]; } } y[i, 0] = s; }"),
        "serial v in N { s = s + x[i, u]; }", "s = s + x[i, u];",
    ),
    "data": Case(
        "where it is depends on memory", "x",
        kernel("parallel i in N { y[i] = x[at[i]]; }", "x: f32[N], at: i64[N], out y: f32[N]",
               "x = rand(f32, 256), at = randint(i64, 0, 256, 256)"),
        "x[at[i]]", "x[i]",
    ),
    "a condition": Case(
        "it happens only under a condition", "x",
        kernel("parallel i in N { var s = 0.0; unroll u in 4 { if y[i, u] > 0.0 { s = s + x[i, u]; } } y[i, 0] = s; }",
               "x: f32[N, 64], inout y: f32[N, 64]", "x = rand(f32, 256, 64), y = rand(f32, 256, 64)"),
        "if y[i, u] > 0.0 { s = s + x[i, u]; }", "s = s + x[i, u];",
    ),
    "all under conditions": Case(
        "what it accesses depends on conditions", "x",
        kernel("parallel i in N, j in 64 { if j == 9 || n > 0 { y[i, j] = x[i, j]; } else { y[i, j] = x[i, j] * 2.0; } }",
               "x: f32[N, 64], n: i64, out y: f32[N, 64]", "x = rand(f32, 256, 64), n = 0"),
        "if j == 9 || n > 0 { y[i, j] = x[i, j]; } else { y[i, j] = x[i, j] * 2.0; }", "y[i, j] = x[i, j];",
    ),
    "an iteration of many": Case(
        "it is one element to an iteration, which 16 threads run together", "y",
        kernel("parallel i in N { y[i] = sum(x[i]); }", "x: f32[N, 64], out y: f32[N]"), "sum(x[i])", "x[i, 0]",
    ),
    "bank conflicts": Case(
        "against bank conflicts", "tile", FLIP, "tile[j, i]", "tile[i, j]", "shared", ("-a", "x=rand:f16[64,128]", "--aligned", "x=true"),
    ),
    "little to do": Case(
        "there is too little to do for each lane", "tile", TILE.replace("tile[j, i]", "tile[i, j]").replace("32", "16"), "16", "32",
        "shared", ("--aligned", "x=true"),
    ),
    "calls": Case(
        "for calls where `x` or `y` begins at no multiple of 16 bytes", "y",
        kernel("parallel i in N { y[i] = x[i] - max(x[i]); }", "x: f32[N, 1000], out y: f32[N, 1000]", "x = rand(f32, 64, 1000)"), "", "",
        options=("--dynamic",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_without_the_cause_it_is_wider(case):
    def of(text: str, *more) -> list[dict]:
        return [a for a in accesses(text, *case.options, *more) if (a["buffer"], a["space"]) == (case.buffer, case.space)]

    cause = [a for a in of(case.text) if case.why in (a["why_not_wider"] or "")]
    assert cause, of(case.text)
    if case.instead:
        assert case.instead in case.text
        after = [a for a in of(case.text.replace(case.instead, case.by)) if a["requests"]]
    else:  # where the arrays lie, in that case
        after = of(case.text, "--aligned", "x=true", "--aligned", "y=true")
    wider = [a for a in after if a["kind"] in {a["kind"] for a in cause}]
    assert max(a["bytes_per_access"] for a in wider) > max(a["bytes_per_access"] for a in cause)
    assert all(case.why not in (a["why_not_wider"] or "") for a in wider)


def test_elements_that_fill_no_vector_are_there_only_where_the_size_has_them():
    text = "kernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i]; } }\nexample k(x = rand(f32, 1024));\n"
    why = "elements that fill no whole vector go one by one"
    for size, requests in ((1024, 0), (1025, 1)):
        (load,) = [a for a in accesses(text, "-a", f"x=rand:f32[{size}]") if (a["kind"], a["why_not_wider"]) == ("load", why)]
        assert load["requests"] == requests
