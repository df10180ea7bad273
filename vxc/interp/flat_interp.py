"""The flat interpreter: executes a plan, its kernels at any stage, on NumPy arrays.

Host entries run first to last; a launch runs its kernel over whole arrays (stages tile and team, `flat_tile`) or as warps
of threads (stage thread, `flat_simt`). Every fault is a diagnostic that names the element, the place and who did it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vxc.binding import bind, describe, signature
from vxc.dtypes import F64
from vxc.interp.flat_atomic import atomic
from vxc.interp.flat_control import assert_, break_, continue_, else_, end, if_, plain, print_, serial, while_
from vxc.interp.flat_counters import Counters
from vxc.interp.flat_machine import Machine, Program, Step, convert, fault, scalar
from vxc.interp.flat_memory import Memory, cell, load, local, poisoned, row_major, span, store
from vxc.interp.flat_races import Shadow
from vxc.interp.flat_simt import WARP, Blocks, WarpMachine, block_index, blocks_at_once, run_blocks, shuffle, thread_index
from vxc.interp.flat_simt import barrier as thread_barrier
from vxc.interp.flat_simt import shared as thread_shared
from vxc.interp.flat_tile import TileMachine, contribute, loop, prefix, reduce_, scan_
from vxc.interp.flat_tile import barrier as team_barrier
from vxc.interp.flat_tile import shared as team_shared
from vxc.ir.kernel import Buffer, Const, Kernel, Scalar, Value
from vxc.ir.ops import OPS
from vxc.ir.plan import Plan
from vxc.semantics import SCALAR_OPS, cast
from vxc.source import Source


def run_flat(
    plan: Plan,
    arrays: Mapping[str, np.ndarray],
    scalars: Mapping[str, object],
    *,
    seed: int = 0,
    debug: bool = True,
    trap_div: bool = False,
    dims: Mapping[str, int] | None = None,
    source: Source | None = None,
    counters: Counters | None = None,
) -> dict[str, np.ndarray]:
    """Run a plan; gives every `out` and `inout` array, new ones: what is passed stays as it is.

    An `out` array that is given supplies the initial contents; one that is missing is allocated, sized by the other arrays
    or by `dims`, and holds NaN or 0x5A bytes where nothing is written. `seed` orders the warps. `debug` looks for races,
    reads of what was never written, failing assertions; `trap_div` refuses integer division by 0. `counters` is filled.
    Raises VxcError: E0704..E0708, E0714 for the call, E0720..E0731 for faults on the way.
    """
    binding = bind(signature(plan.params), {name: describe(a) for name, a in arrays.items()}, scalars, dims)
    values = {**binding.dims, **binding.scalars}
    env = {p.name: _number(p, values[p.name]) for p in plan.params if isinstance(p, Value) and p.name in values}
    loaded = _loaded(plan)
    storage = {b.name: _parameter(b, binding.shapes[b.name], env, arrays.get(b.name), b.name in loaded and debug) for b in plan.buffers}
    rng = np.random.default_rng(seed)
    host = Host(Program.of(plan.name, plan.entries, HANDLERS["plan"], {}), env, storage, source, debug, trap_div, counters, plan=plan, rng=rng, loaded=loaded)
    for _ in host.run():
        pass
    return {b.name: storage[b.name].view().copy() for b in plan.buffers if b.mode != "in"}


def _number(value: Value, number) -> np.ndarray:
    return cast(number, F64, value.dtype) if value.dtype.is_float else np.asarray(number, value.dtype.numpy)


def _size(env: Mapping[str, np.ndarray], size: Scalar) -> int:
    return int(size.value if isinstance(size, Const) else env[size.name])


def _parameter(buffer: Buffer, shape: tuple[int, ...], env, given: np.ndarray | None, watch: bool) -> Memory:
    strides = row_major(shape) if buffer.strides is None else tuple(_size(env, s) for s in buffer.strides)
    extent = span(shape, strides)
    memory = Memory(buffer.name, buffer.dtype, "param", shape, strides, poisoned(extent, buffer.dtype))
    if given is not None and extent:
        memory.view()[...] = given
    memory.written = np.zeros(extent, bool) if watch and buffer.mode == "out" else None
    return memory


def _loaded(plan: Plan) -> set[str]:
    """Names of the plan's buffers that some kernel reads."""
    found = set()
    for entry in plan.entries:
        if entry.op == "launch":
            kernel = plan.kernel(entry.attr("kernel"))
            read = {i.operands[0].name for i in kernel.insts if i.op in ("load", "atomic")}
            found |= {given.name for given, param in zip(entry.operands[1:], kernel.params) if isinstance(param, Buffer) and param.name in read}
    return found


