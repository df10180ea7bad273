"""Small instances of a kernel, enumerated with NumPy: the search for two iterations that really collide.

An access is `enumerable` if its loops, conditions and indices depend on loop indices, dimensions and integer arguments
alone. For given sizes its executions are then the rows of a table. `find_collision` tries small sizes, the constants of
the kernel among them, and gives the first two iterations that touch one element inside the array.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product

import numpy as np

from vxc.analysis.access import Access, KernelFacts, LoopFact
from vxc.analysis.forms import Atom, Call, Digit, Form, Unknown
from vxc.dtypes import BOOL, I64
from vxc.record import record, state
from vxc.semantics import cast, evaluate

ROWS = 1 << 21  # executions of one access that are worth a table
ALL_ROWS = 1 << 24  # over all instances, those counted that conditions drop and that make an instance too large
INSTANCES = 256  # sizes tried
SMALL = (1, 2, 3, 4)
CONSTANT = 1 << 12  # constants above this are not tried as sizes


Executions = tuple[dict[str, np.ndarray], int]  # columns of index values, and the number of rows


class TooLarge(Exception):
    """An instance with more than ROWS executions."""


@state
class Work:
    """Rows made so far."""

    rows: int = 0


@record
class Collision:
    """Two executions: access, loop indices and element of each, for `sizes` of dimensions and scalars."""

    first: Access
    second: Access
    indices: tuple[Mapping[str, int], Mapping[str, int]]
    element: tuple[int, ...]
    sizes: Mapping[str, int]


def enumerable(facts: KernelFacts, access: Access) -> bool:
    return access.regular and all(_computable(facts, f) for f in _relevant(facts, access))


def free_symbols(facts: KernelFacts, accesses: Iterable[Access]) -> list[str]:
    """Dimensions and scalars on which the executions depend, in the kernel's order."""
    used = {a.name for access in accesses for f in _relevant(facts, access) for a in f.atoms()}
    return [p.name for p in facts.kernel.params if p.name in used]


def find_collision(facts: KernelFacts, loop: LoopFact, accesses: Sequence[Access]) -> tuple[Collision | None, bool]:
    """(collision or None, whether the search saw every instance there is). The accesses are enumerable and of one buffer."""
    symbols = free_symbols(facts, accesses)
    complete, work = not symbols, Work()
    for sizes in instances(facts, symbols, accesses):
        if work.rows > ALL_ROWS:
            return None, False
        try:
            executions = [executions_of(access, sizes, work) for access in accesses]
        except TooLarge:
            complete = False
            continue
        collision = _collide(facts, loop, accesses, executions, sizes)
        if collision:
            return collision, True
    return None, complete


def _relevant(facts: KernelFacts, access: Access) -> Iterator[Form]:
    yield from access.indices
    yield from (condition for condition, _ in access.guards)
    yield from facts.extents[access.buffer.name]
    for loop in access.loops:
        yield from (loop.start, loop.stop, loop.step)


def _computable(facts: KernelFacts, f: Form) -> bool:
    return all(a.name in facts.countable for a in f.atoms())


def instances(facts: KernelFacts, symbols: list[str], accesses: Sequence[Access]) -> Iterator[dict[str, int]]:
    """Sizes to try, small ones first: dimensions from 1, scalars from 0, and one past each constant and its double."""
    forms = [f for a in accesses for f in _relevant(facts, a)]
    constants = sorted({k * abs(c) + 1 for f in forms for c in _constants(f) if abs(c) < CONSTANT for k in (1, 2)} - set(SMALL))
    sizes = {u.name for u in facts.ranges.least if isinstance(u, Atom)}
    choices = [([] if s in sizes else [0]) + [*SMALL, *constants] for s in symbols]
    near = islice(product(*(c[: len(SMALL)] for c in choices)), INSTANCES)
    far = islice(product(*choices), INSTANCES * 16)
    for values in dict.fromkeys((*sorted(near, key=sum), *islice(sorted(far, key=sum), INSTANCES))):
        yield dict(zip(symbols, values))


def _constants(f: Form) -> Iterator[int]:
    for m, c in f.terms:
        yield c
        for u in m:
            for inner in (u.arg, u.by) if isinstance(u, Digit) else u.args if isinstance(u, Call) else ():
                yield from _constants(inner)


