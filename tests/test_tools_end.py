"""How tools end where nobody reads on, and where a package is not there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
UNREAD = (["bench", "--fresh"], ["gpu_check", "--fresh"])


def run(name: str, *arguments: str, first: str = "", stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """A tool, after a line of Python that runs `first`."""
    script = f"{first}\nimport runpy, sys\nsys.argv = {[name, *arguments]!r}\nrunpy.run_path('tools/{name}.py', run_name='__main__')\n"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tools'}"}
    return subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment, stdout=stdout, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("command", UNREAD, ids=" ".join)
def test_a_reader_that_stops_is_no_failure(command):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = run(*command, stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_chart_without_matplotlib_says_what_to_install():
    done = run("bench", "--plot", first="import sys; sys.modules['matplotlib'] = None")
    assert (done.returncode, done.stdout, done.stderr) == (4, "", "matplotlib is not installed: pip install matplotlib\n")


@pytest.mark.parametrize("name", ["bench", "bench_compile", "flash_splitk_sweep", "gpu_check", "mutate"])
def test_a_python_without_vxc_is_told_how_to_get_it(name):
    """No packages of the site, so neither vxc nor what it needs."""
    done = subprocess.run([sys.executable, "-E", "-S", f"tools/{name}.py", "--help"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith(f"{name}.py: ") and " has no vxc and no lark; " in done.stderr and done.stderr.count("\n") == 1
