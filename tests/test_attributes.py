"""Every attribute at every position: honoured, as the IR or its effect shows, or refused with a code; never silently nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typed_text import errors, rejects

from vxc.cuda.nvrtc import FP_OPTIONS
from vxc.driver import compile
from vxc.frontend.attr_table import ATTRS, POSITIONS, in_words
from vxc.frontend.check import check
from vxc.frontend.lower import lower
from vxc.frontend.parse import parse
from vxc.ir.printer import print_plan
from vxc.source import Source

ARGUMENTS = {
    "threads": "64", "stages": "3", "vector": "4", "unroll": "2", "lanes": "8", "chunk": "3", "parts": "2", "independent": '"as told"',
    "fp": "fast", "native": "f16", "layout": "[i] -> [i, 0]", "target": "sm_90a",
}  # fmt: skip


def kernel(body: str) -> str:
    return f"kernel k(x: f32[64, 64], p: i64[64], inout y: f32[64]) {{ {body} }} "


def block(body: str) -> str:
    return kernel(f"grid b in 64 {{ {body} y[b] = 1.0; }}")


def thread(body: str) -> str:
    return kernel(f"parallel i in 64 {{ {body} }}")


def function(body: str, head: str = "fn f(a: f32) -> f32") -> str:
    return f"{head} {{ {body} }} {thread('y[i] = f(1.0);')}"


def program(body: str, before: str = "") -> str:
    return f"{thread('y[i] = 1.0;')} {before} program q(x: f32[64, 64], p: i64[64], inout y: f32[64]) {{ {body} k(x, p, y); }}"


# Texts for each position, one for each way to stand there; `§` is where the attribute is written.
TEXTS = {
    "kernel": ["§" + thread("y[i] = sum(x[i]) + 1.0;")],
    "program": [program("", "§")],
    "fn": ["§" + function("return a;"), "§" + thread("y[i] = 1.0;").replace("kernel", "fn unused(a: f32) -> f32 { return a; } kernel")],
    "extern fn": ["§" + function("return a;", 'extern fn f(a: f32) -> f32 = "return a;"')],
    "example": ["§example k(x = rand(f32, 64, 64), p = randint(i64, 0, 64, 64), y = rand(f32, 64)); " + thread("y[i] = 1.0;")],
    "import": ['§import "other.vx"; ' + thread("y[i] = 1.0;")],
    "parameter": ["kernel k(§a: f32, out y: f32[64]) { parallel i in 64 { y[i] = a; } }", function("return a;", "fn f(§a: f32) -> f32")],
    "grid": [kernel("§grid b in 64 { y[b] = sum(x[b]); }"), kernel("§grid b in 8, c in 8 { y[p[b * 8 + c]] = sum(x[b]); }")],
    "parallel": [
        kernel("§parallel i in 64 { y[i] = sum(x[i]); }"),
        kernel("§parallel i in 8, j in 8 { y[p[i * 8 + j]] = sum(x[i]); }"),
        kernel("grid b in 1 { §parallel i in 64 { y[i] = sum(x[i]); } }"),
        kernel("parallel i in 8 { §parallel j in 8 { y[i * 8 + j] = sum(x[i]); } }"),
    ],
    "serial": [thread("y[i] = 0.0; §serial j in 8 { y[i] += sum(x[j]); }"), kernel("§serial j in 8 { y[j] = sum(x[j]); }")],
    "unroll": [thread("y[i] = 0.0; §unroll j in 8 { y[i] += sum(x[j]); }")],
    "pipelined": [block("shared s: f32[64]; var t: f32 = 0.0; §pipelined j in 8 { copy(x[j], s); t += sum(s); }")],
    "persistent": [
        kernel("§persistent b in 64 { y[b] = sum(x[b]); }"),
        kernel("§persistent b in 8, c in 8 { y[p[b * 8 + c]] = sum(x[b]); }"),
    ],
    "inner persistent": [kernel("grid b in 8 { §persistent j in b*8..b*8 + 8 { y[j] = sum(x[j]); } }")],
    "local": [thread("§local l: f32[4] = 0.0; y[i] = l[0];"), program("§local l: f32[4];")],
    "shared": [block("§shared l: f32[4] = 0.0;")],
    "fragment": [block("§fragment l: f32[4] = 0.0;")],
    "statement": [
        *(thread(f"var v: f32 = 0.0; serial j in 1 {{ §{text} }} y[i] = v;") for text in (
            "let a = 1.0;", "var a = 1.0;", "v = 1.0;", "v += 1.0;", "y[i] = 1.0;", "y[0:4] = x[i, 0:4];", "if v > 0.0 { v = 1.0; }",
            "while v > 0.0 { v = 0.0; }", "{ v = 1.0; }", "break;", "continue;", "assert(v == v);", 'print("", v);', "let r = x[i];",
        )),
        "kernel k(inout y: i32[64]) { parallel i in 64 { §atomic_add(y[i], 1); } }",
        "kernel k(inout y: i32[64]) { parallel i in 64 { §let old = atomic_add(y[i], 1); } }",
        block("shared s: f32[64]; §copy(x[b], s);"),
        block("shared s: f32[8, 8]; fragment f: f32[8, 8]; s = 0.0; f = 0.0; §gemm(s, s, f);"),
        function("§let b = a; return b;"),
        function("§return a;"),
        function("§if a > 0.0 { return a; } return 0.0;"),
        function("if a > 0.0 { §return a; } return 0.0;"),
        program("§k(x, p, y);"),
        program("§let n = 4;"),
    ],
    "reduction": [
        thread("y[i] = §sum(x[i]);"),
        thread("y[i] = 1.0 + §dot(x[i], x[0]);"),
        kernel("y = §max(x, axis = 1);"),
    ],
    "scan": [kernel("y = §cumsum(x[0]);")],
    "expression": [
        thread(f"y[i] = {text};") for text in ("§max(1.0, x[i, 0])", "§x[i, 0]", "1.0 + §2.0", "§exp(x[i, 0])", "§(sum(x[i]) + 1.0)")
    ],
}  # fmt: skip
PAIRS = [(name, position) for name in ATTRS for position in POSITIONS]


def written(name: str) -> str:
    return f"@{name}({ARGUMENTS[name]}) "


def lowered(text: str) -> str:
    source = Source("t.vx", text)
    return print_plan(lower(check(parse(source), source, "k")))


def test_the_texts_are_correct_without_attributes_and_cover_every_position():
    assert TEXTS.keys() == POSITIONS.keys() and ARGUMENTS.keys() == ATTRS.keys()
    for position, texts in TEXTS.items():
        for text in texts:
            assert text.count("§") == 1
            if position != "import":
                assert lowered(text.replace("§", ""))


@pytest.mark.parametrize("name, position", [pair for pair in PAIRS if pair[1] in ATTRS[pair[0]].on])
def test_what_is_honoured_is_seen_in_the_ir(name, position):
    for text in TEXTS[position]:
        if (name, position) == ("layout", "parallel") and "grid" not in text:
            assert {code for code, _ in errors(text.replace("§", written(name)))} == {"E0235"}
            continue
        given = lowered(text.replace("§", written(name)))
        assert given != lowered(text.replace("§", ""))
        if name not in ("lanes", "chunk", "parts"):  # these are fields of the order of reductions
            assert re.search(rf"\b{name}=", given)


@pytest.mark.parametrize("name, position", [pair for pair in PAIRS if pair[1] not in ATTRS[pair[0]].on])
def test_what_is_not_honoured_is_refused(name, position):
    code, message = "E0220", f"`@{name}` does not belong to {POSITIONS[position]}"
    if position in ATTRS[name].later:
        code, message = "E0401", f"`@{name}` of {POSITIONS[position]} is not compiled yet"
    for text in TEXTS[position]:
        if position == "import":
            assert (code, message) in errors(text.replace("§", written(name)))
        else:
            rejects(text.replace("§", "§" + written(name)), code, message)


@pytest.mark.parametrize("text", TEXTS["statement"][:3] + sum((TEXTS[x] for x in ("serial", "reduction", "scan", "import", "fn")), []))
def test_an_unknown_attribute_is_refused_everywhere(text):
    assert ("E0220", "there is no attribute `@lane`") in errors(text.replace("§", "@lane(8) "))


# ---- to the end of the pipeline ----------------------------------------------------------------------------------------


def compiled(text: str):
    return compile(Source("t.vx", text), "k")


@pytest.mark.parametrize("name", ["stages"])
def test_what_no_pass_realises_yet_is_said(name):
    """A remark for each loop that bears it, at its place; loops that are fused are one loop at the outer one's place."""
    for position in ATTRS[name].on:
        for text in TEXTS[position]:
            text = text.replace("p[i * 8 + j]", "i * 8 + j")
            made = compiled(text.replace("§", written(name)))
            [remark] = [r for r in made.remarks if r.kind == "missed" and r.pass_name == "lower-to-threads"]
            assert remark.message.startswith(written(name).strip())
            fused = "{ §parallel j" in text
            assert remark.loc == (1, text.index("parallel") + 1 if fused else text.index("§") + 1 + len(written(name)))


