"""The doctor reports whatever is there, and never fails for what is not."""

from __future__ import annotations

import builtins
from importlib.metadata import PackageNotFoundError
from types import SimpleNamespace

from vxc.cuda import nvrtc
from vxc.runtime import doctor
from vxc.runtime import driver as driver_module
from vxc.runtime.doctor import Check, report

LINES = ["python", "numpy", "ml_dtypes", "lark", "platformdirs", "cuda-bindings", "nvrtc", "headers", "cache", "pycuda", "driver"]


def test_every_part_has_a_line_and_what_is_missing_has_advice():
    checks = report()
    names = [c.name for c in checks if not c.name.startswith("device")]
    assert names == LINES
    for check in checks:
        assert check.status in ("ok", "missing", "optional") and check.detail
        assert bool(check.advice) == (check.status != "ok"), check


def test_nothing_installed(monkeypatch):
    def nothing(name, *rest, real=builtins.__import__):
        if name.split(".")[0] in ("cuda", "pycuda"):
            raise ImportError(f"No module named '{name}'")
        return real(name, *rest)

    def no_version(name):
        raise PackageNotFoundError(name)

    for cached in (nvrtc._nvrtc, nvrtc.nvrtc_version, nvrtc.supported_archs, nvrtc.include_paths):
        cached.cache_clear()
    monkeypatch.setattr(builtins, "__import__", nothing)
    monkeypatch.setattr(doctor, "import_module", nothing)
    monkeypatch.setattr(doctor, "version", no_version)
    monkeypatch.setattr(doctor, "driver", driver_module._bindings)
    checks = {c.name: c for c in report()}
    assert {name for name, c in checks.items() if c.status == "missing"} == {*LINES} - {"python", "cache", "pycuda"}
    assert "nvidia-cuda-nvrtc" in checks["nvrtc"].advice and checks["numpy"].advice == "pip install numpy"
    assert checks["pycuda"].status == "optional" and "vxc[pycuda]" in checks["pycuda"].advice
    assert checks["driver"].advice.startswith("pip install 'cuda-bindings>=13'\n")


def test_what_is_missing_is_what_the_advice_is_about(monkeypatch):
    def no_library(_):
        raise RuntimeError('"cuda" can only be found via system search\nSearched in: ..')

    monkeypatch.setattr("cuda.bindings.driver.cuInit", no_library)
    monkeypatch.setattr(doctor, "driver", driver_module._bindings)
    (driver,) = [c for c in report() if c.name == "driver"]
    assert (driver.status, driver.detail) == ("missing", "no NVIDIA driver found")
    assert driver.advice == (
        "install the NVIDIA display driver\n"
        '    (the cause: "cuda" can only be found via system search)'
    )


def test_nvrtc_is_said_to_compile_for_what_arch_takes(monkeypatch):
    monkeypatch.setattr(nvrtc, "supported_archs", lambda: (75, 80, 88, 90, 107, 120))
    (line,) = [c for c in report() if c.name == "nvrtc"]
    assert line.detail.endswith(", with which vxc compiles for sm_80 sm_90 sm_120")


def test_devices(monkeypatch):
    capabilities = [(9, 0), (7, 5)]
    fake = SimpleNamespace(name="PyCUDA", driver_version=lambda: (13, 0), device_count=lambda: 2, device_name="card {}".format)
    fake.capability = capabilities.__getitem__
    monkeypatch.setattr(doctor, "driver", lambda: fake)
    driver, first, second = [c for c in report() if c.name.startswith(("driver", "device"))]
    assert driver == Check("driver", "ok", "supports CUDA 13.0, used through PyCUDA")
    assert first == Check("device 0", "ok", "card 0, compute capability 9.0, --arch sm_90a")
    assert second.status == "missing" and "older than sm_80" in second.detail
