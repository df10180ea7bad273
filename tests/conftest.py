"""Options and marks: `--bless` rewrites the expectations of filetests; GPU tests run where there is a device, and the summary
says how many did not and why. The fixtures `cuda`, `torch` and `full` are for tests of calls without a GPU.
"""

from __future__ import annotations

import os
import sys

import pytest
from fake_cuda import FakeCuda, FakeTorch, PythonCuda, without_nvrtc

from vxc.api import devices, dispatch, workspaces
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
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if "gpu" in report.keywords]
    reasons = [report.longrepr[2].removeprefix("Skipped: ") for report in skipped]
    if reasons:
        terminalreporter.write_sep("=", "GPU tests did not run", yellow=True)
        terminalreporter.write_line(f"{len(reasons)} skipped: {reasons[0]}")


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    """The driver in memory, in place of the real one."""
    fake = FakeCuda()
    monkeypatch.setattr(devices, "driver", lambda: fake)
    monkeypatch.setattr("vxc.runtime.launch.driver", lambda: fake)
    monkeypatch.setattr(workspaces, "_ALL", {})
    monkeypatch.setattr(Compiled, "binary", without_nvrtc(fake))
    return fake


@pytest.fixture
def torch(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    """A library of arrays on the driver in memory."""
    fake = FakeTorch()
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
