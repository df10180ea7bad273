"""The command line as a whole: exit statuses, standard streams, locales, completion, and the commands that print tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_tool import SAMPLES, SCALE, vxc

from vxc.cli import check as check_command
from vxc.cli.main import COMMANDS
from vxc.ir.narrow import REASONS
from vxc.ir.ops import OPS
from vxc.pipeline import PASSES
from vxc.runtime import doctor

ROOT = Path(__file__).parent.parent
ACCESSES = ("load", "store", "move", "move.async", "atomic")  # of global and shared memory


def process(*arguments: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess:
    """`python -m vxc` in a process of its own."""
    command = [sys.executable, "-m", "vxc", *arguments]
    return subprocess.run(command, capture_output=True, cwd=cwd, env={**os.environ, "PYTHONPATH": str(ROOT), **env})


def test_help_lists_every_command_and_the_way_to_completion():
    got = vxc("--help")
    assert got.status == 0
    assert [line.split()[0] for line in got.out.partition("Commands:\n")[2].splitlines()[: len(COMMANDS)]] == list(COMMANDS)
    assert "_VXC_COMPLETE=bash_source vxc" in got.out and "..." not in got.out.partition("Commands:")[2]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command):
    got = vxc(command, "--help")
    assert got.status == 0 and got.out.startswith(f"Usage: vxc {command} ")


@pytest.mark.parametrize("arguments", [["nonsense"], ["check"], ["run"], ["ops", "laod"], ["compile", "-", "--emit", "ir:nonsense"]])
def test_usage_errors_are_status_2(arguments):
    got = vxc(*arguments)
    assert (got.status, got.out) == (2, "") and got.err.startswith("Usage: vxc")


@pytest.mark.parametrize(
    "error, status, words",
    [
        (KeyError("fault"), 70, "internal error: KeyError: 'fault' ("),
        (RecursionError("deep"), 70, "This is a fault of vxc, not of your input. Please report it"),
        (KeyboardInterrupt(), 130, ""),
        (MemoryError(), 4, "error: this machine's memory does not suffice"),
    ],
)
def test_failures_that_are_no_diagnostics(monkeypatch, error, status, words):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(check_command, "compile_typed", fail)
    got = vxc("check", "-", stdin=SCALE)
    assert got.status == status and words in got.err and "Traceback" not in got.err


def test_the_traceback_of_an_internal_error_is_shown_on_request(monkeypatch):
    monkeypatch.setattr(check_command, "compile_typed", None)
    monkeypatch.setenv("VXC_TRACEBACK", "1")
    assert "Traceback (most recent call last)" in vxc("check", "-", stdin=SCALE).err


def test_a_reader_that_stops_early_is_no_failure():
    command = f"{sys.executable} -m vxc ops | head -n 1; echo ${{PIPESTATUS[0]}}"
    got = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT)
    assert (got.stdout.splitlines()[1:], got.stderr) == (["0"], "")


LOCALES = [{"LANG": "C"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}, {"LC_ALL": "C.UTF-8"}]


@pytest.mark.parametrize("locale", LOCALES, ids=str)
def test_names_beyond_ascii_in_any_locale(tmp_path, locale):
    text = "kernel größe(α: f32[n], out β: f32[n]) { parallel i in n { β[i] = α[i] * 2.0; } }  # комментарий\n"
    (tmp_path / "größe.vx").write_text(text, "utf-8")
    (tmp_path / "falsch.vx").write_text(text.replace("α[i]", "γ[i]"), "utf-8")
    locale = {**locale, "PYTHONUTF8": "0"}
    good = process("check", "größe.vx", "-k", "größe", cwd=tmp_path, **locale)
    assert (good.returncode, good.stdout.decode(), good.stderr) == (0, "größe.vx: größe: ok\n", b"")
    bad = process("check", "falsch.vx", cwd=tmp_path, **locale)
    assert bad.returncode == 1
    assert bad.stderr.decode().startswith("error[E0201]: nothing is named `γ` here\n  --> falsch.vx:1:67\n")
    (tmp_path / "über.vx").write_text('import "größe.vx";', "utf-8")
    importing = process("check", "über.vx", cwd=tmp_path, **locale)
    assert (importing.returncode, importing.stderr) == (0, b"")
    ir = process("compile", "größe.vx", "--emit", "ir", "-o", "größe.vxir", cwd=tmp_path, **locale)
    assert (ir.returncode, ir.stderr) == (0, b"")
    assert (tmp_path / "größe.vxir").read_text("utf-8").startswith("plan @größe(%n: i64, @α: f32[%n] in, ")


def test_completion_offers_commands_and_choices():
    got = process(_VXC_COMPLETE="bash_complete", COMP_WORDS="vxc comp", COMP_CWORD="1")
    assert got.stdout == b"plain,compile\n"
    got = process(_VXC_COMPLETE="bash_complete", COMP_WORDS="vxc compile --emit cu", COMP_CWORD="3")
    assert got.stdout == b"plain,cuda\nplain,cubin\n"


def test_check_imports_no_more_than_it_needs():
    code = "import sys; from vxc.cli.main import main; main(['check', sys.argv[1]]); print(*sys.modules)"
    got = subprocess.run([sys.executable, "-c", code, str(SAMPLES / "softmax.vx")], capture_output=True, text=True, cwd=ROOT)
    loaded = set(got.stdout.splitlines()[-1].split())
    assert not loaded & {"rich", "ml_dtypes", "cuda", "vxc.interp.ast_interp", "vxc.runtime.launch", "vxc.cli.run"}


def test_an_interrupt_while_modules_are_imported_is_no_traceback():
    code = "import sys\n"
    code += "class Interrupt:\n    def find_spec(self, name, *more):\n        if name == 'vxc.cli': raise KeyboardInterrupt\n"
    code += "sys.meta_path.insert(0, Interrupt())\nfrom vxc.__main__ import main; sys.exit(main())"
    got = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (got.returncode, got.stdout, got.stderr) == (130, "", "")


def test_ops_has_every_row_of_the_table():
    listed = json.loads(vxc("ops", "--json").out)
    assert [row["name"] for row in listed] == list(OPS)
    assert vxc("ops", "fma").out == f"%r: same = fma value, same, same\n    {', '.join(OPS['fma'].stages)}: {OPS['fma'].doc}\n"
    rows, reasons = vxc("ops").out.split("\n\n")
    assert rows.count("\n    ") == len(OPS)
    assert [line.split('"')[1] for line in reasons.splitlines()[1:]] == list(REASONS)
    assert vxc("ops", "load", "atomic").out.endswith(f"\n\n{reasons}")
    assert {row["name"] for row in listed if row["attrs"].get("narrow", {}).get("choices") == list(REASONS)} == {*ACCESSES}


def test_passes_are_listed_in_order():
    assert [row["name"] for row in json.loads(vxc("passes", "--json").out)] == list(PASSES)
    assert [line.split()[0] for line in vxc("passes").out.splitlines()] == ["PASS", *PASSES]
    assert len({p.doc for p in PASSES.values()}) == len(PASSES)


@pytest.mark.parametrize("missing, status", [("driver", 0), ("nvrtc", 4), ("headers", 4)])
def test_doctor_is_content_where_kernels_compile(monkeypatch, missing, status):
    checks = [doctor.Check(name, "missing" if name == missing else "ok", "detail", "advice") for name in ("nvrtc", "headers", "driver")]
    monkeypatch.setattr("vxc.cli.doctor.report", lambda: checks)
    got = vxc("doctor")
    assert got.status == status
    assert f"{missing:8} missing  detail\n" in got.out and got.out.endswith(f"\n{missing}: advice\n")
    assert json.loads(vxc("doctor", "--json").out)["able_to_compile"] == (status == 0)


@pytest.mark.parametrize("command", ["ops", f"check {ROOT / 'samples' / 'saxpy.vx'}"])
def test_closed_output_is_no_failure(command):
    got = subprocess.run(["bash", "-c", f"{sys.executable} -m vxc {command} >&-"], capture_output=True, text=True, cwd=ROOT)
    assert (got.returncode, got.stderr) == (0, "")


DIGITS = "9" * 5000


@pytest.mark.parametrize(
    "arguments, status",
    [
        (("-a", f"a=0x{DIGITS}"), 1), (("-D", f"N={DIGITS}"), 2), (("-a", f"x=rand:f32[{DIGITS}]"), 1),
        (("--seed", "-1"), 2),
    ],
)  # fmt: skip
def test_numbers_that_fit_nowhere(arguments, status):
    got = vxc("run", ROOT / "samples" / "saxpy.vx", *arguments)
    assert got.status == status and "internal error" not in got.err and len(got.err) < 20_000
