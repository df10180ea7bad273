"""The smallest calls from Python that give the diagnostic codes of files, the environment, launches and the SIMT machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from fake_cuda import Device, FakeCuda
from flat_kernels import grid, plan_of, when

from vxc.api import devices
from vxc.api.authoring import kernel
from vxc.api.tuned import autotune
from vxc.cuda import nvrtc
from vxc.cuda.nvrtc import compile_cuda
from vxc.diag import read_source
from vxc.driver import compile
from vxc.dtypes import F32
from vxc.interp.flat_interp import run_flat
from vxc.ir.kernel import Kernel
from vxc.ir.plan import Plan
from vxc.ir.reader import read_ir
from vxc.runtime import driver as driver_module
from vxc.runtime.arrays import describe, read_argument, write_file
from vxc.runtime.driver import Driver
from vxc.runtime.launch import check_limits, check_overlap
from vxc.runtime.streams import stream_handle
from vxc.schedule import Launch
from vxc.source import Source
from vxc.target import target

Call = Callable[[Path, pytest.MonkeyPatch], object]

KERNEL = Source("k.vx", "kernel k(out y: f32[N]) { y = 0.0; }")
EMPTY = 'extern "C" __global__ void k() {}'


def _bytes(path: Path, data: bytes) -> Path:
    (path / "a.vx").write_bytes(data)
    return path / "a.vx"


def _without_nvrtc(path: Path, patch: pytest.MonkeyPatch) -> None:
    nvrtc._nvrtc.cache_clear()
    nvrtc.supported_archs.cache_clear()
    patch.setitem(sys.modules, "cuda.bindings", None)
    compile_cuda(EMPTY, "k.cu", "sm_90a")


def _old_nvrtc(path: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(nvrtc, "supported_archs", lambda: (75, 80))
    compile_cuda(EMPTY, "k.cu", "sm_90a")


def _without_driver(path: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setitem(sys.modules, "cuda.bindings", None)
    driver_module._bindings()


def _without_torch(path: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setitem(sys.modules, "torch", None)
    kernel(KERNEL.text).as_torch_op("lib::k", out=True)


def _full(path: Path, patch: pytest.MonkeyPatch) -> None:
    status = type("Status", (), {"name": "CUDA_ERROR_OUT_OF_MEMORY", "__int__": lambda self: 2})()
    modes = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=2)
    calls = {"cuMemAlloc": lambda n: (status, 0), "cuThreadExchangeStreamCaptureMode": lambda mode: (0, mode)}
    Driver(SimpleNamespace(CUstreamCaptureMode=modes, cuGetErrorString=lambda s: (0, b"out of memory"), **calls)).allocate(8)


def _overlap(path: Path, patch: pytest.MonkeyPatch) -> None:
    base = np.zeros(8, np.float32)
    views = {"x": describe(base[:4], "x"), "y": describe(base[3:], "y")}
    check_overlap(views, {name: SimpleNamespace(mode="out") for name in views})


def _captured(path: Path, patch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda()
    fake.captured.add(0)
    patch.setattr(devices, "driver", lambda: fake)
    kernel(KERNEL.text).bind(Device(np.zeros(4, np.float32)))


def _machine(plan: Plan, arrays: dict | None = None, scalars: dict | None = None, **options) -> Call:
    return lambda path, patch: run_flat(plan, arrays or {}, scalars or {}, **options)


Y = ("1", "@y: i64[64] out", "@y")
GUARDED = ("1", "%flag: bool, @y: i64[64] out", "%flag, @y")
BRANCH = "%c: bool = lt %t, {}\nif %flag\n{}\nend\nstore @y, %t, %t"


def _branch(limit: int, inside: str) -> Call:
    """A branch that the verifier takes for uniform, and is not."""
    return _machine(when(plan_of(grid(*GUARDED, BRANCH.format(limit, inside))), "c"), {}, {"flag": True})


MISFIT = """kernel @k(@y: i64[64] out) stage=team {group=64, rows=1, threads=64} {
role {name="main", warps=2}
%i = loop 0, 1 {kind="parallel", map="blocks"}
%j = loop 0, 64 {kind="parallel", layout="[j] -> [j % 8, 0]", map="lanes"}
store @y, %j, %j
end %j
end %i
end
}
"""
RING = (Path(__file__).parent / "ir" / "ring.vxir").read_text("utf-8")


def _ring(old: str, new: str, **options) -> Call:
    plan = read_ir(Source("ring.vxir", RING.replace(old, new)))
    return _machine(plan, {"x": np.zeros((1, 4, 64), np.float32)}, **options)


LESS = "%less: i64 = sub %K, 1\n%n.1 = loop 0, %less"
VECTOR = "local @v: i64[2]\n%i = add %t, 1\nmove @v, 0, @y, %i {width=2}\n"

# code -> (call, how its message begins)
CALLS: dict[str, tuple[Call, str]] = {
    "E0101": (lambda path, patch: read_source(path / "none.vx"), "cannot read"),
    "E0102": (lambda path, patch: read_source(_bytes(path, b"a\0")), "a.vx is not text: byte 1 is NUL"),
    "E0229": (lambda path, patch: compile(KERNEL, defines={"Q": 1}), "`-D Q`: nothing in the file is a generic or dimension of that name"),
    "E0601": (_without_nvrtc, "NVRTC, which compiles the CUDA text, cannot be loaded"),
    "E0602": (_old_nvrtc, "NVRTC "),
    "E0603": (_without_driver, "the package cuda-bindings cannot be imported"),
    "E0604": (_full, "cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (out of memory)"),
    "E0605": (_without_torch, "torch cannot be imported"),
    "E0701": (lambda path, patch: target("sm_1"), "vxc does not compile for `sm_1`, which is older than sm_80"),
    "E0703": (lambda path, patch: describe([1], "x"), "argument `x` is no array: a list"),
    "E0709": (lambda path, patch: stream_handle("default"), "`stream` is a str, which is no CUDA stream"),
    "E0710": (lambda path, patch: read_argument(str(path / "x.npy"), "x", F32, seed=0), "argument `x`: cannot read "),
    "E0711": (lambda path, patch: write_file(str(path / "none" / "y.npy"), lambda file: None), "cannot write "),
    "E0712": (
        lambda path, patch: check_limits(Launch(Kernel("k", (), (), "thread", attrs=(("threads", 32),)), 2**31, ()), None, target()),
        "`k` needs 2,147,483,648 blocks, a launch has at most 2,147,483,647",
    ),
    "E0713": (_overlap, "arguments `x` and `y` overlap in memory, and the kernel writes to one of them"),
    "E0718": (_captured, "this is the first call of `k` with such arguments, and the stream is captured into a graph"),
    "E0719": (lambda path, patch: autotune(kernel(KERNEL.text), BM=[64]), "`k` has no generic `BM`"),
    "E0725": (_machine(plan_of(grid(*Y, "store @y, 0, %t"))), "threads 0 and "),
    "E0726": (_branch(48, 'barrier {scope="block"}'), "barrier in divergent code: not all threads of the block reach it, one does not"),
    "E0727": (_branch(32, 'barrier {scope="block"}'), "deadlock: warp 0 waits at a barrier, but warp 1 has ended (block 0)"),
    "E0728": (_branch(40, "%v = shfl_xor %t {distance=8, width=32}"), "the shuffle reads lane 8, which does not run it"),
    "E0729": (
        _machine(plan_of(grid("1", "@y: i64[256] inout", "@y", VECTOR)), {"y": np.zeros(256, np.int64)}),
        "`y[1]` is no place for an access of 2 elements",
    ),
    "E0730": (_machine(plan_of(MISFIT)), "layout `[j] -> [j % 8, 0]` does not fit 64 iterations: "),
    "E0732": (_ring("acquire @r, %n\n", ""), "`commit` of use 0 of @r without `acquire`"),
    "E0733": (_ring("%n.1 = loop 0, %K", LESS), "@r has had 4 uses, but role low did `wait` of 3 of them"),
    "E0734": (_ring("", "", max_steps=2), "the loops run for longer than allowed"),
}  # fmt: skip
