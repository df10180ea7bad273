"""Scalar meaning as CUDA C++ text: expressions, conversions and atomics, naming helpers of `cuda/device`.

Plain operators are used where they mean exactly the same under `--fmad=false --prec-div=true --prec-sqrt=true --ftz=false`.
Arguments are expressions of the operand dtype, parenthesised where they are not primary; results are primary or casts, so
they may stand beside any operator.
"""

from __future__ import annotations

from vxc.dtypes import BF16, BOOL, F8E4M3, F8E5M2, F16, F32, F64, I32, I64, U64, DType
from vxc.semantics.c_literal import c_literal
from vxc.semantics.casts import FLOAT_MAX
from vxc.semantics.stored import STORED
from vxc.semantics.table import SCALAR_OPS, accepts

# {0} {1} {2} the arguments, {T} the C type, {t} the dtype's name, {f} the f of `expf` for f32 and nothing for f64
_OPERATORS = {
    "eq": "({0} == {1})",
    "ne": "({0} != {1})",
    "lt": "({0} < {1})",
    "le": "({0} <= {1})",
    "gt": "({0} > {1})",
    "ge": "({0} >= {1})",
    "select": "({0} ? {1} : {2})",
}

_FLOAT = _OPERATORS | {
    "add": "({0} + {1})",
    "sub": "({0} - {1})",
    "mul": "({0} * {1})",
    "div": "({0} / {1})",
    "neg": "(-{0})",
    "abs": "fabs{f}({0})",
    "copysign": "copysign{f}({0}, {1})",
    "isnan": "isnan({0})",
    "isinf": "isinf({0})",
    "isfinite": "isfinite({0})",
    "floor": "floor{f}({0})",
    "ceil": "ceil{f}({0})",
    "trunc": "trunc{f}({0})",
    "round": "rint{f}({0})",
    "sqrt": "sqrt{f}({0})",
    "rsqrt": "rsqrt{f}({0})",
    "fma": "fma{f}({0}, {1}, {2})",
    "min": "vx_min_{t}({0}, {1})",
    "max": "vx_max_{t}({0}, {1})",
    "minnum": "vx_minnum_{t}({0}, {1})",
    "maxnum": "vx_maxnum_{t}({0}, {1})",
    "clamp": "vx_min_{t}(vx_max_{t}({0}, {1}), {2})",
    "exp": "exp{f}({0})",
    "exp2": "exp2{f}({0})",
    "log": "log{f}({0})",
    "log2": "log2{f}({0})",
    "tanh": "tanh{f}({0})",
    "erf": "erf{f}({0})",
    "sin": "sin{f}({0})",
    "cos": "cos{f}({0})",
    "pow": "pow({0}, {1})",
    "sigmoid": "vx_sigmoid_{t}({0})",
    "silu": "vx_silu_{t}({0})",
    "gelu": "vx_gelu_{t}({0})",
    "gelu_tanh": "vx_gelu_tanh_{t}({0})",
}

_INT = _OPERATORS | {
    "and": "({0} & {1})",
    "or": "({0} | {1})",
    "xor": "({0} ^ {1})",
    "bitnot": "(({T})~{0})",
    "rand": "vx_rand({0}, {1})",
}

_WIDE_UNSIGNED = _INT | {"add": "({0} + {1})", "sub": "({0} - {1})", "mul": "({0} * {1})"}

_PLAIN = {
    "add": "({0} + {1})",
    "sub": "({0} - {1})",
    "mul": "({0} * {1})",
    "fma": "({0} * {1} + {2})",
    "neg": "(-{0})",
    "floordiv": "({0} / {1})",
    "tdiv": "({0} / {1})",
    "mod": "({0} % {1})",
    "trem": "({0} % {1})",
}

_BOOL = _OPERATORS | {"and": "({0} && {1})", "or": "({0} || {1})", "xor": "({0} != {1})", "not": "(!{0})"}

_SPECIAL = {("pow", F32): "vx_pow_f32({0}, {1})"}


def _template(name: str, dtype: DType, plain: bool) -> str:
    if (name, dtype) in _SPECIAL:
        return _SPECIAL[name, dtype]
    if dtype.is_float:
        return _FLOAT[name]
    if dtype == BOOL:
        return _BOOL[name]
    if plain and name in _PLAIN:
        return _PLAIN[name]
    table = _WIDE_UNSIGNED if dtype.kind == "u" and dtype.bits >= 32 else _INT
    arguments = ", ".join(f"{{{i}}}" for i in range(SCALAR_OPS[name].arity))
    return table.get(name, f"vx_{name}<{{T}}>({arguments})")  # what C leaves undefined is a template of the prelude


def c_expr(name: str, dtype: DType, *args: str, plain: bool = False, precision: str = "") -> str:
    """The CUDA expression of scalar operation `name` on expressions of the compute dtype `dtype`.

    `lt` of two i32: "(a < b)"; `floordiv`: "vx_floordiv<int>(a, b)". `plain` says that the caller has proven that no int
    wraps and that what is divided is at least 0 and the divisor above 0, as in index arithmetic: then it is "(a / b)". `precision`
    is one of `STORED`, for an f32 that is only stored in it: `exp` for "f16" is "vx_exp_f16(x)".
    ValueError if the operation has no such operands.
    """
    if not accepts(name, dtype) or len(args) != SCALAR_OPS[name].arity:
        raise ValueError(f"no scalar operation {name} on {len(args)} operands of {dtype}")
    template = STORED[precision][name] if precision else _template(name, dtype, plain)
    return template.format(*args, T=dtype.c, t=dtype.name, f="f" if dtype == F32 else "")


