"""`vxc fuzz --on gpu` without a GPU: workers that start afresh, with a driver put in the place of CUDA's in every process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

FAKE = """
import contextlib, pathlib, time
import vxc.runtime.driver, vxc.runtime.launch
from vxc.diag import Diagnostic, VxcError
from vxc.interp.flat_interp import run_flat

class Fake:
    def device_count(self): return 1
    def capability(self, device): return (9, 0)
    @contextlib.contextmanager
    def active(self, device):
        {context}
        yield

def run_numpy(compiled, arrays, scalars=None, *, dims=None, device=0):
    {run}
    return run_flat(compiled.plan, arrays, scalars, dims=dims)

fake = Fake()
vxc.runtime.driver.driver = lambda: fake
vxc.runtime.launch.run_numpy = run_numpy
"""
FAILS = 'raise VxcError(Diagnostic("E0604", "cuMemAlloc failed"))'
FAILS_ONCE = """mark = pathlib.Path(__file__).with_name("mark")
    if not mark.exists() or getattr(fake, "broken", False):
        mark.touch()
        fake.broken = True
        """


def fuzz(folder: Path, *arguments: object, context: str = "pass", run: str = "pass") -> tuple[subprocess.CompletedProcess, float]:
    """What the command prints, and how many seconds it takes."""
    (folder / "sitecustomize.py").write_text(FAKE.format(context=context, run=run))
    command = [sys.executable, "-m", "vxc", "fuzz", "--on", "gpu", "-o", folder, *arguments]
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    start = time.monotonic()
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=100)
    return done, time.monotonic() - start


def test_programs_run_in_workers_with_contexts_of_their_own(tmp_path):
    done, _ = fuzz(tmp_path, "-n", 4, "-j", 2, "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert (report["gpu"], report["programs"], report["failures"], report["unfinished"]) == (True, 4, [], [])


@pytest.mark.parametrize("hang", [{"run": "time.sleep(900)"}, {"context": "time.sleep(900)"}], ids=["programs", "contexts"])
def test_the_time_is_kept_whatever_hangs(tmp_path, hang):
    done, seconds = fuzz(tmp_path, "--time", 4, "-j", 2, **hang)
    assert (done.returncode, done.stderr) == (0, "") and seconds < 30
    said = r"0 programs in \d+\.\d s, 0 a minute: nothing was compared\ngiven up when the time was over: seeds 0, 1; "
    assert re.match(said, done.stdout)
    assert re.search(r"; seed [01] after \d+\.\d s in .+\n$", done.stdout)


def test_without_contexts_nothing_is_run(tmp_path):
    done, _ = fuzz(tmp_path, "-n", 3, context=FAILS)
    assert (done.returncode, done.stdout, done.stderr) == (4, "", "error[E0604]: cuMemAlloc failed\n")


def test_a_context_in_which_cuda_has_failed_is_not_used_again(tmp_path):
    """Nothing works in it: every later program would fail, too."""
    done, _ = fuzz(tmp_path, "-n", 4, "-j", 1, "--json", run=FAILS_ONCE + FAILS)
    (failure,) = json.loads(done.stdout)["failures"]
    assert done.returncode == 3 and len(failure["seeds"]) == 1 and (failure["where"], failure["cause"]) == ("gpu", "E0604")
