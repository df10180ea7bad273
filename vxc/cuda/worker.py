"""A process that compiles one text. NVRTC compiles one at a time in each process, so several at once need several processes.

    python -m vxc.cuda.worker < JOB > BINARY       a `cached.Job` as JSON; what `cached.to_bytes` gives, or status 1
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from vxc.cuda.cached import Job, of_bytes, to_bytes
from vxc.cuda.nvrtc import Binary
from vxc.diag import VxcError

ROOT = Path(__file__).parents[2]


def elsewhere(job: Job) -> Binary | None:
    """The machine code, made in another process; None where that fails, for reasons that compiling here will say."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "vxc.cuda.worker"]
    done = subprocess.run(command, input=json.dumps(asdict(job)).encode(), capture_output=True, env={**os.environ, "PYTHONPATH": path})
    return None if done.returncode else of_bytes(done.stdout)


def main() -> int:
    try:
        made = Job(**json.load(sys.stdin)).binary()
    except VxcError:
        return 1
    sys.stdout.buffer.write(to_bytes(made))
    return 0


if __name__ == "__main__":
    sys.exit(main())