# To and from f32
_WIDEN = {F16: "__half2float({0})", BF16: "__bfloat162float({0})", F8E4M3: "float({0})", F8E5M2: "float({0})"}
_NARROW = {F16: "__float2half_rn({0})", BF16: "__float2bfloat16_rn({0})", F8E4M3: "vx_f8e4m3({0})", F8E5M2: "vx_f8e5m2({0})"}
_NARROW_SAT = {F8E4M3: "vx_sat_f8e4m3({0})", F8E5M2: "vx_sat_f8e5m2({0})"}


def c_cast(expr: str, src: DType, dst: DType) -> str:
    """`expr as dst`, see `cast`."""
    if src == dst:
        return expr
    if src in _WIDEN:
        expr, src = _WIDEN[src].format(expr), F32
    if dst == BOOL:
        return f"({expr} != {c_literal(0, src)})"
    if dst in _NARROW:
        return _NARROW[dst].format(_to_f32_odd(expr, src))
    if dst.is_float:
        return expr if src == dst else f"({dst.c}){expr}"
    return _trunc(expr, dst) if src.is_float else _wrap(expr, dst)


def _to_f32_odd(expr: str, src: DType) -> str:
    """`expr` as an f32 whose rounding to 16 or 8 bits is the only one."""
    if src == F32:
        return expr
    if src.bits < 32:
        return f"(float){expr}"
    if src.bits == 32:
        expr = f"(long long){expr}"
    return f"vx_odd_f32({expr})"


def _trunc(expr: str, dst: DType) -> str:
    if dst.bits == 64 or dst.bits == 32 and dst.kind == "u":
        return f"vx_trunc_{dst.name}({expr})"
    return f"vx_trunc_int<{dst.c}>({expr}, {c_literal(dst.min, I32)}, {c_literal(dst.max, I32)})"


def _wrap(expr: str, dst: DType) -> str:
    return f"vx_wrap_{dst.name}((int){expr})" if dst.bits == 4 else f"({dst.c}){expr}"


def c_sat(expr: str, src: DType, dst: DType) -> str:
    """`sat(expr, dst)`, see `sat`."""
    if dst == BOOL or (dst.is_int and src.is_float):
        return c_cast(expr, src, dst)
    if dst.is_int:
        if dst.min <= src.min and src.max <= dst.max:
            return c_cast(expr, src, dst)
        ends = (c_literal(max(src.min, dst.min), src), c_literal(min(src.max, dst.max), src))
        clamped = f"vx_clamp<{src.c}>({expr}, {', '.join(ends)})"
        return clamped if src == dst else c_cast(clamped, src, dst)
    if F64 not in (src, dst) and dst != F32:
        wide, expr = F32, c_cast(expr, src, F32) if src.is_float else _to_f32_odd(expr, src)
    else:
        wide = F64 if F64 in (src, dst) else F32
        expr = c_cast(expr, src, wide)
    if wide == F32 and dst in _NARROW_SAT:
        return _NARROW_SAT[dst].format(expr)
    top = FLOAT_MAX[dst]
    return c_cast(c_expr("clamp", wide, expr, c_literal(-top, wide), c_literal(top, wide)), wide, dst)


def c_reinterpret(expr: str, src: DType, dst: DType) -> str:
    """The bits of `expr` as `dst`, see `reinterpret`. ValueError for another width."""
    if src.bits != dst.bits:
        raise ValueError(f"reinterpret needs equal widths, not {src} ({src.bits} bits) and {dst} ({dst.bits} bits)")
    if src == dst:
        return expr
    if src.bits < 32 and not src.is_float:
        expr = f"({src.c}){expr}"  # C computes narrow integers as int
    if dst == BOOL:
        return f"(vx_bits<unsigned char>({expr}) != 0)"
    return _wrap(expr, dst) if dst.bits == 4 else f"vx_bits<{dst.c}>({expr})"


_ATOMIC_INT = {"add": "atomicAdd", "max": "atomicMax", "min": "atomicMin"}
ATOMIC_OPS = tuple(_ATOMIC_INT)


def c_atomic(op: str, dtype: DType, address: str, value: str) -> str:
    """`op` ('add', 'max' or 'min') of `value` into `*address` atomically, relaxed; the expression is the previous value.

    add: i32 u32 i64 u64 f16 bf16 f32 f64; max and min: i32 u32 i64 u64 f32 f64. ValueError otherwise.
    Float sums are in no order; f32 sums in global memory may flush subnormals (as the instruction does).
    """
    if dtype.is_int and dtype.bits >= 32 and op in _ATOMIC_INT:
        if op == "add" and dtype == I64:  # CUDA has it for the unsigned type only
            return f"(long long)atomicAdd(({U64.c}*)({address}), ({U64.c})({value}))"
        return f"{_ATOMIC_INT[op]}({address}, {value})"
    if op == "add" and dtype in (F16, BF16, F32, F64):
        return f"atomicAdd({address}, {value})"
    if op in ("max", "min") and dtype in (F32, F64):
        return f"vx_atomic_{op}_{dtype.name}({address}, {value})"
    raise ValueError(f"no atomic {op} on {dtype}")
