"""Lowering: the exact stage=tile text of small kernels, and that size and depth cost no more than they must."""

from __future__ import annotations

import time

from vxc.frontend.check import check, kernel_names
from vxc.frontend.lower import lower
from vxc.frontend.parse import parse
from vxc.ir.plan import Plan
from vxc.ir.printer import print_plan
from vxc.ir.verify import verify
from vxc.source import Source


def lowered(text: str) -> Plan:
    source = Source("k.vx", text)
    module = parse(source)
    plan = lower(check(module, source, kernel_names(module)[0]))
    verify(plan)
    return plan


def body(text: str) -> str:
    """The kernel's instructions, without header and closing brace."""
    kernel = print_plan(lowered(text)).split("\n\n")[1]
    return "\n".join(kernel.strip().split("\n")[1:-1]) + "\n"


def test_whole_plan():
    text = "kernel saxpy(a: f32, x: f32[N], inout y: f32[N]) { parallel i in N { y[i] = a * x[i] + y[i]; } }"
    assert print_plan(lowered(text)) == """\
plan @saxpy(%N: i64, %a: f32, @x: f32[%N] in, @y: f32[%N] inout) {
  launch @saxpy[1](%N, %a, @x, @y)
}

kernel @saxpy(%N: i64, %a: f32, @x: f32[%N] in, @y: f32[%N] inout) stage=tile {fp="exact"} {
  %i = loop 0, %N {kind="parallel"}
    %0: f32 = load @x, %i
    %1: f32 = mul %a, %0
    %2: f32 = load @y, %i
    %3: f32 = add %1, %2
    store @y, %i, %3
  end %i
}
"""


def test_reductions_and_rows_over_f16():
    text = "kernel k(x: f16[M, N], out y: f16[M, N]) { parallel i in M { let m = max(x[i]); y[i] = x[i] - m; } }"
    assert body(text) == """\
  %i = loop 0, %M {kind="parallel"}
    cell @m: f32
    %j = reduce @m, %N {op="max", order=[8, 8, 32, 0]}
      %0: f16 = load @x, %i, %j
      %1: f32 = cast %0
      contribute %1
    end %j
    %2: f32 = load @m
    %j.1 = loop 0, %N {kind="parallel"}
      %3: f16 = load @x, %i, %j.1
      %4: f32 = cast %3
      %5: f32 = sub %4, %2
      %6: f16 = cast %5
      store @y, %i, %j.1, %6
    end %j.1
  end %i
"""


def test_dot_contributes_two_operands():
    text = "kernel k(q: f32[N, 64], k: f32[N, 64], out s: f32[N]) { parallel i in N { s[i] = dot(q[i], k[i]); } }"
    assert body(text) == """\
  %i = loop 0, %N {kind="parallel"}
    cell @dot: f32
    %j = reduce @dot, 64 {op="dot", order=[4, 4, 16, 1]}
      %0: f32 = load @q, %i, %j
      %1: f32 = load @k, %i, %j
      contribute %0, %1
    end %j
    %2: f32 = load @dot
    store @s, %i, %2
  end %i
"""


def test_a_reduction_over_two_dimensions_counts_one_flattened_index():
    assert body("kernel k(x: f32[M, N], out s: f32[1]) { parallel i in 1 { s[i] = sum(x); } }") == """\
  %i = loop 0, 1 {kind="parallel"}
    %0: i64 = mul %M, %N
    cell @sum: f32
    %1 = reduce @sum, %0 {op="sum", order=[4, 4, 32, 0]}
      %j1: i64 = mod %1, %N
      %j0: i64 = floordiv %1, %N
      %2: f32 = load @x, %j0, %j1
      contribute %2
    end %1
    %3: f32 = load @sum
    store @s, %i, %3
  end %i
"""


def test_digits_of_three_dimensions():
    text = "kernel k(x: f32[L, M, N], out s: f32[1]) { parallel i in 1 { s[i] = sum(x); } }"
    digits = [line.strip() for line in body(text).split("\n") if " mod " in line or "floordiv" in line]
    assert digits == ["%j2: i64 = mod %2, %N", "%3: i64 = floordiv %2, %N", "%j1: i64 = mod %3, %M", "%j0: i64 = floordiv %3, %M"]


