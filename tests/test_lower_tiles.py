"""Lowering of tiles and programs: the exact stage=tile text of small kernels, and the plans of programs."""

from __future__ import annotations

import pytest

from tests.test_lower import body
from vxc.diag import VxcError, render_all
from vxc.frontend.check import check, program_names
from vxc.frontend.lower import lower
from vxc.frontend.parse import parse
from vxc.ir.plan import Plan
from vxc.ir.printer import print_kernel, print_plan
from vxc.ir.verify import verify
from vxc.source import Source


def test_a_grid_of_tiles():
    text = """kernel k(a: f16[M, K], b: f16[N, K], inout c: f32[M, N]) {
        grid i in ceildiv(M, 16), j in N // 8 {
            shared s: f16[8, 32];
            fragment acc: f32[16, 8] = 1.0;
            fragment f: f16[16, 32];
            @stages(3) pipelined k in ceildiv(K, 32) {
                copy(a[i*16 :+ 16, k*32 :+ 32], f, pad = -1.5);
                copy(b[j*8, k*32], s);
                gemm(f, s, acc, trans_b = true);
            }
            copy(acc, c[i*16 :+ 16, j*8 :+ 8]);
        } }"""
    assert body(text) == """\
  %0: i64 = ceildiv %M, 16
  %1: i64 = floordiv %N, 8
  %i = loop 0, %0 {kind="parallel", threads=128}
    %j = loop 0, %1 {kind="parallel", threads=128}
      shared @s: f16[8, 32]
      fragment @acc: f32[16, 8]
      %i.1 = loop 0, 16 {independent="tile", kind="parallel"}
        %j.1 = loop 0, 8 {independent="tile", kind="parallel"}
          store @acc, %i.1, %j.1, 1.0:f32
        end %j.1
      end %i.1
      fragment @f: f16[16, 32]
      %2: i64 = ceildiv %K, 32
      %k = loop 0, %2 {kind="serial", stages=3}
        %3: i64 = mul %i, 16
        %4: i64 = mul %k, 32
        copy @a, %3, %4, @f, 0, 0, -1.5:f16 {extents=[16, 32], from=[0, 1], to=[0, 1]}
        %5: i64 = mul %j, 8
        %6: i64 = mul %k, 32
        copy @b, %5, %6, @s, 0, 0, 0.0:f16 {extents=[8, 32], from=[0, 1], to=[0, 1]}
        gemm @f, @s, @acc {trans_b=true}
      end %k
      %7: i64 = mul %i, 16
      %8: i64 = mul %j, 8
      copy @acc, 0, 0, @c, %7, %8, 0.0:f32 {extents=[16, 8], from=[0, 1], to=[0, 1]}
    end %j
  end %i
"""


def test_steps_and_fixed_dimensions_of_copies():
    text = """kernel k(x: f16[B, M, N], out y: f32[M, N], n: i64) { @threads(64) grid b in 1 {
        shared s: f32[8, 4];
        copy(x[n, 1:17:2, 3:7], s);
        copy(s[2, :], y[n, 0 : 8 : 2]); } }"""
    assert body(text) == """\
  %b = loop 0, 1 {kind="parallel", threads=64}
    shared @s: f32[8, 4]
    copy @x, %n, 1, 3, @s, 0, 0, 0.0:f32 {extents=[8, 4], from=[1, 2], from_steps=[2, 1], to=[0, 1]}
    copy @s, 2, 0, @y, %n, 0, 0.0:f32 {extents=[4], from=[1], to=[1], to_steps=[2]}
  end %b
"""


def test_a_copy_whose_extent_is_known_at_run_time_is_loops():
    text = "kernel k(x: f16[M, N], out y: f32[N, M], w: i64) { grid b in M { copy(x[b, 3 :+ w], y[3 :+ w, b], pad = 9); } }"
    assert body(text) == """\
  %b = loop 0, %M {kind="parallel", threads=128}
    %0: i64 = sub %N, 3
    %1: i64 = min %w, %0
    %i = loop 0, %1 {independent="tile", kind="parallel"}
      %2: i64 = add 3, %i
      %3: bool = ge %b, 0
      %4: bool = lt %b, %M
      %5: bool = and %3, %4
      %6: bool = lt %2, %N
      %7: bool = and %5, %6
      %8: i64 = add 3, %i
      %9: bool = lt %8, %N
      %10: bool = ge %b, 0
      %11: bool = lt %b, %M
      %12: bool = and %9, %10
      %13: bool = and %12, %11
      if %13
        cell @element: f32
        store @element, 9.0:f32
        if %7
          %14: f16 = load @x, %b, %2
          %15: f32 = cast %14
          store @element, %15
        end
        %16: f32 = load @element
        store @y, %8, %b, %16
      end
    end %i
  end %b
"""


