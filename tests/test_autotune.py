"""Tuning on a driver with a clock of its own: what is tried, what is left out, what is chosen. Times are made up, results are not."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace

import numpy as np
import pytest
from fake_cuda import Tensor, floats
from tuning_kernels import SCALE, SHARED, SUM, arguments, timings, tuned

import vxc
from vxc.cuda.nvrtc import Resources
from vxc.cuda.worker import elsewhere
from vxc.driver import Compiled

# ---- choosing --------------------------------------------------------------------------------------------------------


def test_the_fastest_is_called_and_the_arrays_of_the_call_are_only_read(gpu):
    scale, (x, n) = tuned(), arguments()
    y = scale(x, n)
    assert y.array.tolist() == (2 * x.array).tolist() and n.array.tolist() == [1] * 50
    assert gpu.log[-1] == "scale x1 on 0" and scale.choose(x, n)._calls.recipe.defines == (("B", 64),)
    assert not gpu.live and timings(gpu) > 0
    scale(x, n)
    assert timings(gpu) == 0 and n.array.tolist() == [2] * 50


def test_each_class_of_shapes_is_tuned_once(gpu):
    scale = tuned()
    scale(*arguments(50))
    assert timings(gpu)
    scale(*arguments(51))  # up to 64, too, and not divisible by 16
    assert not timings(gpu)
    for count in (48, 65):
        scale(*arguments(count))
        assert timings(gpu)
    assert scale.report().count("scale on Fake H200 (sm_90a) for x: f32[") == 3


def test_numpy_arrays_are_copied_to_be_timed(gpu):
    scale, x, n = tuned(), floats(50), np.zeros(50, np.int32)
    assert scale(x, n).tolist() == (2 * x).tolist() and n.tolist() == [1] * 50
    assert "B=64" in scale.report() and not gpu.live and not gpu.memory


def test_on_the_cpu_nothing_is_tuned(gpu):
    x = floats(5)
    assert tuned()(x, np.zeros(5, np.int32), device="cpu").tolist() == (2 * x).tolist()
    assert not timings(gpu) and not gpu.log


def test_keywords_outputs_and_bound_calls_go_the_way_of_the_kernel(gpu):
    scale, (x, n), y = tuned(), arguments(), Tensor(np.zeros(50, np.float32))
    assert scale(n=n, x=x, y=y) is y and y.array.tolist() == (2 * x.array).tolist()
    timings(gpu)
    bound = scale.bind(x, n, y)
    assert bound() is y and n.array.tolist() == [2] * 50 and not timings(gpu)


def test_what_is_much_slower_at_first_is_dropped_before_the_rounds(gpu):
    scale = tuned()
    scale(*arguments())
    head = scale.report().splitlines()[0]
    assert head.startswith("scale on Fake H200 (sm_90a) for x: f32[<=64], n: i32[<=64]: B=64, 1.0000 ms; tuned in this process (vxc ")
    assert [line.split() for line in scale.report().splitlines()[1:]] == [
        ["B", "ms", "x", "best"],
        ["64", "1.0000", "1.00", *"chosen, equal to the kernel as written to the bit on the sample".split()],
        ["32", "-", "-", *"dropped after the first timing, 3.0000 ms".split()],
        ["128", "-", "-", *"dropped after the first timing, 2.0000 ms".split()],
    ]


def test_rivals_are_timed_in_turns_and_the_median_decides(gpu):
    """The second is faster when timed first, the first on the whole."""
    times = {32: [1.0] * 1000, 64: [0.9] * 12 + [1.2] * 1000, 128: [1.1] * 1000}
    order = []

    def cost(kernel, blocks):
        return kernel.attr("threads")

    def replay(graph, stream):
        (threads,) = graph.costs
        order.append(threads)
        gpu.clock += times[threads].pop(0)

    gpu.cost, gpu.replay = cost, replay
    scale = tuned(rounds=3)
    scale(*arguments())
    assert [line.split()[:2] for line in scale.report().splitlines()[2:]] == [["32", "1.0000"], ["128", "1.1000"], ["64", "1.2000"]]
    turns = [a for a, b in zip(order, [*order[1:], 0]) if a != b]
    assert turns == [32, 64, 128] * 4


def test_after_the_time_is_up_nothing_more_is_tried(gpu, monkeypatch):
    moments = iter([0.0, 0.5, 2.0, 2.0])
    monkeypatch.setattr("vxc.api.tuning.time.monotonic", lambda: next(moments))
    scale = tuned(seconds=1.0)
    scale(*arguments())
    tried = {line.split()[0]: line.split("-  ")[-1] for line in scale.report().splitlines()[2:]}
    assert tried["128"] == "not tried, 1 s were over" and tried["32"].startswith("dropped") and "B=64, 1.0000 ms" in scale.report()


def test_what_takes_long_to_compile_is_compiled_in_other_processes(gpu, monkeypatch):
    """From the second on; with the process itself this is test_a_process_of_its_own_compiles."""
    jobs = []

    def elsewhere(job):
        jobs.append(job)
        (threads,) = re.findall(r"__launch_bounds__\((\d+)\)", job.text)
        if threads == "128":
            return None  # it failed, and is compiled here
        return vxc.kernel(SCALE).define(B=int(threads)).compile((50,), (50,), target=job.arch).made.binary

    monkeypatch.setattr("vxc.api.side_by_side.LONG", 0.0)
    monkeypatch.setattr("vxc.api.side_by_side.elsewhere", elsewhere)
    scale, (x, n) = tuned(), arguments()
    assert scale(x, n).array.tolist() == (2 * x.array).tolist()
    assert "left out" not in scale.report() and len(jobs) == 2
    assert {job.arch for job in jobs} == {"sm_90a"} and all("scale" in job.text for job in jobs)


def test_a_process_of_its_own_compiles():
    job = vxc.kernel(SCALE).compile((5,), (5,), target="sm_80").made.job
    made = elsewhere(job)
    assert made.arch == "sm_80" and made.kernels["scale"].registers > 0 and made.cubin[:4] == b"\x7fELF"
    assert elsewhere(replace(job, text="no C++")) is None


# ---- what is left out, and what is wrong -----------------------------------------------------------------------------


def test_what_needs_too_much_is_left_out_before_it_runs(gpu):
    f = vxc.autotune(vxc.kernel(SHARED), S=[16, 1 << 16])
    f(Tensor(floats(20)))
    assert "left out, E0716: " in f.report() and "S=16" in f.report()
    assert {entry for entry in gpu.log if entry.startswith("f x")} == {"f x2 on 0", "f x2 on 7"}  # 20 elements by 16: of S=16 alone


def test_registers_beyond_the_device_are_left_out(gpu, monkeypatch):
    made = Compiled.__dict__["binary"].func

    def binary(self):
        found, threads = made(self), self.plan.kernels[0].attr("threads")
        found.kernels["scale"] = Resources(255 if threads == 512 else 32, 0, 0, 0, 0, 0, 0)
        return found

    monkeypatch.setattr(Compiled, "binary", property(binary))
    scale = vxc.autotune(vxc.kernel(SCALE), B=[64, 512])
    scale(*arguments())
    assert "512       -       -  left out, E0712: `scale` needs 130,560 registers" in scale.report()


def test_a_configuration_that_computes_something_else_is_not_chosen(gpu):
    """F=3 is the fastest, and gives 3 x where the kernel as written gives 2 x."""
    gpu.cost = lambda kernel, blocks: 1.0
    gpu.replay = lambda graph, stream: setattr(gpu, "clock", gpu.clock + 1.0)
    scale, (x, n) = vxc.autotune(vxc.kernel(SCALE), F=[3, 2]), arguments()
    assert scale(x, n).array.tolist() == (2 * x.array).tolist()
    assert "wrong: interpreted, y[0] is " in scale.report() and ", by the kernel as written" in scale.report()


def test_a_device_that_disagrees_with_the_interpreter_is_not_believed(gpu):
    run = gpu._run

    def wrong(config, kernel, address):
        status = run(config, kernel, address)
        if kernel.attr("threads") == 64 and gpu._graph is None:
            table = (ctypes.c_void_p * len(kernel.params)).from_address(address)
            place = next(at for at, p in enumerate(kernel.params) if p.name == "y")
            ctypes.c_float.from_address(ctypes.c_uint64.from_address(table[place]).value).value = 77.0
        return status

    gpu._run = wrong
    gpu.cost = lambda kernel, blocks: {32: 1.2, 64: 1.0, 128: 1.1}[kernel.attr("threads")]
    scale = tuned()
    scale(*arguments())
    assert "wrong: on the device, y[0] is 77.0, expected" in scale.report()
    assert "B=128, 1.1000 ms" in scale.report()


def test_another_order_of_sums_is_within_the_bound(gpu):
    total = vxc.autotune(vxc.kernel(SUM), L=[1, 32])
    gpu.cost = lambda kernel, blocks: 1.0
    gpu.replay = lambda graph, stream: setattr(gpu, "clock", gpu.clock + 1.0)
    x = np.random.default_rng(0).standard_normal((3, 200)).astype(np.float32)
    total(Tensor(x))
    assert "to the bit" in total.report() and "L=1" in total.report()
    only = vxc.autotune(vxc.kernel(SUM), L=[32])
    only(Tensor(x))
    assert "chosen, equal to the kernel as written within the bound on the sample" in only.report()


def test_a_reference_and_a_sample(gpu):
    sample = (floats(7), np.zeros(7, np.int32))
    seen = []

    def reference(x, n):
        seen.append(len(x))
        return n + 1, 3.0 * x.astype(np.float64)

    scale, (x, n) = vxc.autotune(vxc.kernel(SCALE), F=[2, 3], sample=sample, reference=reference), arguments()
    assert scale(x, n).array.tolist() == (3 * x.array).tolist() and set(seen) == {7}
    assert "wrong: interpreted" in scale.report() and "chosen, equal to the reference to the bit" in scale.report()
    named = vxc.autotune(vxc.kernel(SCALE), B=[64], sample={"x": floats(3), "n": np.zeros(3, np.int32)})
    named(*arguments())
    assert "chosen" in named.report()


def test_where_nothing_is_right_each_reason_is_given(gpu):
    scale = vxc.autotune(vxc.kernel(SCALE), F=[3, 5])
    with pytest.raises(vxc.LaunchError, match="E0719: no configuration of `scale` can be chosen; F=3: wrong: .*; F=5: wrong: ") as caught:
        scale(*arguments())
    assert not gpu.live and "in the call of `scale`" in str(caught.value.__notes__)


def test_what_cannot_be_checked_is_not_tuned(gpu):
    scale = vxc.autotune(vxc.kernel(SCALE.rpartition("example")[0]), B=[32, 64])
    with pytest.raises(vxc.LaunchError, match="E0719: nothing says on what to check .*; add an `example` line .* or pass sample="):
        scale(*arguments())


def test_a_reference_of_another_form_is_named(gpu):
    scale = vxc.autotune(vxc.kernel(SCALE), B=[32], reference=lambda x, n: x)
    with pytest.raises(vxc.LaunchError, match="E0719: the reference gives a ndarray, and `scale` has 2 outputs; give a tuple .*: `n`, `y`"):
        scale(*arguments())


def test_a_capture_is_not_tuned_in(gpu):
    gpu.captured.add(0)
    with pytest.raises(vxc.LaunchError, match="E0718: this is the first call of a tuned kernel"):
        tuned()(*arguments())
