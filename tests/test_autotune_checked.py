"""With what a choice was checked decides where it counts; which calls share a choice; copies of tuned kernels."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest
from fake_cuda import Device, Tensor, floats
from tuning_kernels import SCALE, arguments, timings, tuned

import vxc

HIDDEN = """
kernel hidden<F: int = 2>(x: f32[N], out y: f32[N]) {
    parallel i in N { y[i] = if x[i] > 1000.0 { (F as f32) } else { x[i] }; }
}
example hidden(x = rand(f32, 50));
"""
LARGE = np.full(8, 2000, np.float32)


def clamp(x):
    return np.where(x > 1000, 2.0, x)


def three(x):
    return np.where(x > 1000, 3.0, x)


def hidden(**options) -> vxc.Tuned:
    """F=3 comes first, and differs from the kernel as written only where no value of the example lies."""
    return vxc.autotune(vxc.kernel(HIDDEN), F=[3, 2], **options)


@pytest.fixture(autouse=True)
def alike(gpu):
    """All configurations take the same time, so that the first that is right is chosen."""
    gpu.cost = lambda kernel, blocks: 1.0
    gpu.replay = lambda graph, stream: (setattr(gpu, "clock", gpu.clock + 1.0), setattr(gpu, "replays", gpu.replays + 1))


def choice(kernel: vxc.Tuned) -> float:
    return float(kernel(Tensor(np.full(50, 2000, np.float32))).array[0])


# ---- the cache -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"sample": (LARGE,)}, {"sample": (LARGE,), "reference": clamp}])
def test_a_choice_that_was_checked_with_less_is_not_taken(gpu, folder, options):
    assert choice(hidden()) == 3.0  # nothing on the example line tells the two
    timings(gpu)
    asked = hidden(**options)
    assert choice(asked) == 2.0 and timings(gpu)
    assert "tuned in this process" in asked.report()
    again = hidden(**options)
    assert choice(again) == 2.0 and not timings(gpu) and "from the cache" in again.report()
    assert choice(hidden()) == 3.0 and not timings(gpu)


def test_a_reference_is_known_by_what_it_gives(gpu, folder):
    assert choice(hidden(sample=(LARGE,), reference=three)) == 3.0
    timings(gpu)
    assert choice(hidden(sample=(LARGE,), reference=lambda x: three(x) + 0.0)) == 3.0 and not timings(gpu)
    assert choice(hidden(sample=(LARGE,), reference=clamp)) == 2.0 and timings(gpu)
    assert choice(hidden(sample=(LARGE,))) == 2.0 and timings(gpu)


@pytest.mark.parametrize("sample", [(LARGE[:4],), (LARGE + 1,), (-LARGE,)])
def test_a_sample_is_known_by_its_elements(gpu, folder, sample):
    hidden(sample=(LARGE,))(Tensor(LARGE))
    timings(gpu)
    hidden(sample=sample)(Tensor(LARGE))
    assert timings(gpu)
    hidden(sample={"x": sample[0].copy()})(Tensor(LARGE))
    assert not timings(gpu)


def test_a_sample_is_what_it_was_when_it_was_given(gpu):
    sample = LARGE.copy()
    asked = hidden(sample=(sample,))
    sample[:] = 0
    assert choice(asked) == 2.0


def test_a_reference_is_called_once_for_arrays_of_the_same_dtypes(gpu):
    seen = []
    asked = hidden(sample=(LARGE,), reference=lambda x: seen.append(1) or clamp(x))
    for count in (50, 100, 200):
        asked(Tensor(floats(count)))
    assert len(seen) == 1


# ---- records ---------------------------------------------------------------------------------------------------------


def exported(path, **options):
    first = hidden(**options)
    choice(first)
    first.export(path)
    return path


def test_a_record_that_was_checked_with_something_else_is_checked_again(gpu, tmp_path):
    path = exported(tmp_path / "x.json", sample=(LARGE,), reference=clamp)
    timings(gpu)
    for options in ({"sample": (LARGE,), "reference": clamp}, {"sample": (LARGE + 1,)}, {}):
        taken = hidden(record=path, **options)
        assert choice(taken) == 2.0 and not timings(gpu) and f"from {path}" in taken.report()
    assert "equal to the kernel as written" in taken.report()


def test_a_record_that_is_wrong_by_what_is_asked_for_is_not_taken(gpu, tmp_path):
    path = exported(tmp_path / "x.json")
    timings(gpu)
    asked = hidden(record=path, sample=(LARGE,))
    assert choice(asked) == 2.0 and timings(gpu) and "tuned in this process" in asked.report()


def test_compiling_ahead_checks_by_the_interpreter(gpu, tmp_path):
    path = exported(tmp_path / "x.json")
    gpu.log.clear()
    taken = hidden(record=path, sample=(LARGE,), reference=three)
    assert "3.0" in taken.compile((50,), target="sm_90a").ir() and not gpu.log
    with pytest.raises(vxc.LaunchError, match="E0719: `hidden` was not tuned for"):
        hidden(record=path, sample=(LARGE,)).compile((50,), target="sm_90a")


def test_checking_again_is_not_for_a_capture(gpu, tmp_path):
    path = exported(tmp_path / "x.json")
    gpu.captured.add(0)
    with pytest.raises(vxc.LaunchError, match="E0718"):
        hidden(record=path, sample=(LARGE,))(Tensor(np.full(50, 2000, np.float32)))


def test_a_record_says_with_what_it_was_checked(tmp_path):
    said = [json.loads(exported(tmp_path / "x.json", **o).read_text())["entries"][0]["checked"] for o in ({}, {"sample": (LARGE,)})]
    assert said[0] == "the example line, the kernel as written" and said[1].startswith("sample ")


# ---- which calls share a choice --------------------------------------------------------------------------------------


def test_what_is_described_of_outputs_is_no_part_of_a_class(gpu, tmp_path):
    scale, path = tuned(), tmp_path / "x.json"
    scale(*arguments())
    scale.export(path)
    for taken in (scale, tuned(record=path)):
        for shapes in (((50,), (50,)), ((50,), (50,), (50,))):
            assert "threads=" in taken.compile(*shapes, target="sm_90a").ir("final")


def test_on_the_cpu_the_kernel_is_as_written(gpu):
    x, n = floats(5), np.zeros(5, np.int32)
    scale = tuned()
    assert scale.bind(x, n, device="cpu")().tolist() == (2 * x).tolist()
    assert scale.choose(x, n, device="cpu") is scale._kernel and not timings(gpu)


def test_each_device_has_its_choice(gpu):
    gpu.devices, gpu.device_name = 2, lambda device: f"Fake {device}"
    scale, x, n = tuned(), floats(50), np.zeros(50, np.int32)
    for device in (0, 1, "cuda:1", None):
        scale.choose(x, n, device=device)
    assert scale.report().count("scale on Fake 0") == scale.report().count("scale on Fake 1") == 1
    with pytest.raises(vxc.LaunchError, match="E0703: there is no device 2"):
        scale.choose(x, n, device=2)
    with pytest.raises(vxc.LaunchError, match="E0709: `device` is 1.5"):
        scale(x, n, device=1.5)


def test_arrays_that_do_not_say_their_shapes_are_looked_at_closely(gpu):
    scale = tuned()
    for count in (50, 200):
        scale.choose(Device(floats(count)), Device(np.zeros(count, np.int32)))
    assert "x: f32[<=64]" in scale.report() and "x: f32[<=256]" in scale.report()


@pytest.mark.parametrize("name", ["device", "stream", "self", "args", "name"])
def test_parameters_of_any_name(gpu, name):
    x, text = floats(50), SCALE.replace("x: f32", f"{name}: f32").replace("* x[i]", f"* {name}[i]").replace("(x =", f"({name} =")
    scale = vxc.autotune(vxc.kernel(text), B=[32, 64])
    given = {name: Tensor(x), "n": Tensor(np.zeros(50, np.int32))}
    assert scale(**given).array.tolist() == (2 * x).tolist()
    assert scale.choose(**given)(**given).array.tolist() == (2 * x).tolist()


# ---- copies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda kernel: pickle.loads(pickle.dumps(kernel))])
def test_copies_have_what_was_found(gpu, copied):
    first = hidden(sample=(LARGE,), reference=clamp)
    choice(first)
    timings(gpu)
    again = copied(first)
    assert choice(again) == 2.0 and not timings(gpu) and again.report() == first.report()
    assert (again.name, again.signature) == (first.name, first.signature)
    again(Tensor(floats(500)))
    assert timings(gpu) and first.report() != again.report()