def test_vector_stays_on_its_loop_until_widths_are_chosen():
    text = kernel("parallel i in 64 { y[i] = 0.0; @vector(4) serial j in 8 { y[i] += x[i, j]; } }")
    made = compiled(text)
    done = made.plan.kernels[0].done
    assert any(inst.op == "move" and inst.attr("width") == 4 for inst in made.after("infer-vector-widths").kernels[0].insts)
    for plan in (made.tile, *(made.after(name) for name in done[: done.index("infer-vector-widths")])):
        assert [inst.attr("vector") for k in plan.kernels for inst in k.insts if inst.op == "loop" and inst.attr("vector")] == [4]


def group(text: str) -> tuple[int, list[str]]:
    made = compiled(text)
    return made.plan.kernels[0].attr("group"), [r.message for r in made.remarks if r.kind == "missed" and r.message.startswith("@")]


def test_lanes_of_loops_are_those_of_the_kernel():
    assert group(kernel("@lanes(8) parallel i in 64 { y[i] = 1.0; }")) == (8, [])
    assert group(kernel("@lanes(8) parallel i in 8, j in 8 { y[i * 8 + j] = 1.0; }")) == (8, [])
    assert group(kernel("parallel i in 8 { @lanes(8) parallel j in 8 { y[i * 8 + j] = 1.0; } }")) == (8, [])
    assert group(kernel("@lanes(1) parallel i in 64 { local r: f32[64] = 0.0; r = x[i]; y[i] = r[3]; }")) == (1, [])


