"""Hand-written CUDA kernels that a folder of .cu files gives: how each is compiled and launched for the case of its name.

The folder is no part of this repository, so what stands here is all that is known of it. CuPy compiles and launches them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

STATIC_SHARED = 48 * 1024


class Launch(NamedTuple):
    """A kernel of `file`.cu. `arguments` are `x`, `y`, `z` (inputs in order), `out`, `work` and `zeros` (of the sizes of `extra`),
    or whole numbers and floats, which are passed in 32 bits, but for those of `long`, in 64."""

    file: str
    entry: str
    grid: tuple[int, ...]
    block: int
    arguments: tuple[str | int | float, ...]
    defines: dict[str, int] = {}  # noqa: RUF012
    shared: int = 0
    extra: dict[str, int] = {}  # noqa: RUF012
    long: bool = False


def _short(op: int, rows_in_flight: int, second: str) -> Launch:
    rows = 1 << 20
    grid = (rows // (256 // 16 * rows_in_flight),)
    return Launch("row_reduce_short", "row_reduce_short", grid, 256, ("x", second, "out", rows), {"OP": op, "ROWS": rows_in_flight})


def _long(rows: int, columns: int, row_threads: int, block: int) -> Launch:
    defines = {"OP": 0, "COLS": columns, "ROW_THREADS": row_threads, "BLOCK": block}
    return Launch("row_reduce_long", "row_reduce_long", (rows // (block // row_threads),), block, ("x", "out", rows), defines)


def _split(rows: int, columns: int, parts: int) -> Launch:
    arguments = ("x", "work", "zeros", "out", columns // 4)
    return Launch("row_reduce_split", "row_sum_split", (parts, rows), 512, arguments, extra={"work": rows * parts, "zeros": rows})


def _softmax(half: int, rows: int, columns: int, row_threads: int, block: int) -> Launch:
    defines = {"HALF": half, "COLS": columns, "ROW_THREADS": row_threads, "BLOCK": block}
    return Launch("softmax_rows", "softmax_rows", (rows // (block // row_threads),), block, ("x", "out", rows), defines)


def _transpose(size: int, block: int, group: int, rows: int = 8191, columns: int = 8193) -> Launch:
    vector = 16 // size
    halo = 128 + 2 * vector
    shared = (halo * (128 // vector + 1) + halo // vector + 1) * 16
    defines = {"ES": size, "TR": 128, "TC": 128, "BLOCK": block, "GRP": group}
    grid = (ceil(rows / 128) * ceil(columns / 128),)
    return Launch("transpose_any", "transpose_any", grid, block, ("x", "out", rows, columns), defines, shared)


_VECTORS = (1 << 28) // 4
LAUNCHES = {
    "rowdot_f32_1048576x64": _short(2, 4, "y"),
    "rowsum_f32_1048576x64": _short(0, 2, "x"),
    "rowmax_f32_1048576x64": _short(1, 4, "x"),
    "rowsum_f32_131072x1000": _long(131072, 1000, 128, 256),
    "rowsum_f32_8192x8192": _long(8192, 8192, 512, 512),
    "rowsum_f32_64x1048576": _split(64, 1 << 20, 32),
    "softmax_f16_8192x8192": _softmax(1, 8192, 8192, 512, 512),
    "softmax_f32_8192x8192": _softmax(0, 8192, 8192, 1024, 1024),
    "softmax_f16_16384x1000": _softmax(1, 16384, 1000, 32, 128),
    "softmax_f32_16384x1000": _softmax(0, 16384, 1000, 32, 128),
    "rmsnorm_f16_16384x1000": Launch("rmsnorm_rows", "rmsnorm_rows", (16384 // 2,), 32, ("x", "y", "out", 16384, 1e-5)),
    "copy_f32_268435456": Launch("copy_read", "copy16", (_VECTORS // 256,), 256, ("x", "out", _VECTORS), long=True),
    "bias_gelu_f16_8191x8193": Launch(
        "bias_gelu_flat", "bias_gelu_flat", (ceil(8191 * 8193 / 8 / 512),), 256, ("x", "y", "out", 8191, 8193)
    ),
    "transpose_f16_8191x8193": _transpose(2, 512, 4),
    "transpose_f32_8191x8193": _transpose(4, 1024, 1),
}


def text(folder: Path, launch: Launch) -> str:
    """What is compiled. Raises OSError for a file that the folder lacks."""
    return "".join(f"#define {name} {value}\n" for name, value in launch.defines.items()) + (folder / f"{launch.file}.cu").read_text()


def prepared(folder: Path, name: str, inputs: list[Any], out: Any) -> Callable[[], Any]:
    """The call that enqueues the kernel of case `name` on torch's current stream and gives `out`."""
    import cupy
    import numpy
    import torch

    launch = LAUNCHES[name]
    module = cupy.RawModule(code=text(folder, launch), backend="nvrtc", options=("-std=c++17",))
    function = module.get_function(launch.entry)
    if launch.shared > STATIC_SHARED:
        function.max_dynamic_shared_size_bytes = launch.shared
    memory = dict(zip("xyz", inputs)) | {"out": out}
    memory |= {extra: torch.zeros(size, dtype=torch.int32, device="cuda") for extra, size in launch.extra.items()}
    whole = numpy.int64 if launch.long else numpy.int32
    numbers = {int: whole, float: numpy.float32}
    arguments = tuple(numpy.uint64(memory[a].data_ptr()) if isinstance(a, str) else numbers[type(a)](a) for a in launch.arguments)

    def call() -> Any:
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            function(launch.grid, (launch.block,), arguments, shared_mem=launch.shared)
        return out

    call.memory = memory  # what the arguments point to
    return call
