"""Launching: schedules of plans, checks of a call, streams, order of work on a stand-in for the driver, and a real GPU."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from fake_cuda import Device, floats_at

from vxc.binding import Binding
from vxc.cuda.nvrtc import Binary, Resources, compile_cuda
from vxc.diag import VxcError
from vxc.dtypes import BOOL, F32, I64
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Value
from vxc.ir.plan import Plan
from vxc.runtime import streams
from vxc.runtime.driver import driver
from vxc.runtime.launch import check_limits, launch, run_numpy
from vxc.schedule import Launch, Workspace, schedule
from vxc.source import Source
from vxc.target import for_capability, target

# A plan of two launches, as by hand: w = x * a over a workspace of N + 1 elements, then y[i] = w[i + 1]; y must have N - 1 elements.
N, K, A = Value("N", I64), Value("K", I64), Value("a", F32)
X, Y = Buffer("x", F32, (N,), "param", "in"), Buffer("y", F32, (K,), "param", "out")
COUNT, SHORT, FITS, GRID = Value("0", I64), Value("1", I64), Value("2", BOOL), Value("3", I64)
W = Buffer("w", F32, (COUNT,), "workspace")
KERNELS = (
    Kernel("scale", (N, X, A, W), (), "thread", attrs=(("threads", 128),)),
    Kernel("shift", (K, W, Y), (), "thread", attrs=(("threads", 128),)),
)
PLAN = Plan(
    "f",
    (N, K, X, A, Y),
    (
        Inst("add", (N, Const(1)), COUNT),
        Inst("sub", (N, Const(1)), SHORT),
        Inst("eq", (K, SHORT), FITS),
        Inst("require", (FITS,), None, (("what", "dimension 0 of `y` is N - 1"),), (1, 3)),
        Inst("workspace", (), W),
        Inst("ceildiv", (N, Const(128)), GRID),
        Inst("launch", (GRID, N, X, A, W), None, (("kernel", "scale"),)),
        Inst("launch", (GRID, K, W, Y), None, (("kernel", "shift"),)),
    ),
    KERNELS,
)
TEXT = """
extern "C" __global__ void scale(long long n, const float* x, float a, float* w) {
    long long i = blockIdx.x * 128LL + threadIdx.x;
    if (i < n) w[i] = x[i] * a;
}
extern "C" __global__ void shift(long long k, const float* w, float* y) {
    long long i = blockIdx.x * 128LL + threadIdx.x;
    if (i < k) y[i] = w[i + 1];
}
"""
USED = Resources(16, 0, 0, 0, 0, 0, 0)
COMPILED = SimpleNamespace(source=None, plan=PLAN, binary=Binary("sm_90a", b"cubin", "", "", {"scale": USED, "shift": USED}))


def refused(code, function, *arguments, **more):
    with pytest.raises(VxcError) as caught:
        function(*arguments, **more)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code and diagnostic.help
    return diagnostic


# ---- schedules --------------------------------------------------------------------------------------------------------


def test_a_schedule_sizes_workspaces_and_grids():
    made = schedule(PLAN, Binding({"N": 300, "K": 299}, {"a": 0.5}, {}))
    assert made.workspaces == (Workspace("w", F32, (301,)),) and made.workspaces[0].nbytes == 1204
    assert made.launches == (Launch(KERNELS[0], 3, (300, "x", 0.5, "w")), Launch(KERNELS[1], 3, (299, "w", "y")))


def test_a_requirement_that_fails_is_placed_and_says_both_sides():
    diagnostic = refused("E0705", schedule, PLAN, Binding({"N": 300, "K": 300}, {"a": 0.5}, {}), Source("f.vx", "kernel"))
    assert diagnostic.message == "the call is refused, for this does not hold: dimension 0 of `y` is N - 1"
    assert diagnostic.notes == ("here the two sides are 300 and 299",) and diagnostic.place == "f.vx:1:3"


def marked(plan: Plan) -> Plan:
    """The plan with its second launch started early."""
    *entries, last = plan.entries
    return Plan(plan.name, plan.params, (*entries, last.with_attrs(early=True)), plan.kernels)


def test_a_launch_is_early_only_behind_another_of_its_call():
    early = marked(PLAN)
    assert [x.early for x in schedule(early, Binding({"N": 300, "K": 299}, {"a": 0.5}, {})).launches] == [False, True]
    alone = Plan(PLAN.name, PLAN.params, tuple(_over_no_blocks(x) for x in early.entries), PLAN.kernels)
    made = schedule(alone, Binding({"N": 300, "K": 299}, {"a": 0.5}, {}))
    assert [(x.grid, x.early) for x in made.launches] == [(0, False), (3, False)]


def _over_no_blocks(entry: Inst) -> Inst:
    return entry.over((Const(0), *entry.operands[1:]), None) if entry.attr("kernel") == "scale" else entry


def test_an_early_launch_is_enqueued_as_one(host):
    compiled = SimpleNamespace(**{**vars(COMPILED), "plan": marked(PLAN)})
    run_numpy(compiled, {"x": np.ones(300, np.float32), "y": np.zeros(299, np.float32)}, {"a": 0.5})
    assert [entry for entry in host.log if " on 0" in entry and "x128" in entry] == ["scale 3x128 on 0", "shift 3x128 on 0 early"]


# ---- running on the stand-in ------------------------------------------------------------------------------------------


def test_run_numpy_copies_there_and_back(host):
    x = np.arange(300, dtype=np.float32)
    y = np.zeros(299, np.float32)
    result = run_numpy(COMPILED, {"x": x, "y": y}, {"a": 0.5})
    assert list(result) == ["y"] and np.array_equal(result["y"], x[1:] * 0.5) and not y.any()
    assert host.log == ["allocate 1204 on 0", "load", "scale 3x128 on 0", "shift 3x128 on 0", "free on 0", "synchronize 0"]
    assert not host.memory


def test_run_numpy_takes_any_strides_for_a_contiguous_parameter(host):
    x = np.arange(20, dtype=np.float32)[::-2]
    assert np.array_equal(run_numpy(COMPILED, {"x": x, "y": np.empty(9, np.float32)}, {"a": 1})["y"], x[1:])


def test_run_numpy_lays_arrays_out_as_declared_and_sizes_missing_outputs(host, monkeypatch):
    rows, ld = Value("M", I64), Value("ld", I64)
    pitched = Buffer("x", F32, (rows, N), "param", "in", (ld, Const(1)))
    out = Buffer("y", F32, (rows, N), "param", "out", (ld, Const(1)))
    kernel = Kernel("copy", (pitched, out, ld), (), "thread", attrs=(("threads", 32),))
    plan = Plan("g", (rows, N, ld, pitched, out), (Inst("launch", (Const(1), pitched, out, ld), None, (("kernel", "copy"),)),), (kernel,))

    def copy(function, grid, block, shared, stream, parameters, early=False):
        _, x, y, pitch = (getattr(v, "value", v) for v in parameters.values)
        floats_at(y, pitch + 3)[:] = floats_at(x, pitch + 3)

    monkeypatch.setattr(host, "launch", copy)
    x = np.arange(14, dtype=np.float32).reshape(2, 7)[:, :3]
    result = run_numpy(SimpleNamespace(**{**vars(COMPILED), "plan": plan}), {"x": x})
    assert np.array_equal(result["y"], x) and result["y"].flags.c_contiguous


def test_launch_runs_on_the_stream_after_the_producers(host):
    x, y = Device(np.arange(300, dtype=np.float32), stream=7), Device(np.zeros(299, np.float32), stream=9)
    launch(COMPILED, {"x": x, "y": y, "a": 2.0}, stream=9)
    assert np.array_equal(y.array, x.array[1:] * 2)
    assert host.log == ["9 waits for 7", "allocate 1204 on 9", "load", "scale 3x128 on 9", "shift 3x128 on 9", "free on 9"]
    launch(COMPILED, {"x": x, "y": y, "a": 2.0}, stream=9)
    assert host.log.count("load") == 1


def test_workspaces_are_freed_when_a_launch_fails(host, monkeypatch):
    def fails(*_, **__):
        raise OSError

    monkeypatch.setattr(host, "launch", fails)
    with pytest.raises(OSError):
        run_numpy(COMPILED, {"x": np.ones(3, np.float32), "y": np.ones(2, np.float32)}, {"a": 1.0})
    assert not host.memory


def test_nothing_is_launched_over_no_blocks(host):
    plan = Plan("f", (N, X, A), (PLAN.entries[0], *PLAN.entries[4:7]), KERNELS)
    one = SimpleNamespace(**{**vars(COMPILED), "plan": plan})
    empty = Device(np.zeros(0, np.float32), data=(0, False))
    launch(one, {"x": empty, "a": 1.0})
    assert host.log == ["allocate 4 on 0", "free on 0"]


# ---- refusing calls ---------------------------------------------------------------------------------------------------


def call(**changes):
    arguments = {"x": Device(np.ones(4, np.float32)), "y": Device(np.ones(3, np.float32)), "a": 1.0, **changes}
    return {name: value for name, value in arguments.items() if value is not None}


BASE = np.zeros(64, np.float32)


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"x": np.ones(4, np.float32)}, "E0703", "argument `x` is a CPU array"),
        ({"y": Device(np.ones(3, np.float32), data=(4096, True))}, "E0703", "`y` is `out`, but the array is read-only"),
        ({"x": Device(np.ones(4, np.float64))}, "E0704", "`x` holds float64, but f32 is declared"),
        ({"x": Device(np.ones(4, np.int16), typestr="<V2")}, "E0704", "raw 2-byte elements"),
        ({"x": Device(np.ones((4, 1), np.float32))}, "E0705", "`x` has 2 dimensions"),
        ({"x": Device(BASE[:8:2])}, "E0706", "`x` has strides [2], but the kernel declares it contiguous (strides [1])"),
        ({"x": Device(BASE[:4], data=(4098, False))}, "E0706", "no multiple of its 4-byte elements"),
        ({"y": None}, "E0708", "`y` is missing"), ({"z": 1}, "E0708", "no parameter `z`"),
        ({"x": Device(BASE[:4]), "y": Device(BASE[3:6])}, "E0713", "`x` and `y` overlap in memory"),
    ],
)  # fmt: skip
def test_calls_that_are_refused(host, changes, code, words):
    assert words in refused(code, launch, COMPILED, call(**changes)).message
    assert host.log == []


def test_neighbouring_arrays_do_not_overlap(host):
    launch(COMPILED, call(x=Device(BASE[:4]), y=Device(BASE[4:7])))
    assert host.log[-1] == "free on 0"


def test_limits_are_checked_before_the_launch():
    step = Launch(Kernel("k", (), (), "thread", attrs=(("threads", 512),)), 2**31, ())
    assert "2,147,483,648 blocks, a launch has at most 2,147,483,647" in refused("E0712", check_limits, step, None, target()).message
    step = Launch(step.kernel, 1, ())
    check_limits(step, Resources(128, 0, 0, 0, 0, 232448, 0), target())
    registers = refused("E0712", check_limits, step, Resources(255, 0, 0, 0, 0, 0, 0), target())
    assert registers.message == "`k` needs 130,560 registers, a block may use 65,536"
    assert registers.help == "use at most 256 threads or --maxrregcount=128"
    shared = refused("E0712", check_limits, step, Resources(8, 0, 0, 0, 0, 232449, 0), target()).message
    assert shared == "`k` needs 232,449 bytes of shared memory, a block of sm_90a has at most 232,448"


# ---- streams ----------------------------------------------------------------------------------------------------------


def test_stream_handles():
    objects = [5, SimpleNamespace(cuda_stream=5), SimpleNamespace(ptr=5), SimpleNamespace(handle=5)]
    assert [streams.stream_handle(s) for s in objects] == [5, 5, 5, 5]
    assert streams.stream_handle(type("S", (), {"__cuda_stream__": lambda self: (0, 5)})()) == 5
    assert "`stream` is a str" in refused("E0709", streams.stream_handle, "default").message


def test_the_current_stream_is_that_of_the_arrays_library(monkeypatch):
    torch = SimpleNamespace(cuda=SimpleNamespace(current_stream=lambda device: SimpleNamespace(cuda_stream=40 + device)))
    monkeypatch.setitem(streams.sys.modules, "torch", torch)
    tensor = type("Tensor", (), {"__module__": "torch"})()
    assert streams.current_stream([2.0, tensor], 2) == 42
    assert streams.current_stream([2.0], 2) == 0


# ---- on a GPU ---------------------------------------------------------------------------------------------------------


def compiled_for_this_gpu():
    binary = compile_cuda(TEXT, "f.cu", for_capability(driver().capability(0)).name)
    return SimpleNamespace(source=None, plan=PLAN, binary=binary)


@pytest.mark.gpu
def test_run_numpy_on_the_gpu():
    x = np.arange(100_000, dtype=np.float32)
    result = run_numpy(compiled_for_this_gpu(), {"x": x, "y": np.empty(99_999, np.float32)}, {"a": 0.5})
    assert np.array_equal(result["y"], x[1:] * 0.5)


@pytest.mark.gpu
def test_launch_on_torch_tensors_and_a_stream_of_torch():
    torch = pytest.importorskip("torch")
    compiled = compiled_for_this_gpu()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x = torch.randn(100_000, device="cuda")
        y, z = torch.empty(99_999, device="cuda"), torch.empty(99_999, device="cuda")
        launch(compiled, {"x": x, "y": y, "a": 2.0})
        launch(compiled, {"x": x, "y": z, "a": 2.0}, stream=side)
        assert torch.equal(y, x[1:] * 2) and torch.equal(z, y)


@pytest.mark.gpu
def test_launch_on_cupy_arrays():
    cupy = pytest.importorskip("cupy")
    x, y = cupy.arange(1000, dtype=cupy.float32), cupy.zeros(999, cupy.float32)
    launch(compiled_for_this_gpu(), {"x": x, "y": y, "a": 2.0})
    assert cupy.array_equal(y, x[1:] * 2)
