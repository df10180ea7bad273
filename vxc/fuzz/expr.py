"""Expressions: a table of productions, each a function that writes an expression of exactly the compute type asked for.

A production gives None where it does not apply, and another is tried. Integers are made to meet only as the language lets
them: equal types, a narrower operand, or `as`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from vxc.dtypes import BOOL, DTYPES, F32, I64, DType
from vxc.frontend.values import contains
from vxc.fuzz.access import as_type, element, row_leaf
from vxc.fuzz.rows import reduction, scan
from vxc.fuzz.state import Context, State
from vxc.record import record
from vxc.semantics import SCALAR_OPS

Make = Callable[[State, Context, DType, int], str | None]


@record
class Production:
    """`make` writes an expression of a type whose kind is in `kinds`; one that is a `leaf` asks for no further depth."""

    make: Make
    weight: float
    kinds: str
    leaf: bool = False


def expr(s: State, ctx: Context, dtype: DType, depth: int) -> str:
    """An expression of the compute type `dtype`, nested about `depth` deep."""
    s.spend(ctx.steps)
    depth = depth if s.fuel or depth < 2 else 1
    rows = [p for p in PRODUCTIONS if dtype.kind in p.kinds and (p.leaf or depth > 0)]
    weights = [p.weight * (1 if depth > 0 or not p.leaf else 2) for p in rows]
    for _ in range(8):
        text = s.weighted(rows, weights).make(s, ctx, dtype, depth)
        if text is not None:
            return text
    return literal(s, ctx, dtype, 0)


# Leaves ----------------------------------------------------------------------------------------------------------------------------

_FLOATS = ("0.0", "1.0", "0.5", "2.0", "3.25", "1e-40", "1e30", "100.0", "inf", "nan", "0.1", "65519.0")


def bare_literal(s: State, dtype: DType) -> str:
    """A literal that fits `dtype` and takes its type from the other operand."""
    if dtype is BOOL:
        return s.pick(("true", "false"))
    if dtype.is_float:
        return s.pick(("0.5", "2.0", "3", "0.1", "1.0"))
    return str(s.pick((1, 2, 3, 5, 7, 16, 100)))


def literal(s: State, ctx: Context, dtype: DType, depth: int) -> str:
    if dtype is BOOL:
        return s.pick(("(1 as bool)", "(0 as bool)"))  # an `if` on true or false is removed, and with it the type of an arm
    if dtype.is_float:
        number = s.pick(_FLOATS)
        sign = "-" if s.chance(0.3) else ""
    else:
        edges = (dtype.max, dtype.max - 1, dtype.min, dtype.min + 1)
        value = s.pick((0, 1, 2, 3, 5, 7, 8, 31, *edges, s.random.randint(dtype.min, dtype.max)))
        way = s.weighted([str, hex, bin, "{:_}".format], [8, 1, 0.3, 0.3])
        number, sign = way(abs(value)), "-" if value < 0 else ""
    return f"({sign}{number} as {s.spelled(dtype)})"


def _name(s: State, ctx: Context, dtype: DType, depth: int) -> str | None:
    known = [n for n in ctx.names if n.kind not in ("var", "counter") or not ctx.stable]
    same = [n for n in known if n.dtype is dtype]
    if not known:
        return None
    chosen = s.pick(same if same and s.chance(0.7) else known)
    if chosen.kind == "generic":  # a literal
        return f"({chosen.name} as {s.spelled(dtype)})"
    return as_type(s, chosen.name, chosen.dtype, dtype)


def _element(s: State, ctx: Context, dtype: DType, depth: int) -> str | None:
    return element(s, replace(ctx, row=None, scans=False), dtype)


def _row(s: State, ctx: Context, dtype: DType, depth: int) -> str | None:
    return None if ctx.row is None else row_leaf(s, ctx, dtype)


# Operators -------------------------------------------------------------------------------------------------------------------------


def _operand(s: State, ctx: Context, dtype: DType, depth: int) -> str:
    """An operand of an operator whose other operand is a `dtype`: the same type, now and then a narrower one, or a literal."""
    narrower = [d for d in map(DTYPES.get, ("f32", "i8", "i16", "i32", "u8", "u16", "u32")) if d is not dtype and contains(dtype, d)]
    if narrower and s.chance(0.15):
        return expr(s, ctx, s.pick(narrower), depth)
    if dtype is not BOOL and s.chance(0.2):
        return bare_literal(s, dtype)
    return expr(s, ctx, dtype, depth)


def _binary(*operators: str) -> Make:
    def make(s: State, ctx: Context, dtype: DType, depth: int) -> str:
        left, right = expr(s, ctx, dtype, depth - 1), _operand(s, ctx, dtype, depth - 1)
        swapped = s.chance(0.5) and operators != ("<<", ">>")
        return f"({right} {s.pick(operators)} {left})" if swapped else f"({left} {s.pick(operators)} {right})"

    return make


def _divide(s: State, ctx: Context, dtype: DType, depth: int) -> str:
    """Floor and truncating division, by anything but a literal 0."""
    divisor = bare_literal(s, dtype)
    if s.chance(0.3) and dtype.is_signed:
        divisor = f"-{divisor}"
    elif s.chance(0.5):
        divisor = _name(s, ctx, dtype, 0) or element(s, replace(ctx, row=None, scans=False), dtype) or divisor
    left = expr(s, ctx, dtype, depth - 1)
    how = s.pick(("//", "%", "//", "%", "ceildiv", "tdiv", "trem"))
    return f"{how}({left}, {divisor})" if how.isalpha() else f"({left} {how} {divisor})"


def _shift(s: State, ctx: Context, dtype: DType, depth: int) -> str:
    count = str(s.pick((0, 1, 3, dtype.bits - 1, dtype.bits, dtype.bits + 1))) if s.chance(0.5) else expr(s, ctx, dtype, 0)
    return f"({expr(s, ctx, dtype, depth - 1)} {s.pick(('<<', '>>'))} {count})"


def _prefix(s: State, ctx: Context, dtype: DType, depth: int) -> str:
    sign = "!" if dtype is BOOL else s.pick("-~") if dtype.is_int else "-"
    return f"({sign}{expr(s, ctx, dtype, depth - 1)})"


def _compare(s: State, ctx: Context, dtype: DType, depth: int) -> str:
    of = s.compute("fffiub")
    sign = s.pick(("==", "!=") if of is BOOL else ("==", "!=", "<", "<=", ">", ">="))
    return f"({expr(s, ctx, of, depth - 1)} {sign} {_operand(s, ctx, of, depth - 1)})"


def _logical(s: State, ctx: Context, dtype: DType, depth: int) -> str:
    return f"({expr(s, ctx, BOOL, depth - 1)} {s.pick(('&&', '||'))} {expr(s, replace(ctx, scans=False), BOOL, depth - 1)})"


# Conversions and calls -------------------------------------------------------------------------------------------------------------


def _cast(s: State, ctx: Context, dtype: DType, depth: int) -> str:
    value = expr(s, ctx, s.compute(), depth - 1)
    through = f" as {s.spelled(s.storage())}" if s.chance(0.3) else ""
    return f"({value}{through} as {s.spelled(dtype)})"


def _sat(s: State, ctx: Context, dtype: DType, depth: int) -> str:
    to = s.storage("fiu")
    return f"(sat({expr(s, ctx, s.compute('fiu'), depth - 1)}, {to}) as {dtype})"


def _reinterpret(s: State, ctx: Context, dtype: DType, depth: int) -> str | None:
    of = s.pick([d for d in DTYPES.values() if d.bits == dtype.bits and d is not BOOL and not d.is_storage])
    return f"reinterpret({_no_nan(s, ctx, of, depth - 1)}, {dtype})" if dtype is not BOOL else None


def _no_nan(s: State, ctx: Context, dtype: DType, depth: int) -> str:
    """An expression that is not NaN, of which the sign and the other bits are not the language's to say."""
    text = expr(s, ctx, dtype, depth)
    return f"{s.pick(('maxnum', 'minnum'))}({text}, {bare_literal(s, dtype)})" if dtype.is_float else text


