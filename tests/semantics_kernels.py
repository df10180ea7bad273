"""CUDA text with one kernel for each scalar operation, conversion and atomic at each dtype, for the semantics tests."""

from __future__ import annotations

from vxc.cuda.prelude import identifiers, prelude_text
from vxc.dtypes import BF16, BOOL, DTYPES, F16, F32, F64, I32, I64, U32, U64, DType
from vxc.semantics import PRECISIONS, SCALAR_OPS, STORED, accepts, c_atomic, c_cast, c_expr, c_reinterpret, c_sat, result_dtype

CONVERSIONS = {"cast": c_cast, "sat": c_sat, "reinterpret": c_reinterpret}
ATOMICS = [(op, d) for op in ("add", "max", "min") for d in (I32, U32, I64, U64, F32, F64)] + [("add", F16), ("add", BF16)]


def operations() -> list[tuple[str, DType]]:
    return [(name, d) for name in SCALAR_OPS for d in DTYPES.values() if accepts(name, d)]


def conversions() -> list[tuple[str, DType, DType]]:
    pairs = [(s, d) for s in DTYPES.values() for d in DTYPES.values()]
    return [(how, s, d) for how in CONVERSIONS for s, d in pairs if how != "reinterpret" or s.bits == d.bits]


def stored() -> list[tuple[str, str, DType]]:
    """Each elementary function with the precision of a form that is for storing, and what it may be stored as."""
    return [(op, precision, d) for precision, forms in STORED.items() for op in forms for d, p in PRECISIONS.items() if p == precision]


def operand_dtypes(name: str, dtype: DType) -> list[DType]:
    arity = SCALAR_OPS[name].arity
    return [BOOL] + [dtype] * (arity - 1) if name == "select" else [dtype] * arity


def kernel(name: str, inputs: list[DType], output: DType, expr: str) -> str:
    """out[i] = expr of x0, x1, .. = a0[i], a1[i], .."""
    parameters = [f"const {d.c}* __restrict__ a{i}" for i, d in enumerate(inputs)] + [f"{output.c}* __restrict__ out", "long long n"]
    loads = "".join(f"  {d.c} x{i} = a{i}[i];\n" for i, d in enumerate(inputs))
    return (
        f'extern "C" __global__ void {name}({", ".join(parameters)}) {{\n'
        "  long long i = blockIdx.x * 256ll + threadIdx.x;\n"
        f"  if (i >= n) return;\n{loads}  out[i] = {expr};\n}}\n"
    )


def operation_kernel(name: str, dtype: DType) -> str:
    inputs = operand_dtypes(name, dtype)
    expr = c_expr(name, dtype, *(f"x{i}" for i in range(len(inputs))))
    return kernel(f"op_{name}_{dtype}", inputs, result_dtype(name, dtype), expr)


def stored_kernel(name: str, precision: str, dtype: DType) -> str:
    """f32 operands, the result rounded as where it is stored."""
    inputs = operand_dtypes(name, F32)
    expr = c_expr(name, F32, *(f"x{i}" for i in range(len(inputs))), precision=precision)
    return kernel(f"stored_{name}_{dtype}", inputs, dtype, c_cast(expr, F32, dtype))


def conversion_kernel(how: str, src: DType, dst: DType) -> str:
    return kernel(f"{how}_{src}_{dst}", [src], dst, CONVERSIONS[how]("x0", src, dst))


def atomic_kernel(op: str, dtype: DType) -> str:
    c = dtype.c
    return f'extern "C" __global__ void atomic_{op}_{dtype}({c}* p, {c} x, {c}* old) {{\n  *old = {c_atomic(op, dtype, "p", "x")};\n}}\n'


def every_kernel() -> list[str]:
    kernels = [operation_kernel(*op) for op in operations()] + [stored_kernel(*s) for s in stored()]
    kernels += [conversion_kernel(*c) for c in conversions()]
    return kernels + [atomic_kernel(*a) for a in ATOMICS]


def with_prelude(kernels: list[str]) -> str:
    text = "\n".join(kernels)
    return prelude_text(identifiers(text)) + "\n" + text
