"""What emitted text refuses, checks in --debug builds, and takes from the author: limits, faults, `extern fn`, `print`."""

from __future__ import annotations

import re

import numpy as np
import pytest
from emit_text import body, plan, refused

from vxc.cuda.emit import emit, parameter_bytes
from vxc.cuda.nvrtc import compile_cuda
from vxc.diag import VxcError, read_source
from vxc.driver import compile as compiled_for
from vxc.dtypes import BOOL, F32, I32
from vxc.interp.flat_interp import run_flat
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Value
from vxc.ir.plan import Plan
from vxc.ir.reader import plan_of
from vxc.source import Source

def test_a_kernel_has_at_most_4095_pointers():
    def many(count: int) -> Plan:
        params = tuple(Buffer(f"p{i}", F32, (Const(1),), "param", "in") for i in range(count))
        return Plan("k", (), (), (Kernel("k", params, (), "thread", attrs=(("threads", 32),)),))

    assert set(compile_cuda(emit(many(4095)), "k.cu", "sm_90a").kernels) == {"k"}
    assert refused("E0715", many(4096)) == "kernel `k` has 4,096 parameters of 32,768 bytes, a launch passes at most 32,764"


def test_parameters_lie_at_multiples_of_their_size():
    x = Buffer("x", F32, (Const(1),), "param", "in")
    b = Value("b", BOOL)
    assert [parameter_bytes(p) for p in ((), (b,), (b, Value("i", I32)), (b, x), (x, b))] == [0, 1, 8, 16, 9]


def test_debug_builds_check_indices_divisors_and_assertions():
    text = '%v: f32 = load @x, %n !3:7\n%q: i64 = floordiv %n, %m !4:9\nassert %c {message="no"} !5:5\nstore @x, %q, %v !6:5'
    params = "%N: i64, %n: i64, %m: i64, %c: bool, @x: f32[%N] inout"
    made = body(text, params, file="f.vx", debug=True)
    assert 'if (!(0 <= n && n < N)) vx_fail("f.vx:3:7: error[E0720]: index out of range in dimension 0 of `x`");' in made
    assert 'if (!(m != 0)) vx_fail("f.vx:4:9: error[E0724]: integer division by zero");' in made
    assert 'if (!(c)) vx_fail("f.vx:5:5: error[E0723]: assertion failed: no");' in made
    assert made.count("vx_fail") == 4
    assert "vx_fail" not in body(text, params, file="f.vx")


@pytest.mark.parametrize("unused, code", [("x[p[i]]", "E0720"), ("10 // x[i]", "E0724"), ("x[i] % p[i] * 0", "E0724")])
def test_debug_builds_check_what_nothing_uses(unused, code):
    """After every pass: an index and a divisor of the source are tested whether or not the result matters."""
    text = f"kernel k(x: i32[N], p: i32[N], out y: i32[N]) {{ parallel i in N {{ let a = {unused}; y[i] = p[i]; }} }}"
    x, p = np.zeros(40, np.int32), np.full(40, -1 if code == "E0720" else 0, np.int32)
    debug, release = (compiled_for(Source("k.vx", text), debug=debug) for debug in (True, False))
    assert debug.cuda.count(code) > release.cuda.count(code) == 0 and debug.binary.cubin
    for made in (debug.tile, debug.plan):
        with pytest.raises(VxcError, match=code):
            run_flat(made, {"x": x, "p": p}, {}, trap_div=True)
    assert (run_flat(release.plan, {"x": x, "p": p}, {})["y"] == p).all()


OVERLAPPING = """
plan @k(%N: i64, @x: f32[%N] in, @y: f32[%N] out) {
  workspace @w: f32[%N]
  launch @first[1](%N, @x, @w)
  launch @second[1](%N, @w, @x, @y) {early=true}
}
kernel @first(%N: i64, @x: f32[%N] in, @w: f32[%N] out) stage=thread {threads=32} {
  %v: f32 = load @x, 0
  store @w, 0, %v
}
kernel @second(%N: i64, @w: f32[%N] in, @x: f32[%N] in, @y: f32[%N] out) stage=thread {threads=32} {
  %v: f32 = load @w, 0
  store @y, 0, %v
}
"""


def test_an_early_kernel_waits_before_all_else_and_loads_nothing_before_that():
    made = emit(plan(OVERLAPPING))
    first, second = made.split("// kernel ")[1:]
    assert ") {\n  vx_allow_launch();\n" in first and "vx_await_launch" not in first
    assert "const float* w, const float* x, float* y) {\n  vx_await_launch();\n" in second
    assert "vx_allow_launch" not in second
    ptx = compile_cuda(made, "k.cu", "sm_90a").ptx
    assert ptx.index("griddepcontrol.wait") < ptx.rindex("ld.global") and "ld.global.nc" not in ptx[ptx.index(".entry second") :]
    assert "vx_" not in emit(plan(OVERLAPPING.replace(" {early=true}", "")))


