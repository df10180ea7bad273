"""Programs: sizes, arrays and calls; generics and dimensions of the kernels that they call."""

from __future__ import annotations

import pytest
from typed_text import errors, expr, kernels, rejects

from vxc.dtypes import F16, F32
from vxc.frontend.check import check, kernel_names, program_names
from vxc.frontend.parse import parse
from vxc.frontend.typed_program import TypedProgram
from vxc.source import Source

ROW_SUMS = """
kernel parts<C>(x: f32[M, N], s: f32, out w: f32[C, M]) { parallel c in C, i in M { w[c, i] = x[i, c] * s; } }
kernel fold<T: dtype>(w: T[C, R], out y: T[R]) { parallel i in R { y[i] = sum(w[:, i]); } }
program row_sums<C = 8>(x: f32[M, N], s: f32, out y: f32[M]) {
    let rows = M + 2;
    local w: f32[C, M];
    parts(x, s * 2, w);
    fold(w, y);
    fold(w, y);
}
example row_sums(x = rand(f32, 5, 16), s = 0.5);
"""


def only_program(text: str, **more) -> TypedProgram:
    [program] = [item for item in kernels(text, **more) if isinstance(item, TypedProgram)]
    return program


def test_a_program():
    program = only_program(ROW_SUMS)
    assert ([p.name for p in program.params], [d.name for d in program.dims]) == (["x", "s", "y"], ["M", "N"])
    assert [(symbol.name, expr(value)) for symbol, value in program.lets] == [("rows", "add(M, 2)")]
    assert [(a.name, a.space, [expr(size) for size in a.shape]) for a in program.locals] == [("w", "local", ["8", "M"])]
    parts, fold, again = program.calls
    assert parts.args[0] is program.params[0] and parts.args[2] is fold.args[0] is program.locals[0]
    assert expr(parts.args[1]) == "mul(s, 2.0:f32)"
    assert program.example.arrays[0][:4] == ("x", "rand", F32, (5, 16))
    assert fold.kernel is again.kernel, "equal calls share a kernel"


def test_generics_and_dimensions_follow_from_the_arguments():
    parts, fold, _ = only_program(ROW_SUMS).calls
    assert [[expr(size) for size in a.shape] for a in parts.kernel.arrays] == [["M", "N"], ["8", "M"]]
    assert [[expr(size) for size in a.shape] for a in fold.kernel.arrays] == [["8", "R"], ["R"]]  # a size that is known
    assert fold.kernel.arrays[0].dtype is F32
    assert [d.name for d in fold.kernel.dims] == ["R"] and [expr(size) for size in fold.dims] == ["M"]
    assert only_program(ROW_SUMS, defines={"C": 4}).locals[0].shape[0].value == 4


def test_a_generic_by_name_and_kernels_of_their_own_in_each_call():
    text = """kernel scale<K = 2, T: dtype = f32>(x: T[N], out y: T[N]) { y = x * K; }
    program p(x: f16[N], out y: f16[N]) { local t: f16[N]; scale(x, t, K = 3); scale(t, y, T = f16); }"""
    first, second = only_program(text).calls
    assert first.kernel.arrays[0].dtype is F16
    assert [expr(call.kernel.body[0].body[0].value) for call in (first, second)] == [
        "cast<f16>(mul(cast<f32>(x[j]), 3.0:f32))",
        "cast<f16>(mul(cast<f32>(x[j]), 2.0:f32))",
    ]


def test_sizes_that_a_scalar_argument_fixes():
    text = """kernel k(n: i64, x: f32[n], out y: f32[n * 2]) { y[:n] = x; }
    program p(x: f32[N], out y: f32[M]) { local t: f32[N * 2]; k(N, x, t); }"""
    [call] = only_program(text).calls
    assert (expr(call.args[0]), call.dims) == ("N", ())
    assert errors(text.replace("t: f32[N * 2]", "t: f32[N * 2 + 1]")) == [
        ("E0233", "dimension 0 of argument `y` of `k` is 2*N, and `t` has 2*N + 1")
    ]


