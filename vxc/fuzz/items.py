"""What stands around a kernel's body: dimensions, generics, scalar parameters, functions, the header, an example."""

from __future__ import annotations

import re
from dataclasses import replace
from math import isinf, isnan

from vxc.dtypes import BOOL, F32, I64, U8, DType
from vxc.fuzz.expr import expr
from vxc.fuzz.levels import Level
from vxc.fuzz.program import Dim, Number
from vxc.fuzz.rows import orders
from vxc.fuzz.state import Context, Name, State

EXTENTS = {
    1: 2, 2: 1, 3: 2, 5: 2, 7: 2, 8: 1, 9: 1, 13: 2, 16: 1, 17: 1, 31: 1, 32: 1, 33: 1.5, 40: 0.5, 64: 0.5, 65: 0.5, 100: 0.3, 129: 0.3,
    257: 0.3,
}  # fmt: skip
EMPTY = 0.05  # how often a program has an extent of 0


def choose_dims(s: State, given: list[Dim] | None = None) -> None:
    """Dimensions: names, numbers, a generic; the `given` names, where another kernel has chosen them."""
    if given is not None:
        s.dims = [d for d in given if d.text != "C"]
        return
    for name in ("M", "N", "K")[: s.pick((1, 2, 2, 3))]:
        s.dims.append(Dim(name, s.weighted(list(EXTENTS), list(EXTENTS.values()))))
    if s.chance(0.5):
        n = s.pick((3, 5, 8, 12, 17, 33))
        s.dims.append(Dim(str(n), n, True))
    if s.chance(0.3):
        n = s.pick((2, 4, 7, 32))
        s.dims.append(Dim("C", n, True))
        s.generics["C"] = f" = {n}"
    if s.chance(EMPTY):
        s.dims[0] = replace(s.dims[0], size=0)


def choose_generics(s: State) -> None:
    """Bools, and a type that other types are written as; after the functions, which do not know them."""
    if s.chance(0.25):
        s.alias = s.storage("fiu")
        s.generics["T"] = f": dtype = {s.alias}"
    for name in ("P", "Q"):
        if s.chance(0.1):
            s.flags.append(name)
            s.generics[name] = f": bool = {s.pick(('true', 'false'))}"


def scalar(s: State) -> Name:
    dtype = s.compute()
    name = s.fresh("s")
    value: Number
    if dtype is BOOL:
        value = s.chance(0.5)
    elif dtype.is_float:
        value = s.pick((1.5, -0.25, 0.0, -0.0, float("inf"), float("nan"), 1e30, 3.0))
    else:
        value = s.pick((0, 1, 3, dtype.max, dtype.min, s.random.randint(dtype.min, dtype.max)))
    s.scalars.append((name, dtype, value))
    return Name(name, dtype, "scalar")


# Functions -------------------------------------------------------------------------------------------------------------------------

_EXTERN = 'extern fn {0}(a: f32) -> f32 = "return a * 0.5f;" {{ return a * 0.5; }}'


def function(s: State) -> None:
    """An inlined function of scalars, with generics or without, or one that is CUDA text."""
    name = s.fresh(f"f{s.tag}")
    if s.chance(0.15):
        s.items.append(_EXTERN.format(name))
        s.functions.append((name, (F32,), F32, ()))
        return
    kinds = [s.compute() for _ in range(s.random.randint(1, 3))]
    result = s.compute()
    s.alias = s.pick([d for d in kinds if d is not BOOL] or [None]) if s.chance(0.2) else None
    params = [(f"p{n}", dtype) for n, dtype in enumerate(kinds)]
    head = ", ".join(f"{p}: {'T' if dtype is s.alias else dtype}" for p, dtype in params)
    names = [Name(p, dtype, "let") for p, dtype in params]
    generics = {"T": (": dtype", f"T = {s.alias}")} if s.alias else {}
    if s.chance(0.2):
        n = s.pick((1, 2, 5))
        generics["G"] = (f" = {n}", f"G = {s.pick((1, 3, 8))}")
        names.append(Name("G", I64, "generic"))
    ctx = Context(Level(), tuple(names), pure=True)
    lines = []
    if s.chance(0.5):
        dtype = s.compute()
        lines.append(f"let t = {expr(s, ctx, dtype, 2)};")
        ctx = replace(ctx, names=(*ctx.names, Name("t", dtype, "let")))
    if s.chance(0.4):
        lines.append(f"if {expr(s, ctx, BOOL, 1)} {{ return {expr(s, ctx, result, 2)}; }}")
    lines.append(f"return {expr(s, ctx, result, 2)};")
    s.alias = None
    listed = f"<{', '.join(g + how for g, (how, _) in generics.items())}>" if generics else ""
    s.items.append(f"fn {name}{listed}({head}) -> {result} {{ {' '.join(lines)} }}")
    s.functions.append((name, tuple(kinds), result, tuple(given for _, given in generics.values())))


# Headers ---------------------------------------------------------------------------------------------------------------------------


def header(s: State, name: str, body: str) -> str:
    """A kernel's head: attributes, generics and parameters."""
    arrays = [f"in {a}" if a.mode == "in" and s.chance(0.05) else str(a) for a in s.arrays]
    params = [*arrays, *(f"{n}: {s.spelled(dtype)}" for n, dtype, _ in s.scalars)]
    generics = f"<{', '.join(g + how for g, how in s.generics.items())}>" if s.generics else ""
    attrs = s.weighted(["", "@fp(exact) ", "@fp(contract) ", "@fp(fast) ", "@chunk(3) ", "@lanes(2) "], [40, 1, 1, 1, 1, 1])
    if attrs[1:6] in ("chunk", "lanes") and not orders([body]):
        attrs = ""
    return f"{attrs}kernel {name}{generics}({', '.join(params)}) {{"


def bind_dims(s: State, body: str) -> None:
    """A dimension is bound where it stands alone: give each that is used such a place."""
    alone = {d.text for a in s.arrays for d in a.dims}
    used = set(re.findall(r"\b[MNK]\b", body + " ".join(map(str, s.arrays))))
    for d in s.dims:
        if d.text in used - alone:
            s.array(U8, (d,))


def example(s: State, name: str) -> list[str]:
    """An `example` line with arguments like those of the call, where such can be written."""
    given = [a for a in s.arrays if a.mode != "out"]
    open_ = {name for a in given for d in a.dims for name in re.findall(r"\b[MNK]\b", d.text)} - {d.text for a in given for d in a.dims}
    if open_ or any(a.fill == ("permutation",) or any(p and p.fixed for p in a.pitches) for a in s.arrays):
        return []
    found = []
    for a in given:
        sizes = ", ".join(str(d.size) for d in a.dims)
        bounds = a.fill[1:]
        made = f"randint({a.dtype}, {bounds[0]}, {bounds[1]}, {sizes})" if bounds and a.dtype.is_int else f"rand({a.dtype}, {sizes})"
        found.append(f"{a.name} = {made}")
    found += [f"{n} = {_number(value, dtype)}" for n, dtype, value in s.scalars]
    found += [f"{g} = {how.split('= ')[1]}" for g, how in s.generics.items() if s.chance(0.3)]
    s.random.shuffle(found)
    return [f"example {name}({', '.join(found)});"]


def _number(value: Number, dtype: DType) -> str:
    if dtype is BOOL:
        return str(value).lower()
    if dtype.is_float and (isinf(value) or isnan(value)):
        return "nan" if isnan(value) else "inf" if value > 0 else "-inf"
    return repr(value).replace("e+", "e")
