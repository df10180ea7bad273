"""Spellings of other languages: each is refused with what is written here, and what is advised compiles."""

from __future__ import annotations

import re

import pytest

from vxc.diag import VxcError
from vxc.driver import compile
from vxc.frontend import foreign
from vxc.frontend.check_calls import BUILTINS
from vxc.source import Source

EACH = "kernel k(x: f32[M, N], out y: f32[M, N]) { parallel i in M, j in N { %s } }"
ROW = "kernel k(x: f32[M, N], out y: f32[M]) { parallel i in M { %s } }"
HEAD = "kernel k(x: f32[N], out y: f32[N]) { %s }"
ITEM = "%s kernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i]; } }"
PROGRAM = "kernel a(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i]; } }\nprogram p(x: f32[N], out y: f32[N]) { %s }"

# the text around, what is foreign, what the help says, and what compiles
ROWS = [
    (EACH, "y[i, j] = x[i, j] ** 2;", "write `pow(x, y)`, or `x * x`, for a power", "y[i, j] = pow(x[i, j], 2.0);"),
    (EACH, "y[i, j] = relu(x[i, j]);", "write `max(x, 0.0)`", "y[i, j] = max(x[i, j], 0.0);"),
    (ROW, "y[i] = mean(x[i]);", "write `sum(x) / (N as f32)`", "y[i] = sum(x[i]) / (N as f32);"),
    (EACH, "y[i, j] = float(x[i, j]);", "write `x as f32`", "y[i, j] = x[i, j] as f32;"),
    (EACH, "__syncthreads(); y[i, j] = x[i, j];", "no barrier is written: the compiler puts them", "y[i, j] = x[i, j];"),
    (ROW, "y[i] = sum(x[i, :-1]);", "bounds count from 0, negative ones not from the end: write `N - 1`", "y[i] = sum(x[i, :N - 1]);"),
    (ROW, "y[i] = sum(x[i:+1, :], dim=1);", "an axis is named `axis`: `sum(x, axis = 1)`", "y[i] = sum(x[i]);"),
    (ROW, "y[i] = sum(x[i], keepdim=true);", "a reduction drops its axis: remove it", "y[i] = sum(x[i]);"),
    (HEAD, "paralel i in N { y[i] = x[i]; }", "did you mean `parallel`?", "parallel i in N { y[i] = x[i]; }"),
    (HEAD, "seriel i in N { y[i] = x[i]; }", "did you mean `serial`?", "serial i in N { y[i] = x[i]; }"),
    (EACH, "float a = x[i, j]; y[i, j] = a;", "types follow the name, as in `let a: f32`", "let a: f32 = x[i, j]; y[i, j] = a;"),
    (EACH, "const float a = x[i, j]; y[i, j] = a;", "write `let a = ..;`", "let a = x[i, j]; y[i, j] = a;"),
    (EACH, "y[i, j] = (f32)x[i, j];", "write `x as f32` to convert", "y[i, j] = x[i, j] as f32;"),
    (EACH, "y[i, j] = 2.0 * (double) (x[i, j]);", "write `x as f64`", "y[i, j] = (2.0 * (x[i, j] as f64)) as f32;"),
    (EACH, "y[i, j] = x[i, j] if i > 0 else 0.0;", "write `if c { a } else { b }`", "y[i, j] = if i > 0 { x[i, j] } else { 0.0 };"),
    (PROGRAM, "let w: f32[N]; a(x, w); a(w, y);", "`local`: `local w: f32[N];`", "local w: f32[N]; a(x, w); a(w, y);"),
    (HEAD, "parallel i in n { y[i] = x[i]; }", "did you mean `N`?", "parallel i in N { y[i] = x[i]; }"),
    (HEAD, "for (int i = 0; i < N; i++) { y[i] = x[i]; }", "write `serial i in 0..n { }`", "serial i in 0..N { y[i] = x[i]; }"),
    (HEAD, "atomicAdd(y[0], 1.0);", "write `atomic_add(y[i], x);`", "parallel i in N { y[i] = x[i]; }"),
    ("kernel k(x: %s[N], out y: f32[N]) { parallel i in N { y[i] = x[i]; } }", "float", "write `f32`", "f32"),
    ("kernel k(x: %s[N], out y: f32[N]) { parallel i in N { y[i] = x[i]; } }", "float16", "write `f16`", "f16"),
    (HEAD, "parallel i in range(N) { y[i] = x[i]; }", "as in `i in N`, or `i in a..b`", "parallel i in 0..N { y[i] = x[i]; }"),
    (HEAD, "atomicAdd(&y[0], 1.0);", "write `atomic_add(y[i], x);`, and no `&`", "parallel i in N { y[i] = x[i]; }"),
    (HEAD, "let i = blockIdx.x; y[i] = x[i];", "no thread has a number: write `parallel i in N { }`", "parallel i in N { y[i] = x[i]; }"),
    (HEAD, "let i = tl.program_id(0); y[i] = x[i];", "`grid i in N { }` for blocks", "grid i in N { y[i] = x[i]; }"),
    (HEAD, "parallel i in x.shape[0] { y[i] = x[i]; }", "`N` of `x: f32[N]`", "parallel i in N { y[i] = x[i]; }"),
    (HEAD, "parallel i in N: y[i] = x[i];", "a block stands in braces: write `{` here", "parallel i in N { y[i] = x[i]; }"),
    (HEAD, "parallel i in N:\n y[i] = x[i]\n", "a block stands in braces: write `{` here", "parallel i in N { y[i] = x[i]; }"),
    (ROW, "y[i] = x[i] @ x[i];", "write `dot(a, b)` for two rows", "y[i] = dot(x[i], x[i]);"),
    (ROW, "y[i] = x[i].sum();", "nothing has members: write `sum(x)`", "y[i] = sum(x[i]);"),
    (ROW, "y[i] = torch.mean(x[i]);", "write `sum(x) / (N as f32)`", "y[i] = sum(x[i]) / (N as f32);"),
    (EACH, "y[i, j] = math.exp(x[i, j]);", "write `exp(..)`, with no module before it", "y[i, j] = exp(x[i, j]);"),
    (EACH, "y[i, j] = x[i, j].to(f32);", "write `x as f32` to convert", "y[i, j] = x[i, j] as f32;"),
    (EACH, "if True { y[i, j] = x[i, j]; }", "did you mean `true`?", "if true { y[i, j] = x[i, j]; }"),
    (EACH, "y[i, j] = x[i, j] /* all */ + 1.0;", "write `#` before each line of a comment", "y[i, j] = x[i, j] # all\n + 1.0;"),
    (EACH, "y[i, j] = x[i, j] \u2013 1.0;", "write `-`", "y[i, j] = x[i, j] - 1.0;"),
    (ITEM, "/* one */", "write `#` before each line of a comment", "# one\n"),
    (ITEM, "import torch\n", "kernels need no packages: remove it", ""),
    (ITEM, "__global__ void f(float* x) { }", "write `kernel name(x: f32[N]", ""),
    (ITEM, "@triton.jit\n", "write `kernel name(x: f32[N]", ""),
    (ITEM, "def f(x):\n", "write `kernel`, or `fn` for what kernels call", ""),
    ("kernel k%s { parallel i in N { y[i] = x[i]; } }", "(x: f32[N]) -> f32[N]", "a kernel returns nothing", "(x: f32[N], out y: f32[N])"),
    *(("kernel k(x: %s, out y: f32[N]) { parallel i in N { y[i] = x[i]; } }", wrong, help, "f32[N]") for wrong, help in (
        ("f32[]", "name each dimension, as in `f32[N]`"), ("float[*]", "name each dimension, as in `f32[N]`"),
        ("f32*", "there are no pointers"), ("*f32", "there are no pointers"), ("torch.float32[N]", "write `f32`"),
    )),
    *(("kernel k(%s, out y: f32[N]) { parallel i in N { y[i] = x[i]; } }", wrong, "a name comes before its type", "x: f32[N]") for wrong in
      ("x", "float x[N]")),
    ("kernel k<%s>(x: f32[B], out y: f32[B]) { parallel i in B { y[i] = x[i]; } }", "B: tl.constexpr", "`kernel k<BLOCK = 128>", "B = 8"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wrong", "help", "right"), ROWS, ids=[row[1] for row in ROWS])
def test_foreign_text_is_told_what_is_written_here(text, wrong, help, right):
    with pytest.raises(VxcError) as caught:
        compile(Source("k.vx", text % wrong))
    assert help in caught.value.diagnostics[0].help
    assert compile(Source("k.vx", text % right)).cuda


@pytest.mark.parametrize("wrong", ["y[i] = (x[i]) y;", "let a: f32;", "y[i] = 1 2;", "y[i] = x[i] if;", "wombat a in N { }", "(a) = b c;"])
def test_other_mistakes_are_not_taken_for_foreign_text(wrong):
    with pytest.raises(VxcError) as caught:
        compile(Source("k.vx", HEAD % wrong))
    assert not any(words in caught.value.diagnostics[0].help for words in ("to convert", "`local`", "did you mean", "if c {", "let a ="))


@pytest.mark.parametrize("name", [*foreign.FUNCTIONS, *foreign.STATEMENTS, *foreign.TYPES])
def test_nothing_of_the_language_is_called_foreign(name):
    assert name not in BUILTINS


def test_functions_that_are_advised_exist():
    advised = {name for text in (*foreign.FUNCTIONS.values(), *foreign.STATEMENTS.values()) for name in re.findall(r"(\w+)\(", text)}
    assert advised <= BUILTINS
