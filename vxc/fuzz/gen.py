"""The program generator: `generate(seed)` gives a random kernel that is well typed and free of races, with its arguments.

    python -m vxc.fuzz.gen SEED [--size N]      prints one

What a program is made of is in three tables of productions: expressions (`expr`), statements (`stmt`), and ways to reach
elements (`access`). Everything follows from the seed; a smaller `size` gives a shorter program.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import replace

from vxc.dtypes import BOOL, F32, I64, U8
from vxc.fuzz.expr import expr
from vxc.fuzz.program import Dim, Number, Program
from vxc.fuzz.state import Context, Level, Name, State
from vxc.fuzz.stmt import block, parallel

SIZE = 10  # statements
EXTENTS = {1: 2, 2: 1, 3: 2, 5: 2, 7: 1, 8: 1, 13: 2, 16: 1, 17: 1, 31: 1, 32: 1, 33: 2, 40: 1, 64: 1, 65: 1, 100: 1, 129: 1, 257: 1}
EMPTY = 0.06  # how often a program has an extent of 0


def generate(seed: int, size: int = SIZE) -> Program:
    """A kernel of about `size` statements and what to call it with."""
    s = State(seed, size, expr)
    _choose_dims(s)
    names = [Name(d.text, I64, "dim") for d in s.dims if d.text.isidentifier()]
    for _ in range(s.random.randrange(3)):
        names.append(_scalar(s))
    for _ in range(s.random.randrange(3)):
        _function(s)
    ctx = Context(Level(), tuple(names))
    lines, ctx = block(s, ctx, max(1, size // 5)) if s.chance(0.6) else ([], ctx)
    made = None
    while made is None:
        made = parallel(s, ctx)
    lines += made[0]
    if s.fuel > 0:
        lines += block(s, made[1], s.fuel)[0]
    body = "\n".join("    " + line for line in lines)
    _bind_dims(s, body)
    params = [*map(str, s.arrays), *(f"{name}: {dtype}" for name, dtype, _ in s.scalars)]
    generics = f"<{', '.join(f'{name} = {value}' for name, value in s.generics.items())}>" if s.generics else ""
    text = "\n".join([*s.items, f"kernel k{generics}({', '.join(params)}) {{", body, "}", ""])
    return Program(seed, size, text, tuple(s.arrays), tuple((name, value) for name, _, value in s.scalars))


def _choose_dims(s: State) -> None:
    for name in ("M", "N", "K")[: s.pick((1, 2, 2, 3))]:
        s.dims.append(Dim(name, s.weighted(list(EXTENTS), list(EXTENTS.values()))))
    if s.chance(0.5):
        n = s.pick((3, 5, 8, 12, 17, 33))
        s.dims.append(Dim(str(n), n, True))
    if s.chance(0.3):
        n = s.pick((2, 4, 7, 32))
        s.dims.append(Dim("C", n, True))
        s.generics["C"] = str(n)
    if s.chance(EMPTY):
        s.dims[0] = replace(s.dims[0], size=0)


def _scalar(s: State) -> Name:
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


_EXTERN = 'extern fn {0}(a: f32) -> f32 = "return a * 0.5f;" {{ return a * 0.5; }}'


def _function(s: State) -> None:
    """An inlined function of scalars, or one that is CUDA text."""
    name = s.fresh("f")
    if s.chance(0.15):
        s.items.append(_EXTERN.format(name))
        s.functions.append((name, (F32,), F32))
        return
    params = [(f"p{n}", s.compute()) for n in range(s.random.randint(1, 3))]
    result = s.compute()
    ctx = Context(Level(), tuple(Name(p, dtype, "let") for p, dtype in params), pure=True)
    lines = []
    if s.chance(0.5):
        dtype = s.compute()
        lines.append(f"let t = {expr(s, ctx, dtype, 2)};")
        ctx = replace(ctx, names=(*ctx.names, Name("t", dtype, "let")))
    if s.chance(0.4):
        lines.append(f"if {expr(s, ctx, BOOL, 1)} {{ return {expr(s, ctx, result, 2)}; }}")
    lines.append(f"return {expr(s, ctx, result, 2)};")
    head = ", ".join(f"{p}: {dtype}" for p, dtype in params)
    s.items.append(f"fn {name}({head}) -> {result} {{ {' '.join(lines)} }}")
    s.functions.append((name, tuple(dtype for _, dtype in params), result))


def _bind_dims(s: State, body: str) -> None:
    """A dimension is bound where it stands alone: give each that is used such a place."""
    alone = {d.text for a in s.arrays for d in a.dims}
    used = set(re.findall(r"\b[MNK]\b", body + " ".join(map(str, s.arrays))))
    for d in s.dims:
        if d.text in used - alone:
            s.array(U8, (d,))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m vxc.fuzz.gen", description="Print the program of a seed.")
    parser.add_argument("seed", type=int)
    parser.add_argument("--size", type=int, default=SIZE)
    options = parser.parse_args()
    print(generate(options.seed, options.size))


if __name__ == "__main__":
    main()
