"""`@layout` for tiles: which thread holds each element of a fragment, where those of a shared array lie. All fit their array."""

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


def _fragment(s: State, threads: int, dims: tuple[Dim, ...]) -> str:
    if len(dims) == 2 and s.chance(0.7):  # threads in so many columns
        columns = s.pick((1, 2, 4, 8, 32))
        rows, width = threads // columns, f"(({dims[1].text} + {columns - 1}) // {columns})"
        return f"[i, j] -> [i % {rows} * {columns} + j % {columns}, i // {rows} * {width} + j // {columns}]"
    copies, run = s.pick((1, 1, 2, 4)), s.pick((1, 1, 2, 4))
    lanes = threads // copies
    slot = f"e // {run * lanes} * {run} + e % {run}"
    thread = f"e // {run} % {lanes}"
    return f"[e, r in {copies}] -> [{thread} + r * {lanes}, {slot}]" if copies > 1 else f"[e] -> [{thread}, {slot}]"


def _shared(s: State, dims: tuple[Dim, ...]) -> str:
    if len(dims) != 2:
        return ""
    (m, n), texts = (d.size for d in dims), [f"[i, j] -> [i * ({dims[1].text} + 1) + j]", "[i, j] -> [j, i]"]
    if n % 4 == 0:
        texts.append("[i, j] -> [i, j ^ i % 4]")
        texts += ["[i, j] -> [i // 2, j // 4, i % 2, j % 4]"] * (m % 2 == 0)
    return s.pick(texts)