EXTERN = """
extern @c, %a {cuda="return __sinf(x);", name="fast", params="x"} !2:5
  store @c, %a
end
"""


def test_an_extern_function_is_defined_once_and_its_block_left_out():
    head = "kernel @k(%a: f32, @y: f32[2] out) stage=thread {threads=1} {\n cell @c: f32\n"
    text = head + EXTERN * 2 + " %v: f32 = load @c\n store @y, 0, %v\n}\n"
    made = emit(plan(text, "f.vx"))
    function = '__device__ __forceinline__ float vx_extern_fast(float x) {\n#line 2 "f.vx"\n  return __sinf(x);\n}\n'
    assert made.startswith(f"{function}\n// kernel k")
    assert made.count("c = vx_extern_fast(a);") == made.count("c = ") == 2
    wrong = emit(plan(text.replace("__sinf", "no_such"), "f.vx"))
    with pytest.raises(VxcError) as caught:
        compile_cuda(wrong, "k.cu", "sm_80", sources=[Source("f.vx", "kernel\n    fast(a)\n")])
    assert caught.value.diagnostics[0].place == "f.vx:2:5"


def test_values_of_every_kind_print():
    made = body('print %i, %u, %f, %d, %b, %h {label="50%"}', "%i: i8, %u: u64, %f: f32, %d: f64, %b: bool, %h: i64")
    assert made == (
        '  printf("50%% %lld %llu %.9g %.17g %s %lld\\012", '
        '(long long)i, (unsigned long long)u, (double)(f), (double)(d), (b ? "true" : "false"), (long long)h);\n'
    )


def test_the_text_grows_linearly_with_depth():
    depth = 400
    insts = [Inst("if", (Value("c", BOOL),))] * depth + [Inst("end")] * depth
    made = emit(plan_of(Kernel("k", (Value("c", BOOL),), tuple(insts), "thread", attrs=(("threads", 1),))))
    assert len(made) < depth * 200


@pytest.mark.parametrize("defines", [{}, {"M": 256, "N": 256}], ids=["any size", "known size"])
def test_an_index_that_is_computed_in_place_keeps_its_parentheses(defines):
    """Rows that lie 33 apart: `row * 33 + e & 31` would be another element, for + binds more tightly in C++."""
    made = compiled_for(read_source("samples/transpose_tile.vx"), defines={"T": F32, **defines}).cuda
    places = re.findall(r"\btile\[(.+?)\]", made)
    assert any(" & 31" in place for place in places) and any(" >> 5" in place for place in places)
    assert all(re.fullmatch(r"\([^()]+\) \* 33 \+ (\w+|\([^()]+\))", place) for place in places), places


ROW_STATS = """kernel k(x: f32[M, N], out mean: f32[M], out variance: f32[M]) {
    parallel i in M { mean[i] = sum(x[i]) / (N as f32); }
    parallel i in M { let d = x[i] - mean[i]; variance[i] = dot(d, d) / (N as f32); }
}"""
WHILE = """kernel k(x: f32[8], inout z: f16[8], out y: i64[8, 2]) {
    parallel i in 8 {
        var c: i32 = 0;
        while c < 2 { c += 1; parallel j in 2 { y[i, j] = z[i] as i64; } z[i] = 0.5; }
    }
}"""
PLAIN = "kernel k(inout z: f16[8]) { parallel i in 8 { z[i] = z[i] * 2.0; } }"
ONCE = "kernel k(x: f32[M, N], inout z: f32[M]) { parallel i in M { z[i] = sum(x[i]) + z[i]; } }"


EXCLUDING = """kernel k(x: f32[N], c: u32[N], inout z: f32[N]) {
    parallel i in N { z[i] = floor(z[i]); z[i] = if c[i] > 0 { z[i] } else { x[i] }; }
}"""


@pytest.mark.parametrize(
    "text, distinct",
    [(ROW_STATS, False), (WHILE, False), (EXCLUDING, False), (PLAIN, True), (ONCE, True)],
    ids=["behind a barrier", "round a loop", "by chance", "before it", "of a row"],
)
def test_what_is_loaded_behind_a_store_to_it_is_not_restrict(text, distinct):
    """LLVM must not take for granted that this thread alone changes an array, nor join loads of two arrays into one."""
    head = re.search(r"__global__[^{]*", compiled_for(Source("k.vx", text)).cuda)[0]
    assert head.count("__restrict__") == (head.count("*") if distinct else 0)