def test_what_is_wrong_in_a_called_kernel_is_said_once():
    text = """kernel k<T: dtype>(x: T[N], out y: T[N]) { y = nothing; }
    program p(x: f32[N], h: f16[N], out y: f32[N], out z: f16[N]) { k(x, y); k(h, z); k(x, y); }"""
    assert errors(text) == [("E0201", "nothing is named `nothing` here")]


PROGRAM = """
kernel double(x: f32[N], out y: f32[N]) { y = x * 2; }
kernel half(x: f32[M, N], out y: f16[M]) { parallel i in M { y[i] = x[i, 0]; } }
kernel many<C = 2>(x: f32[N], out y: f32[N]) { y = x * C; }
kernel flat(x: f32[M, N], out y: f32[M, N]) { y = x; }
program p(x: f32[N], w: f32[N, 8 : ld], out y: f32[N]) {
    local t: f32[N];
    local u: f32[N, 8];
    double(x, t);
    BODY
}
"""
CALLS = [
    ("double(x, §x);", "E0211", "`x` is an `in` parameter and cannot be written"),
    ("§dbl(x, y);", "E0234", "there is no kernel `dbl`"),
    ("§double(x);", "E0233", "`double` takes 2 arguments, and 1 are given"),
    ("double(x, t, §C = 1);", "E0209", "`double` has no generic `C`"),
    ("§serial i in 8 { }", "E0232", "a program is made of `let`, `local` and kernel calls"),
    ("§var v = 1;", "E0232", "a program is made of `let`, `local` and kernel calls"),
    ("half(§x, y);", "E0233", "argument `x` of `half` has 2 dimensions, and `x` has 1"),
    ("half(u, §y);", "E0233", "argument `y` of `half` has elements of `f16`, and `y` of `f32`"),
    ("double(§3, y);", "E0233", "argument `x` of `double` is an array"),
    ("double(§zz, y);", "E0201", "nothing is named `zz` here"),
    ("double(t, §t);", "E0233", "`double` writes `t`, which is passed to it twice"),
    ("local q: f32[N + 1]; double(x, §q);", "E0233", "dimension 0 of argument `y` of `double` is N, and `q` has N + 1"),
    ("local q: f32[N, 9]; flat(u, §q);", "E0233", "dimension 1 of argument `y` of `flat` is 8, and `q` has 9"),
    ("let a = §x[0];", "E0232", "a program reads an element of an array"),
    ("let a = §sum(x);", "E0232", "a program reads an element of an array"),
    ("let r = §x * 2;", "E0232", "a program reads an element of an array"),
    ("local q: f32[N] = §0;", "E0231", "`q` is filled by the program"),
    ("local q: §f32;", "E0231", "`q` has no dimensions"),
    ("local q: f32[§N : 8];", "E0231", "`q` has a written pitch"),
    ("local q: f32[§-1];", "E0219", "a dimension of -1 elements"),
    ("many(x, y, C = §N);", "E0218", "generic `C` is an integer or bool known when compiling"),
    ("§@threads(32) double(x, y);", "E0220", "`@threads` does not belong to a statement of this kind"),
]


@pytest.mark.parametrize("text, code, message", CALLS, ids=[row[0] for row in CALLS])
def test_a_statement_of_a_program_is_rejected(text, code, message):
    rejects(PROGRAM.replace("BODY", text), code, message)


def test_a_generic_that_nothing_gives():
    text = "kernel k<§C>(x: f32[N], out y: f32[N]) { y = x * C; } program p(x: f32[N], out y: f32[N]) { k(x, y); }"
    rejects(text, "E0218", "generic `C` has no value", "write `k(.., C=8)`")


def test_programs_by_name():
    module = parse(source := Source("t.vx", ROW_SUMS))
    assert (kernel_names(module), program_names(module)) == (["parts", "fold"], ["row_sums"])
    assert isinstance(check(module, source, "row_sums"), TypedProgram)
    assert [item.name for item in kernels(ROW_SUMS)] == ["row_sums"]  # the kernels take their generics from the calls
