"""The CUDA text of kernels at stage=thread: its form, that every opcode and dtype compiles, and what it must not do."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from vxc.cuda.emit import emit, parameter_bytes
from vxc.cuda.names import Names, is_reserved, kernel_symbol
from vxc.cuda.nvrtc import compile_cuda
from vxc.cuda.text import bare, c_string
from vxc.diag import VxcError
from vxc.dtypes import BOOL, DTYPES, F32, I32, I64
from vxc.ir.builder import Builder
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Value
from vxc.ir.ops import OPS, THREAD
from vxc.ir.plan import Plan
from vxc.ir.reader import plan_of, read_ir
from vxc.ir.verify import verify
from vxc.semantics import SCALAR_OPS, accepts
from vxc.source import Source

ARCHS = ("sm_80", "sm_90a")


def plan(text: str, file: str = "") -> Plan:
    """A plan whose places are in `file`."""
    made = read_ir(Source("k.vxir", text))
    return made.with_kernels(replace(k, source=Source(file, "") if file else None) for k in made.kernels)


def body(text: str, params: str = "@x: f32[64] inout", file: str = "", **more) -> str:
    """The statements emitted for instructions in a kernel of 64 threads."""
    made = emit(plan(f"kernel @k({params}) stage=thread {{threads=64}} {{\n{text}\n}}\n", file), **more)
    return made[made.index("// kernel k") :].split("{\n", 1)[1].rsplit("}\n", 1)[0]


def refused(code: str, of: Plan) -> str:
    with pytest.raises(VxcError) as caught:
        emit(of)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code and diagnostic.help
    return diagnostic.message


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
        "  for (long long r = 0; (s > 0 && r < 8) || (s < 0 && r > 8); r += s) {",
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


# ---- every opcode and dtype ------------------------------------------------------------------------------------------

EVERYTHING = """
kernel @everything(%N: i64, %s: i64, @x: f32[%N] in, @y: f32[%N] out, @n: i32[4] inout, @z: f32[8, %N; %s, 2] in) stage=thread {threads=64} {
  shared @sh: f32[64]
  %b = block_index
  %t = thread_index
  cell @c: f32
  local @p: f32[2, 3]
  store @c, 0.0:f32
  %lane: i64 = mod %t, 8
  %inside: bool = lt %t, %N
  store @sh, %t, 1.0:f32
  barrier {scope="block"}
  %i = loop %t, %N, 64 {kind="serial"}
    %v: f32 = load @x, %i
    %w: f32 = load @z, 3, %i
    %q: bool = lt %v, %w
    if %q
      continue
    else
      store @y, %i, %v
    end
    extern @c, %v, %w {cuda="return __sinf(a) + b;", name="wave", params="a, b"}
      store @c, %v
    end
  end %i
  %k = loop 0, 3 {kind="unroll"}
    store @p, 1, %k, 2.0:f32
  end %k
  while
    break
  end
  local @u: f32[4]
  shared @sv: f32[64]
  %wide: bool = aligned @x {bytes=16}
  if %wide
    move @u, 0, @x, 4 {width=4}
    move @sv, 8, @u, 2 {width=2}
    move @u, 0, @z, 4 {width=2}
  end
  %m: f32 = load @c
  %0: f32 = shfl_xor %m {distance=4, width=8}
  %1: f32 = shfl_up %0 {distance=1, width=8}
  %2: f32 = shfl_idx %1, %lane {width=8}
  store @y, 0, %2
  barrier {scope="group", width=8}
  %3: i32 = cast %2
  %4: i8 = sat %2
  %5: i32 = reinterpret %2
  %6: i32 = atomic @n, 0, %3 {op="add"}
  assert %inside {message="of 100%"}
  print %3, %2, %inside, %4 {label="values"}
  print {label="no \\"values\\""}
}
"""


def scalars() -> Kernel:
    """Every scalar operation at every dtype that it takes, results stored."""
    b = Builder()
    arrays = {d: Buffer(f"a_{d}", d, (Const(4),), "param", "inout") for d in DTYPES.values() if not d.is_storage}
    for name, row in SCALAR_OPS.items():
        for dtype in (d for d in arrays if accepts(name, d)):
            operands = [b.emit("load", arrays[dtype], k) for k in range(row.arity)]
            if name == "select":
                operands[0] = b.emit("load", arrays[BOOL], 0)
            made = b.emit(name, *operands)
            b.emit("store", arrays[made.dtype], 0, made)
    return b.build("scalars", arrays.values(), stage="thread", attrs={"threads": 32}.items())


def memory() -> Kernel:
    """A load and a store of every dtype in every space, and a shuffle of it."""
    b = Builder()
    params = []
    for dtype in DTYPES.values():
        source = Buffer(f"in_{dtype}", dtype, (Const(8), Const(8)), "param", "in")
        target = Buffer(f"out_{dtype}", dtype.compute if dtype.bits == 4 else dtype, (Const(8), Const(8)), "param", "out")
        params += [source, target]
        shared, local, cell = (b.declare(space, space, dtype, (4,) * (space != "cell")) for space in ("shared", "local", "cell"))
        value = b.emit("load", source, 1, 2)
        b.emit("store", shared, 0, value)
        b.emit("store", local, 1, b.emit("load", shared, 0))
        b.emit("store", cell, b.emit("load", local, 1))
        value = b.emit("shfl_xor", b.emit("load", cell), distance=1, width=32)
        b.emit("store", target, 1, 2, b.emit("cast", value, dtype=target.dtype) if dtype is not target.dtype else value)
    return b.build("memory", params, stage="thread", attrs={"threads": 32}.items())


def test_the_table_below_holds_every_opcode():
    used = {inst.op for k in (plan(EVERYTHING).kernels[0], scalars()) for inst in k.insts}
    assert used == {name for name, row in OPS.items() if THREAD in row.stages}


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("arch", ARCHS)
def test_every_opcode_and_dtype_compiles(arch, debug):
    kernels = [plan(EVERYTHING).kernels[0], scalars(), memory()]
    for kernel in kernels:
        verify(plan_of(kernel))
    binary = compile_cuda(emit(Plan("all", (), (), tuple(kernels)), debug=debug), "all.cu", arch)
    assert set(binary.kernels) == {"everything", "scalars", "memory"}
    assert debug or all(r.spill_stores == 0 for r in binary.kernels.values())


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
        """,
        "%N: i64, %n: i64, %m: i32, @x: f32[%N] in",
    )
    statements = made.replace(";", "").split("\n")[1:]
    assert [line.strip().split(" = ")[-1] for line in statements if line] == [
        "t / 8",
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
    ]


