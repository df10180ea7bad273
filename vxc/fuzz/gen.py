"""The program generator: `generate(seed)` gives a random program that is well typed and free of races, with its arguments.

    python -m vxc.fuzz.gen SEED [--size N]      prints one

What a program is made of is in tables of productions, one file for each family of constructs: expressions (`expr`, `rows`), ways to
reach elements (`access`, `own`, `windows`), statements (`stmt`, `loops`, `cuts`, `transposes`, `sweeps`, `rotations`), tiles
(`copies`, `gemm`, `replicas`, `grid`), items (`items`) and programs of several kernels (`sequence`). Everything follows from the seed; a
smaller `size` gives a shorter program.
"""

from __future__ import annotations

import argparse
import random

from vxc.dtypes import I64
from vxc.fuzz.block import Make, Production, block
from vxc.fuzz.copies import copy_in, copy_out, storage
from vxc.fuzz.cuts import cut
from vxc.fuzz.expr import expr
from vxc.fuzz.gemm import gemm, refill
from vxc.fuzz.grid import grid, window_store
from vxc.fuzz.items import bind_dims, choose_dims, choose_generics, example, function, header, scalar
from vxc.fuzz.levels import Level
from vxc.fuzz.loops import braces, if_, leave, parallel, serial, unroll, while_
from vxc.fuzz.program import Dim, Program
from vxc.fuzz.replicas import replicated
from vxc.fuzz.rotations import rotated
from vxc.fuzz.sequence import Kernel, sequence
from vxc.fuzz.state import Context, Name, State
from vxc.fuzz.stmt import assert_, atomic, let, local, print_, row_let, row_store, scan_store, set_var, store, var
from vxc.fuzz.sweeps import columns, swept
from vxc.fuzz.transposes import transposed

SIZE = 6  # statements
SEQUENCES = 0.12  # how often a program is one of several kernels

STATEMENTS = [
    #          make       inside outside block
    Production(let,          5.0, 1.0, 1.5),
    Production(var,          2.5, 0.7, 1.0),
    Production(set_var,      4.0, 0.3, 1.0),
    Production(row_let,      2.0, 0.4, 2.5),
    Production(local,        1.5, 0.0, 0.3),
    Production(store,        5.0, 0.5, 1.5),
    Production(row_store,    4.0, 0.7, 3.0),
    Production(scan_store,   1.5, 0.3, 1.0),
    Production(atomic,       2.0, 0.3, 0.5),
    Production(if_,          2.5, 0.5, 2.0),
    Production(braces,       0.2, 0.1, 0.2),
    Production(serial,       2.0, 0.3, 3.0),
    Production(unroll,       0.7, 0.0, 0.3),
    Production(while_,       1.0, 0.2, 0.7),
    Production(leave,        5.0, 0.0, 3.0),
    Production(assert_,      0.3, 0.0, 0.2),
    Production(print_,       0.2, 0.0, 0.1),
    Production(parallel,     2.0, 4.0, 7.0),
    Production(transposed,   0.0, 0.7, 0.0),
    Production(swept,        0.0, 0.7, 0.0),
    Production(rotated,      0.0, 0.5, 0.0),
    Production(columns,      0.0, 0.5, 0.0),
    Production(grid,         0.0, 2.0, 0.0),
    Production(storage,      0.0, 0.0, 2.0),
    Production(copy_in,      0.0, 0.0, 5.0),
    Production(copy_out,     0.0, 0.0, 2.0),
    Production(window_store, 0.0, 0.0, 2.0),
    Production(gemm,         0.0, 0.0, 2.5),
    Production(refill,       0.0, 0.0, 0.7),
    Production(replicated,   0.0, 0.0, 0.7),
    Production(cut,          0.7, 0.3, 0.5),
]  # fmt: skip


def generate(seed: int, size: int = SIZE) -> Program:
    """A program of about `size` statements and what to call it with."""
    dice = random.Random(seed)
    if dice.random() < SEQUENCES:
        return sequence(dice, seed, size, lambda number, dims: kernel(dice, -(-size // 2), f"k{number}", f"{number}_", dims))
    s = kernel(dice, size, "k").state
    s.items += example(s, "k") if s.chance(0.3) else []
    scalars = tuple((name, value) for name, _, value in s.scalars)
    return Program(seed, size, "\n".join([*s.items, ""]), tuple(s.arrays), scalars)


def kernel(
    dice: random.Random, size: int, name: str, tag: str = "", dims: list[Dim] | None = None, first: Make | None = None
) -> Kernel:
    """A kernel of about `size` statements. `tag` keeps its functions apart from another kernel's; `dims`, and what makes the first
    nest, are used where they are given.
    """
    s = State(dice, size, expr, STATEMENTS, tag)
    choose_dims(s, dims)
    names = [Name(d.text, I64, "generic" if d.fixed else "dim") for d in s.dims if d.text.isidentifier()]
    for _ in range(dice.randrange(3)):
        names.append(scalar(s))
    for _ in range(dice.randrange(3)):
        function(s)
    choose_generics(s)
    ctx = Context(Level(), tuple(names))
    lines, ctx = block(s, ctx, max(1, size // 5)) if s.chance(0.4) else ([], ctx)
    first = first or s.weighted((parallel, grid, transposed, swept, columns, rotated), (10, 10, 1, 2, 1, 1))
    made = None
    while made is None:
        made = first(s, ctx)
    lines += made[0]
    ctx = made[1]
    if s.fuel > 0:
        more, ctx = block(s, ctx, s.fuel)
        lines += more
    body = "\n".join("    " + line for line in lines)
    bind_dims(s, body)
    s.items += [header(s, name, body), body, "}"]
    return Kernel(s, name, frozenset(a for a in s.arrays if a in ctx.ready))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m vxc.fuzz.gen", description="Print the program of a seed.")
    parser.add_argument("seed", type=int)
    parser.add_argument("--size", type=int, default=SIZE)
    options = parser.parse_args()
    print(generate(options.seed, options.size))


if __name__ == "__main__":
    main()