def _select(s: State, ctx: Context, dtype: DType, depth: int) -> str:
    return f"select({expr(s, ctx, BOOL, depth - 1)}, {expr(s, ctx, dtype, depth - 1)}, {_operand(s, ctx, dtype, depth - 1)})"


def _value_if(s: State, ctx: Context, dtype: DType, depth: int) -> str:
    arm = replace(ctx, scans=False)
    text = f"if {expr(s, ctx, BOOL, depth - 1)} {{ {expr(s, arm, dtype, depth - 1)} }} else "
    if s.chance(0.15):
        text += f"if {expr(s, arm, BOOL, depth - 1)} {{ {expr(s, arm, dtype, depth - 1)} }} else "
    return f"({text}{{ {_operand(s, arm, dtype, depth - 1)} }})"


def _in_tile(s: State, ctx: Context, dtype: DType, depth: int) -> str | None:
    """An element of the block's tile of an array, where the array has one."""
    if ctx.grid is None or not ctx.grid.tiles or ctx.in_block or ctx.pure:
        return None
    tile = s.pick(ctx.grid.tiles)
    near = [n.name for n in ctx.names if n.limit is not None and n.limit <= tile.extent.size]
    if not near:
        return None
    known = [a for a in s.arrays if a.mode == "in" and a.dims == (tile.whole,)]
    array = s.pick(known) if known else s.array(s.storage(dtype.kind), (tile.whole,))
    at = f"{tile.start} + {s.pick(near)}"
    other = bare_literal(s, dtype)
    return f"(if {at} < {tile.whole.text} {{ {as_type(s, f'{array.name}[{at}]', array.dtype.compute, dtype)} }} else {{ {other} }})"


