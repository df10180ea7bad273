"""The flat interpreter: executes a plan, its kernels at any stage, on NumPy arrays.

Host entries run first to last; a launch runs its kernel over whole arrays (stages tile and team, `flat_tile`) or as warps
of threads (stage thread, `flat_simt`). Every fault is a diagnostic that names the element, the place and who did it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from vxc.binding import Binding, describe, row_major
from vxc.dtypes import F64, DType
from vxc.interp.flat_atomic import atomic
from vxc.interp.flat_control import assert_, break_, continue_, else_, end, if_, plain, print_, serial, while_
from vxc.interp.flat_counters import Counters
from vxc.interp.flat_machine import Program, convert, scalar
from vxc.interp.flat_memory import Memory, cell, load, local, store
from vxc.interp.flat_move import ahead, aligned, await_, move, move_async
from vxc.interp.flat_races import Shadow
from vxc.interp.flat_reduce import contribute, prefix, reduce_, scan_
from vxc.interp.flat_roles import alike, done, pause, ring, role
from vxc.interp.flat_simt import block_index, run_grid, shuffle, thread_index
from vxc.interp.flat_simt import barrier as thread_barrier
from vxc.interp.flat_simt import shared as thread_shared
from vxc.interp.flat_tile import TileMachine, block_array, loop
from vxc.interp.flat_tile import barrier as team_barrier
from vxc.interp.fresh import Outputs, poisoned, span
from vxc.ir.alignment import elsewhere, lies
from vxc.ir.kernel import Buffer, Const, Kernel, Value
from vxc.ir.ops import OPS
from vxc.ir.plan import Plan
from vxc.ir.tiles import TILE_OPS, expand
from vxc.ir.walk import Regions
from vxc.schedule import Launch, bind_plan, schedule
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
    max_steps: int | None = None,
    bases: Mapping[str, int] | None = None,
) -> Outputs:
    """Run a plan; gives every `out` and `inout` array, new ones: what is passed stays as it is.

    An `out` array that is given supplies the initial contents; one that is missing is allocated, sized by the other arrays
    or by `dims`, and holds NaN or 0x5A bytes where nothing is written. `seed` orders roles and warps. `debug` looks for
    races, for what was never written and reads of it, for failing assertions; `trap_div` refuses integer division by 0. Indices are
    checked always. `counters`, if given, is filled with what stage=thread kernels issue and move, and may leave blocks out. `source` is
    the .vx text that faults are shown in. `max_steps` bounds the iterations of serial loops, all told. `bases` says at which address, in
    bytes modulo 16, arrays begin: a multiple of the element. What it does not name begins at 0 where the seed is 0, else where the
    seed has it, and the plan (`vxc.ir.alignment`) lets it. Raises VxcError: E0704..E0708, E0714 for the call, E0720..E0734
    for faults on the way.
    """
    binding = bind_plan(plan, {name: describe(a) for name, a in arrays.items()}, scalars, dims, source)
    calls = schedule(plan, binding, source)
    storage = {b.name: _parameter(b, binding, arrays.get(b.name), debug) for b in plan.buffers}
    for buffer, memory, base in zip(plan.buffers, storage.values(), _bases(storage.values(), seed)):
        memory.base = (bases or {}).get(memory.name, base if lies(buffer, base) else 0)
        if not lies(buffer, memory.base):
            raise elsewhere(buffer)
    storage |= {w.name: _unwritten(w.name, w.dtype, "workspace", w.shape, row_major(w.shape), debug) for w in calls.workspaces}
    rng = np.random.default_rng(seed)
    turns = iter(range(max_steps)) if max_steps is not None else None
    if counters is not None and counters.most_blocks is not None:  # what blocks that are left out would write is 0, a safe index
        for name in storage.keys() - arrays.keys():
            storage[name].data.fill(0)
    options = {"debug": debug, "trap_div": trap_div, "counters": counters, "rng": rng, "turns": turns}
    with np.errstate(all="ignore"):  # what overflows, or is not a number, is a value here
        for call in calls.launches:
            _launch(call, storage, options)
    results = {b.name: storage[b.name] for b in plan.buffers if b.mode != "in"}
    written = {name: memory.view(memory.written) for name, memory in results.items() if memory.written is not None}
    return Outputs({name: memory.view(memory.data).copy() for name, memory in results.items()}, written)


def _bases(memories: Collection[Memory], seed: int) -> Iterator[int]:
    """Addresses modulo 16: each array lies at a multiple of 16 bytes, or with a chance of a half anywhere that suits its elements."""
    rng = np.random.default_rng((seed, 16))
    for memory in memories:
        anywhere = int(rng.integers(16)) // memory.dtype.bytes * memory.dtype.bytes
        yield anywhere if seed and rng.integers(2) else 0


def _parameter(buffer: Buffer, binding: Binding, given: np.ndarray | None, watch: bool) -> Memory:
    shape = binding.shapes[buffer.name]
    strides = row_major(shape)
    if buffer.strides is not None:
        strides = tuple(s.value if isinstance(s, Const) else binding.dims[s.name] for s in buffer.strides)
    memory = _unwritten(buffer.name, buffer.dtype, "param", shape, strides, watch and buffer.mode == "out")
    if given is not None:
        memory.view(memory.data)[...] = given
    return memory


def _unwritten(name: str, dtype: DType, space: str, shape: tuple[int, ...], strides: tuple[int, ...], watch: bool) -> Memory:
    extent = span(shape, strides)
    return Memory(name, dtype, space, shape, strides, poisoned(extent, dtype), written=np.zeros(extent, bool) if watch else None)


def _launch(call: Launch, arrays: dict[str, Memory], options: dict[str, Any]) -> None:
    kernel = call.kernel
    if call.grid == 0 and kernel.stage != "thread":  # that has no block to run anyway
        return
    program = Program.of(kernel.name, expand(kernel.insts, kernel.params), HANDLERS[kernel.stage], _facts(kernel), kernel.source)
    pairs = list(zip(kernel.params, call.arguments, strict=True))
    env = {p.name: _number(p, argument) for p, argument in pairs if isinstance(p, Value)}
    storage = {p.name: arrays[argument] for p, argument in pairs if isinstance(p, Buffer)}
    watched = {argument for p, argument in pairs if p.name in program.written} if options["debug"] and _watched(kernel) else set()
    for memory in storage.values():
        memory.races = Shadow(memory.data.size) if memory.name in watched else None
    if kernel.stage == "thread":
        run_grid(program, env, storage, call.grid, options)
        return
    for _ in TileMachine(program, env, storage, **options).run():
        pass


def _number(value: Value, number) -> np.ndarray:
    return cast(number, F64, value.dtype) if value.dtype.is_float else np.asarray(number, value.dtype.numpy)


def _facts(kernel: Kernel) -> dict[str, Any]:
    """What handlers ask of a kernel: launch attributes, stage, and the like."""
    several = sum(i.op == "role" for i in kernel.insts) > 1
    found = {"stage": kernel.stage, "ordered": _ordered(kernel)}
    return {"threads": 1, **dict(kernel.attrs), **found, "alike": not several or alike(Regions.of(kernel.insts))}


def _ordered(kernel: Kernel) -> bool:
    """Whether barriers stand where they must: not between map-loops and place-barriers."""
    return kernel.stage != "team" or not kernel.done or "place-barriers" in kernel.done


def _watched(kernel: Kernel) -> bool:
    """Whether to look for races on global memory: not where every parallel loop has been proved, nor before barriers are placed."""
    if not _ordered(kernel):
        return False
    return kernel.stage != "tile" or any(i.attr("kind") == "parallel" and i.attr("independent") != "proved" for i in kernel.insts)


_ALL = {name: scalar for name in SCALAR_OPS} | {
    "cast": convert, "sat": convert, "reinterpret": convert,
    "while": while_, "if": if_, "else": else_, "extern": plain, "end": end, "break": break_, "continue": continue_,
    "cell": cell, "local": local, "load": load, "store": store, "atomic": atomic, "assert": assert_, "print": print_,
}  # fmt: skip
_TILE = _ALL | {
    "loop": loop, "reduce": reduce_, "scan": scan_, "contribute": contribute, "prefix": prefix,
    "shared": block_array, "fragment": block_array,
}  # fmt: skip
HANDLERS: dict[str, dict] = {
    "tile": _TILE,
    "team": _TILE | {
        "role": role, "barrier": team_barrier, "ring": ring, "acquire": pause, "commit": done, "wait": pause, "release": done,
    },
    "thread": _ALL | {
        "loop": serial, "shared": thread_shared, "barrier": thread_barrier, "block_index": block_index, "thread_index": thread_index,
        "move": move, "move.async": move_async, "await": await_, "aligned": aligned, "ahead": ahead,
        "shfl_xor": shuffle, "shfl_up": shuffle, "shfl_idx": shuffle,
    },
}  # fmt: skip
for _stage, _handlers in HANDLERS.items():
    assert set(_handlers) == {name for name, row in OPS.items() if _stage in row.stages} - set(TILE_OPS), _stage
