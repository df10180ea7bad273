"""What the command line writes arrives whole, or the command says that it did not: streams that are full, closed or go nowhere."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_tool import SAMPLES, SCALE, TWO, vxc

ROOT = Path(__file__).parent.parent
SOFTMAX = str(SAMPLES / "softmax.vx")
NO_OUTPUT = "error[E0711]: cannot write standard output: "


def shell(line: str, **env: str) -> subprocess.CompletedProcess:
    """A line of bash in which `vxc` is the command."""
    function = f'vxc() {{ "{sys.executable}" -m vxc "$@"; }}\n'
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    return subprocess.run(["bash", "-c", function + line], capture_output=True, text=True, env=environment, cwd=ROOT)


class Part(io.RawIOBase):
    """An unbuffered stream that takes seven bytes at a time, and in all so many."""

    def __init__(self, room: int | None):
        self.room, self.got = room, b""

    def writable(self):
        return True

    def write(self, data):
        taken = bytes(data[: 7 if self.room is None else min(7, self.room - len(self.got))])
        self.got += taken
        return len(taken) if taken else None  # as a pipe that does not block, and is full


class Unbuffered:
    """As `python -u` has it."""

    def __init__(self, room: int | None = None):
        self.buffer = Part(room)

    def flush(self):
        pass


def test_an_unbuffered_stream_gets_everything(monkeypatch):
    from vxc.cli.output import write

    monkeypatch.setattr(sys, "stdout", Unbuffered())
    write("-", lambda file: file.write(b"text " * 100))
    assert sys.stdout.buffer.got == b"text " * 100


def test_an_unbuffered_stream_that_is_full_is_no_success(monkeypatch):
    from vxc.cli.output import write

    monkeypatch.setattr(sys, "stdout", Unbuffered(room=10))
    with pytest.raises(BlockingIOError):
        write("-", lambda file: file.write(b"text " * 100))
    assert sys.stdout.buffer.got == b"text text "


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_under_standard_output(tmp_path, unbuffered):
    done = shell(f"ulimit -f 1; vxc compile {SOFTMAX} > {tmp_path}/out", PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 1 and done.stderr.startswith(NO_OUTPUT + "File too large\n")


@pytest.mark.parametrize("command", [f"check {SOFTMAX}", f"compile {SOFTMAX}", "--help", "ops --json"])
def test_standard_output_that_cannot_be_written(command):
    done = shell(f"vxc {command} 1</dev/null")
    assert done.returncode == 1 and done.stderr.startswith(NO_OUTPUT + "Bad file descriptor\n")


@pytest.mark.parametrize("command", ["--help", "--version", "check --help", "ops", "passes --json"])
def test_a_reader_that_has_seen_enough(command):
    done = shell(f"vxc {command} | true; echo ${{PIPESTATUS[0]}}")
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_standard_input_that_is_closed():
    done = shell("vxc check - <&-")
    assert done.returncode == 1 and done.stderr.startswith("error[E0101]: cannot read <stdin>: it is closed\n")


# ---- -o --------------------------------------------------------------------------------------------------------------


def test_json_and_a_file(tmp_path):
    path = tmp_path / "scale.cubin"
    got = vxc("compile", "-", "--emit", "cubin", "--json", "-o", path, stdin=SCALE)
    assert got.status == 0 and json.loads(got.out)[0]["bytes"] == path.stat().st_size > 0


def test_json_and_a_folder(tmp_path):
    got = vxc("compile", "-", "--emit", "ir", "--json", "-o", f"{tmp_path}/new/", stdin=TWO)
    assert got.status == 0
    assert {row["kernel"]: row["text"] for row in json.loads(got.out)} == {p.stem: p.read_text() for p in (tmp_path / "new").iterdir()}


@pytest.mark.parametrize("options", [["--json"], ["--json", "-o", "-"]])
def test_json_alone_is_what_goes_to_standard_output(options):
    (row,) = json.loads(vxc("compile", "-", *options, stdin=SCALE).out)
    assert row["kernel"] == "scale" and row["text"].count("__global__") == 1


STATS = """\
kernel both(x: f32[N], out a: f32[N], out b: f32[N]) { parallel i in N { a[i] = x[i]; b[i] = -x[i]; } }
example both(x = rand(f32, 8));
"""


def test_two_outputs_do_not_go_to_one_file(tmp_path):
    (tmp_path / "link.npy").symlink_to(tmp_path / "same.npy")
    got = vxc("run", "-", "--on", "ast", "-o", f"a={tmp_path}/same.npy", "-o", f"b={tmp_path}/link.npy", stdin=STATS)
    assert got.status == 2 and "`a` and `b` cannot both go to" in got.err and not (tmp_path / "same.npy").exists()


def test_two_outputs_go_to_one_stream():
    got = vxc("run", "-", "--on", "ast", "-o", "a=-", "-o", "b=-", stdin=STATS)
    stream = io.BytesIO(got.raw)
    assert got.status == 0 and np.array_equal(np.load(stream), -np.load(stream))


def test_a_folder_that_fuzz_cannot_write_to_is_told_first(tmp_path):
    (tmp_path / "file").write_text("")
    got = vxc("fuzz", "-n", "10", "--on", "flat", "-o", tmp_path / "file" / "deep")
    assert got.status == 1 and got.out == "" and got.err.startswith("error[E0711]: cannot write ") and "Not a directory" in got.err


# ---- what names nothing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "option, code",
    [(["-k", ""], "E0234"), (["--arch", ""], "E0701"), (["-o", ""], "E0711")],
)
def test_an_empty_value_is_not_the_default(option, code):
    got = vxc("compile", "-", *option, stdin=SCALE)
    assert (got.status, got.out) == (1, "") and f"error[{code}]" in got.err


def test_an_opcode_that_is_nearly_one():
    assert "did you mean `fma`?" in vxc("ops", "FMA").err and "`vxc ops` lists them" in vxc("ops", "?").err


@pytest.mark.parametrize("header", [b"{'descr': '<f4', (((", b"'''", b"{" * 60])
def test_a_damaged_npy_file(tmp_path, header):
    path = tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(64))
    got = vxc("run", "-", "--on", "ast", "-a", f"x={path}", stdin=STATS)
    assert got.status == 1 and got.err.startswith(f"error[E0710]: argument `x`: cannot read {path}: ")
