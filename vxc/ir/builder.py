"""Making instruction lists: fresh names, operands checked into place by the opcode table, regions as context managers.

`Builder` appends instructions one by one; `Rewriter` copies existing ones into a builder under new names. A pass that
changes a kernel makes a builder that reserves the names of the parameters and copies or emits into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, replace
from functools import lru_cache
from typing import Union

from vxc.dtypes import BOOL, I64, DType
from vxc.ir.kernel import Attr, Buffer, Const, Inst, Kernel, Operand, Scalar, Value, constant
from vxc.ir.ops import OPS
from vxc.ir.walk import operand_kinds
from vxc.semantics import SCALAR_OPS, Order, result_dtype
from vxc.source import Source

_OPERANDS = frozenset((Value, Const, Buffer))

Literal = Union[Operand, int, float, bool]  # an operand, or a Python number that becomes a constant


class Builder:
    """An instruction list in the making.

    `reserved` names (those of the parameters, mostly) are never given out. `loc` is put on every instruction emitted.
    """

    def __init__(self, reserved: Iterable[str] = (), loc: tuple[int, int] | None = None):
        self.insts: list[Inst] = []
        self.loc = loc
        self._used = set(reserved)
        self._next: dict[str, int] = {}

    def fresh(self, hint: str = "") -> str:
        """A name not used before: the hint, else hint.1, hint.2 ...; without a hint (or with a number) the next number."""
        base, used = _base(hint), self._used
        count = self._next.get(base, 0)
        name = _numbered(base, count)
        while name in used:
            count += 1
            name = _numbered(base, count)
        self._next[base] = count + 1
        used.add(name)
        return name

    def at(self, loc: tuple[int, int] | None) -> Builder:
        """Give the instructions from here on this place."""
        self.loc = loc
        return self

    def add(self, inst: Inst) -> Value | Buffer | None:
        """Append a finished instruction as it is; gives its result."""
        self.insts.append(inst)
        return inst.result

    def emit(self, op: str, /, *operands: Literal, dtype: DType | None = None, name: str = "", **attrs) -> Value | None:
        """Append `op` and give its result, if it has one.

        Python numbers become constants of the dtype that the table expects at their place. `dtype` is needed where the
        table cannot tell the result's (conversions, `prefix`). `name` is a hint for the result's name, or, for an opcode without a
        result, its attribute of that name. Attributes that are None are left out.
        """
        fixed, result = _constants(op, operands), None
        if OPS[op].result != "none":
            result = Value(self.fresh(name), dtype or _result_dtype(op, fixed))
        elif name:
            attrs["name"] = name
        self.insts.append(Inst(op, fixed, result, attributes(attrs) if attrs else (), self.loc))
        return result

    def linear(self, buffer: Buffer, indices: list[Scalar], lookup: Rewriter) -> Scalar:
        """The offset in memory of an element, `lookup` giving what extents and strides are now."""
        found: Scalar | None = None
        for at, index in enumerate(indices):
            if buffer.strides is not None:
                index = self.emit("mul", index, lookup(buffer.strides[at]))
            elif found is not None:
                found = self.emit("mul", found, lookup(buffer.shape[at]))
            found = index if found is None else self.emit("add", found, index)
        return found

    def declare(self, op: str, name: str, dtype: DType, shape: Iterable[Scalar | int] = (), **attrs) -> Buffer:
        """Append the declaration of storage (`cell`, `shared`, `ring` ..) and give it; `name` is a hint."""
        sizes = tuple(constant(n) if isinstance(n, int) else n for n in shape)
        buffer = Buffer(self.fresh(name), dtype, sizes, op)
        self.add(Inst(op, (), buffer, attributes(attrs), self.loc))
        return buffer

    @contextmanager
    def region(self, op: str, /, *operands: Literal, name: str = "", **attrs) -> Iterator[Value | None]:
        """Open a region with `op`, and close it with `end` when the block is left; gives the index, if there is one."""
        index = self.emit(op, *operands, name=name, **attrs)
        yield index
        self.emit("end", *([index] if index else []))

    def loop(self, start, stop, step=None, *, kind: str, name: str = "i", **attrs):
        """`with b.loop(0, n, kind="serial") as i:`"""
        return self.region("loop", start, stop, *([] if step is None else [step]), name=name, kind=kind, **attrs)

    def while_(self):
        return self.region("while")

    def if_(self, cond):
        """`with b.if_(cond): ... b.else_() ...`"""
        return self.region("if", cond)

    def else_(self) -> None:
        """Start the other arm of the `if` that is open."""
        self.emit("else")

    def reduce(self, cell: Buffer, length, *, op: str, order: Order | tuple[int, ...], name: str = "j", **attrs):
        """`with b.reduce(cell, n, op="sum", order=...) as j: ... b.emit("contribute", x)`"""
        return self.region("reduce", cell, length, name=name, op=op, order=order, **attrs)

    def scan(self, length, *, order: Order | tuple[int, ...], name: str = "j", **attrs):
        return self.region("scan", length, name=name, order=order, **attrs)

    def build(
        self,
        name: str,
        params: Iterable[Value | Buffer],
        *,
        stage: str = "tile",
        done: Iterable[str] = (),
        attrs: Iterable[tuple[str, Attr]] = (),
        source: Source | None = None,
    ) -> Kernel:
        """The kernel with everything emitted so far as its body."""
        return Kernel(name, tuple(params), tuple(self.insts), stage, tuple(done), attributes(dict(attrs)), source)


class Rewriter:
    """Copies instructions into a builder: operands through `mapping`, results under fresh names that enter `mapping`.

    Names that `mapping` does not hold (parameters, usually) stay. Put `mapping[old] = new` to substitute.
    """

    def __init__(self, builder: Builder, mapping: dict[Value | Buffer, Operand] | None = None):
        self.builder = builder
        self.mapping: dict[Value | Buffer, Operand] = {} if mapping is None else mapping

    def __call__(self, operand: Operand) -> Operand:
        """What stands for an old operand in the copy."""
        return operand if type(operand) is Const else self.mapping.get(operand, operand)

    def inside(self, more: Mapping[Value | Buffer, Operand]) -> Rewriter:
        """One for what stands inside, which knows `more` too; what it maps itself is not known outside."""
        return Rewriter(self.builder, {**self.mapping, **more})

    def copy(self, inst: Inst) -> Value | Buffer | None:
        """Append a copy of one instruction; gives its new result."""
        old = new = inst.result
        if type(old) is Value:
            name = self.builder.fresh(old.name)
            if name != old.name:
                new = Value(name, old.dtype)
        elif old is not None:
            name, shape = self.builder.fresh(old.name), tuple(map(self, old.shape))
            if name != old.name or shape != old.shape:
                new = replace(old, name=name, shape=shape)
        get = self.mapping.get
        operands = [x if type(x) is Const else get(x, x) for x in inst.operands]
        self.builder.insts.append(inst.over(operands, new))
        if old is not None:
            self.mapping[old] = new
        return new

    def copy_all(self, insts: Iterable[Inst]) -> None:
        for inst in insts:
            self.copy(inst)


def attributes(attrs: dict[str, object]) -> tuple[tuple[str, Attr], ...]:
    """Attributes in their stored form: in name order, lists and orders as tuples, None left out."""
    if not attrs:
        return ()
    return tuple((key, _stored(value)) for key, value in sorted(attrs.items()) if value is not None)


def _stored(value) -> Attr:
    if isinstance(value, Order):
        return astuple(value)
    return tuple(value) if isinstance(value, (list, tuple)) else value


@lru_cache(1 << 12)
def _base(hint: str) -> str:
    """A hint without the number that may be behind it."""
    base, _, number = hint.rpartition(".")
    return base if number.isdecimal() else hint


def _numbered(base: str, count: int) -> str:
    if not base:
        return str(count)
    return f"{base}.{count}" if count else base


def _constants(op: str, operands: tuple) -> tuple[Operand, ...]:
    """Operands with Python numbers turned into constants of the dtype expected at their place."""
    if _OPERANDS.issuperset(map(type, operands)):
        return operands
    kinds = operand_kinds(op, operands)
    if kinds is None:
        raise TypeError(f"{op} does not take {len(operands)} operands")
    common = element = None  # of the first value, of the last buffer
    for o, kind in zip(operands, kinds):
        if type(o) is Buffer:
            element = o.dtype
        elif common is None and kind in ("value", "same") and type(o) in _OPERANDS:
            common = o.dtype
    fixed = []
    for o, kind in zip(operands, kinds):
        if type(o) not in _OPERANDS:
            dtype = I64 if kind == "index" else BOOL if kind == "bool" else element if kind == "elem" else None
            dtype = common if kind in ("value", "same") else dtype
            if dtype is None:
                raise TypeError(f"{op}: the dtype of {o!r} is not known here; pass a Const")
            o = constant(o, dtype)
        fixed.append(o)
    return tuple(fixed)


def _result_dtype(op: str, operands: tuple[Operand, ...]) -> DType:
    rule = OPS[op].result
    if op in SCALAR_OPS:
        return result_dtype(op, operands[-1].dtype)
    if rule in ("index", "bool"):
        return I64 if rule == "index" else BOOL
    if rule == "any":
        raise TypeError(f"{op} needs the dtype of its result")
    return operands[0].dtype