def _collide(
    facts: KernelFacts, loop: LoopFact, accesses: Sequence[Access], executions: Sequence[Executions], sizes: dict[str, int]
) -> Collision | None:
    """Rows of all accesses sorted by (outer indices, element); neighbours of one group with different p collide."""
    extents = [int(evaluate_form(f, sizes)) for f in facts.extents[accesses[0].buffer.name]]
    keys, iterations, owners, tables = [], [], [], []
    for number, (access, (table, rows)) in enumerate(zip(accesses, executions)):
        element = [np.broadcast_to(evaluate_form(f, table), rows) for f in access.indices]
        inside = np.ones(rows, bool)
        for x, extent in zip(element, extents):
            inside &= (0 <= x) & (x < extent)
        outer = [table[o.index.name] for o in loop.outer]
        keys.append(np.stack([*outer, *element, np.zeros(rows, np.int64)])[:, inside])
        iterations.append(table[loop.index.name][inside])
        owners.append(np.full(int(inside.sum()), number))
        tables.append({name: np.broadcast_to(column, rows)[inside] for name, column in table.items()})
    key, p, owner = np.concatenate(keys, axis=1), np.concatenate(iterations), np.concatenate(owners)
    writes = np.array([a.mode != "read" for a in accesses])[owner]
    atomic = np.array([a.mode == "atomic" for a in accesses])[owner]
    if not p.size:
        return None
    order = np.lexsort((p, *key[::-1]))
    group = np.concatenate(([0], np.cumsum((key[:, order][:, 1:] != key[:, order][:, :-1]).any(axis=0))))
    local = np.concatenate([np.arange(len(part)) for part in iterations])
    pair = _conflict(group, p[order], writes[order], atomic[order])
    if pair is None:
        return None
    rows = [order[n] for n in pair]
    found = [accesses[owner[r]] for r in rows]
    names = [[o.index.name for o in a.loops] for a in found]
    indices = tuple({n: int(tables[owner[r]][n][local[r]]) for n in wanted} for r, wanted in zip(rows, names))
    element = tuple(int(x) for x in key[len(loop.outer) : -1, rows[0]])
    return Collision(found[0], found[1], indices, element, dict(sizes))


def _conflict(group: np.ndarray, p: np.ndarray, writes: np.ndarray, atomic: np.ndarray) -> tuple[int, int] | None:
    """Two rows of one group and different p, not both reads nor both atomic, in the earliest group; writes before others.

    Rows come sorted by group and p, so the first and last row of each kind in a group tell whether its p all agree.
    """
    kinds = np.where(atomic, 2, np.where(writes, 1, 0))
    best: tuple[int, int] | None = None
    ends: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
    for kind in range(3):
        rows = np.flatnonzero(kinds == kind)
        groups, first = np.unique(group[rows], return_index=True)
        last = np.concatenate((first[1:], [len(rows)])) - 1
        ends[kind] = (groups, rows[first], rows[last] if len(rows) else rows)
    for one, two in ((1, 1), (0, 1), (1, 2), (0, 2)):
        _, i, j = np.intersect1d(ends[one][0], ends[two][0], return_indices=True)
        for a, b in ((ends[one][1][i], ends[two][2][j]), (ends[one][2][i], ends[two][1][j])):
            for n in np.flatnonzero(p[a] != p[b])[:1]:
                pair = (int(min(a[n], b[n])), int(max(a[n], b[n])))
                if best is None or group[pair[0]] < group[best[0]]:
                    best = pair
    return None if best is None else _nearest(best, p, kinds)


def _nearest(pair: tuple[int, int], p: np.ndarray, kinds: np.ndarray) -> tuple[int, int]:
    """The same kind of conflict with the second iteration as close to the first as there is."""
    a, b = pair
    return a, next((n for n in range(a + 1, b) if p[n] != p[a] and kinds[n] == kinds[b]), b)


def executions_of(access: Access, sizes: Mapping[str, int], work: Work) -> Executions:
    """Columns of index values, one row for each execution of the access, and the number of rows."""
    table: dict[str, np.ndarray] = {name: np.int64(v) for name, v in sizes.items()}
    rows = 1
    for loop in access.loops:
        start, stop, step = (np.broadcast_to(evaluate_form(f, table), rows) for f in (loop.start, loop.stop, loop.step))
        counts = np.where(step == 0, 0, np.maximum(0, -((start - stop) // np.where(step == 0, 1, step))))
        total = int(counts.sum())
        if total > ROWS:
            raise TooLarge
        table = {n: column if n in sizes else np.repeat(column, counts) for n, column in table.items()}
        offsets = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        table[loop.index.name] = np.repeat(start, counts) + offsets * np.repeat(step, counts)
        rows = total
        work.rows += rows
    kept = np.ones(rows, bool)
    for condition, holds in access.guards:
        kept &= (evaluate_form(condition, table) != 0) == holds
    table = {n: column if n in sizes else column[kept] for n, column in table.items()}
    return table, int(kept.sum())


def evaluate_form(f: Form, values: Mapping[str, np.ndarray | int]) -> np.ndarray:
    """The form's value, i64, for arrays of values of its atoms."""
    total = np.zeros((), np.int64)
    for m, c in f.terms:
        term = np.int64(c)
        for u in m:
            term = term * _value(u, values)
        total = total + term
    return total


def _value(u: Unknown, values: Mapping[str, np.ndarray | int]) -> np.ndarray:
    match u:
        case Digit(kind, arg, by):
            return evaluate("floordiv" if kind == "div" else "mod", I64, evaluate_form(arg, values), evaluate_form(by, values))
        case Call("cast", (arg,), dtype):
            return cast(evaluate_form(arg, values), I64, dtype).astype(np.int64)
        case Call(op, args, dtype):
            dtypes = [BOOL if op == "select" and n == 0 else dtype for n in range(len(args))]
            operands = (evaluate_form(a, values).astype(d.numpy) for a, d in zip(args, dtypes))
            return evaluate(op, dtype, *operands).astype(np.int64)
    return np.asarray(values[u.name], np.int64)
