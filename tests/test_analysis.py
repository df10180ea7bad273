"""Index forms, ranges and the accesses of a kernel."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vxc.analysis.access import collect, known_dimensions
from vxc.analysis.concrete import evaluate_form
from vxc.analysis.forms import ZERO, Atom, form, gather, split
from vxc.analysis.ranges import Ranges
from vxc.frontend.check import check, kernel_names
from vxc.frontend.lower import lower
from vxc.frontend.parse import parse
from vxc.source import Source

I, J, N, S = (Atom(n) for n in "ijNs")  # i in 0..N (so N >= 1), j in 0..16, s any integer
RANGES = Ranges({}, {N: 0}).with_bounds({I: (ZERO, form(N) - 1), J: (ZERO, form(15))}, [form(N)])
i, j, n, s = map(form, (I, J, N, S))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (i + 1, "i + 1"),
        (n - 1 - i, "N - i - 1"),
        (i * n + j - 3, "N * i + j - 3"),
        (-i, "-i"),
        (i - i, "0"),
        ((i + 1) * (i - 1), "i * i - 1"),
        (RANGES.floordiv(i, form(4)) * 2, "2 * (i // 4)"),
        (RANGES.mod(i + s, form(4)), "(i + s) % 4"),
    ],
)
def test_text_of_forms(value, text):
    assert str(value) == text


@pytest.mark.parametrize(
    ("value", "simplified"),
    [
        (RANGES.floordiv(i * 16 + j, form(16)), i),
        (RANGES.mod(i * 16 + j, form(16)), j),
        (RANGES.floordiv(j * n + i, n), j),
        (RANGES.mod(j * n + i, n), i),
        (RANGES.floordiv(j, form(16)), ZERO),
        (RANGES.floordiv(RANGES.floordiv(i, form(4)), form(8)), RANGES.floordiv(i, form(32))),
        (RANGES.floordiv(i, ZERO), ZERO),
        (gather(RANGES.floordiv(i, form(8)) * 8 + RANGES.mod(i, form(8))), i),
        (gather(RANGES.floordiv(s, n) * n + RANGES.mod(s, n)), s),
    ],
)
def test_digits_simplify(value, simplified):
    assert value == simplified


@pytest.mark.parametrize(
    ("value", "known"),
    [
        (i, True),
        (n - 1 - i, True),
        (n - 2 - i, False),
        (n - 1, True),
        (n - 2, False),
        (n * j + i, True),
        (s, False),
        (n - RANGES.floordiv(n, form(2)) * 2, True),
        (RANGES.floordiv(n, form(2)) * 2 - n, False),
        (form(15) - RANGES.mod(s, form(16)), True),
        (form(3) - RANGES.floordiv(j, form(4)), True),
        (form(2) - RANGES.floordiv(j, form(4)), False),
        (i * i, False),
    ],
)
def test_nonnegative(value, known):
    assert RANGES.nonnegative(value) is known


def test_split_divides_towards_zero():
    assert split(i * 33 - j + 40, form(32)) == (i + 1, i - j + 8)
    assert split(i * n * 2 + j, n) == (i * 2, j)


NUMBERS = st.integers(-6, 6)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.sampled_from("+-*/%"), st.sampled_from([I, J, N, S, 2, 3, 8])), max_size=5), st.data())
def test_forms_mean_what_they_are_made_from(steps, data):
    size = data.draw(st.integers(1, 6))
    values = {"N": size, "i": data.draw(st.integers(0, size - 1)), "j": data.draw(st.integers(0, 15)), "s": data.draw(NUMBERS)}
    symbolic, number = form(I), values["i"]
    for op, operand in steps:
        x = values[operand.name] if isinstance(operand, Atom) else operand
        f = form(operand)
        if op in "/%":
            symbolic = RANGES.floordiv(symbolic, f) if op == "/" else RANGES.mod(symbolic, f)
            number = 0 if x == 0 else number // x if op == "/" else number % x
        else:
            symbolic = symbolic + f if op == "+" else symbolic - f if op == "-" else symbolic * f
            number = number + x if op == "+" else number - x if op == "-" else number * x
        symbolic = gather(symbolic)
    assert int(evaluate_form(symbolic, values)) == number
    if RANGES.nonnegative(symbolic):
        assert number >= 0


def facts(text: str):
    source = Source("k.vx", text)
    module = parse(source)
    plan = lower(check(module, source, kernel_names(module)[0]))
    return collect(plan.kernels[0], known_dimensions(plan, plan.kernels[0]))


def test_accesses_of_a_kernel():
    found = facts("""kernel k(x: f32[M, N], p: i32[N], out y: f32[M, N]) {
        parallel i in M, j in N { if j > 0 { y[i, p[j]] = x[i, j - 1]; } } }""")
    shown = [(a.mode, a.buffer.name, [*map(str, a.indices)], [(str(c), holds) for c, holds in a.guards]) for a in found.accesses]
    assert shown == [
        ("read", "p", ["j"], [("gt(j, 0)", True)]),
        ("read", "x", ["i", "j - 1"], [("gt(j, 0)", True)]),
        ("write", "y", ["i", shown[2][2][1]], [("gt(j, 0)", True)]),
    ]
    unknown = found.accesses[2].indices[1]
    assert found.varies(next(unknown.atoms()).name, found.loops[0])


def test_equal_accesses_are_listed_once():
    found = facts("kernel k(inout a: f32[N]) { parallel i in N { " + "a[i] = a[i] * 2.0; " * 50 + "} }")
    assert [(a.mode, str(a.indices[0])) for a in found.accesses] == [("read", "i"), ("write", "i")]


def test_derived_dimensions_are_known():
    found = facts("kernel k(x: f32[M // 2, M], n: i64, z: f32[n]) { parallel i in n { let t = z[i]; let u = x[0, 0]; } }")
    assert [str(f) for f in (*found.extents["x"], *found.extents["z"])] == ["M // 2", "M", "n"]


def test_value_ifs_and_short_circuits_are_forms():
    found = facts("""kernel k(x: f32[N], out y: f32[N]) { parallel i in N {
        if i > 0 && i < 8 || i == 9 { y[if i > 4 { i } else { 0 }] = x[i]; } } }""")
    write = found.accesses[-1]
    assert str(write.indices[0]) == "select(gt(i, 4), i, 0)"
    assert [str(c) for c, _ in write.guards] == ["or(and(gt(i, 0), lt(i, 8)), eq(i, 9))"]