def test_lanes_that_do_not_fit_what_is_inside_are_said():
    wide = "as the loops and reductions around and inside it need"
    text = kernel("@lanes(2) parallel i in 64 { y[i] = @lanes(32) sum(x[i]); }")
    assert group(text) == (32, [f"@lanes(2) of i: 32 lanes share it, {wide}"])
    text = kernel("grid b in 1 { @lanes(4) parallel i in 64 { y[i] = 1.0; } }")
    assert group(text) == (128, [f"@lanes(4) of i: 128 lanes share it, {wide}"])
    text = kernel("parallel i in 8 { parallel j in 8 { y[i * 8 + j] = 0.0; @lanes(4) parallel m in 1 { y[i * 8 + j] = 1.0; } } }")
    assert group(text)[0] == 4
    text = kernel("grid b in 1 { §@lanes(64) parallel i in 64 { y[i] = 1.0; } }")
    rejects(text, "E0220", "a loop inside a `grid` has at most 32 lanes, not 64")


def test_lanes_of_a_loop_in_a_grid_make_its_teams():
    text = kernel("grid b in 1 { @lanes(4) parallel i in 8 { let v = x[i, 0]; parallel j in 8 { y[i * 8 + j] = v; } } }")
    made = compiled(text)
    assert [r for r in made.remarks if r.message.startswith("@")] == []
    assert [inst.attr("lanes") for inst in made.after("map-loops").kernels[0].insts if inst.attr("map") == "teams"] == [4]


