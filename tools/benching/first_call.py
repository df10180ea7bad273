"""What the first call in a process costs: from `import vxc` to the end of the kernel, with nothing in the cache (`first_call_cold_s`) and
with all there (`first_call_warm_s`).

    python tools/benching/first_call.py     prints one JSON document; `starts.py` asks for it

Each figure is of processes forked from one that has imported torch and nothing else; each makes its CUDA context and arrays before
its clock starts, and a folder of its own for its caches, empty, or filled by a process before it. Figures are medians of ROUNDS
processes, in seconds. Byte code of Python files was written by a process before them, as installing writes it. The kernel is a softmax of
4096 rows of 1024 floats, and the result is checked.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
ROUNDS = 3
SHAPE = (4096, 1024)
FOLDERS = ("VXC_CACHE_DIR", "TRITON_CACHE_DIR", "CUPY_CACHE_DIR", "CUDA_CACHE_PATH")
CUDA = r"""
extern "C" __global__ void softmax(const float* x, float* y) {
    const float* row = x + (size_t)blockIdx.x * 1024 + threadIdx.x;
    float kept[32], most = -3.4e38f, all = 0;
    for (int k = 0; k < 32; ++k) most = fmaxf(most, kept[k] = row[32 * k]);
    for (int at = 16; at; at >>= 1) most = fmaxf(most, __shfl_xor_sync(~0u, most, at));
    for (int k = 0; k < 32; ++k) all += kept[k] = expf(kept[k] - most);
    for (int at = 16; at; at >>= 1) all += __shfl_xor_sync(~0u, all, at);
    for (int k = 0; k < 32; ++k) y[(size_t)blockIdx.x * 1024 + threadIdx.x + 32 * k] = kept[k] / all;
}
"""


def of_vxc(x: Any, y: Any) -> None:
    import vxc

    vxc.load(ROOT / "samples" / "softmax.vx").softmax(x, y)


def of_triton(x: Any, y: Any) -> None:
    from benching.triton_kernels import softmax

    y.set_(softmax(x))


def of_cupy(x: Any, y: Any) -> None:
    import cupy

    cupy.RawKernel(CUDA, "softmax")((SHAPE[0],), (32,), (cupy.asarray(x), cupy.asarray(y)))


WAYS: dict[str, Callable[[Any, Any], None]] = {"vxc": of_vxc, "triton": of_triton, "cupy": of_cupy}


def timed(call: Callable[[Any, Any], None], folder: str, to: Connection) -> None:
    """Sends the seconds that a first call takes in this process, whose caches are in a folder, or what is wrong."""
    os.environ.update({name: folder for name in FOLDERS} | {"VXC_CACHE": "1"})
    torch = import_module("torch")
    try:
        x = torch.randn(SHAPE, device="cuda")
        y = torch.zeros_like(x)
        wanted = x.softmax(1)
        torch.cuda.synchronize()
        start = time.perf_counter()
        call(x, y)
        torch.cuda.synchronize()
        took = time.perf_counter() - start
        to.send(took if torch.allclose(y, wanted, rtol=1e-5, atol=1e-8) else "a wrong result")
    except Exception as error:
        to.send(f"{type(error).__name__}: {error}")


def forked(call: Callable[[Any, Any], None], folder: str) -> float | str:
    """What `timed` sends from a process of its own."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=timed, args=(call, folder, there))
    process.start()
    there.close()
    try:
        return here.recv()
    except EOFError:
        return "the process died"
    finally:
        process.join()


def seconds(impl: str, rounds: int = ROUNDS) -> tuple[dict[str, float], str]:
    """({"cold": .., "warm": ..}, what is wrong)."""
    import_module("torch")
    found: dict[str, list[float]] = {"cold": [], "warm": []}
    with tempfile.TemporaryDirectory() as root:
        sys.dont_write_bytecode, sys.pycache_prefix = False, str(Path(root) / "code")
        for turn in range(rounds + 1):
            for kind, times in found.items():
                took = forked(WAYS[impl], str(Path(root) / str(turn)))
                if isinstance(took, str):
                    return {}, f"{impl}, {kind}: {took}"
                times += [took] if turn else []  # the first processes write byte code
    return {kind: statistics.median(times) for kind, times in found.items()}, ""


def main() -> None:
    found = {impl: seconds(impl) for impl in WAYS if find_spec(impl)}
    figures = {impl: times for impl, (times, problem) in found.items() if not problem}
    problems = [problem for _, problem in found.values() if problem]
    print(json.dumps({"seconds": figures, "problems": problems, "device": import_module("torch").cuda.get_device_name()}))


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tools")]
    main()