def test_whole_rows_of_run_time_extent_need_no_guard():
    text = "kernel k(x: f32[M, N], out y: f32[M, N]) { grid b in 1 { copy(x[:, :], y[:, :]); } }"
    assert body(text) == """\
  %b = loop 0, 1 {kind="parallel", threads=128}
    %i = loop 0, %M {independent="tile", kind="parallel"}
      %j = loop 0, %N {independent="tile", kind="parallel"}
        %0: f32 = load @x, %i, %j
        store @y, %i, %j, %0
      end %j
    end %i
  end %b
"""


def test_an_outermost_persistent_loop_is_a_grid_and_an_inner_one_serial():
    text = "kernel k(out y: f32[N]) { @threads(64) persistent b in N { persistent c in 2 { y[b] = 1.0; } } }"
    assert body(text) == """\
  %b = loop 0, %N {kind="parallel", threads=64}
    %c = loop 0, 2 {kind="serial"}
      store @y, %b, 1.0:f32
    end %c
  end %b
"""


def program(text: str) -> Plan:
    source = Source("k.vx", text)
    module = parse(source)
    plan = lower(check(module, source, program_names(module)[0]))
    verify(plan)
    return plan


COPY = "kernel k(x: f32[R, C], out y: f32[R, C]) { parallel i in R { y[i] = x[i]; } }\n"


def test_a_program_of_two_calls():
    text = """kernel scale(a: f32, x: f32[R], out y: f32[R]) { parallel i in R { y[i] = a * x[i]; } }
    program p(x: f32[M], b: f32, out y: f32[M]) { let c = b + 1.0; local w: f32[M]; scale(c, x, w); scale(2.0, w, y); }"""
    assert print_plan(program(text)) == """\
plan @p(%M: i64, @x: f32[%M] in, %b: f32, @y: f32[%M] out) {
  %c: f32 = add %b, 1.0:f32
  workspace @w: f32[%M]
  launch @scale[1](%M, %c, @x, @w)
  launch @scale_2[1](%M, 2.0:f32, @w, @y)
}

kernel @scale(%R: i64, %a: f32, @x: f32[%R] in, @y: f32[%R] work) stage=tile {fp="exact"} {
  %i = loop 0, %R {kind="parallel"}
    %0: f32 = load @x, %i
    %1: f32 = mul %a, %0
    store @y, %i, %1
  end %i
}

kernel @scale_2(%R: i64, %a: f32, @x: f32[%R] work, @y: f32[%R] out) stage=tile {fp="exact"} {
  %i = loop 0, %R {kind="parallel"}
    %0: f32 = load @x, %i
    %1: f32 = mul %a, %0
    store @y, %i, %1
  end %i
}
"""


