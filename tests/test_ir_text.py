"""The IR's text: a snapshot, exact round trips, and what the reader says about mistakes."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vxc.diag import VxcError
from vxc.dtypes import DTYPES, F32, I64
from vxc.ir.builder import Builder
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Value, constant
from vxc.ir.plan import Plan
from vxc.ir.printer import print_inst, print_kernel, print_plan
from vxc.ir.reader import plan_of, read_ir
from vxc.ir.verify import verify
from vxc.source import Source

SOFTMAX = """\
kernel @softmax(%M: i64, %N: i64, @x: f32[%M, %N] in, @y: f32[%M, %N; %ld, 1] out, %ld: i64, @w: f32[%M] work) \
stage=tile done=[prove-parallel, simplify] {fp="exact"} {
  %i = loop 0, %M {independent="proved", kind="parallel"} !3:5
    cell @m: f32
    %j = reduce @m, %N {op="max", order=[4, 4, 32, 1]} !4:17
      %0: f32 = load @x, %i, %j
      contribute %0
    end %j
    %1: f32 = load @m
    %2: bool = lt %1, 0.1:f32
    if %2
      store @y, %i, 0, %1
    else
      store @w, %i, -inf:f32
    end
  end %i
}
"""


def read(text: str) -> Plan:
    return read_ir(Source("t.vxir", text))


def fails(text: str) -> str:
    with pytest.raises(VxcError) as error:
        read(text)
    return str(error.value)


def softmax() -> Kernel:
    m, n, ld = (Value(name, I64) for name in ("M", "N", "ld"))
    x = Buffer("x", F32, (m, n), "param", "in")
    y = Buffer("y", F32, (m, n), "param", "out", (ld, Const(1)))
    w = Buffer("w", F32, (m,), "workspace")
    b = Builder(["M", "N", "x", "y", "ld", "w"]).at((3, 5))
    with b.loop(0, m, kind="parallel", independent="proved") as i:
        cell = b.at(None).declare("cell", "m", F32)
        with b.at((4, 17)).reduce(cell, n, op="max", order=(4, 4, 32, 1)) as j:
            b.at(None).emit("contribute", b.emit("load", x, i, j))
        value = b.emit("load", cell)
        with b.if_(b.emit("lt", value, 0.1)):
            b.emit("store", y, i, 0, value)
            b.else_()
            b.emit("store", w, i, -math.inf)
    return b.build("softmax", [m, n, x, y, ld, w], done=["prove-parallel", "simplify"], attrs=[("fp", "exact")])


def test_snapshot():
    assert print_kernel(softmax(), locations=True) == SOFTMAX


def test_reads_back_with_and_without_locations():
    plan = read(SOFTMAX)
    assert plan == plan_of(softmax())
    assert plan.kernels[0].insts[0].loc == (3, 5)
    assert read(print_plan(plan)) == plan
    assert read(print_plan(plan)).kernels[0].insts[0].loc is None


def test_a_lone_kernel_becomes_a_plan_of_one_block():
    assert print_plan(read(SOFTMAX)).startswith(
        "plan @softmax(%M: i64, %N: i64, @x: f32[%M, %N] in, @y: f32[%M, %N; %ld, 1] out, %ld: i64) {\n"
        "  workspace @w: f32[%M]\n"
        "  launch @softmax[1](%M, %N, @x, @y, %ld, @w)\n"
        "}\n\nkernel @softmax("
    )


def test_comments_blank_lines_and_indentation_mean_nothing():
    text = "# head\n\n" + SOFTMAX.replace("\n", "  # note\n\n \t").replace("    ", "") + "# tail"
    assert read(text) == read(SOFTMAX)


@pytest.mark.parametrize("text", "0 -7 9223372036854775807 true false 3:i32 -128:i8 255:u8 0.1:f32 0.1:f64 1e-45:f32 -0.0:f32".split()
    + "3.4028235e+38:f32 inf:f16 -inf:bf16 nan:f32 1e+16:f32 65504.0:f16 448.0:f8e4m3 -8:i4".split())  # fmt: skip
def test_constants(text):
    kernel = read(f"kernel @k() stage=tile {{\n  print {text} {{label=\"\"}}\n}}").kernels[0]
    assert str(kernel.insts[0].operands[0]) == text


def test_constants_differ_by_sign_type_and_dtype():
    zeros = [Const(0), Const(False, DTYPES["bool"]), Const(0.0, F32), Const(-0.0, F32), Const(0.0, DTYPES["f64"]), Const(0, DTYPES["i32"])]
    assert len(set(zeros)) == len(zeros)
    assert Const(float("nan"), F32) == Const(-float("nan"), F32)


@pytest.mark.parametrize("text", ["", 'a "b" \\ c', "tab\tnew\nline\r", "é 漢 e\u0301", "\u2028\x00\x7f", "# {}!1:2"])
def test_strings(text):
    inst = Inst("print", (), None, (("label", text),))
    kernel = Kernel("k", (), (inst,))
    assert read(print_kernel(kernel)).kernels[0] == kernel
    assert "\n" not in print_inst(inst)


def test_names():
    names = ["x", "i.1", "0", "größe", "변수", "float", "x\u0304b", "end", "plan"]
    params = tuple(Value(name, I64) for name in names)
    kernel = Kernel("launch", params, (Inst("print", params, None, (("label", ""),)),))
    plan = plan_of(kernel)
    verify(plan)
    assert read(print_plan(plan)) == plan


def test_deep_and_long_kernels():
    b = Builder()
    for _ in range(2000):
        b.emit("if", True)
    b.emit("print", Const(1), label="deep")
    for _ in range(2000):
        b.emit("end")
    plan = plan_of(b.build("deep", []))
    assert read(print_plan(plan)) == plan


def random_kernel(rng: random.Random) -> Kernel:
    """Nested regions of arithmetic, memory and reductions over random names, dtypes and constants."""
    n = Value("n", I64)
    array = Buffer("x", DTYPES[rng.choice(list(DTYPES))], (n, Const(rng.randrange(1, 9))), "param", rng.choice(["out", "inout"]))
    b = Builder(["n", "x"])

    def number():
        dtype = array.dtype
        if dtype.is_float:
            special = [0.0, -0.0, math.inf, -math.inf, math.nan]
            return constant(rng.choice([*special, rng.uniform(-1e3, 1e3), rng.uniform(-1, 1) * 2.0**-140]), dtype)
        return constant(rng.randint(dtype.min, dtype.max), dtype)

    def body(depth: int, index) -> None:
        for _ in range(rng.randrange(4)):
            b.at(rng.choice([None, (rng.randrange(1, 99), rng.randrange(1, 99))]))
            kind = rng.choice(["store", "add", "loop", "if", "reduce", "print"] if depth else ["store", "add", "print"])
            if kind == "store":
                b.emit("store", array, index, 0, rng.choice([number, lambda: b.emit("load", array, index, 0)])())
            elif kind == "add":
                index = b.emit("add", index, rng.randint(-(2**63), 2**63 - 1), name=rng.choice(["", "é", "i"]))
            elif kind == "print":
                b.emit("print", index, number(), label=rng.choice(['"', "\\n", "ü\t"]))
            elif kind == "loop":
                with b.loop(index, n, kind=rng.choice(["parallel", "serial"]), name=rng.choice(["i", "j", ""])) as inner:
                    body(depth - 1, inner)
            elif kind == "if":
                with b.if_(b.emit("lt", index, 3)):
                    body(depth - 1, index)
                    if rng.random() < 0.5:
                        b.else_()
                        body(depth - 1, index)
            else:
                cell = b.declare("cell", "m", I64)
                with b.reduce(cell, n, op=rng.choice(["sum", "max"]), order=(1, rng.randrange(9), 32, 1)) as j:
                    body(depth - 1, j)
                    b.emit("contribute", j)

    body(4, n)
    return b.build("random", [n, array], stage=rng.choice(["tile", "team"]), attrs=[("threads", 32), ("fp", "fast")])


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_random_kernels_read_back_equal(rng):
    plan = plan_of(random_kernel(rng))
    verify(plan)
    text = print_plan(plan, locations=True)
    again = read(text)
    assert again == plan
    assert print_plan(again, locations=True) == text


# ---- mistakes ----------------------------------------------------------------------------------------------------------


def kernel(*lines: str, params: str = "%n: i64, @x: f32[%n] in") -> str:
    return "\n".join([f"kernel @k({params}) stage=tile {{", *lines, "}", ""])


MISTAKES = [
    ("", "E0501", 1, 1, "there is no plan and no kernel"),
    ("kernel @k() stage=tile {", "E0501", 1, 25, "the text ends too early"),
    ("kernel @k() {\n}\n", "E0501", 1, 13, "`{` does not fit here"),
    (kernel() + kernel(), "E0501", 3, 8, "several kernels need a plan that launches them"),
    (kernel("if", "end"), "E0513", 2, 1, "`if` takes (bool), not 0 operands"),
    (kernel("print ^"), "E0501", 2, 7, "`^` is not used here"),
    (kernel('print {label="a}'), "E0501", 2, 14, "a string without its closing quote"),
    (kernel("add 1,"), "E0501", 2, 7, "the line ends too early"),
    (kernel("cell %m: f32"), "E0501", 2, 8, "`:` does not fit here"),
    (kernel("cell"), "E0501", 2, 1, "`cell` declares storage: `cell @name: f32[8]`"),
    (kernel("load @m: f32"), "E0501", 2, 1, "`load` declares no storage"),
    (kernel("%0 = load @x, 0"), "E0501", 2, 1, "the result %0 needs its dtype"),
    (kernel("%0: f32 = laod @x, 0"), "E0502", 2, 11, "there is no opcode `laod`"),
    (kernel("%0: float = load @x, 0"), "E0502", 2, 5, "there is no dtype `float`"),
    (kernel("%0: f32 = load @y, 0"), "E0502", 2, 16, "there is no buffer @y before this"),
    (kernel("%0: i64 = neg %m"), "E0502", 2, 15, "there is no value %m before this"),
    (kernel(params="@x: f32[%n] in"), "E0502", 1, 19, "there is no value %n before this"),
    (kernel(params="@x: f32[4] input"), "E0502", 1, 22, "there is no mode `input`"),
    (kernel("print 128:i8"), "E0503", 2, 7, "128 is not a value of i8"),
    (kernel("print 0.5:i32"), "E0503", 2, 7, "0.5 is not a value of i32"),
    (kernel("print " + "9" * 40), "E0503", 2, 7, "9" * 40 + " is not a value of i64"),
    (kernel('print {label="\\q"}'), "E0503", 2, 14, "a malformed string"),
    (kernel('print {label="\\ud800"}'), "E0503", 2, 14, "a malformed string"),
    (kernel('print {label="", label=""}'), "E0511", 2, 18, "attribute `label` occurs twice"),
    (kernel("end  # of what"), "E0510", 2, 1, "`end` without an open region"),
]  # fmt: skip


@pytest.mark.parametrize("text, code, line, column, message", MISTAKES, ids=[m[-1][:40] for m in MISTAKES])
def test_mistakes(text, code, line, column, message):
    rendered = fails(text)
    assert rendered.startswith(f"error[{code}]: {message}\n")
    assert f"--> t.vxir:{line}:{column}\n" in rendered


def test_an_integer_of_any_length_is_read():
    assert fails(kernel("print " + "9" * 5000)).partition("\n")[0].endswith("99 is not a value of i64")


def test_what_follows_from_a_mistake_is_not_reported():
    rendered = fails(kernel("%0: f32 = laod @x, 0", "%1: f32 = neg %0", "%2: f32 = add %1, %1", "print %q", "print %q"))
    assert rendered.count("error[") == 2


def test_suggestions():
    assert "did you mean `load`?" in fails(kernel("%0: f32 = laod @x, 0"))
    assert "did you mean `@x`?" in fails(kernel("%0: f32 = load @xx, 0"))


def test_the_place_of_a_broken_rule_is_its_instruction():
    assert fails(kernel("  store @x, 0, 1.0:f32  # no")) == (
        "error[E0519]: `store` to @x, which is an `in` parameter\n"
        "  --> t.vxir:2:3\n"
        "   |\n"
        " 2 |   store @x, 0, 1.0:f32  # no\n"
        "   |   ^^^^^^^^^^^^^^^^^^^^"
    )
