"""`@layout` for tiles and loops: which thread holds each element of a fragment or runs each iteration, where elements of a shared array
lie. All fit what they are of.
"""

from __future__ import annotations

from vxc.fuzz.program import Dim
from vxc.fuzz.rows import volume_of
from vxc.fuzz.state import Context, State


def layout(s: State, ctx: Context, space: str, dims: tuple[Dim, ...]) -> str:
    """The attribute with a space behind it, or nothing."""
    if space == "local" or not volume_of(dims) or not s.chance(0.3):
        return ""
    text = _fragment(s, ctx.grid.threads, dims) if space == "fragment" else _shared(s, dims)
    return f"@layout({text}) " if text else ""


def loop_layout(s: State, ctx: Context, dims: tuple[Dim, ...]) -> str:
    """The attribute of a loop right in a block with ranges of these extents at most, or nothing."""
    if not all(d.fixed for d in dims) or not volume_of(dims) or not s.chance(0.3):
        return ""
    return f"@layout({_spread(s, ctx.grid.threads, dims)})"


def _spread(s: State, threads: int, dims: tuple[Dim, ...]) -> str:
    """A layout with one index for each dimension and no replicas, for one or two dimensions of two kinds."""
    if len(dims) == 2 and s.chance(0.7):
        return _columns(s, threads, dims)
    names = [f"i{k}" for k in range(len(dims))]
    number = names[0]
    for name, dim in zip(names[1:], dims[1:]):
        number = f"({number} * {dim.text} + {name})"
    return f"[{', '.join(names)}] -> [{', '.join(_dealt(number, s.pick((1, 1, 2, 4)), threads))}]"


def _columns(s: State, threads: int, dims: tuple[Dim, ...]) -> str:
    """Threads in so many columns; where rows are of a power of two, columns may change places with the row."""
    columns = s.pick((1, 2, 4, 8, 32))
    rows, width = threads // columns, f"(({dims[1].text} + {columns - 1}) // {columns})"
    column = "j"
    if dims[1].size % columns == 0 and not dims[1].size & dims[1].size - 1 and s.chance(0.5):
        rows = 1 << rows.bit_length() - 1
        column = s.pick(("(j ^ i)", f"(j ^ i // {rows})"))
    return f"[i, j] -> [i % {rows} * {columns} + {column} % {columns}, i // {rows} * {width} + j // {columns}]"


def _dealt(number: str, run: int, lanes: int) -> tuple[str, str]:
    """Thread and slot of elements of this number, so many in a row to a lane."""
    return f"{number} // {run} % {lanes}", f"{number} // {run * lanes} * {run} + {number} % {run}"


def _fragment(s: State, threads: int, dims: tuple[Dim, ...]) -> str:
    if len(dims) == 2 and s.chance(0.7):
        return _columns(s, threads, dims)
    copies = s.pick((1, 1, 2, 4))
    lanes = threads // copies
    thread, slot = _dealt("e", s.pick((1, 1, 2, 4)), lanes)
    return f"[e, r in {copies}] -> [{thread} + r * {lanes}, {slot}]" if copies > 1 else f"[e] -> [{thread}, {slot}]"


def _shared(s: State, dims: tuple[Dim, ...]) -> str:
    if len(dims) != 2:
        return ""
    (m, n), texts = (d.size for d in dims), [f"[i, j] -> [i * ({dims[1].text} + 1) + j]", "[i, j] -> [j, i]"]
    if n % 4 == 0:
        texts += ["[i, j] -> [i, j ^ i % 4]", "[i, j] -> [i, j // 4, (j + i) % 4]"]
        texts += ["[i, j] -> [i // 2, j // 4, i % 2, j % 4]"] * (m % 2 == 0)
    return s.pick(texts)
