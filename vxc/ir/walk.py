"""Finding one's way in an instruction list: operands by kind, matching ends, nesting, definitions and uses.

`Regions` answers every question about nesting after one linear scan, and nothing here recurses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from vxc.ir.kernel import Buffer, Const, Inst, Value
from vxc.ir.ops import OPS
from vxc.record import record

LOOPS = ("loop", "while")  # what break and continue leave
OPENERS = frozenset(op for op, row in OPS.items() if row.opens)
MARKS = OPENERS | {"else", "end"}  # what begins or ends a region
_ROWS = {op: row.operands for op, row in OPS.items()}
_PLAIN = frozenset(op for op, row in _ROWS.items() if not any(kind[-1] in "?*" for kind in row))
_LOOKED_AT = {op: 0 if "idx*" not in row else 1 if row.count("idx*") == 1 and row[1] == "idx*" else None for op, row in _ROWS.items()}


_KEPT = 8  # kernels of a plan, or lists within one, whose nesting is asked for by the verifier and by the passes before and after it


class RegionError(ValueError):
    """An opener, `else` or `end` without its partner; `index` says which instruction."""

    def __init__(self, index: int, message: str):
        super().__init__(message)
        self.index = index


@record
class Regions:
    """The nesting of an instruction list, by position in it.

    `end[i]` is, for an opener and its `else`, the position of the matching `end`; for any other instruction i itself.
    `other[i]` is the position of an `if`'s `else`, or -1. `parent[i]` is the opener that i stands in, or -1; an `else` and
    an `end` stand where their opener stands.
    """

    insts: Sequence[Inst]
    end: tuple[int, ...]
    other: tuple[int, ...]
    parent: tuple[int, ...]

    @classmethod
    def of(cls, insts: Sequence[Inst]) -> Regions:
        """Raises RegionError where they do not match. Of the tuples that were asked for last it is known still."""
        known = _LAST.get(id(insts))
        if known is not None and known.insts is insts:
            return known
        found = cls._scanned(insts)
        if type(insts) is tuple:
            _LAST[id(insts)] = found
            if len(_LAST) > _KEPT:
                _LAST.pop(next(iter([*_LAST])), None)
        return found

    @classmethod
    def _scanned(cls, insts: Sequence[Inst]) -> Regions:
        end, other, parent = list(range(len(insts))), [-1] * len(insts), []
        open_: list[int] = []
        here = -1  # the innermost that is open
        for i, op in [(i, inst.op) for i, inst in enumerate(insts) if inst.op in MARKS]:
            parent += [here] * (i - len(parent))  # of what stands between two marks
            if op in OPENERS:
                parent.append(here)
                open_.append(i)
                here = i
                continue
            if not open_:
                raise RegionError(i, f"`{op}` without an open region")
            opener = open_.pop()
            parent.append(parent[opener])
            if op == "else":
                if insts[opener].op != "if" or other[opener] >= 0:
                    raise RegionError(i, "`else` outside the first arm of an `if`")
                other[opener] = i
                open_.append(opener)
            else:
                end[opener] = i
                if other[opener] >= 0:
                    end[other[opener]] = i
            here = open_[-1] if open_ else -1
        parent += [here] * (len(insts) - len(parent))
        if open_:
            raise RegionError(open_[-1], f"`{insts[open_[-1]].op}` without its `end`")
        return cls(insts, tuple(end), tuple(other), tuple(parent))

    def body(self, i: int) -> range:
        """Positions between the opener at i and its `else` or `end`."""
        return range(i + 1, self.other[i] if self.other[i] >= 0 else self.end[i])

    def level(self, within: range) -> Iterator[int]:
        """Positions in a body at its own level: an opener stands for its whole region, which is skipped."""
        i = within.start
        while i < within.stop:
            yield i
            i = self.end[i] + 1

    def top(self) -> Iterator[int]:
        """Positions at the outermost level."""
        return self.level(range(len(self.insts)))

    def parents(self, i: int) -> Iterator[int]:
        """The openers around position i, innermost first."""
        i = self.parent[i]
        while i >= 0:
            yield i
            i = self.parent[i]

    def innermost(self, i: int, ops: tuple[str, ...]) -> int:
        """The innermost opener around i with one of these opcodes, or -1."""
        return next((p for p in self.parents(i) if self.insts[p].op in ops), -1)


_LAST: dict[int, Regions] = {}  # by the identity of the tuple, which is alive as long as it is here


def definitions(insts: Sequence[Inst]) -> dict[str, int]:
    """Name of each result -> position of the instruction that defines it."""
    return {inst.result.name: i for i, inst in enumerate(insts) if inst.result is not None}


def uses(insts: Sequence[Inst]) -> dict[str, list[int]]:
    """Name of each operand -> positions of the instructions that use it, in order (`end` uses its loop's index)."""
    found: dict[str, list[int]] = {}
    for i, inst in enumerate(insts):
        for operand in inst.operands:
            if not isinstance(operand, Const):
                found.setdefault(operand.name, []).append(i)
    return found


def names(params: Sequence[Value | Buffer], insts: Sequence[Inst] = ()) -> set[str]:
    """Every name that parameters and instructions define."""
    return {p.name for p in params} | {inst.result.name for inst in insts if inst.result is not None}


def operand_kinds(op: str, operands: Sequence) -> tuple[str, ...] | None:
    """The kind (of the opcode's row) of each operand, `?`, `*` and `idx*` resolved; None where the number does not fit.

    An index of a buffer has kind 'index'. The operands are looked at only for the rank of a buffer.
    """
    if op in _PLAIN:
        row = _ROWS[op]
        return row if len(row) == len(operands) else None
    return _resolved(op, len(operands), *[len(x.shape) if type(x) is Buffer else -1 for x in operands[: _LOOKED_AT[op]]])


@cache
def _resolved(op: str, given: int, *ranks: int) -> tuple[str, ...] | None:
    """Kinds for so many operands; of a row with `idx*`, `ranks` are those of the buffers (as far as they are looked at), -1 at any other
    operand.
    """
    row = _ROWS[op]
    kinds: list[str] = []
    for at, kind in enumerate(row):
        fixed_after = sum(k[-1] not in "?*" for k in row[at + 1 :])
        if kind == "idx*":
            rank = ranks[len(kinds) - 1] if len(kinds) <= given else -1
            kinds += ["index"] * (rank if rank >= 0 else given - len(kinds) - fixed_after)
        elif kind[-1] == "*":
            kinds += [kind[:-1]] * (given - len(kinds) - fixed_after)
        elif kind[-1] == "?":
            kinds += [kind[:-1]] * (given > len(kinds) + fixed_after)
        else:
            kinds.append(kind)
    return tuple(kinds) if len(kinds) == given else None
