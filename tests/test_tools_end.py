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
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == f"bench.py: {sys.executable} has no matplotlib: pip install matplotlib\n"


# What needs a GPU, as it is asked for.
ON_A_GPU = (
    ["bench"], ["flash_splitk_sweep"], ["gpu_case", "rowsum:rowsum"], ["gpu_check"], ["gpu_check", "--several"], ["ncu_check"],
    ["ncu_check", "--launch"], ["ncu_rows"], ["ncu_rows", "--launch"], ["reduce_sweep"],
)  # fmt: skip


@pytest.mark.parametrize("command", ON_A_GPU, ids=" ".join)
def test_without_a_gpu_a_tool_says_why_in_a_line(command):
    """A driver that is not there, also on a machine that has one."""
    done = run(*command, first="import cuda.bindings.driver as d\ndef absent(flags): raise RuntimeError('none')\nd.cuInit = absent")
    assert (done.returncode, done.stdout) == (4, ""), done.stderr
    why = "no GPU: E0603: no NVIDIA driver found; none; install the NVIDIA display driver"
    assert done.stderr.startswith(f"{command[0]}.py: {why}; ") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["flash_splitk_sweep", "reduce_sweep"])
def test_a_sweep_without_torch_says_so_before_it_compiles(name):
    first = "import sys; sys.modules['torch'] = None\nimport benching.ending\nbenching.ending.gpu = lambda: 'sm_90a'"
    done = run(name, first=first)
    assert (done.returncode, done.stdout) == (4, "") and " has no torch" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "command, said",
    [
        (["gpu_case"], "are required: CASE"), (["gpu_case", "x:y"], "invalid choice: 'x:y'"), (["flash_splitk_sweep", "x"], "arguments: x"),
        (["ncu_check", "--fresh", "--launch"], "not allowed"), (["ncu_rows", "--fresh", "--launch"], "not allowed"),
        (["gpu_check", "--fresh", "--several"], "not allowed"),
        (["reduce_sweep", "--plot", "--fresh"], "not allowed"),
        (["reduce_sweep", "--fresh", "-o", "/none.json"], "/none.json is no record: "),
        (["reduce_sweep", "--plot", "-o", "pyproject.toml"], "pyproject.toml is no record: "),
        (["reduce_sweep", "--summary", "-o", "tools/results/ncu.json"], "a row has no `chunk`"),
        (["reduce_sweep", "-o", "/none/x.json"], "there is no folder /none"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_what_is_not_asked_right_is_refused(command, said):
    done = run(*command)
    assert (done.returncode, done.stdout) == (2, "") and said in done.stderr and "Traceback" not in done.stderr


TOOLS = sorted(path.stem for path in (ROOT / "tools").glob("*.py"))


@pytest.mark.parametrize("name", TOOLS)
def test_a_python_without_vxc_is_told_how_to_get_it(name):
    """No packages of the site, so neither vxc nor what it needs."""
    done = subprocess.run([sys.executable, "-E", "-S", f"tools/{name}.py", "--help"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith(f"{name}.py: ") and done.stderr.count("\n") == 1
    assert " has no vxc, no lark, no numpy, no ml_dtypes; make an environment: " in done.stderr
