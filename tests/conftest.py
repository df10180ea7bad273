"""GPU tests: run where there is a device, else skipped, and the summary says how many and why."""

from __future__ import annotations

import pytest

from vxc.runtime.driver import unavailable


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("gpu")]
    reason = unavailable() if marked else None
    if reason:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter) -> None:
    reasons = [report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", []) if "gpu" in report.keywords]
    if reasons:
        terminalreporter.write_sep("=", "GPU tests did not run", yellow=True)
        terminalreporter.write_line(f"{len(reasons)} skipped: {reasons[0]}")
