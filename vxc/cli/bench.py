"""`vxc bench`: what a call takes on the GPU, beside a copy of as many bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from math import prod

import click

from vxc.binding import describe
from vxc.cli.calls import dynamic_option, kernel_calls
from vxc.cli.common import TEXT, Settings, kernel_options, pairs, print_json, print_table, read_module
from vxc.diag import Diagnostic, VxcError
from vxc.driver import Compiled
from vxc.explain.work import operations
from vxc.inputs import Call
from vxc.ir.kernel import Buffer
from vxc.progress import note
from vxc.record import record
from vxc.runtime.driver import Driver, driver
from vxc.runtime.graphs import graphed
from vxc.runtime.launch import uploaded
from vxc.runtime.timing import race
from vxc.schedule import bind_plan, schedule

DEVICE = 0


@record
class Bench:
    """One call of a kernel: `milliseconds` on the device, and of a copy within it that reads and writes as many bytes together.

    `bytes` counts each array once, `inout` ones twice; `operations` are floating-point ones as `explain.work` counts them, None where
    they depend on more than sizes. Rates are in 10^9 bytes and 10^12 operations a second, None without bytes or operations.
    """

    kernel: str
    device: str
    arch: str
    arrays: dict[str, str]
    milliseconds: float
    bytes: int
    gigabytes_per_second: float | None
    copy_milliseconds: float
    percent_of_copy: float | None
    operations: int | None
    teraflops: float | None


@click.command()
@click.argument("file", metavar="FILE.vx")
@click.option("-a", "arguments", metavar="NAME=VALUE", type=TEXT, multiple=True, callback=pairs,
              help="An argument of the one kernel timed, as in `vxc run`; default: as the example line says.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of made-up arrays.")  # fmt: skip
@dynamic_option
@kernel_options
def command(settings: Settings, file: str, arguments: dict[str, str], seed: int, dynamic: bool) -> None:
    """Time kernels on the GPU, each beside a copy of as many bytes.

    A figure is the median of replays of a CUDA graph of the call, each from a flushed L2 cache, kernel and copy taking turns.
    Lengths of rows and shapes of tiles are constants, as in a call from Python with such arrays.
    """
    source, module = read_module(file)
    calls = kernel_calls(module, source, settings, arguments, seed, dynamic)
    cuda = driver()
    if not cuda.device_count():
        raise VxcError(Diagnostic("E0603", "the CUDA driver finds no device", help="`nvidia-smi` should list the device"))
    found = []
    for given in calls:
        if given.call is None:
            note(f"{given.kernel.name}: there is no `example` line and no -a, so its arguments are not known")
            continue
        found.append(measured(cuda, given.compiled(), given.call))
        for said in given.notes:
            note(said)
    if settings.json:
        print_json([asdict(bench) for bench in found])
    elif found:
        print_table([_HEAD, *map(_row, found)])


def _nbytes(buffer: Buffer, shape: Sequence[int]) -> int:
    """Of an array of that shape; 4-bit elements lie two to a byte."""
    return -(-prod(shape) * buffer.dtype.bits // 8)


def measured(cuda: Driver, compiled: Compiled, call: Call) -> Bench:
    """Times a call. Raises `VxcError` as launching does."""
    plan = compiled.tile
    binding = bind_plan(plan, {name: describe(a) for name, a in call.arrays.items()}, call.scalars, call.dims, compiled.source)
    moved = sum(_nbytes(b, binding.shapes[b.name]) * (2 if b.mode == "inout" else 1) for b in plan.buffers)
    with uploaded(compiled, call.arrays, call.scalars, dims=call.dims, device=DEVICE) as placed, graphed(cuda, placed.enqueue) as replay:
        half = -(-moved // 2)
        memory = [cuda.allocate(half), cuda.allocate(half)]
        try:
            source, target = map(int, memory)
            times = race(cuda, DEVICE, {"kernel": replay, "copy": lambda: cuda.copy_async(target, source, half, 0)})
        finally:
            for held in memory:
                cuda.free(held)
    ms, copy = times["kernel"], times["copy"]
    work = operations(plan, schedule(plan, binding, compiled.source))
    return Bench(
        kernel=plan.name,
        device=cuda.device_name(DEVICE),
        arch=compiled.target.name,
        arrays={b.name: f"{b.dtype}[{', '.join(map(str, binding.shapes[b.name]))}]" for b in plan.buffers},
        milliseconds=round(ms, 5),
        bytes=moved,
        gigabytes_per_second=_rate(moved, ms, 1e6),
        copy_milliseconds=round(copy, 5),
        percent_of_copy=_rate(100 * copy if moved else 0, ms, 1),
        operations=work,
        teraflops=_rate(work, ms, 1e9),
    )


def _rate(amount: float | None, ms: float, unit: float) -> float | None:
    return round(amount / ms / unit, 2) if amount and ms else None


_HEAD = ("KERNEL", "ARRAYS", "MS", "GB/S", "% OF COPY", "TFLOP/S")


def _row(bench: Bench) -> tuple[str, ...]:
    arrays = " ".join(f"{name}:{text}" for name, text in bench.arrays.items())
    rates = (bench.gigabytes_per_second, bench.percent_of_copy, bench.teraflops)
    return (bench.kernel, arrays, f"{bench.milliseconds:.4f}", *("-" if rate is None else f"{rate:g}" for rate in rates))
