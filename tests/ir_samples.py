"""One small plan for each row of the opcode table, shared by the tests that go over all opcodes."""

from __future__ import annotations

from vxc.dtypes import BOOL, DTYPES, F16, F32, F64, I32, I64, U8
from vxc.ir.builder import Builder, attributes
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Value
from vxc.ir.ops import OPS
from vxc.ir.plan import Plan
from vxc.semantics import SCALAR_OPS, accepts

N = Value("n", I64)
X = Buffer("x", F32, (N, Const(8)), "param", "in")
Y = Buffer("y", F32, (N,), "param", "out", (Const(2),))
PARAMS = (N, X, Y)
ORDER = (4, 4, 8, 1)


def sample(op: str) -> Plan:
    """A plan in which `op` occurs, legal in every respect."""
    row = OPS[op]
    if row.stages == ("plan",):
        b = Builder(p.name for p in PARAMS)
        _PLAN[op](b)
        if op != "launch":
            _PLAN["launch"](b)
        return Plan("sample", PARAMS, tuple(b.insts), (Kernel("sample", PARAMS, ()),))
    b = Builder(p.name for p in PARAMS)
    _KERNEL.get(op, lambda b: _scalar(b, op))(b)
    group = 64 if "ring" in (op, *row.operands) else 8  # with rings, a block is one group
    kernel = b.build("sample", PARAMS, stage=row.stages[0], attrs=(("group", group), ("threads", 64)))
    launch = Inst("launch", (Const(1), *PARAMS), None, attributes({"kernel": "sample"}))
    return Plan("sample", PARAMS, (launch,), (kernel,))


def _scalar(b: Builder, op: str) -> None:
    """The operation on every dtype that it accepts."""
    for dtype in DTYPES.values():
        if not accepts(op, dtype):
            continue
        arity = SCALAR_OPS[op].arity
        operands = [b.emit("load", b.declare("cell", "c", dtype)) for _ in range(arity)]
        if op == "select":
            operands[0] = Const(True, BOOL)
        b.emit(op, *operands)


def _loop(b: Builder) -> None:
    with b.loop(0, N, kind="parallel", independent="proved") as i:
        with b.loop(i, 0, -1, kind="serial", name="k", unroll=2, vector=4) as k:
            b.emit("store", Y, k, 1)


def _while(b: Builder, op: str = "break") -> None:
    with b.while_():
        with b.if_(Const(True, BOOL)):
            b.emit(op)
            b.else_()
            b.emit("break")


def _reduce(b: Builder) -> None:
    with b.loop(0, N, kind="parallel") as i:
        cell = b.declare("cell", "m", F32)
        with b.reduce(cell, 8, op="dot", order=ORDER, layout="[e] -> [e % 8, e // 8]") as j:
            x = b.emit("load", X, i, j)
            b.emit("contribute", x, x)
        b.emit("store", Y, i, b.emit("load", cell))


def _scan(b: Builder) -> None:
    with b.scan(N, order=ORDER) as j:
        b.emit("store", Y, j, b.emit("prefix", b.emit("load", X, j, 0), op="sum", dtype=F32))


def _extern(b: Builder) -> None:
    cell = b.declare("cell", "r", F32)
    with b.region("extern", cell, b.emit("load", X, 0, 0), name="f", params="x", cuda='return "x" ? x : 0; // é\n'):
        b.emit("store", cell, 1.5)


def _tile(space: str):
    def make(b: Builder) -> None:
        b.emit("store", b.declare(space, "s", F64, (4, 4)), 3, 0, 0.1)

    return make


def _barrier(b: Builder) -> None:
    b.emit("barrier", scope="block")
    b.emit("barrier", scope="group", width=8)


def _role(b: Builder) -> None:
    with b.region("role", name="main", warps=2):
        with b.loop(0, N, kind="parallel", map="blocks") as i:
            with b.loop(0, 8, kind="parallel", map="lanes", layout="[j] -> [j % 8, j // 8]"):
                b.emit("store", Y, i, 1)


