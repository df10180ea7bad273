"""Nests whose arrays are contiguous along different loops, long enough for tiles of them to go through shared memory."""

from __future__ import annotations

from dataclasses import replace

from vxc.dtypes import DTYPES
from vxc.fuzz.block import Made
from vxc.fuzz.program import Dim
from vxc.fuzz.state import Context, State

SIDES = (31, 32, 33, 48, 63, 64, 65)
DTYPES_MOVED = ("f32", "f16", "u8", "f64", "i32", "bf16")
WORK = 200  # what one counts for: interpreters take the elements of a nest together


def transposed(s: State, ctx: Context) -> Made | None:
    """Where nothing is around it; its arrays are its own, a result of a transpose and as often one of a sum with what lies as it does."""
    if ctx.place != "outside" or ctx.loose or ctx.loop:
        return None
    s.spend(WORK)
    dims = [Dim(str(n), n, True) for n in (s.pick(SIDES), s.pick(SIDES))]
    dtype = DTYPES[s.pick(DTYPES_MOVED)]
    x = s.array(dtype, dims, fill=("rand",))
    y = s.array(dtype, dims[::-1], "out", ("rand",))
    i, j = s.fresh("i"), s.fresh("i")
    value = f"{x.name}[{i}, {j}]"
    if s.chance(0.4):
        value += f" + {s.array(dtype, dims[::-1], fill=('rand',)).name}[{j}, {i}]"
    narrow = dtype.is_float or "+" not in value
    store = f"{y.name}[{j}, {i}] = {value if narrow else f'({value}) as {dtype}'};"
    return [f"parallel {i} in {dims[0].text}, {j} in {dims[1].text} {{ {store} }}"], replace(ctx, ready=ctx.ready | {y})
