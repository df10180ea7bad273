"""The verifier: for every rule, plans that break it and exactly what is said."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from ir_samples import N, PARAMS, X, Y, sample

from vxc.codes import CODES
from vxc.diag import VxcError, read_source
from vxc.driver import compile
from vxc.dtypes import F32, I8, I64
from vxc.grammars import FOLDER
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Value
from vxc.ir.narrow import REASONS
from vxc.ir.reader import plan_of, read_ir
from vxc.ir.verify import __doc__ as RULES_TEXT
from vxc.ir.verify import NAME, WORD, problems, verify
from vxc.source import Source

HEADER = "kernel @k(%n: i64, @x: f32[%n, 8] in, @y: f32[%n] out) stage={stage} {attrs}{{\n"


def broken(body: str, stage: str = "tile", attrs: str = "") -> list[str]:
    """What is wrong with a kernel of this body, `;` for newlines, as `code message`."""
    text = HEADER.format(stage=stage, attrs=attrs) + body.replace("; ", "\n") + "\n}\n"
    try:
        read_ir(Source("t.vxir", text))
    except VxcError as error:
        return [f"{d.code} {d.message}" for d in error.diagnostics]
    return []


LOOP = '%i = loop 0, %n {kind="serial"}'
REDUCE = '%j = reduce @c, %n {op="sum", order=[1, 4, 32, 1]}'

TILE = [
    # regions
    ("if true", "E0510 `if` without its `end`"),
    ("else", "E0510 `else` without an open region"),
    (f"{LOOP}; else; end %i", "E0510 `else` outside the first arm of an `if`"),
    ("if true; else; else; end", "E0510 `else` outside the first arm of an `if`"),
    (f"{LOOP}; end", "E0510 this `end` closes `loop` and reads `end %i`"),
    (f"if true; {LOOP}; end %i; end %n", "E0510 this `end` closes `if`"),
    # names
    ("%n: i64 = neg %n", "E0511 %n is defined already"),
    ("cell @n: f32", "E0511 @n is defined already"),
    (f"{LOOP}; end %i; {LOOP}; end %i", "E0511 %i is defined already"),
    (f"{LOOP}; end %i; %a: i64 = neg %i", "E0512 %i is used, but it is not defined before this, or in a region that has ended"),
    ("if true; %a: i64 = neg 1; else; %b: i64 = neg %a; end",
     "E0512 %a is used, but it is not defined before this, or in a region that has ended"),
    # operands
    ("%a: i64 = add %n", "E0513 `add` takes (value, same), not 1 operand"),
    ("%a: f32 = load @x, 1", "E0513 `load` takes (buffer, idx*), not 2 operands; @x has 2 dimensions"),
    ("%a: f32 = load %n, 1", "E0513 operand %n of `load` is not a buffer"),
    ("%a: i64 = add %n, @x", "E0513 operand @x of `add` is a buffer where a scalar goes"),
    ("%a: i64 = add %n, 1.0:f32", "E0513 operand 1.0:f32 of `add` is f32 where i64 goes"),
    ("%a: f32 = load @x, 1, 2:i32", "E0513 operand 2:i32 of `load` is i32 where i64 goes"),
    ("store @y, 1, 2", "E0513 operand 2 of `store` is i64 where f32 goes"),
    ("if %n; end", "E0513 operand %n of `if` is i64 where bool goes"),
    ("%a: i64 = div %n, %n", "E0513 `div` is not defined on i64"),
    ('%j = reduce @y, %n {op="sum", order=[1, 4, 32, 1]}; end %j', "E0513 operand @y of `reduce` is not a cell"),
    ('%i: i32 = loop 0, 1 {kind="serial"}; end %i', "E0513 operand 0 of `loop` is i64, its index i32"),
    # results
    ("%a: f32 = neg %n", "E0514 the result %a of `neg` is f32 where i64 goes"),
    ("%a: i64 = lt %n, %n", "E0514 the result %a of `lt` is i64 where bool goes"),
    ("neg %n", "E0514 `neg` needs a result"),
    ("%a: i64 = store @y, 0, 1.0:f32", "E0514 `store` has no result"),
    ("%a: f32 = reinterpret %n", "E0514 `reinterpret` keeps the width, i64 to f32 does not"),
    ('%i: i32 = scan %n {order=[1, 4, 32, 1]}; end %i', "E0514 the index %i of `scan` is i32, not i64"),
    # attributes
    ("%i = loop 0, %n; end %i", "E0515 `loop` needs attribute `kind`"),
    ('%i = loop 0, %n {kind="grid"}; end %i', 'E0515 attribute `kind` of `loop` is "grid", not one of parallel, serial, unroll'),
    ("%i = loop 0, %n {kind=3}; end %i", "E0515 attribute `kind` of `loop` is 3, which is no str"),
    ('%i = loop 0, %n {colour="red", kind="serial"}; end %i', "E0515 `loop` has no attribute `colour`"),
    ('%i = loop 0, %n {kind="serial", unroll=0}; end %i', "E0515 attribute `unroll` of `loop` is 0, not positive"),
    ('%i = loop 0, %n, 0 {kind="serial"}; end %i', "E0515 the step of a `loop` is 0"),
    ('%i = loop 0, %n {kind="serial", layout="[i] -> i"}; end %i',
     "E0515 attribute `layout` of `loop` is malformed: `i` does not fit in layout `[i] -> i`"),
    ('%i = loop 0, %n {kind="serial", vector=3}; end %i', "E0515 attribute `vector` of `loop` is 3, not a power of two"),
    ("%j = scan %n {order=[1, 4, 3, 1]}; end %j",
     "E0515 attribute `order` of `scan` is no order: lanes must be 1, 2, 4, 8, 16 or a multiple of 32 up to 1024, not 3"),
    ("%j = scan %n {order=[1, 4]}; end %j", "E0515 attribute `order` of `scan` has 2 fields, not v, chunk, lanes, parts"),
    # stages
    ("%t = thread_index", "E0516 `thread_index` is not legal in a kernel at stage tile, only at thread"),
    ("workspace @w: f32[%n]", "E0516 `workspace` is not legal in a kernel at stage tile, only at plan"),
    # places
    ("break", "E0517 `break` outside a serial loop"),
    ('%i = loop 0, %n {kind="parallel"}; continue; end %i', "E0517 `continue` outside a serial loop"),
    (f"cell @c: f32; while; {REDUCE}; if true; break; end; contribute 1.0:f32; end %j; end", "E0517 `break` outside a serial loop"),
    ("contribute %n", "E0517 `contribute` does not stand directly in a `reduce`"),
    ('%p: i64 = prefix %n {op="sum"}', "E0517 `prefix` does not stand directly in a `scan`"),
    (f"cell @c: f32; {REDUCE}; end %j", "E0517 `reduce` has 0 `contribute` directly in it, not 1"),
    (f"cell @c: f32; {REDUCE}; contribute 1.0:f32; contribute 1.0:f32; end %j", "E0517 `reduce` has 2 `contribute` directly in it, not 1"),
    (f"cell @c: f32; {REDUCE}; contribute 1.0:f32, 1.0:f32; end %j", "E0517 `contribute` to sum takes 1 operand, not 2"),
    (f"cell @c: f32; {REDUCE}; contribute true; end %j", "E0517 reduction sum is not defined on bool"),
    (f"cell @c: f32; {REDUCE}; contribute 1:i8; end %j", "E0517 reduction sum over i8 gives i32, but the cell @c is f32"),
    # writes and storage
    ("store @x, 0, 0, 1.0:f32", "E0519 `store` to @x, which is an `in` parameter"),
    ('%a: f32 = atomic @x, 0, 0, 1.0:f32 {op="add"}', "E0519 `atomic` to @x, which is an `in` parameter"),
    ("cell @c: f32[3]", "E0520 a cell has no shape"),
    ("local @c: f32", "E0520 `local` needs a shape"),
    ("local @c: f32[%n]", "E0520 the shape of @c is not constant"),
    ("local @c: f32[-1]", "E0520 @c has an extent of -1"),
    ("local @c: f32[3:i32]", "E0520 extent 3:i32 of @c is not an i64"),
]  # fmt: skip

THREAD = [
    ("%a: f32 = load @x, 0, 8", "E0518 index 8 is outside dimension 1 of @x, which has 8 elements"),
    ("%a: f32 = load @x, -1, 0", "E0518 index -1 is outside dimension 0 of @x, which has %n elements"),
    ("%j = scan %n {order=[1, 4, 32, 1]}; end %j", "E0516 `scan` is not legal in a kernel at stage thread, only at tile or team"),
    ('barrier {scope="group"}', 'E0515 a `barrier` of scope "group" needs attribute `width`'),
    ("%a: i64 = shfl_xor %n {distance=1, width=64}", "E0515 a group of 64 lanes is more than a warp"),
    ("%a: i64 = shfl_xor %n {distance=8, width=8}", "E0515 distance 8 leaves a group of 8 lanes"),
    ('%t = thread_index; %c: bool = lt %t, 7; if %c; barrier {scope="block"}; end',
     "E0521 `barrier` is executed by all threads of the block together, but only groups of 1 are known to reach it together"),
    ('%t = thread_index; %r: i64 = floordiv %t, 8; %c: bool = lt %r, %n; if %c; barrier {scope="group", width=32}; end',
     "E0521 `barrier` is executed by the 32 threads of a group together, but only groups of 8 are known to reach it together"),
    ("local @c: f32[4]; move @c, 0, @x, 0 {width=3}", "E0515 attribute `width` of `move` is 3, not a power of two"),
    ("local @c: f32[8]; move @c, 0, @x, 0 {width=8}", "E0513 8 elements of f32 are no access of 1, 2, 4, 8 or 16 bytes"),
    ("local @c: f16[8]; move @c, 0, @x, 0 {width=4}", "E0513 `move` copies bits, but @c is f16 and @x f32"),
    ("local @c: f32[8]; local @d: f32[8]; move @c, 0, @d, 0 {width=4}",
     "E0513 `move` goes between an array of the thread (`local`) and memory that is none"),
    ("local @c: f32[4]; move @x, 0, @c, 0 {width=4}", "E0519 `move` to @x, which is an `in` parameter"),
    ('%a: f32 = load @x, 0, 0 {narrow="data"}', "E0515 attribute `narrow` of `load` is 'data', which is no reason"),
    ("%a: f32 = load @x, 0, 0 {narrow=[]}", "E0515 attribute `narrow` of `load` is (), which is no reason"),
    ('%a: f32 = load @x, 0, 0 {narrow=["because"]}', f'E0515 attribute `narrow` of `load` is "because", not one of {", ".join(REASONS)}'),
    ('%a: f32 = load @x, 0, 0 {narrow=["iteration"]}',
     'E0515 attribute `narrow` of `load` is "iteration" with 0 arguments; its arguments are: threads'),
    ('%a: f32 = load @x, 0, 0 {narrow=["data", 3]}',
     'E0515 attribute `narrow` of `load` is "data" with 1 arguments; its arguments are: none'),
    ('%a: f32 = load @x, 0, 0 {narrow=["iteration", "many"]}',
     "E0515 attribute `narrow` of `load` is \"iteration\" with 'many', which is no threads"),
    ('%a: f32 = load @x, 0, 0 {narrow=["next", true]}', "E0515 attribute `narrow` of `load` is ('next', True), which is no reason"),
    ('%a: f32 = load @x, 0, 0 {narrow=["calls", "@x", 16, "N", 4]}',
     "E0515 attribute `narrow` of `load` is \"calls\" with 'N', which is no @array or %size"),
    ('%a: f32 = load @x, 0, 0 {narrow=["calls"]}',
     'E0515 attribute `narrow` of `load` is "calls" with 0 arguments; its arguments are: @array or %size, multiple'),
    ("%c: bool = aligned @x {bytes=3}", "E0515 attribute `bytes` of `aligned` is 3, not a power of two"),
    ("%c: bool = aligned %n {bytes=4}", "E0513 operand %n of `aligned` is not a place"),
]  # fmt: skip


@pytest.mark.parametrize("operands, message", [
    ("@y, 0", "E0513 operand @y of `acquire` is not a ring"),
    ("0, @y", "E0513 operand 0 of `acquire` is not a ring"),
    ("@y", "E0513 `acquire` takes (ring, index), not 1 operand; @y has 1 dimensions"),
    ("", "E0513 `acquire` takes (ring, index), not 0 operands"),
])  # fmt: skip
def test_what_is_no_use_of_a_ring(operands, message):
    assert broken(f'role {{name="a", warps=1}}; acquire {operands}; end', "team", "{group=32, threads=32} ") == [message]


@pytest.mark.parametrize("body, message", TILE, ids=[m for _, m in TILE])
def test_tile(body, message):
    assert broken(body)[0] == message


@pytest.mark.parametrize("body, message", THREAD, ids=[m for _, m in THREAD])
def test_thread(body, message):
    assert broken(body, "thread", "{threads=64} ") == [message]


@pytest.mark.parametrize("body", [
    "if false; %a: f32 = load @x, 0, 8; end",
    '%t = thread_index; %r: i64 = floordiv %t, 8; %c: bool = lt %r, %n; if %c; barrier {scope="group", width=8}; end',
    '%t = thread_index; %r: i64 = floordiv %t, 64; %c: bool = lt %r, %n; if %c; barrier {scope="block"}; end',
    '%t: i32 = thread_index; %i: i32 = loop %t, 64:i32 {kind="serial"}; %a: f32 = load @x, %i, 0; end %i',
    "while; if true; break; end; end",
])  # fmt: skip
def test_legal_at_stage_thread(body):
    assert broken(body, "thread", "{threads=64} ") == []


def test_indices_are_not_checked_before_prove_parallel():
    assert broken("%a: f32 = load @x, 0, 8") == []


def test_every_broken_instruction_is_reported():
    assert broken("break; neg %n; continue") == [
        "E0517 `break` outside a serial loop",
        "E0514 `neg` needs a result",
        "E0517 `continue` outside a serial loop",
    ]


# ---- plans and headers -------------------------------------------------------------------------------------------------

PLAN = "plan @p(%n: i64, @x: f32[%n] in) {{\n{entries}\n}}\nkernel @k(%m: i64, @z: f32[%m] {mode}) stage=tile {{blocks=3}} {{\n}}\n"


@pytest.mark.parametrize("entries, mode, message", [
    ("launch @k[1](%n, @x)", "out", "E0522 argument @x for @z of @k is written, but is an `in` parameter of the plan"),
    ("launch @k[1](3, @x)", "in", "E0522 argument @x for @z of @k has other shape than the parameter says"),
    ("launch @k[1](@x, @x)", "in", "E0522 argument @x for %m of @k is not of its type"),
    ("launch @k[1](%n, 3)", "in", "E0522 argument 3 for @z of @k is not of its type"),
    ("launch @k[1](%n)", "in", "E0522 @k has 2 parameters, the launch passes 1 arguments"),
    ("launch @k[1](%n, @x)\nlaunch @j[1](%n, @x)", "in", "E0522 there is no kernel @j"),
    ("launch @k[4](%n, @x)", "in", "E0522 @k is launched over 4 blocks, and says that it runs in 3 at most"),
    ("launch @k[1](%n, @x) {early=true}", "in", "E0522 @k is launched early, but no launch stands before it"),
    ("launch @k[%n](%n, @x)", "in", "E0522 @k is launched over %n blocks, and says that it runs in 3 at most"),
    ("launch @k[1](%n, @x)\nif true", "in", "E0510 `if` without its `end`"),
    ("launch @k[1](%n, @x)\ncell @c: f32", "in",
     "E0516 `cell` is not legal in a plan, only at tile or team or thread"),
    ("", "in", "E0523 kernel @k is never launched"),
])  # fmt: skip
def test_plans(entries, mode, message):
    with pytest.raises(VxcError) as error:
        read_ir(Source("t.vxir", PLAN.format(entries=entries, mode=mode)))
    assert [f"{d.code} {d.message}" for d in error.value.diagnostics] == [message]


def found(plan) -> list[str]:
    return [f"{p.code} {p.message}" for p in problems(plan)]


def kernel(*insts, params=PARAMS, **fields) -> Kernel:
    return Kernel("k", params, insts, **fields)


@pytest.mark.parametrize("plan, message", [
    (plan_of(kernel(stage="block")), "E0523 `block` is no stage, which are tile, team, thread"),
    (plan_of(kernel(attrs=(("b", 1), ("a", 1)))), "E0523 the attributes of the kernel are not in name order, each once"),
    (plan_of(kernel(attrs=(("a b", 1),))), "E0523 `a b` cannot be read back"),
    (plan_of(kernel(Inst("nop"))), "E0502 there is no opcode `nop`"),
    (plan_of(kernel(Inst("print", (Const(300, I8),), None, (("label", ""),)))), "E0513 300 is not a value of i8"),
    (plan_of(kernel(Inst("print", (Const(0.1, F32),), None, (("label", ""),)))), "E0513 0.1 is not a value of f32"),
    (plan_of(kernel(Inst("print", (Const(True, I64),), None, (("label", ""),)))), "E0513 True is not a value of i64"),
    (plan_of(kernel(*(Inst("neg", (Const(n, I8),), Value(f"{n}", I8)) for n in (3, 300)))), "E0513 300 is not a value of i8"),
    (plan_of(kernel(Inst("print", (Value("n", F32),), None, (("label", ""),)))),
     "E0512 %n is used, but it is not what that name means there"),
    (plan_of(kernel(Inst("neg", (N,), Value("a-b", I64)))), "E0511 %a-b is not a name that can be read back"),
    (plan_of(kernel(Inst("store", (Y, N, Const(1.0, F32)), None, (("width", 1), ("alpha", 1))))),
     "E0515 the attributes of `store` are not in name order, each once"),
    (replace(plan_of(kernel()), entries=(
        Inst("workspace", (), Buffer("w", F32, (Value("m", I64),), "workspace")), *plan_of(kernel()).entries)),
     "E0512 %m is used, but it is not defined before this, or in a region that has ended"),
    (plan_of(kernel(Inst("cell", (), Buffer("c", F32, (), "local")))), "E0520 `cell` declares @c, whose space is local"),
    (plan_of(kernel(Inst("local", (), Buffer("c", F32, (Const(2),), "local", "", (Const(1),))))),
     "E0520 declared storage has neither mode nor strides, but @c has"),
])  # fmt: skip
def test_what_text_cannot_say(plan, message):
    assert found(plan) == [message]


@pytest.mark.parametrize("params, message", [
    ((N, N), "E0523 two parameters have one name"),
    ((N, replace(X, name="a b"), Y), "E0523 `a b` is not a name that can be read back"),
    ((X,), "E0523 extent %n of @x is not a parameter"),
    ((N, replace(X, mode="")), "E0523 parameter @x has space 'param' and mode ''"),
    ((N, replace(Y, strides=())), "E0523 @y has 1 dimensions and 0 strides"),
    ((N, Value("h", X.dtype), replace(X, shape=(Value("h", X.dtype),))), "E0523 extent %h of @x is not an i64"),
])  # fmt: skip
def test_signatures(params, message):
    assert message in found(plan_of(kernel(params=params)))


# ---- what has been verified before ----


def changed(k: Kernel) -> Iterator[Kernel]:
    """The kernel with one thing about it changed, mostly for the worse."""
    for i, inst in enumerate(k.insts):
        others = [
            inst.with_attrs(colour=1), replace(inst, op="nop"), replace(inst, operands=inst.operands[1:]),
            replace(inst, operands=(*inst.operands, Const(True, F32))), replace(inst, result=None if inst.result else N),
            inst.with_attrs(unroll=0), inst.with_attrs(unroll=2), inst.with_attrs(offset=True), inst.with_attrs(pitch=(3, 2)),
            replace(inst, attrs=(*inst.attrs, *inst.attrs[:1])), inst.with_attrs(map="lanes"), inst.with_attrs(kind="parallel"),
        ]  # fmt: skip
        for changes in ([], [inst, inst], *([other] for other in others)):
            yield replace(k, insts=(*k.insts[:i], *changes, *k.insts[i + 1 :]))
    yield replace(k, params=k.params[1:])
    yield from (replace(k, stage=stage) for stage in ("tile", "team", "thread"))
    yield replace(k, done=() if k.done else ("simplify",))
    yield k.with_attrs(threads=7, group=7)
    yield k.with_attrs(shared_bytes=8)
    yield k.with_attrs(blocks=1)
    yield replace(k, name="other")


@pytest.mark.parametrize("name", ["rowsum", "transpose_tile"])
def test_after_a_pass_all_that_it_broke_is_found(name):
    compiled = compile(read_source(Path(__file__).parent.parent / "samples" / f"{name}.vx"))
    for plan in (compiled.tile, *map(compiled.after, ("simplify", "place-barriers", "narrow-indices"))):
        assert problems(plan) == problems(plan, plan) == []
        for at, k in enumerate(plan.kernels):
            wrong = 0
            for other in changed(k):
                after = plan.with_kernels([*plan.kernels[:at], other, *plan.kernels[at + 1 :]])
                assert problems(after, plan) == problems(after)
                wrong += bool(problems(after))
            assert wrong > len(k.insts)
            without = plan.with_kernels([*plan.kernels[:at], *plan.kernels[at + 1 :]])
            assert problems(without, plan) == problems(without) != []


def test_what_is_left_alone_is_not_looked_at_again(monkeypatch):
    compiled = compile(read_source(Path(__file__).parent.parent / "samples" / "softmax.vx"))
    before, after = compiled.after("prove-parallel"), compiled.after("simplify")
    assert after.kernels[0] is not before.kernels[0]  # the pass is recorded
    monkeypatch.setattr("vxc.ir.verify.Regions", None)  # without which no kernel can be looked at
    verify(after, before)
    with pytest.raises(AttributeError):
        verify(after)


def test_verify_raises_naming_kernel_and_instruction():
    plan = sample("load")
    k = plan.kernels[0]
    plan = plan.with_kernels([replace(k, insts=(*k.insts, Inst("break")))])
    with pytest.raises(VxcError) as error:
        verify(plan)
    assert str(error.value) == (
        "error[E0517]: `break` outside a serial loop\n"
        f"   = note: in kernel @sample, instruction {len(k.insts)}: break"
    )
    with pytest.raises(VxcError, match="in the header of kernel @sample"):
        verify(plan.with_kernels([replace(k, stage="none", insts=())]))


def test_a_name_is_one_that_the_grammar_reads():
    grammar = (FOLDER / "vxir.lark").read_text("utf-8").splitlines()
    for token, pattern in (("VALUE", f"%(?:{NAME.pattern})"), ("BUFFER", f"@(?:{NAME.pattern})"), ("WORD", WORD.pattern)):
        assert f"{token}: /{pattern}/" in grammar


def test_every_code_of_ir_has_a_rule():
    listed = {line[:5] for line in RULES_TEXT.splitlines() if line.startswith("E05")}
    assert listed | {"E0501", "E0503"} == {code for code in CODES if code.startswith("E05")}
