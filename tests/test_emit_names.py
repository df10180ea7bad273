"""Names in CUDA text: of any IR, distinct, and none that CUDA uses."""

from __future__ import annotations

from vxc.cuda.emit import emit
from vxc.cuda.names import Names, is_reserved, kernel_symbol
from vxc.cuda.nvrtc import compile_cuda
from vxc.dtypes import DTYPES, F32, I64
from vxc.ir.builder import Builder
from vxc.ir.kernel import Buffer, Kernel, Value
from vxc.ir.plan import Plan
from vxc.ir.reader import plan_of
from vxc.ir.verify import verify
from vxc.source import Source

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
    assert '// kernel k(exp: f32, gr_u00f6_u00dfe: i64, template: f32[gr_u00f6_u00dfe] out) of "gr\\303\\266\\303\\237e.vx"\n' in text


def test_identifiers_are_distinct_and_keep_what_they_can():
    names = Names()
    given = ["x", "x.1", "x_1", "7", "t7", "float", "größe", "x.1"]
    assert [names.of(n) for n in given] == ["x", "x_1", "x_1_2", "t7", "t7_2", "float_", "gr_u00f6_u00dfe", "x_1"]
    assert not is_reserved("row") and not is_reserved("m") and all(map(is_reserved, ("expf", "uint8_t", "longlong2", "vx_x", "vx_fail")))


def test_every_kernel_name_has_a_symbol_of_its_own_that_compiles():
    names = [*WORDS, "softmax", "f.1", "f_1", "f__1", "f_.1", "f._1", "_u00f6", "ö", "_ö", "a_u", "a_", "0"]
    names += ["vx_kernel_exp", "gr_u00f6_u00dfe", "vx_kernel_gr_u00f6_u00dfe", "dequant_u4"]
    symbols = [kernel_symbol(n) for n in names]
    assert len(set(symbols)) == len(names)
    plain = [kernel_symbol(n) for n in ("softmax", "f_1", "exp", "größe")]
    assert plain == ["softmax", "f_1", "vx_kernel_exp", "vx_kernel_gr_u00f6_u00dfe"]
    kernels = [Kernel(n, (), (), "thread", attrs=(("threads", 32),)) for n in names]
    assert set(compile_cuda(emit(Plan("p", (), (), tuple(kernels))), "k.cu", "sm_90a").kernels) == set(symbols)