# ---- threads ---------------------------------------------------------------------------------------------------------


def test_a_shuffle_names_its_group_where_the_neighbours_may_be_elsewhere():
    shuffle = "%v: f32 = load @x, 0\n%w: f32 = shfl_xor %v {distance=1, width=8}\nstore @x, 0, %w"
    assert "__shfl_xor_sync(0xffffffffu, v, 1, 8)" in body(shuffle)
    guarded = f"%t = thread_index\n%r: i64 = floordiv %t, 8\n%c: bool = lt %r, 5\nif %c\n{shuffle}\nbarrier {{scope=\"group\", width=8}}\nend"
    assert "__shfl_xor_sync(vx_group_mask(8), v, 1, 8)" in body(guarded) and "__syncwarp(vx_group_mask(8));" in body(guarded)


def test_narrow_values_are_shuffled_as_ints():
    made = body("%v: f8e4m3 = load @h, 0\n%w: f8e4m3 = shfl_up %v {distance=1, width=32}\nstore @h, 0, %w", "@h: f8e4m3[2] inout")
    moved = "__shfl_up_sync(0xffffffffu, (int)vx_bits<unsigned char>(v), 1, 32)"
    assert f"w = vx_bits<__nv_fp8_e4m3>((unsigned char){moved});" in made
    made = body("%v: bool = load @h, 0\n%w: bool = shfl_idx %v, 3 {width=32}\nstore @h, 0, %w", "@h: bool[2] inout")
    assert "w = (bool)__shfl_sync(0xffffffffu, (int)v, (int)3ll, 32);" in made


# ---- names -----------------------------------------------------------------------------------------------------------

WORDS = """float template threadIdx half main asm exp printf signed I warpSize blockDim __half NULL int32_t float4 std max expf abs
    __shfl_sync vx_fail atomicAdd größe naïve t0 norm3d cudaSuccess unix""".split()


def test_values_and_buffers_of_any_name_compile():
    params = [Value("exp", F32), Value("größe", I64), Buffer("template", F32, (Value("größe", I64),), "param", "out")]
    b = Builder(p.name for p in params)
    total = params[0]
    for word in [*WORDS, "x.1", "x_1", "x.1_2"]:
        total = b.emit("exp", total, name=word)
        b.emit("store", b.declare("cell", f"{word}.c", F32), total)
    for _ in range(2):
        total = b.emit("exp", b.emit("cast", total, dtype=DTYPES["f64"]))
        total = b.emit("cast", total, dtype=F32)
    b.emit("store", params[2], 0, total)
    kernel = b.build("k", params, stage="thread", attrs={"threads": 32}.items(), source=Source("größe.vx", ""))
    verify(plan_of(kernel))
    text = emit(plan_of(kernel))
    assert text.isascii() and set(compile_cuda(text, "k.cu", "sm_80").kernels) == {"k"}


def test_identifiers_are_distinct_and_keep_what_they_can():
    names = Names()
    assert [names.of(n) for n in ("x", "x.1", "x_1", "7", "t7", "float", "größe", "x.1")] == ["x", "x_1", "x_1_2", "t7", "t7_2", "float_", "gr_u00f6_u00dfe", "x_1"]
    assert not is_reserved("row") and not is_reserved("m") and all(map(is_reserved, ("expf", "uint8_t", "longlong2", "vx_x", "vx_fail")))


