"""expand-tiles: tile instructions as parallel loops.

Before: stage=tile; `copy` and `gemm` stand for whole tiles.
After:  neither is left: a copy is a parallel nest over the tile that reads the pad outside the source and stores nothing outside
        the target; a gemm is a parallel nest over the accumulator with a serial loop over k. `ir/tiles.py` defines both.

    copy @x, %i, @s, 0, 0.0:f32 {..}             %i.1 = loop 0, 32 {.., kind="parallel"}
                                          ->       %1: i64 = add %i, %i.1
                                                   %2: bool = ge %1, 0
"""

from __future__ import annotations

from dataclasses import replace

from vxc.ir.plan import Plan
from vxc.ir.tiles import TILE_OPS, expand
from vxc.pass_manager import Context, Pass


def run(plan: Plan, context: Context) -> Plan:
    for kernel in plan.kernels:
        for inst in kernel.insts:
            if inst.op in TILE_OPS:
                context.applied(f"{inst.op} as the loops that define it", kernel.name, inst.loc)
    return plan.with_kernels(replace(k, insts=expand(k.insts, k.params)) for k in plan.kernels)


EXPAND_TILES = Pass("expand-tiles", run, "write copy and gemm as parallel loops", needs=("tile", "independent"), gives=("loops",))