def _guarded(s: State, ctx: Context, dtype: DType, depth: int) -> str | None:
    """A neighbour's element, where there is one."""
    arrays = [a for a in s.arrays if a.mode == "in" and len(a.dims) == 1 and a.dims[0].size and a.dtype.compute is dtype]
    near = [n for n in ctx.names if n.kind == "index" and n.limit]
    if ctx.pure or not arrays or not near:
        return None
    array, name, by = s.pick(arrays), s.pick(near).name, s.pick((1, 2, 3))
    at = s.pick((f"{name} + {by}", f"{name} - {by}"))
    return f"(if {at} >= 0 && {at} < {array.dims[0].text} {{ {array.name}[{at}] }} else {{ {bare_literal(s, dtype)} }})"


_OPERATORS = {"add", "sub", "mul", "div", "mod", "floordiv", "and", "or", "xor", "shl", "shr", "eq", "ne", "lt", "le", "gt", "ge"}
_OPERATORS |= {"neg", "not", "bitnot", "ceildiv", "tdiv", "trem", "select", "rand"}
_CALLS = [op for op in SCALAR_OPS.values() if op.name not in _OPERATORS and op.result == "same"]
_TESTS = [op for op in SCALAR_OPS.values() if op.name not in _OPERATORS and op.result == "bool"]


def _call(s: State, ctx: Context, dtype: DType, depth: int) -> str:
    op = s.pick([op for op in _CALLS if dtype.kind in op.kinds])
    if op.name == "copysign":
        return f"copysign({expr(s, ctx, dtype, depth - 1)}, {_no_nan(s, ctx, dtype, depth - 1)})"
    args = [expr(s, ctx, dtype, depth - 1)] + [_operand(s, ctx, dtype, depth - 1) for _ in range(op.arity - 1)]
    return f"{op.name}({', '.join(args)})"


def _test(s: State, ctx: Context, dtype: DType, depth: int) -> str:
    return f"{s.pick(_TESTS).name}({expr(s, ctx, s.compute('f'), depth - 1)})"


def _random(s: State, ctx: Context, dtype: DType, depth: int) -> str | None:
    return f"rand({expr(s, ctx, I64, depth - 1)}, {expr(s, ctx, I64, 0)})" if dtype is F32 else None


def _fn(s: State, ctx: Context, dtype: DType, depth: int) -> str | None:
    known = [f for f in s.functions if f[2] is dtype]
    if not known:
        return None
    name, params, _, generics = s.pick(known)
    inner = replace(ctx, scans=False)
    named = [text for text in generics if s.chance(0.5)]
    return f"{name}({', '.join([*(expr(s, inner, p, depth - 1) for p in params), *named])})"


def _flag(s: State, ctx: Context, dtype: DType, depth: int) -> str | None:
    """A bool that is known when compiling; what depends on it alone is removed, so not where a row must remain."""
    if ctx.row is not None or ctx.pure or not s.flags:
        return None
    return f"({s.pick(('', '!'))}{s.pick(s.flags)} {s.pick(('&&', '||', '!=', '=='))} {expr(s, ctx, BOOL, depth - 1)})"


PRODUCTIONS = [
    #          make                            weight kinds  leaf
    Production(literal,                          1.5, "fiub", True),
    Production(_name,                            5.0, "fiub", True),
    Production(_element,                         4.0, "fiub", True),
    Production(_row,                             9.0, "fiub", True),
    Production(_guarded,                         0.7, "fiub", True),
    Production(_in_tile,                         3.0, "fiub", True),
    Production(_binary("+", "-", "*"),           6.0, "fiu"),
    Production(_binary("/"),                     1.0, "f"),
    Production(_binary("&", "|", "^"),           2.0, "iub"),
    Production(_divide,                          2.5, "iu"),
    Production(_shift,                           2.0, "iu"),
    Production(_prefix,                          1.0, "fiub"),
    Production(_compare,                         5.0, "b"),
    Production(_logical,                         2.0, "b"),
    Production(_flag,                            1.0, "b"),
    Production(_test,                            1.5, "b"),
    Production(_cast,                            2.0, "fiub"),
    Production(_sat,                             0.4, "fiub"),
    Production(_reinterpret,                     0.4, "fiu"),
    Production(_select,                          1.0, "fiub"),
    Production(_value_if,                        1.5, "fiub"),
    Production(_call,                            3.0, "fiu"),
    Production(_random,                          0.4, "f"),
    Production(_fn,                              1.5, "fiub"),
    Production(reduction,                        1.5, "fiub"),
    Production(scan,                             2.5, "fiu"),
]  # fmt: skip