def test_every_kernel_name_has_a_symbol_of_its_own_that_compiles():
    names = [*WORDS, "softmax", "f.1", "f_1", "f__1", "f_.1", "f._1", "_u00f6", "ö", "_ö", "a_u", "a_", "0", "vx_kernel_exp", "gr_u00f6_u00dfe", "vx_kernel_gr_u00f6_u00dfe", "dequant_u4"]
    symbols = [kernel_symbol(n) for n in names]
    assert len(set(symbols)) == len(names)
    assert [kernel_symbol(n) for n in ("softmax", "f_1", "exp", "größe")] == ["softmax", "f_1", "vx_kernel_exp", "vx_kernel_gr_u00f6_u00dfe"]
    kernels = [Kernel(n, (), (), "thread", attrs=(("threads", 32),)) for n in names]
    assert set(compile_cuda(emit(Plan("p", (), (), tuple(kernels))), "k.cu", "sm_90a").kernels) == set(symbols)


# ---- limits, checks, extern ------------------------------------------------------------------------------------------


def test_a_kernel_has_at_most_4095_pointers():
    def many(count: int) -> Plan:
        params = tuple(Buffer(f"p{i}", F32, (Const(1),), "param", "in") for i in range(count))
        return Plan("k", (), (), (Kernel("k", params, (), "thread", attrs=(("threads", 32),)),))

    assert set(compile_cuda(emit(many(4095)), "k.cu", "sm_90a").kernels) == {"k"}
    assert refused("E0715", many(4096)) == "kernel `k` has 4,096 parameters of 32,768 bytes, a launch passes at most 32,764"


def test_parameters_lie_at_multiples_of_their_size():
    x = Buffer("x", F32, (Const(1),), "param", "in")
    assert [parameter_bytes(p) for p in ((), (Value("b", BOOL),), (Value("b", BOOL), Value("i", I32)), (Value("b", BOOL), x), (x, Value("b", BOOL)))] == [0, 1, 8, 16, 9]


def test_debug_builds_check_indices_divisors_and_assertions():
    text = '%v: f32 = load @x, %n !3:7\n%q: i64 = floordiv %n, %m !4:9\nassert %c {message="no"} !5:5\nstore @x, %q, %v !6:5'
    params = "%N: i64, %n: i64, %m: i64, %c: bool, @x: f32[%N] inout"
    made = body(text, params, file="f.vx", debug=True)
    assert 'if (!(0 <= n && n < N)) vx_fail("f.vx:3:7: error[E0720]: index out of range in dimension 0 of `x`");' in made
    assert 'if (!(m != 0)) vx_fail("f.vx:4:9: error[E0724]: integer division by zero");' in made
    assert 'if (!(c)) vx_fail("f.vx:5:5: error[E0723]: assertion failed: no");' in made
    assert made.count("vx_fail") == 4
    assert "vx_fail" not in body(text, params, file="f.vx")


EXTERN = """
extern @c, %a {cuda="return __sinf(x);", name="fast", params="x"} !2:5
  store @c, %a
end
"""


def test_an_extern_function_is_defined_once_and_its_block_left_out():
    text = "kernel @k(%a: f32, @y: f32[2] out) stage=thread {threads=1} {\n cell @c: f32\n" + EXTERN * 2 + " %v: f32 = load @c\n store @y, 0, %v\n}\n"
    made = emit(plan(text, "f.vx"))
    assert made.startswith('__device__ __forceinline__ float vx_extern_fast(float x) {\n#line 2 "f.vx"\n  return __sinf(x);\n}\n\n// kernel k')
    assert made.count("c = vx_extern_fast(a);") == made.count("c = ") == 2
    wrong = emit(plan(text.replace("__sinf", "no_such"), "f.vx"))
    with pytest.raises(VxcError) as caught:
        compile_cuda(wrong, "k.cu", "sm_80", sources=[Source("f.vx", "kernel\n    fast(a)\n")])
    assert caught.value.diagnostics[0].place == "f.vx:2:5"


def test_values_of_every_kind_print():
    made = body('print %i, %u, %f, %d, %b, %h {label="50%"}', "%i: i8, %u: u64, %f: f32, %d: f64, %b: bool, %h: i64")
    assert made == (
        '  printf("50%% %lld %llu %.9g %.17g %s %lld\\012", (long long)i, (unsigned long long)u, (double)(f), (double)(d), (b ? "true" : "false"), (long long)h);\n'
    )


def test_the_text_grows_linearly_with_depth():
    depth = 400
    insts = [Inst("if", (Value("c", BOOL),))] * depth + [Inst("end")] * depth
    made = emit(plan_of(Kernel("k", (Value("c", BOOL),), tuple(insts), "thread", attrs=(("threads", 1),))))
    assert len(made) < depth * 200
