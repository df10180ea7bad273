"""The CUDA text of kernels at stage=thread: its form, and what it must not do."""

from __future__ import annotations

import re

from emit_text import body, plan, refused

from vxc.cuda.emit import emit
from vxc.cuda.nvrtc import compile_cuda
from vxc.cuda.text import bare, c_string

# ---- form ------------------------------------------------------------------------------------------------------------

SAXPY = """
kernel @saxpy(%N: i64, %a: f32, @x: f32[%N] in, @y: f32[%N] inout) stage=thread {threads=256} {
  %b = block_index !2:5
  %t = thread_index !2:5
  %0: i64 = mul %b, 256 !2:5
  %i: i64 = add %0, %t !2:5
  %1: bool = lt %i, %N !2:5
  if %1 !2:5
    %2: f32 = load @x, %i !3:20
    %xa: f32 = mul %a, %2 !3:16
    %3: f32 = load @y, %i !4:16
    %4: f32 = add %xa, %3 !4:16
    store @y, %i, %4 !4:9
  end !2:5
}
"""

SAXPY_TEXT = """\
// kernel saxpy(N: i64, a: f32, x: f32[N] in, y: f32[N] inout) of "saxpy.vx"
extern "C" __global__ void __launch_bounds__(256) saxpy(
    long long N,
    float a,
    const float* __restrict__ x,
    float* __restrict__ y) {
#line 2 "saxpy.vx"
  const long long b = (long long)blockIdx.x;
  const long long t = (long long)threadIdx.x;
  const long long i = (b * 256) + t;
  if (i < N) {
#line 3 "saxpy.vx"
    const float xa = a * x[i];
#line 4 "saxpy.vx"
    y[i] = xa + y[i];
#line 2 "saxpy.vx"
  }
}
"""


def test_a_small_kernel_reads_well():
    made = emit(plan(SAXPY, "saxpy.vx"))
    assert made == SAXPY_TEXT
    assert emit(plan(SAXPY, "saxpy.vx"), lines=False) == emit(plan(SAXPY)) == re.sub('#line.*\n| of "saxpy.vx"', "", SAXPY_TEXT)
    assert compile_cuda(made, "k.cu", "sm_90a").kernels["saxpy"].registers > 0


def test_the_launch_attributes_are_bounds_of_the_kernel():
    text = "kernel @k(@x: f32[4] out) stage=thread {min_blocks=2, threads=128} {\n  store @x, 0, 1.0:f32\n}\n"
    assert "__launch_bounds__(128, 2) k(float* __restrict__ x) {\n  x[0] = 1.0f;\n}\n" in emit(plan(text))


def test_loops_and_control_read_like_c():
    made = body(
        """
        loop 0, 4 {kind="unroll"}
        """.replace("loop", "%k = loop").rstrip()
        + """
        end %k
        %u = loop %n, 10, 2 {kind="serial", unroll=3}
        end %u
        %d = loop 9, -1, -1 {kind="serial"}
        end %d
        %r = loop 0, 8, %s {kind="serial"}
        end %r
        while
          if %c
            break
          else
            continue
          end
        end
        """,
        "%n: i64, %s: i64, %c: bool",
    )
    assert made.split("\n") == [
        "  #pragma unroll",
        "  for (long long k = 0; k < 4; ++k) {",
        "  }",
        "  #pragma unroll 3",
        "  for (long long u = n; u < 10; u += 2) {",
        "  }",
        "  for (long long d = 9; d > -1; d += -1) {",
        "  }",
        "  for (long long r = 0; (s > 0 && r < 8) || (s < 0 && r > 8); r = vx_next<long long>(r, s, 8)) {",
        "  }",
        "  for (;;) {",
        "    if (c) {",
        "      break;",
        "    }",
        "    else {",
        "      continue;",
        "    }",
        "  }",
        "",
    ]


def test_brackets_around_the_whole_are_dropped_and_no_others():
    assert [bare(t) for t in ("(a + b)", "(a) + (b)", "((a) + (b))", "f(x)", "x")] == ["a + b", "(a) + (b)", "(a) + (b)", "f(x)", "x"]


def test_strings_are_ascii_and_say_the_same():
    assert c_string('grö"ß\\e\n?') == '"gr\\303\\266\\042\\303\\237\\134e\\012\\077"'


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_addresses_are_64_bit_whatever_the_indices():
    made = body(
        """
        %t: i32 = thread_index
        %v: f32 = load @x, %t, 3, %t
        store @x, 0, 1, %t, %v
        %w: f32 = load @z, %t, 1
        store @y, %t, %w
        """,
        "%N: i64, %s: i64, @x: f32[8, %N, 7] inout, @y: f32[64] out, @z: f32[8, %N; %s, 1] in",
    )
    assert "v = x[((long long)t * N + 3ll) * 7 + (long long)t];" in made
    assert "x[(0ll * N + 1ll) * 7 + (long long)t] = v;" in made
    assert "w = z[(long long)t * s + 1ll * 1];" in made and "y[t] = w;" in made


def test_packed_elements_are_read_two_a_byte_and_never_written():
    params = "@w: i4[4, 6] in, @u: u4[9] in, @x: i8[4] out, @y: u8[4] out"
    made = body("%0: i4 = load @w, 1, 2\n%1: i8 = cast %0\nstore @x, 0, %1\n%2: u4 = load @u, 3\n%3: u8 = cast %2\nstore @y, 0, %3", params)
    assert "x[0] = (signed char)vx_load_i4(w, 1ll * 6 + 2ll);" in made and "y[0] = (unsigned char)vx_load_u4(u, 3);" in made
    text = "kernel @k(@w: i4[4] out) stage=thread {threads=1} {\n  store @w, 0, 1:i4\n}\n"
    assert refused("E0402", plan(text)) == "`w` packs two i4 elements in a byte, which two threads cannot write at once"