def _ring(b: Builder) -> None:
    with b.loop(0, N, kind="parallel", map="blocks") as i:
        ring = b.declare("ring", "r", I64, stages=2)
        for name, (begin, done) in {"fill": ("acquire", "commit"), "empty": ("wait", "release")}.items():
            with b.region("role", name=name, warps=1):
                b.emit(begin, ring, 0)
                b.emit("barrier", scope="role")
                b.emit(done, ring, 0)
                b.emit("store", Y, i, 1)


def _copy(b: Builder) -> None:
    with b.loop(0, N, kind="parallel", threads=64) as i:
        tile = b.declare("fragment", "f", F32, (4, 2))
        attrs = {"extents": [4, 2], "from": [0, 1], "to": [0, 1], "from_steps": [2, 1], "to_steps": [1, 1]}
        b.emit("copy", X, i, 0, tile, 0, 0, 0.0, **attrs)


def _gemm(b: Builder) -> None:
    a, c = (b.declare("shared", name, F32, (4, 4)) for name in ("a", "b"))
    b.emit("gemm", a, c, b.declare("fragment", "acc", F32, (4, 4)), trans_a=False, trans_b=True)


def _convert(op: str, *dtypes):
    def make(b: Builder) -> None:
        for dtype in dtypes:
            b.emit(op, Const(1.0, F32), dtype=dtype)

    return make


def _shuffle(op: str):
    def make(b: Builder) -> None:
        x = b.emit("cast", b.emit("thread_index"), dtype=F32)
        b.emit(op, x, *([3] if op == "shfl_idx" else []), width=8, **({} if op == "shfl_idx" else {"distance": 4}))

    return make


def _local(b: Builder) -> None:
    a = b.declare("local", "a", U8, (3,))
    b.emit("store", a, 2, 255)


def _index(op: str):
    return lambda b: b.emit(op)


def _store(b: Builder) -> None:
    b.emit("store", Y, 0, float("-inf"))


def _move(b: Builder) -> None:
    a = b.declare("local", "a", F32, (4,))
    with b.if_(b.emit("aligned", X, bytes=16)):
        b.emit("move", a, 0, X, 8, width=4)


def _move_async(b: Builder) -> None:
    tile = b.declare("shared", "tile", F32, (8,))
    b.emit("move.async", tile, 4, X, 8, width=4)
    b.emit("await")


def _ahead(b: Builder) -> None:
    b.emit("ahead", X, N, bytes=16)


def _atomic(b: Builder) -> None:
    b.emit("atomic", Y, 3, 1, op="add")


_KERNEL = {
    "loop": _loop, "end": _loop, "while": _while, "if": _while, "else": _while, "break": _while,
    "continue": lambda b: _while(b, "continue"), "reduce": _reduce, "contribute": _reduce, "scan": _scan, "prefix": _scan,
    "fragment": _tile("fragment"), "copy": _copy, "gemm": _gemm, **dict.fromkeys(("ring", "acquire", "commit", "wait", "release"), _ring),
    "extern": _extern, "role": _role, "cell": _reduce, "local": _local, "shared": _tile("shared"), "barrier": _barrier, "load": _reduce,
    "store": _store, "move": _move, **dict.fromkeys(("move.async", "await"), _move_async), "aligned": _move, "ahead": _ahead,
    "atomic": _atomic,
    "cast": _convert("cast", *DTYPES.values()), "sat": _convert("sat", F16, I32),
    "reinterpret": _convert("reinterpret", I32, F32), "block_index": _index("block_index"), "thread_index": _index("thread_index"),
    "shfl_xor": _shuffle("shfl_xor"), "shfl_up": _shuffle("shfl_up"), "shfl_idx": _shuffle("shfl_idx"),
    "assert": lambda b: b.emit("assert", Const(False, BOOL), message="no\tway"),
    "print": lambda b: b.emit("print", N, Const(2, U8), label=""),
}  # fmt: skip

_PLAN = {
    "require": lambda b: b.emit("require", b.emit("eq", N, 3), what="dimension n is 3"),
    "workspace": lambda b: b.declare("workspace", "w", F32, (N, 32)),
    "launch": lambda b: b.emit("launch", b.emit("ceildiv", N, 8), *PARAMS, kernel="sample"),
}  # fmt: skip

assert set(_KERNEL) | set(_PLAN) | set(SCALAR_OPS) == set(OPS), "an opcode without a sample"
