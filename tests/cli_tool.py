"""Calling the command line in this process, with standard input, output and error as bytes."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from vxc.cli.main import main

SAMPLES = Path(__file__).parent.parent / "samples"

SCALE = """\
kernel scale(x: f32[M, N], w: f32[N], a: f32, out y: f32[M, N]) {
    parallel i in M { y[i] = a * x[i] * w; }
}
example scale(x = rand(f32, 3, 7), w = rand(f32, 7), a = 2.0);
"""

TWO = """\
kernel dbl(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = 2.0 * x[i]; } }
kernel inc(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = 1.0 + x[i]; } }
example dbl(x = rand(f32, 8));
example inc(x = rand(f32, 8));
"""


class Result(NamedTuple):
    status: int
    out: str
    err: str
    raw: bytes


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def vxc(*arguments: object, stdin: str | bytes = b"", terminal: bool = False) -> Result:
    """What `vxc ARGUMENTS` gives; with `terminal`, its output and errors go to one."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    kind = Terminal if terminal else io.TextIOWrapper
    out, err = kind(io.BytesIO()), kind(io.BytesIO())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        status = main([str(a) for a in arguments])
        out.flush()
        err.flush()
    raw = out.buffer.getvalue()
    return Result(int(status), raw.decode("utf-8", "replace"), err.buffer.getvalue().decode(), raw)
