"""Elementary functions of f32 whose value is only stored in 16 or 8 bits: what precision of theirs is enough, and its CUDA text.

Storing rounds once, and what is stored may lie 1 ulp (of what it is stored as) from the right value rounded. Two numbers less than
1 ulp apart round to the same or to neighbours, so an error below 2^-11 of the value is enough for f16 and 2^-8 for bf16, as long as the
least values come out right as well. The table rests on instructions bounded by the PTX ISA (section Floating Point Instructions:
`ex2.approx` and `rcp.approx` a few ulp of f32, `tanh.approx` 2^-11 in relative error) and on `powf` (CUDA C++ Programming Guide,
appendix on mathematical functions: 4 ulp); how these add up is said in `cuda/device/stored.cuh`, and tests marked `gpu` measure it.
"""

from __future__ import annotations

from vxc.dtypes import BF16, F8E4M3, F8E5M2, F16, DType

# What a value is stored as -> the precision that does. Both f8 lie within f16 and are coarser.
PRECISIONS: dict[DType, str] = {F16: "f16", F8E4M3: "f16", F8E5M2: "f16", BF16: "bf16"}

_BOTH = {"tanh": "vx_tanh_f16({0})", "gelu": "vx_gelu_f16({0})", "pow": "powf({0}, {1})"}
_EACH = ("exp", "exp2", "sigmoid", "silu", "gelu_tanh")

# precision -> operation -> text; an operation that is not here has no form that is cheaper and good enough
STORED: dict[str, dict[str, str]] = {
    precision: _BOTH | {name: f"vx_{name}_{precision}({{0}})" for name in _EACH} for precision in dict.fromkeys(PRECISIONS.values())
}
