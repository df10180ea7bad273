"""Helpers of the AST interpreter's tests: running kernel text, with one iteration at a time and with all at once."""

from __future__ import annotations

import numpy as np
import pytest

from vxc.diag import VxcError
from vxc.frontend.check import check, check_module
from vxc.frontend.parse import parse
from vxc.interp import ast_stmt
from vxc.interp.ast_interp import run_ast
from vxc.source import Source

RNG = np.random.default_rng(7)


@pytest.fixture(params=[1, 1 << 20], ids=["one by one", "at once"])
def budget(request, monkeypatch):
    """A test runs with one iteration of a parallel loop at a time, and with all of them."""
    monkeypatch.setattr(ast_stmt, "BUDGET", request.param)


def typed(text: str, name: str | None = None):
    """The kernel or program of a text; without `name` the first."""
    source = Source("t.vx", text)
    return check(parse(source), source, name) if name else check_module(parse(source), source)[0]


def run(text: str, *, name=None, dims=None, trap_div=False, **arguments):
    """The outputs of a kernel or program."""
    arrays = {k: v for k, v in arguments.items() if isinstance(v, np.ndarray)}
    scalars = {k: v for k, v in arguments.items() if not isinstance(v, np.ndarray)}
    return run_ast(typed(text, name), arrays, scalars, dims=dims, trap_div=trap_div)


def out(text: str, **arguments):
    """The only output."""
    (value,) = run(text, **arguments).values()
    return value


def fault(text: str, **arguments) -> tuple[str, str, str]:
    """Code, message and the source text under the carets."""
    with pytest.raises(VxcError) as caught:
        run(text, **arguments)
    (found,) = caught.value.diagnostics
    return found.code, found.message, found.source.slice(found.span)


def f32(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def equal(got, wanted):
    np.testing.assert_array_equal(got, np.asarray(wanted, got.dtype), strict=True)