# name: kernels, program, entries of the plan, header of the last kernel up to its stage
PLANS = {
    "equal sizes under two names": (
        COPY,
        "program p(x: f32[M, N], out y: f32[L, N]) { k(x, y); }",
        """\
  %0: bool = eq %L, %M
  require %0 {what="dimension 0 of `y` is R in the call of `k`"}
  launch @k[1](%M, %N, %L, @x, @y)
""",
        "kernel @k(%R: i64, %C: i64, %y_dim0: i64, @x: f32[%R, %C] in, @y: f32[%y_dim0, %C] out)",
    ),
    "a size that the kernel derives": (
        "kernel h(x: f32[R], out y: f32[R // 2]) { parallel i in R // 2 { y[i] = x[i]; } }\n",
        "program p(x: f32[M], out y: f32[L]) { h(x, y); }",
        """\
  %0: i64 = floordiv %M, 2
  %1: bool = eq %L, %0
  require %1 {what="dimension 0 of `y` is R // 2 in the call of `h`"}
  launch @h[1](%M, %L, @x, @y)
""",
        "kernel @h(%R: i64, %y_dim0: i64, @x: f32[%R] in, @y: f32[%y_dim0] out)",
    ),
    "a size that the program computes once": (
        "kernel k(out x: f32[R, C], out y: f32[R, C]) { parallel i in R { x[i] = 0.0; y[i] = 0.0; } }\n",
        "program p(x: f32[M, N], out y: f32[M, N]) { let h = N + 1; local v: f32[h, N]; local w: f32[h, N]; k(w, v); }",
        """\
  %h: i64 = add %N, 1
  %0: bool = ge %h, 0
  require %0 {what="dimension 0 of `v` is 0 or more"}
  workspace @v: f32[%h, %N]
  %1: bool = ge %h, 0
  require %1 {what="dimension 0 of `w` is 0 or more"}
  workspace @w: f32[%h, %N]
  launch @k[1](%h, %N, @w, @v)
""",
        "kernel @k(%R: i64, %C: i64, @x: f32[%R, %C] work, @y: f32[%R, %C] work)",
    ),
    "a constant size": (
        "kernel c(x: f32[R, 4], out y: f32[R, 4]) { parallel i in R { y[i] = x[i]; } }\n",
        "program p(x: f32[M, N], out y: f32[M, 4]) { c(x, y); }",
        """\
  %0: bool = eq %N, 4
  require %0 {what="dimension 1 of `x` is 4 in the call of `c`"}
  launch @c[1](%M, %N, @x, @y)
""",
        "kernel @c(%R: i64, %x_dim1: i64, @x: f32[%R, %x_dim1] in, @y: f32[%R, 4] out)",
    ),
    "a strided array where rows are contiguous": (
        COPY,
        "program p(x: f32[M, N : ld], out y: f32[M, N]) { k(x, y); }",
        """\
  %0: bool = le %N, %ld
  require %0 {what="dimension 1 of `x` fits its pitch ld"}
  %1: bool = eq %ld, %N
  require %1 {what="stride 0 of `x` is C in the call of `k`"}
  launch @k[1](%M, %N, %ld, @x, @y)
""",
        "kernel @k(%R: i64, %C: i64, %x_stride0: i64, @x: f32[%R, %C; %x_stride0, 1] in, @y: f32[%R, %C] out)",
    ),
    "a contiguous array where rows have a pitch": (
        "kernel s(x: f32[R, C : lc], out y: f32[R, C]) { parallel i in R { y[i] = x[i] * (lc as f32); } }\n",
        "program p(x: f32[M, N], out y: f32[M, N]) { s(x, y); }",
        "  launch @s[1](%N, %M, %N, @x, @y)\n",
        "kernel @s(%lc: i64, %R: i64, %C: i64, @x: f32[%R, %C] in, @y: f32[%R, %C] out)",
    ),
    "a scalar that is a size, chosen by a condition": (
        "kernel s(n: i64, x: f32[n]) { parallel i in n { print(\"x\", x[i]); } }\n",
        "program p(x: f32[M], m: i64) { let n = if m > 4 { M } else { m }; s(n, x); }",
        """\
  %0: bool = gt %m, 4
  %n: i64 = select %0, %M, %m
  %1: bool = eq %M, %n
  require %1 {what="dimension 0 of `x` is n in the call of `s`"}
  launch @s[1](%M, %n, @x)
""",
        "kernel @s(%x_dim0: i64, %n: i64, @x: f32[%x_dim0] in)",
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_sizes_of_calls(name):
    kernels, text, entries, header = PLANS[name]
    plan = program(kernels + text)
    shown = print_plan(plan).split("\n}\n")[0]
    assert shown.split("\n", 1)[1] + "\n" == entries
    assert print_kernel(plan.kernels[-1]).split(" stage=")[0] == header


def test_extern_functions_are_called_in_kernels_only():
    text = """extern fn e(x: f32) -> f32 = "return x;" { return x; }
    kernel s(a: f32, out y: f32[R]) { parallel i in R { y[i] = a; } }
    program p(b: f32, out y: f32[M]) { let c = e(b); s(c, y); }"""
    with pytest.raises(VxcError) as error:
        program(text)
    (found,) = error.value.diagnostics
    assert (found.code, found.message) == ("E0232", "`e` is CUDA text, and this is computed outside of kernels"), render_all([found])


def test_entries_of_a_plan_know_their_place():
    text = COPY + "program p(x: f32[M, N], out y: f32[M, N]) {\n    local w: f32[M, N];\n    k(x, w);\n    k(w, y);\n}\n"
    assert [(entry.op, entry.loc) for entry in program(text).entries] == [("workspace", (3, 11)), ("launch", (4, 5)), ("launch", (5, 5))]
