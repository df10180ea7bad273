"""Every diagnostic code of the registry is given by the smallest input that can: its message, its place and its way out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from code_calls import CALLS
from code_inputs import NOTES, RUNS, SOURCES, TEXTS

from vxc.codes import CODES
from vxc.cuda import nvrtc
from vxc.diag import Diagnostic, VxcError, render
from vxc.driver import compile, compile_ir
from vxc.explain.bounds import bounds_of
from vxc.frontend.check import check, check_module, kernel_names, program_names
from vxc.frontend.parse import parse
from vxc.interp.ast_interp import run_ast
from vxc.source import Source

# What is wrong is all that can be said: broken rules of IR, which no user writes, and an assertion of the author's.
NO_WAY_OUT = {code for code in CODES if code.startswith("E05")} | {"E0723"}


def diagnostic(run: Callable[[], object]) -> Diagnostic:
    """The first finding, which renders and has a way out."""
    with pytest.raises(VxcError) as caught:
        run()
    found = caught.value.diagnostics[0]
    assert render(found).startswith(f"error[{found.code}]: ")
    assert found.help or found.code in NO_WAY_OUT
    return found


def placed(text: str, name: str, run: Callable[[Source], object]) -> tuple[str, str]:
    """Code and message of what is found in a text at its `§`, or without a place where there is none."""
    found = diagnostic(lambda: run(Source(name, text.replace("§", ""))))
    assert (found.span.start if found.span else -1) == text.find("§"), found.place
    assert found.span is None or found.source.name == name
    return found.code, found.message


def compiled(source: Source) -> None:
    """Everything that can be asked of a source."""
    module = parse(source)
    check_module(module, source, resolve=lambda path, importer: source)
    for name in (*program_names(module), *kernel_names(module)):
        assert compile(source, name).binary


def test_every_code_has_one_input():
    tables = [*SOURCES, *TEXTS, *RUNS, *CALLS, *NOTES]
    assert sorted(tables) == sorted(CODES)


@pytest.mark.parametrize("code", SOURCES)
def test_sources(code):
    text, message = SOURCES[code]
    assert placed(text, "k.vx", compiled) == (code, message)


@pytest.mark.parametrize("code", TEXTS)
def test_ir(code):
    text, message = TEXTS[code]
    assert placed(text, "k.vxir", compile_ir) == (code, message)


@pytest.mark.parametrize("code", RUNS)
def test_runs(code):
    text, arrays, scalars, message = RUNS[code]

    def run(source: Source) -> None:
        run_ast(check(parse(source), source, "k"), arrays, scalars, trap_div=True)

    assert placed(text, "k.vx", run) == (code, message)


@pytest.mark.parametrize("code", CALLS)
def test_calls(code, tmp_path, monkeypatch):
    call, message = CALLS[code]
    try:
        found = diagnostic(lambda: call(tmp_path, monkeypatch))
    finally:
        nvrtc._nvrtc.cache_clear()
    assert found.code == code and found.message.replace(f"{tmp_path}/", "").startswith(message) and message


@pytest.mark.parametrize("code", NOTES)
def test_notes(code):
    text, message = NOTES[code]
    (found,) = bounds_of(compile(Source("k.vx", text.replace("§", ""))).tile)
    note = found.diagnostic
    assert (note.code, note.message, note.span.start) == (code, message, text.find("§")) and note.help
    assert render(note).startswith(f"note[{code}]: ")
