"""Builder, rewriter and regions."""

import pytest
from ir_samples import N, PARAMS, X, Y

from vxc.dtypes import BOOL, F16, F32, I32, I64
from vxc.ir.builder import Builder, Rewriter
from vxc.ir.kernel import Const, Inst, Value
from vxc.ir.printer import print_inst
from vxc.ir.walk import RegionError, Regions, definitions, names, operand_kinds, uses
from vxc.semantics import Order


def builder() -> Builder:
    return Builder(p.name for p in PARAMS)


def lines(b: Builder) -> list[str]:
    return [print_inst(inst) for inst in b.insts]


def test_fresh_names():
    b = Builder(["x", "0", "i.1"])
    hints = ("", "", "x", "x", "i", "i", "i.1", "7", "x.1")
    assert [b.fresh(hint) for hint in hints] == ["1", "2", "x.1", "x.2", "i", "i.2", "i.3", "3", "x.3"]


def test_numbers_take_the_dtype_of_their_place():
    b = builder()
    x = b.emit("load", X, 0, 1)
    b.emit("select", True, x, 2)
    b.emit("sub", 1, x)
    b.emit("store", Y, N, 0.1)
    b.emit("shfl_idx", x, 3, width=4)
    assert lines(b) == [
        "%0: f32 = load @x, 0, 1",
        "%1: f32 = select true, %0, 2.0:f32",
        "%2: f32 = sub 1.0:f32, %0",
        "store @y, %n, 0.1:f32",
        "%3: f32 = shfl_idx %0, 3 {width=4}",
    ]


def test_result_dtypes():
    b = builder()
    results = [
        b.emit("lt", N, 3), b.emit("rand", N, N), b.emit("cast", N, dtype=F16), b.emit("block_index"),
        b.emit("atomic", Y, 0, 1, op="add"), b.emit("isnan", Const(0.5, F32)),
    ]  # fmt: skip
    assert [r.dtype for r in results] == [BOOL, F32, F16, I64, F32, BOOL]
    assert b.emit("store", Y, 0, 1) is None


@pytest.mark.parametrize("arguments, message", [
    (("cast", N), "cast needs the dtype of its result"),
    (("add", 1, 2), "add: the dtype of 1 is not known here; pass a Const"),
    (("load", X, 0), r"load does not take 2 operands"),
])  # fmt: skip
def test_what_the_table_cannot_tell_is_a_type_error(arguments, message):
    with pytest.raises(TypeError, match=message):
        builder().emit(*arguments)


def test_regions_attributes_and_places():
    b = builder()
    cell = b.at((2, 3)).declare("cell", "m", F32)
    with b.loop(0, N, 2, kind="serial", unroll=None) as i:
        with b.if_(b.emit("lt", i, 3)):
            b.emit("break")
            b.else_()
            b.emit("continue")
    with b.reduce(cell, N, op="sum", order=Order(4, 4, 32)) as j:
        b.emit("contribute", b.emit("load", X, j, 0))
    with b.region("role", name="main", warps=1):
        pass
    assert lines(b) == [
        "cell @m: f32",
        '%i = loop 0, %n, 2 {kind="serial"}',
        "%0: bool = lt %i, 3",
        "if %0",
        "break",
        "else",
        "continue",
        "end",
        "end %i",
        '%j = reduce @m, %n {op="sum", order=[4, 4, 32, 1]}',
        "%1: f32 = load @x, %j, 0",
        "contribute %1",
        "end %j",
        'role {name="main", warps=1}',
        "end",
    ]
    assert {inst.loc for inst in b.insts} == {(2, 3)}
    kernel = b.build("k", PARAMS, stage="team", attrs=[("threads", 32), ("fp", "exact")])
    assert (kernel.stage, kernel.attrs) == ("team", (("fp", "exact"), ("threads", 32)))


def test_a_rewriter_renames_results_and_substitutes():
    b = builder()
    with b.loop(0, N, kind="serial") as i:
        c = b.declare("cell", "c", F32)
        b.emit("store", c, b.emit("load", X, i, 0))
    copy = Builder([*names(PARAMS, b.insts)])
    m = Value("m", I64)
    rewriter = Rewriter(copy, {N: m})
    rewriter.copy_all(b.insts)
    assert lines(copy) == [
        '%i.1 = loop 0, %m {kind="serial"}',
        "cell @c.1: f32",
        "%1: f32 = load @x, %i.1, 0",
        "store @c.1, %1",
        "end %i.1",
    ]
    assert rewriter(i).name == "i.1" and rewriter(N) is m


def test_a_rewriter_into_a_fresh_builder_numbers_temporaries_anew():
    b = builder()
    for _ in range(3):
        last = b.emit("neg", N)
    out = builder()
    rewrite = Rewriter(out)
    rewrite.copy(b.insts[2])
    assert lines(out) == ["%0: i64 = neg %n"]
    assert rewrite(last) == Value("0", I64) and rewrite(Const(1)) == Const(1) and rewrite(X) is X


NESTED = [
    Inst("loop", (Const(0), N), Value("i", I64)),  # 0
    Inst("if", (Const(True, BOOL),)),  # 1
    Inst("break"),  # 2
    Inst("else"),  # 3
    Inst("while"),  # 4
    Inst("break"),  # 5
    Inst("end"),  # 6
    Inst("end"),  # 7
    Inst("end", (Value("i", I64),)),  # 8
    Inst("cell"),  # 9
]


def test_regions():
    r = Regions.of(NESTED)
    assert r.end == (8, 7, 2, 7, 6, 5, 6, 7, 8, 9)
    assert r.parent == (-1, 0, 1, 0, 1, 4, 1, 0, -1, -1)
    assert (r.body(0), r.body(1)) == (range(1, 8), range(2, 3))
    assert list(r.top()) == [0, 9]
    assert list(r.level(range(4, 7))) == [4]
    assert list(r.parents(5)) == [4, 1, 0]
    assert (r.innermost(5, ("while",)), r.innermost(2, ("while",))) == (4, -1)


def test_a_region_without_its_end():
    with pytest.raises(RegionError) as error:
        Regions.of(NESTED[:5])
    assert error.value.index == 4


def test_definitions_and_uses():
    assert definitions(NESTED) == {"i": 0}
    assert uses(NESTED) == {"n": [0], "i": [8]}


@pytest.mark.parametrize("op, operands, kinds", [
    ("loop", (0, 1), ("index", "index")),
    ("loop", (0, 1, 2), ("index", "index", "index")),
    ("loop", (0,), None),
    ("store", (X, 0, 0, 1), ("buffer", "index", "index", "elem")),
    ("store", (X, 0, 1), None),
    ("launch", (1, X, N), ("index", "arg", "arg")),
    ("contribute", (1,), ("value",)),
    ("print", (), ()),
    ("select", (1, 2, 3), ("bool", "value", "same")),
])  # fmt: skip
def test_operand_kinds(op, operands, kinds):
    assert operand_kinds(op, operands) == kinds


def test_long_lists_are_linear():
    b = Builder()
    value = b.emit("cast", Const(1, I32), dtype=I64, name="v")
    for _ in range(20_000):
        value = b.emit("add", value, 1, name="v")
    assert value.name == "v.20000"
    rewriter = Rewriter(Builder())
    rewriter.copy_all(b.insts)
    assert rewriter(value).name == "v.20000"