@dataclass
class Host(Machine):
    """Runs the entries of a plan. `programs` keeps kernels that were made ready."""

    plan: Plan | None = None
    rng: Any = None
    loaded: frozenset[str] | set[str] = frozenset()


def require(m: Host, step: Step) -> None:
    if not m.get(step.args[0]):
        raise fault("E0705", f"the call does not fit: {step.inst.attr('what')}", step.inst, m.plan.name, m.source)


def workspace(m: Host, step: Step) -> None:
    buffer = step.inst.result
    shape = tuple(_size(m.env, n) for n in buffer.shape)
    extent = span(shape, row_major(shape))
    memory = Memory(buffer.name, buffer.dtype, "workspace", shape, row_major(shape), poisoned(extent, buffer.dtype))
    memory.written = np.zeros(extent, bool) if m.debug else None
    m.storage[buffer.name] = memory


def launch(m: Host, step: Step) -> None:
    kernel = m.plan.kernel(step.inst.attr("kernel"))
    program = Program.of(kernel.name, kernel.insts, HANDLERS[kernel.stage], _facts(kernel))
    env, storage = {}, {}
    pairs = list(zip(kernel.params, step.args[1:], strict=True))
    watched = {arg.name for param, arg in pairs if param.name in program.written} if m.debug and _watched(kernel) else set()
    for param, arg in pairs:
        if isinstance(param, Value):
            env[param.name] = m.get(arg)
            continue
        memory = m.storage[arg.name]
        memory.races = Shadow(memory.data.size) if arg.name in watched else None
        storage[param.name] = memory
    common = (m.source, m.debug, m.trap_div, m.counters)
    if kernel.stage != "thread":
        for _ in TileMachine(program, env, storage, *common).run():
            pass
        return
    warps, grid = -(-program.attrs["threads"] // WARP), int(m.get(step.args[0]))
    at_once = blocks_at_once(program, warps)
    for first in range(0, grid, at_once):
        blocks = Blocks(first, min(at_once, grid - first))
        blocks.barriers = np.zeros((blocks.count, 1), np.int64)
        shape = (blocks.count, WARP)
        agents = [WarpMachine(program, dict(env), dict(storage), *common, shape, warp=w, blocks=blocks) for w in range(warps)]
        for agent in agents:
            agent.mask = agent.alive
        run_blocks(agents, blocks, m.rng)


def _facts(kernel: Kernel) -> dict[str, Any]:
    """What handlers ask of a kernel: stage, launch attributes, and the lanes that its narrowest group barrier orders."""
    widths = [i.attr("width") for i in kernel.insts if i.op == "barrier" and i.attr("scope") == "group"]
    return {"threads": 1, **dict(kernel.attrs), "stage": kernel.stage, "order_width": min(widths, default=1)}


def _watched(kernel: Kernel) -> bool:
    """Whether to look for races on global memory: not where every parallel loop has been proved."""
    return kernel.stage != "tile" or any(i.attr("kind") == "parallel" and i.attr("independent") != "proved" for i in kernel.insts)


_MATHS = {name: scalar for name in SCALAR_OPS} | {name: convert for name in ("cast", "sat", "reinterpret")}
_ALL = _MATHS | {
    "while": while_, "if": if_, "else": else_, "extern": plain, "end": end, "break": break_, "continue": continue_,
    "cell": cell, "local": local, "load": load, "store": store, "atomic": atomic, "assert": assert_, "print": print_,
}  # fmt: skip
_TILE = _ALL | {"loop": loop, "reduce": reduce_, "scan": scan_, "contribute": contribute, "prefix": prefix}
HANDLERS: dict[str, dict] = {
    "tile": _TILE,
    "team": _TILE | {"role": plain, "shared": team_shared, "barrier": team_barrier},
    "thread": _ALL | {
        "loop": serial, "shared": thread_shared, "barrier": thread_barrier, "block_index": block_index, "thread_index": thread_index,
        "shfl_xor": shuffle, "shfl_up": shuffle, "shfl_idx": shuffle,
    },
    "plan": _MATHS | {"require": require, "workspace": workspace, "launch": launch},
}  # fmt: skip
for _stage, _handlers in HANDLERS.items():
    assert set(_handlers) == {name for name, row in OPS.items() if _stage in row.stages}, _stage