def test_scan_and_bounds_before_the_nest():
    text = """kernel k(x: f32[M, N], out y: f32[M, N]) {
        @lanes(4) parallel i in M, j in ceildiv(N, 2) { y[i, j] = x[i, j]; }
        parallel i in M { y[i] = cumsum(x[i]); } }"""
    assert body(text) == """\
  %0: i64 = ceildiv %N, 2
  %i = loop 0, %M {kind="parallel", lanes=4}
    %j = loop 0, %0 {kind="parallel"}
      %1: f32 = load @x, %i, %j
      store @y, %i, %j, %1
    end %j
  end %i
  %i.1 = loop 0, %M {kind="parallel"}
    %j.1 = scan %N {order=[4, 4, 32, 1]}
      %2: f32 = load @x, %i.1, %j.1
      %3: f32 = prefix %2 {op="sum"}
      store @y, %i.1, %j.1, %3
    end %j.1
  end %i.1
"""


def test_a_bound_that_depends_on_the_nest_stays_inside():
    assert body("kernel k(out y: f32[N, N]) { parallel i in N, j in i + 1 { y[i, j] = 0.0; } }") == """\
  %i = loop 0, %N {kind="parallel"}
    %0: i64 = add %i, 1
    %j = loop 0, %0 {kind="parallel"}
      store @y, %i, %j, 0.0:f32
    end %j
  end %i
"""


def test_variables_branches_and_calls():
    text = """fn sq(v: f32) -> f32 { return v * v; }
    extern fn fast(x: f32, y: f32) -> f32 = "return __fdividef(x, y);" { return x / y; }
    kernel k(x: f32[N], out y: f32[N]) { parallel i in N {
        var t = sq(x[i]);
        if i > 0 && t < 1.0 { t = fast(t, 2.0); } else if i == 3 { t += 1.0; }
        y[i] = if t > 0.5 { t } else { 0.0 };
    } }"""
    assert body(text) == """\
  %i = loop 0, %N {kind="parallel"}
    %v: f32 = load @x, %i
    %0: f32 = mul %v, %v
    cell @t: f32
    store @t, %0
    %1: bool = gt %i, 0
    cell @2: bool
    if %1
      %3: f32 = load @t
      %4: bool = lt %3, 1.0:f32
      store @2, %4
    else
      store @2, false
    end
    %5: bool = load @2
    if %5
      %6: f32 = load @t
      cell @fast: f32
      extern @fast, %6, 2.0:f32 {cuda="return __fdividef(x, y);", name="fast", params="x, y"}
        %7: f32 = div %6, 2.0:f32
        store @fast, %7
      end
      %8: f32 = load @fast
      store @t, %8
    else
      %9: bool = eq %i, 3
      if %9
        %10: f32 = load @t
        %11: f32 = add %10, 1.0:f32
        store @t, %11
      end
    end
    %12: f32 = load @t
    %13: bool = gt %12, 0.5:f32
    cell @14: f32
    if %13
      %15: f32 = load @t
      store @14, %15
    else
      store @14, 0.0:f32
    end
    %16: f32 = load @14
    store @y, %i, %16
  end %i
"""


def test_loops_locals_atomics_and_checks():
    text = """kernel k(x: i32[N], inout h: i32[8], out y: i32[N]) { parallel i in 2..N step 3 {
        local m: i32[2, 4] = 7;
        let old = atomic_max(h[i % 8], x[i]);
        unroll u in 4 { m[0, u] = old; }
        serial u in 4 { if u == 2 { continue; } m[1, u] = old; }
        var n = 0;
        while n < 3 { n += 1; }
        assert(n > 0, "counts");
        print("n", n);
        y[i] = m[0, 1];
    } }"""
    assert body(text) == """\
  %i = loop 2, %N, 3 {kind="parallel"}
    local @m: i32[2, 4]
    %i.1 = loop 0, 2 {kind="serial"}
      %i.2 = loop 0, 4 {kind="serial"}
        store @m, %i.1, %i.2, 7:i32
      end %i.2
    end %i.1
    %0: i64 = mod %i, 8
    %1: i32 = load @x, %i
    %old: i32 = atomic @h, %0, %1 {op="max"}
    %u = loop 0, 4 {kind="unroll"}
      store @m, 0, %u, %old
    end %u
    %u.1 = loop 0, 4 {kind="serial"}
      %2: bool = eq %u.1, 2
      if %2
        continue
      end
      store @m, 1, %u.1, %old
    end %u.1
    cell @n: i64
    store @n, 0
    while
      %3: i64 = load @n
      %4: bool = lt %3, 3
      %5: bool = not %4
      if %5
        break
      end
      %6: i64 = load @n
      %7: i64 = add %6, 1
      store @n, %7
    end
    %8: i64 = load @n
    %9: bool = gt %8, 0
    assert %9 {message="counts"}
    %10: i64 = load @n
    print %10 {label="n"}
    %11: i32 = load @m, 0, 1
    store @y, %i, %11
  end %i
"""