def test_shared_arrays_lie_at_their_offsets_in_one_arena():
    text = """kernel @k(@x: f32[8] inout) stage=thread {shared_bytes=48, threads=64} {
  shared @s: f32[4] {offset=0}
  shared @r: i64[4] {offset=16}
}
"""
    made = emit(plan(text))
    assert made.startswith("extern __shared__ __align__(16) unsigned char vx_shared[];\n")
    assert "  float* const s = (float*)(vx_shared + 0);\n  long long* const r = (long long*)(vx_shared + 16);\n" in made


TWICE = """
plan @f(@x: f32[4] inout, @y: f32[4] inout) {
  launch @k[1](@x, @x)
}
kernel @k(@a: f32[4] in, @b: f32[4] inout) stage=thread {threads=1} {
}
"""


def test_a_kernel_that_is_passed_one_buffer_twice_makes_no_promise_of_distinct_memory():
    assert "k(const float* a, float* b)" in emit(plan(TWICE))
    assert "k(const float* __restrict__ a, float* __restrict__ b)" in emit(plan(TWICE.replace("@x, @x", "@x, @y")))


def test_a_load_is_not_moved_past_a_store_nor_into_a_loop():
    made = body("%0: f32 = load @x, 0\nstore @x, 0, 2.0:f32\nstore @x, 1, %0")
    assert made == "  const float t0 = x[0];\n  x[0] = 2.0f;\n  x[1] = t0;\n"
    made = body('%0: i64 = load @n, 0\n%i = loop 0, %0 {kind="serial"}\n  store @n, 0, 5\nend %i', "@n: i64[1] inout")
    assert made.startswith("  const long long t0 = n[0];\n  for (long long i = 0; i < t0; ++i) {\n")
    made = body('%0: f32 = load @x, 0\nbarrier {scope="block"}\nstore @x, 1, %0')
    assert made == "  const float t0 = x[0];\n  __syncthreads();\n  x[1] = t0;\n"
    assert body("%0: f32 = load @x, 0\n%1: f32 = neg %0\nstore @x, 0, %1") == "  x[0] = -x[0];\n"


# ---- arithmetic ------------------------------------------------------------------------------------------------------


def test_plain_operators_only_where_nothing_wraps():
    made = body(
        """
        %t = thread_index
        %a: i64 = floordiv %t, 8
        %b: i64 = mul %t, %N
        %c: i64 = add %n, 1
        %d: i64 = mod %n, 8
        %e: i64 = floordiv %t, %N
        %f: i64 = add 2147483647, 1
        %g: i32 = mul %m, %m
        %h: i64 = add %a, 4294967296
        %i: i64 = mod %n, 6
        %j: i64 = floordiv %n, 16
        %o: i64 = floordiv %n, -16
        %p: i64 = floordiv %t, 6
        """,
        "%N: i64, %n: i64, %m: i32, @x: f32[%N] in",
    )
    statements = made.replace(";", "").split("\n")[1:]
    assert [line.strip().split(" = ")[-1] for line in statements if line] == [
        "t >> 3",
        "t * N",
        "vx_add<long long>(n, 1ll)",
        "n & 7",
        "vx_floordiv<long long>(t, N)",
        "vx_add<long long>(2147483647ll, 1ll)",
        "vx_mul<int>(m, m)",
        "a + 4294967296ll",
        "vx_mod<long long>(n, 6ll)",
        "n >> 4",
        "vx_floordiv<long long>(n, (-16ll))",
        "t / 6",
    ]


# ---- threads ---------------------------------------------------------------------------------------------------------


def test_a_shuffle_names_its_group_where_the_neighbours_may_be_elsewhere():
    shuffle = "%v: f32 = load @x, 0\n%w: f32 = shfl_xor %v {distance=1, width=8}\nstore @x, 0, %w"
    assert "__shfl_xor_sync(0xffffffffu, v, 1, 8)" in body(shuffle)
    inside = f'{shuffle}\nbarrier {{scope="group", width=8}}'
    guarded = f"%t = thread_index\n%r: i64 = floordiv %t, 8\n%c: bool = lt %r, 5\nif %c\n{inside}\nend"
    assert "__shfl_xor_sync(vx_group_mask(8), v, 1, 8)" in body(guarded) and "__syncwarp(vx_group_mask(8));" in body(guarded)


def test_narrow_values_are_shuffled_as_ints():
    made = body("%v: f8e4m3 = load @h, 0\n%w: f8e4m3 = shfl_up %v {distance=1, width=32}\nstore @h, 0, %w", "@h: f8e4m3[2] inout")
    moved = "__shfl_up_sync(0xffffffffu, (int)vx_bits<unsigned char>(v), 1, 32)"
    assert f"w = vx_bits<__nv_fp8_e4m3>((unsigned char){moved});" in made
    made = body("%v: bool = load @h, 0\n%w: bool = shfl_idx %v, 3 {width=32}\nstore @h, 0, %w", "@h: bool[2] inout")
    assert "w = (bool)__shfl_sync(0xffffffffu, (int)v, (int)3ll, 32);" in made