# ---- floats ------------------------------------------------------------------------------------------------------------


def machine(fp: str) -> str:
    return compiled(f"@fp({fp}) " + thread("y[i] = x[i, 0] * y[i] + exp(x[0, i]) / y[i];")).ptx


def test_fp_changes_the_machine_code():
    exact, contract, fast = map(machine, FP_OPTIONS)
    assert "div.rn.f32" in exact and "add.rn.f32" in exact and "add.ftz.f32" not in exact
    assert exact.count("fma.rn.f32") < contract.count("fma.rn.f32") and "div.rn.f32" in contract
    assert "fma.rn.ftz.f32" in fast and "div.approx.ftz.f32" in fast and "div.rn" not in fast


def test_kernels_of_a_program_have_one_float_discipline():
    text = """@fp(fast) kernel a(inout y: f32[N]) {{ y = 1.0; }} {} kernel b(inout y: f32[N]) {{ y = 2.0; }}
        program p(inout y: f32[N]) {{ a(y); §b(y); }}"""
    message = "`b` is `@fp(exact)` in a program whose first kernel is `@fp(fast)`, which is not compiled yet"
    rejects(text.format(""), "E0401", message)
    assert "fast" in compile(Source("t.vx", text.format("@fp(fast)").replace("§", "")), "p").plan.kernels[1].attr("fp")


# ---- values ------------------------------------------------------------------------------------------------------------

NOTHING = "says how to reduce or scan, and nothing inside does either"
VALUES = [
    ("@threads(§33) grid b in 4 { }", "`@threads` takes a multiple of 32 up to 1024, not 33", "write `@threads(128)`"),
    ("@threads(§0) grid b in 4 { }", "`@threads` takes a multiple of 32 up to 1024, not 0", "write `@threads(128)`"),
    ("@threads(§-32) grid b in 4 { }", "`@threads` takes a multiple of 32 up to 1024, not -32", "write `@threads(128)`"),
    ("@threads(§x[0, 0]) grid b in 4 { }", "`@threads` takes an integer known when compiling", "use a literal or a generic"),
    ("@vector(§3) serial j in 4 { }", "`@vector` takes a power of two up to 32, not 3", "write `@vector(4)`"),
    ("@vector(§0) serial j in 4 { }", "`@vector` takes a power of two up to 32, not 0", "write `@vector(4)`"),
    ("@vector(§64) serial j in 4 { }", "`@vector` takes a power of two up to 32, not 64", "write `@vector(4)`"),
    ("@lanes(§7) parallel j in 4 { }", "lanes must be 1, 2, 4, 8, 16 or a multiple of 32 up to 1024, not 7", "write `@lanes(4)`"),
    ("@lanes(§0) parallel j in 4 { }", "`@lanes` takes an integer of at least 1, not 0", "write `@lanes(4)`"),
    ("@unroll(§0) serial j in 4 { }", "`@unroll` takes an integer of at least 1, not 0", "write `@unroll(4)`"),
    ("@unroll(§4000000000) serial j in 4 { }", "`@unroll` takes an integer of at most 2147483647, not 4000000000", "write `@unroll(4)`"),
    ("@unroll(§2.0) serial j in 4 { }", "`@unroll` takes an integer known when compiling", "use a literal or a generic"),
    ("@unroll(§true) serial j in 4 { }", "`@unroll` takes an integer known when compiling", "use a literal or a generic"),
    ('§@unroll("2") serial j in 4 { }', "`@unroll` takes one argument of another kind", "write `@unroll(4)`"),
    ("§@unroll() serial j in 4 { }", "`@unroll` takes one argument of another kind", "write `@unroll(4)`"),
    ("§@unroll(2, 2) serial j in 4 { }", "`@unroll` takes one argument of another kind", "write `@unroll(4)`"),
    ("§@unroll(n = 2) serial j in 4 { }", "`@unroll` takes one argument of another kind", "write `@unroll(4)`"),
    ("grid b in 4 { @stages(§0) pipelined j in 4 { } }", "`@stages` takes an integer of at least 1, not 0", "write `@stages(4)`"),
    ("y[0] = @chunk(§-1) sum(x[0]);", "`@chunk` takes an integer of at least 0, not -1", "write `@chunk(4)`"),
    ("y[0] = @parts(§0) sum(x[0]);", "`@parts` takes an integer of at least 1, not 0", "write `@parts(4)`"),
    ("@unroll(2) §@unroll(2) serial j in 4 { }", "`@unroll` is given twice", "remove one"),
    ("y[0] = @chunk(2) §@chunk(2) sum(x[0]);", "`@chunk` is given twice", "remove one"),
    ("§@unrol(2) serial j in 4 { }", "there is no attribute `@unrol`", "did you mean `unroll`?"),
    ("§@independent() parallel j in 4 { }", "`@independent` without its reason", 'say why iterations cannot collide: `@independent("..")`'),
    ('§@independent(" ") parallel j in 4 { }', "`@independent` takes one argument of another kind", 'write `@independent("why")`'),
    ("§@chunk(2) serial j in 4 { }", f"`@chunk` {NOTHING}", "remove it"),
    ("§@lanes(2) serial j in 4 { y[j] = max(1.0, 2.0); }", f"`@lanes` {NOTHING}", "remove it"),
]  # fmt: skip


