"""Options and marks: `--bless` rewrites the expectations of filetests; GPU tests run where there is a device, and the summary
says how many did not and why. The fixtures `cuda`, `torch` and `full` are for tests of calls without a GPU.
"""

from __future__ import annotations

import math
import os
import sys
from collections import Counter
from pathlib import Path

import pytest
from fake_cuda import FakeCuda, FakeTorch, PythonCuda, without_nvrtc
from fake_devices import FakeDevices, TorchOnDevices
from timed_cuda import TimedCuda
from tuning_kernels import FASTER

from vxc.api import dispatch, side_by_side, workspaces
from vxc.driver import Compiled
from vxc.runtime import launch as launch_module
from vxc.runtime.driver import unavailable


os.environ["VXC_CACHE"] = "0"  # here and in processes that tests start: what they see is made by the code at hand


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="write what filetests give now as what is expected of them")


@pytest.fixture
def bless(request: pytest.FixtureRequest) -> bool:
    return request.config.getoption("--bless")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("gpu")]
    reason = unavailable() if marked else None
    if reason:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    gpu = [report for report in skipped if "gpu" in getattr(report, "keywords", ())]  # a file that is skipped whole has none
    reasons = {report: report.longrepr[2].removeprefix("Skipped: ") for report in skipped}
    if gpu:
        terminalreporter.write_sep("=", "GPU tests did not run", yellow=True)
        terminalreporter.write_line(f"{len(gpu)} skipped: {reasons[gpu[0]]}")
    others = Counter((*_place(report.nodeid), text) for report, text in reasons.items() if report not in gpu)
    for (file, whole, text), count in sorted(others.items()):
        terminalreporter.write_line(f"also skipped: {'all' if whole else count} of {file}: {text}")


def _place(node: str) -> tuple[str, bool]:
    """The file of a test, or of what was collected, and whether it is the file itself."""
    file, _, test = node.partition("::")
    return Path(file).name, not test


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    """The driver in memory, in place of the real one."""
    return _installed(FakeCuda(), monkeypatch)


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> TimedCuda:
    """The same with a clock."""
    return _installed(TimedCuda(), monkeypatch)


@pytest.fixture
def gpu(timed: TimedCuda, monkeypatch: pytest.MonkeyPatch) -> TimedCuda:
    """The driver with a clock, launches taking what FASTER says of their threads, and a library of arrays."""
    timed.cost = lambda kernel, blocks: FASTER.get(kernel.attr("threads"), 1.0)
    monkeypatch.setitem(sys.modules, "torch", FakeTorch())
    return timed


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a cache in it."""
    monkeypatch.setenv("VXC_CACHE", "1")
    monkeypatch.setenv("VXC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def _installed(fake: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    for home in ("vxc.api.devices", "vxc.runtime.launch", "vxc.cli.bench"):
        monkeypatch.setattr(f"{home}.driver", lambda: fake)
    monkeypatch.setattr(workspaces, "_ALL", {})
    monkeypatch.setattr(Compiled, "binary", without_nvrtc())
    monkeypatch.setattr(side_by_side, "LONG", math.inf)  # however slow the machine, no other process makes real machine code
    return fake


@pytest.fixture
def torch(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    """A library of arrays on the driver in memory."""
    fake = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> FakeDevices:
    """Two devices in memory, of different architectures."""
    return _installed(FakeDevices((9, 0), (8, 0)), monkeypatch)


@pytest.fixture
def torches(devices: FakeDevices, monkeypatch: pytest.MonkeyPatch) -> TorchOnDevices:
    """A library of arrays on them."""
    fake = TorchOnDevices(devices)
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> list:
    """The calls that went the full way."""
    seen, general = [], dispatch._general
    monkeypatch.setattr(dispatch, "_general", lambda *a: seen.append(a) or general(*a))
    return seen


@pytest.fixture
def host(monkeypatch):
    fake = PythonCuda()
    monkeypatch.setattr(launch_module, "driver", lambda: fake)
    return fake
