"""The CUDA text of every operation compiles, and every literal reads back as the value that was meant."""

from __future__ import annotations

import re

import numpy as np
import pytest
from semantics_kernels import every_kernel, with_prelude

from vxc.cuda.nvrtc import compile_cuda
from vxc.cuda.prelude import blocks, identifiers, prelude_text
from vxc.dtypes import BF16, BOOL, DTYPES, F8E4M3, F16, F32, F64, I8, I16, I32, I64, U16, U64
from vxc.semantics import c_atomic, c_cast, c_expr, c_literal, c_reinterpret, c_sat


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_every_operation_conversion_and_atomic_compiles(arch):
    kernels = every_kernel()
    binary = compile_cuda(with_prelude(kernels), "semantics.cu", arch)
    assert len(binary.kernels) == len(kernels)
    assert all(r.spill_stores == 0 for r in binary.kernels.values())


def test_expressions_read_well():
    assert c_expr("add", F32, "a", "b") == "(a + b)"
    assert c_expr("add", I32, "a", "b") == "vx_add<int>(a, b)"
    assert c_expr("add", U64, "a", "b") == "(a + b)"
    assert c_expr("floordiv", I64, "a", "b") == "vx_floordiv<long long>(a, b)"
    assert c_expr("floordiv", I64, "a", "b", plain=True) == "(a / b)"
    assert c_expr("max", I64, "a", "b", plain=True) == "vx_max<long long>(a, b)"
    assert c_expr("clamp", F32, "x", "l", "h") == "vx_min_f32(vx_max_f32(x, l), h)"
    assert c_expr("exp", F64, "x") == "exp(x)"
    assert c_cast("x", I64, F16) == "__float2half_rn(vx_odd_f32(x))"
    assert c_cast("x", F16, BOOL) == "(__half2float(x) != 0.0f)"
    assert c_sat("x", I64, I8) == "(signed char)vx_clamp<long long>(x, (-128ll), 127ll)"
    assert c_reinterpret("x", F32, I32) == "vx_bits<int>(x)"
    assert c_reinterpret("(a & b)", I16, U16) == "vx_bits<unsigned short>((short)(a & b))"
    assert c_atomic("max", F32, "&s[0]", "x") == "vx_atomic_max_f32(&s[0], x)"


def test_what_has_no_text_is_refused():
    for bad in (lambda: c_expr("div", I32, "a", "b"), lambda: c_expr("add", F16, "a", "b"), lambda: c_expr("add", F32, "a")):
        with pytest.raises(ValueError, match="no scalar operation"):
            bad()
    with pytest.raises(ValueError, match="no atomic"):
        c_atomic("max", F16, "p", "x")
    with pytest.raises(ValueError, match="equal widths"):
        c_reinterpret("x", F32, I64)


def test_prelude_holds_what_is_used_and_what_that_needs():
    text = prelude_text(["vx_floordiv", "unrelated"])
    assert set(re.findall(r"\bvx_\w+(?=\()", text)) >= {"vx_floordiv", "vx_magnitude", "vx_with_sign"}
    assert "vx_max" not in text and "#include" not in text and prelude_text(["x"]) == ""
    assert text.index("vx_unsigned") < text.index("vx_magnitude") < text.index("vx_floordiv")
    assert prelude_text(["vx_f8e4m3"]).startswith("#include <cuda_fp8.h>\n")
    assert prelude_text({"__half", "vx_add"}) == prelude_text(["vx_add", "__half"])


def test_prelude_blocks_are_documented_named_once_and_compile_together():
    every = {name for block in blocks() for name in identifiers(block.text) if name.startswith("vx_")}
    assert every == {block.name for block in blocks()}
    assert all(block.meaning for block in blocks())
    text = prelude_text(every)
    assert all(block.text in text for block in blocks())
    compile_cuda(text + '\nextern "C" __global__ void none() {}\n', "prelude.cu", "sm_80")


def test_literals_read_well():
    want = {
        (0.1, F32): "0.1f", (0.2, F64): "0.2", (-1.5, F32): "(-1.5f)", (1e-40, F32): "__int_as_float(0x000116c2)", (1e-46, F32): "0.0f",
        (float("inf"), F32): "__int_as_float(0x7f800000)", (-0.0, F64): "(-0.0)", (65520.0, F16): "__ushort_as_half(0x7c00)",
        (65510.0, F16): "__ushort_as_half(0x7bff)", (-(2**63), I64): "(-9223372036854775807ll - 1)", (200, I8): "(signed char)-56",
        (True, BOOL): "true", (2**64 - 1, U64): "18446744073709551615ull", (-1, I32): "(-1)",
        (448.0, F8E4M3): "vx_bits<__nv_fp8_e4m3>((unsigned char)0x7e)",
    }  # fmt: skip
    assert {key: c_literal(*key) for key in want} == want


def ptx_floats(values, dtype, bits):
    """The bits NVRTC gives to the literals of `values`, read from the initialiser of a constant array in the PTX."""
    text = f"extern \"C\" __constant__ {dtype.c} table[] = {{{', '.join(c_literal(v, dtype) for v in values)}}};\n"
    text += f'extern "C" __global__ void read({dtype.c}* p) {{ *p = table[threadIdx.x]; }}\n'
    ptx = compile_cuda(text, "literals.cu", "sm_80").ptx
    body = re.search(r"table\[\d+\] = \{([^}]*)\}", ptx).group(1)
    data = bytes(int(item) & 255 for item in body.split(","))
    return np.frombuffer(data.ljust(len(values) * bits // 8, b"\0"), f"u{bits // 8}")  # PTX leaves out the zeros at the end


@pytest.mark.parametrize(("dtype", "bits"), [(F32, 32), (F64, 64)])
def test_normal_literals_round_trip_through_the_compiler(dtype, bits):
    patterns = np.random.default_rng(5).integers(0, 2**bits, 4000, f"u{bits // 8}", endpoint=False)
    values = patterns.view(dtype.numpy)
    values = values[np.isfinite(values) & (np.abs(values) >= np.finfo(dtype.numpy).tiny)]
    values = np.concatenate([values, np.array([0.0, -0.0, np.finfo(dtype.numpy).max, np.finfo(dtype.numpy).tiny], dtype.numpy)])
    assert (ptx_floats(values, dtype, bits) == values.view(f"u{bits // 8}")).all()


@pytest.mark.parametrize("dtype", [F16, BF16, F8E4M3])
def test_every_narrow_float_literal_holds_its_bits(dtype):
    ints = np.arange(2**dtype.bits, dtype=f"u{dtype.bytes}")
    read = [int(re.search(r"0x([0-9a-f]+)\)$", c_literal(v, dtype)).group(1), 16) for v in ints.view(dtype.numpy)]
    assert read == ints.tolist()


def test_bit_pattern_literals_compile_for_every_float_dtype():
    lines, values = [], [float("inf"), float("-inf"), float("nan"), -0.0, 1e-40, 5e-324, 1.5]
    for dtype in (d for d in DTYPES.values() if d.is_float):
        lines += [f'extern "C" __global__ void k{i}_{dtype}({dtype.c}* p) {{ *p = {c_literal(v, dtype)}; }}' for i, v in enumerate(values)]
    assert len(compile_cuda(with_prelude(lines), "literals.cu", "sm_80").kernels) == len(lines)
