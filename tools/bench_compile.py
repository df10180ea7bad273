"""How long compiling takes, without NVRTC: one line of JSON per measurement, each the best of several.

    python tools/bench_compile.py

`import` and `check` are whole processes less a bare one (`check` less `import numpy`); `samples` are front end and all
passes, warm; `statements` a kernel of straight-line statements, up to emitted text, and what doubling it costs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from vxc.diag import read_source
from vxc.driver import compile
from vxc.source import Source

ROOT = Path(__file__).resolve().parent.parent
RUNS = 7


def process(*command: str) -> float:
    """The least wall time of a command, in milliseconds."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        subprocess.run([sys.executable, *command], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def best(run) -> float:
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def straight_line(count: int) -> str:
    lines = "\n".join(f"        y[i] = y[i] * {k % 7 + 1}.5 + x[i];" for k in range(count))
    return f"kernel long(x: f32[N], inout y: f32[N]) {{\n    parallel i in N {{\n{lines}\n    }}\n}}\n"


def say(what: str, milliseconds: float, limit: float, **more) -> None:
    print(json.dumps({"what": what, "ms": round(milliseconds, 1), "limit_ms": limit, **more}), flush=True)


def main() -> None:
    bare = process("-c", "pass")
    say("import vxc", process("-c", "import vxc") - bare, 60)
    above = process("-m", "vxc", "check", "samples/softmax.vx") - process("-c", "import numpy")
    say("vxc check samples/softmax.vx, above import numpy", above, 350)

    for path in sorted((ROOT / "samples").glob("*.vx")):
        source = read_source(path)
        compile(source).plan
        say(f"samples/{path.name}, front end and passes", best(lambda: compile(source).plan), 40)
    once = _timed(lambda: compile(Source("long.vx", straight_line(5000))).cuda)
    twice = _timed(lambda: compile(Source("long.vx", straight_line(10000))).cuda)
    say("5,000 statements, to CUDA text", once, 10_000, doubling=round(twice / once, 2), doubling_limit=2.2)


def _timed(run) -> float:
    """The better of two runs, in processor time: what else the machine does is not counted."""
    times = []
    for _ in range(2):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times) * 1e3


if __name__ == "__main__":
    main()