@pytest.mark.parametrize("text, message, way_out", VALUES, ids=[row[0] for row in VALUES])
def test_bad_values_are_refused(text, message, way_out):
    rejects(kernel(text), "E0220", message, way_out)


def test_attributes_of_kernels_are_checked():
    rejects("§@fp(loose) " + kernel(""), "E0220", "`@fp` takes one argument of another kind", "write `@fp(exact | contract | fast)`")
    rejects("§@fp(1) " + kernel(""), "E0220", "`@fp` takes one argument of another kind", "write `@fp(exact | contract | fast)`")
    rejects("§@chunk(2) " + kernel(""), "E0220", f"`@chunk` {NOTHING}", "remove it")
    rejects("@lanes(§5) " + kernel("y[0] = sum(x[0]);"), "E0220", "lanes must be 1, 2, 4, 8, 16 or a multiple of 32 up to 1024, not 5")


def test_parentheses_are_required():
    for text in ("@vector serial j in 4 { }", "@fp kernel"):
        (code, message), *_ = errors(kernel(text) if "serial" in text else text + kernel("")[6:])
        assert (code, message.split(",")[0]) == ("E0107", "expected `(`")


# ---- the reference -----------------------------------------------------------------------------------------------------


def test_the_reference_has_the_same_table():
    text = (Path(__file__).parent.parent / "grammar" / "README.md").read_text(encoding="utf-8")
    section = text.partition("| attribute | on | not compiled yet on | meaning |\n")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in section.splitlines()[1:]]
    table = {re.match(r"`@(\w+)\(", row[0])[1]: (row[1], row[2]) for row in rows}
    assert table == {name: (", ".join(in_words(rule.on)), ", ".join(in_words(rule.later))) for name, rule in ATTRS.items()}
    words = re.findall(r"`@\w+\((\w+)\)`", next(row[0] for row in rows if "@fp" in row[0]))
    assert tuple(words) == ATTRS["fp"].takes
