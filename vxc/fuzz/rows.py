"""Expressions that vary along a row, and what folds or scans rows: whole, or along one axis."""

from __future__ import annotations

import re
from dataclasses import replace

from vxc.dtypes import BOOL, DTYPES, I32, I64, U32, DType
from vxc.fuzz.access import row_dims, row_leaf, trips
from vxc.fuzz.program import Dim
from vxc.fuzz.state import STEPS, VOLUME, Context, Row, State
from vxc.semantics import REDUCTIONS, SCALAR_OPS, SCANS

RANK = 3  # of a row, at most


def row_expr(s: State, ctx: Context, dims: tuple[Dim, ...], dtype: DType, depth: int, axis: int | None = None) -> str:
    """An expression that varies along a row of these extents; scans in it run along `axis`."""
    row = Row(dims, axis=axis)
    ctx = replace(ctx, row=row, volume=ctx.volume * volume_of(dims), steps=trips(ctx, volume_of(dims)))
    text = s.expr(s, ctx, dtype, depth)
    for _ in range(20):
        if row.used:
            return text
        leaf = row_leaf(s, ctx, dtype)
        if leaf is not None:
            text = f"({leaf} {'^' if dtype is BOOL else '+'} {text})"
    array = s.array(dtype, dims)
    return f"({array.name} {'^' if dtype is BOOL else '+'} {text})"


def volume_of(dims: tuple[Dim, ...]) -> int:
    """Elements of a row, at least 1."""
    found = 1
    for d in dims:
        found *= max(d.size, 1)
    return found


_LANES, _CHUNKS, _PARTS = (1, 2, 4, 8, 16, 32, 64, 96), (1, 2, 3, 4, 5, 8, 16), (1, 2, 3, 5)


def order_attributes(s: State, ctx: Context, scan: bool = False) -> str:
    """Some of `@lanes @chunk @parts`, or none; mostly outside of parallel loops, where the defaults are made for long rows. A scan has
    no parts.
    """
    alone = ctx.level.parent is None
    lanes = [n for n in _LANES if n <= 32 or not ctx.grid]
    found = [(f"@lanes({s.pick(lanes)})", 0.97 if alone else 0.25), (f"@chunk({s.pick(_CHUNKS)})", 0.25)]
    found += [(f"@parts({s.pick(_PARTS)})", 0.97 if alone else 0.15)] if not scan else []
    return " ".join([text for text, often in found if s.chance(often)])


_REDUCES = re.compile(rf"\b(?:{'|'.join(sorted({*REDUCTIONS} - {*SCALAR_OPS}))}|cum\w+)\(|\b(?:max|min|maxnum|minnum)\([^,()]*\)")


def orders(lines: list[str]) -> bool:
    """Whether some line reduces or scans, which is what `order_attributes` speak to."""
    return bool(_REDUCES.search("\n".join(lines)))


def _argument(s: State, op: str, dtype: DType) -> DType | None:
    """A type that reduction (or scan) `op` brings to `dtype`."""
    rule = REDUCTIONS[op]
    if rule.accumulator == "i64":
        return s.compute(rule.kinds) if dtype is I64 else None
    if dtype.kind not in rule.kinds:
        return None
    if rule.accumulator == "wide" and dtype in (I32, U32) and s.chance(0.5):
        return s.pick([d for d in DTYPES.values() if d.kind == dtype.kind and d.bits in (8, 16)])
    return dtype if rule.accumulator != "wide" or dtype.is_float or dtype.bits >= 32 else None


def reduction(s: State, ctx: Context, dtype: DType, depth: int) -> str | None:
    """`sum(row)`, one value; where a row is made, now and then `sum(tile, axis = 1)`, a row."""
    if ctx.pure or ctx.volume * 2 > VOLUME:
        return None
    op, of = s.pick([(op, of) for op in REDUCTIONS if (of := _argument(s, op, dtype)) is not None])
    dims, axis = row_dims(s, ctx), ""
    if ctx.row is not None and len(ctx.row.dims) < RANK and s.chance(0.7):
        at = s.random.randint(0, len(ctx.row.dims))
        dims = (*ctx.row.dims[:at], dims[-1], *ctx.row.dims[at:])
        if volume_of(dims) * ctx.volume > VOLUME or trips(ctx, volume_of(dims)) > 2 * STEPS:
            return None
        axis, ctx.row.used = f", axis = {at}", True
    inner = replace(ctx, scans=False, target=None if ctx.target is None else (ctx.target[0], ""))
    s.spend(20 * ctx.steps)
    args = [row_expr(s, inner, dims, of, depth - 1) for _ in range(2 if op == "dot" else 1)]
    text = f"{order_attributes(s, ctx)} {op}({', '.join(args)}{axis})".strip()
    return f"({text})" if text.startswith("@") else text


def scan(s: State, ctx: Context, dtype: DType, depth: int) -> str | None:
    """`cumsum(row)`; all scans of one row run along one axis."""
    op = s.pick(SCANS)
    of = _argument(s, op, dtype)
    if not ctx.scans or of is None or ctx.steps > STEPS:
        return None
    row = ctx.row
    if row.axis is None:
        row.axis = s.random.randrange(len(row.dims))
    row.used = True
    named = f", axis = {row.axis}" if len(row.dims) > 1 or s.chance(0.2) else ""
    s.spend(20 * ctx.steps)
    return f"cum{op}({row_expr(s, ctx, row.dims, of, depth - 1, row.axis)}{named})"