def test_derived_dimensions_and_pitches_become_requirements():
    text = """kernel k(n: i32, x: f32[n], w: f32[M // 2, M], z: f32[B, M : lm, N : ln], out y: f32[N]) {
        parallel i in N { y[i] = lm as f32; } }"""
    plan, kernel = print_plan(lowered(text)).split("\n\n")
    assert plan == """\
plan @k(%M: i64, %B: i64, %N: i64, %ln: i64, %x_dim0: i64, %w_dim0: i64, %z_stride0: i64, %n: i32, @x: f32[%x_dim0] in, \
@w: f32[%w_dim0, %M] in, @z: f32[%B, %M, %N; %z_stride0, %ln, 1] in, @y: f32[%N] out) {
  %0: bool = eq %ln, 0
  %1: i64 = floordiv %z_stride0, %ln
  %lm.1: i64 = select %0, %M, %1
  %2: i64 = cast %n
  %3: bool = eq %x_dim0, %2
  require %3 {what="dimension 0 of `x` is n"}
  %4: i64 = floordiv %M, 2
  %5: bool = eq %w_dim0, %4
  require %5 {what="dimension 0 of `w` is M // 2"}
  %6: i64 = mul %lm.1, %ln
  %7: bool = eq %z_stride0, %6
  require %7 {what="stride 0 of `z` is lm * ln"}
  %8: bool = le %M, %lm.1
  require %8 {what="dimension 1 of `z` fits its pitch lm"}
  %9: bool = le %N, %ln
  require %9 {what="dimension 2 of `z` fits its pitch ln"}
  launch @k[1](%lm.1, %M, %B, %N, %ln, %x_dim0, %w_dim0, %z_stride0, %n, @x, @w, @z, @y)
}"""
    assert kernel.startswith("kernel @k(%lm: i64, %M: i64,")


def test_attributes_are_carried():
    text = """@fp(fast) kernel k(out y: f32[M, N]) {
        @independent("mine") parallel i in M, j in N { @unroll(4) serial u in 8 { y[i, j] = 0.0; } } }"""
    kernel = lowered(text).kernels[0]
    assert kernel.attrs == (("fp", "fast"),)
    assert [inst.attrs for inst in kernel.insts if inst.op == "loop"] == [
        (("independent", "mine"), ("kind", "parallel")),
        (("independent", "mine"), ("kind", "parallel")),
        (("kind", "serial"), ("unroll", 4)),
    ]


def test_instructions_know_their_place():
    insts = lowered("kernel k(x: f32[N], out y: f32[N]) {\n  parallel i in N {\n    y[i] = 2.0 * x[i];\n  }\n}\n").kernels[0].insts
    places = [("loop", (2, 3)), ("load", (3, 18)), ("mul", (3, 12)), ("store", (3, 5)), ("end", (2, 3))]
    assert [(inst.op, inst.loc) for inst in insts] == places


def test_deep_trees_need_no_stack():
    expression = "x[0]" + " + 1.0" * 3000
    chain = " else ".join(f"if i == {n} {{ y[i] = {n}.0; }}" for n in range(300))
    insts = lowered(f"kernel k(x: f32[N], out y: f32[N]) {{ parallel i in N {{ y[i] = {expression}; {chain} }} }}").kernels[0].insts
    assert (sum(i.op == "add" for i in insts), sum(i.op == "if" for i in insts)) == (3000, 300)


def test_5000_statements_lower_in_a_second():
    source = Source("k.vx", "kernel k(inout a: f32[N]) { parallel i in N {\n" + "a[i] = a[i] * 2.0;\n" * 5000 + "} }")
    typed = check(parse(source), source, "k")
    start = time.process_time()
    plan = lower(typed)
    assert (len(plan.kernels[0].insts), time.process_time() - start < 1.0) == (15002, True)
