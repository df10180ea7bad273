"""`vxc bench` on a driver with a clock of its own, and what it counts."""

from __future__ import annotations

import json

import pytest
from cli_tool import SAMPLES, SCALE, TWO, vxc

from vxc.binding import Described
from vxc.cli import bench
from vxc.driver import compile
from vxc.explain.work import operations
from vxc.runtime import driver as driver_module
from vxc.schedule import bind_plan, schedule
from vxc.source import Source


FIXED = (
    "compiled with -D N=1000 --aligned w=true --aligned x=true --aligned y=true, as for a call from Python with these arrays; "
    "--dynamic leaves that open"
)


def test_a_kernel_beside_a_copy_of_as_many_bytes(timed):
    """x and y of 8,000,000 bytes together; the fake copies 10^9 bytes of a half in a millisecond and runs the kernel in 0.01."""
    timed.cost = lambda kernel, blocks: 0.01
    got = vxc("bench", "-", "-a", "x=rand:f32[1000,1000]", "-a", "w=rand:f32[1000]", "-a", "a=2.0", stdin=SCALE)
    assert (got.status, got.err) == (0, f"note: scale: {FIXED}\n")
    head, row = got.out.splitlines()
    assert head.split() == ["KERNEL", "ARRAYS", "MS", "GB/S", "%", "OF", "COPY", "TFLOP/S"]
    assert row.split() == ["scale", "x:f32[1000,", "1000]", "w:f32[1000]", "y:f32[1000,", "1000]", "0.0100", "800.4", "40.02", "0.2"]
    assert not timed.live and not timed.memory


def test_json_says_all_of_it(timed):
    timed.cost = lambda kernel, blocks: 0.25
    got = vxc("bench", "-", "--json", stdin=SCALE)
    assert json.loads(got.out) == [
        {
            "kernel": "scale", "device": "Fake H200", "arch": "sm_90a",
            "arrays": {"x": "f32[3, 7]", "w": "f32[7]", "y": "f32[3, 7]"},
            "milliseconds": 0.25, "bytes": 196, "gigabytes_per_second": 0.0, "copy_milliseconds": 0.0, "percent_of_copy": 0.0,
            "operations": 42, "teraflops": 0.0,
        }
    ]  # fmt: skip


def test_every_kernel_of_a_file_or_the_one_that_is_named(timed):
    def names(*arguments):
        return [bench["kernel"] for bench in json.loads(vxc("bench", "-", "--json", *arguments, stdin=TWO).out)]

    assert names() == ["dbl", "inc"] and names("-k", "inc") == ["inc"]


def test_arrays_that_are_updated_count_twice_and_integers_have_no_rate(timed):
    text = "kernel f(x: i32[N], inout y: i32[N]) { parallel i in N { y[i] += x[i]; } }\nexample f(x = rand(i32, 10), y = rand(i32, 10));\n"
    (found,) = json.loads(vxc("bench", "-", "--json", stdin=text).out)
    assert found["bytes"] == 120 and found["operations"] == 0 and found["teraflops"] is None


def test_a_kernel_without_sizes_is_named_and_left_out(timed):
    text = TWO.rpartition("example")[0]
    got = vxc("bench", "-", stdin=text)
    assert got.status == 0 and [line.split()[0] for line in got.out.splitlines()] == ["KERNEL", "dbl"]
    assert got.err.splitlines()[-1] == "note: inc: there is no `example` line and no -a, so its arguments are not known"


def test_sizes_may_be_given_by_options(timed):
    got = vxc("bench", "-", "-k", "inc", "-D", "N=8", stdin=TWO.rpartition("example")[0])
    assert got.status == 0 and got.out.splitlines()[1].split()[:3] == ["inc", "x:f32[8]", "y:f32[8]"]
    assert "note: inc: there is no `example` line and no -a: its arrays hold random numbers" in got.err.splitlines()


def test_an_empty_call_has_a_time_and_no_rates(timed):
    got = vxc("bench", "-", "-k", "dbl", "-a", "x=rand:f32[0]", stdin=TWO)
    assert got.status == 0 and got.out.splitlines()[1].split() == ["dbl", "x:f32[0]", "y:f32[0]", "0.0000", "-", "-", "-"]


def test_without_a_gpu_it_exits_with_4(monkeypatch, timed):
    timed.devices = 0
    got = vxc("bench", SAMPLES / "softmax.vx")
    assert got.status == 4 and got.out == "" and "E0603" in got.err


def test_without_a_driver_it_advises_nothing_that_it_lacks(monkeypatch):
    def absent(_):
        raise RuntimeError('"cuda" can only be found via system search')

    monkeypatch.setattr("cuda.bindings.driver.cuInit", absent)
    monkeypatch.setattr(bench, "driver", driver_module._bindings)
    got = vxc("bench", SAMPLES / "softmax.vx")
    assert got.status == 4 and "error[E0603]: no NVIDIA driver found" in got.err and "--on" not in got.err


def test_what_cuda_refuses_is_said_and_nothing_is_left(timed):
    timed.fails = ["CUDA_ERROR_INVALID_VALUE"]
    timed.launch = lambda *_, **__: (_ for _ in ()).throw(timed.failed("cuLaunchKernelEx", timed.fails[0]))
    got = vxc("bench", "-", "-k", "dbl", stdin=TWO)
    assert got.status == 4 and "E0604" in got.err and not timed.live and not timed.memory


@pytest.mark.parametrize(
    "text, shapes, count",
    [
        ("kernel f(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = 2.0 * x[i] + 1.0; } }", {"x": (10,)}, 20),
        ("kernel f(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = fma(x[i], x[i], x[i]); } }", {"x": (10,)}, 20),
        ("kernel f(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = exp(x[i]); } }", {"x": (10,)}, 10),
        ("kernel f(x: f32[M, N], out y: f32[M]) { parallel i in M { y[i] = sum(x[i]); } }", {"x": (3, 10)}, 30),
        ("kernel f(x: f32[M, N], out y: f32[M]) { parallel i in M { y[i] = dot(x[i], x[i]); } }", {"x": (3, 10)}, 60),
        ("kernel f(x: i32[M, N], out y: i32[M]) { parallel i in M { y[i] = sum(x[i]); } }", {"x": (3, 10)}, 0),
        ("kernel f(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i]; serial k in N // 2 { y[i] += x[k]; } } }", {"x": (10,)}, 50),
        ("kernel f(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i]; serial k in i { y[i] += x[k]; } } }", {"x": (10,)}, None),
        ("kernel f(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i]; while y[i] > 1.0 { y[i] *= 0.5; } } }", {"x": (4,)}, None),
    ],
)
def test_operations_are_those_of_the_source(text, shapes, count):
    plan = compile(Source("f.vx", text)).tile
    dtypes = {b.name: b.dtype.numpy_name for b in plan.buffers}
    binding = bind_plan(plan, {name: Described(shape, dtypes[name], None) for name, shape in shapes.items()}, {})
    assert operations(plan, schedule(plan, binding)) == count


def test_a_matrix_product_is_two_operations_for_each_of_its_products():
    source = Source("gemm.vx", (SAMPLES / "gemm.vx").read_text("utf-8"))
    plan = compile(source, defines={"BM": 32, "BN": 64, "BK": 16}).tile
    for m, n, k, whole in ((64, 128, 32, 64 * 128 * 32), (33, 1, 17, 64 * 64 * 32)):
        given = {"a": Described((m, k), "float16", None), "b": Described((k, n), "float16", None)}
        assert operations(plan, schedule(plan, bind_plan(plan, given, {}))) == 2 * whole
