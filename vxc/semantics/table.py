"""The table of scalar operations: one row each, everything else about them is keyed by these names.

Operands of an operation have one *compute* dtype (f32 f64 i8..i64 u8..u64 bool); f16, bf16 and f8 are widened to f32
before. `select` takes a bool first, `rand` takes two i64. `evaluate` gives the meaning, `c_expr` the CUDA text.
"""

from __future__ import annotations

from functools import cache

from vxc.dtypes import BOOL, DTYPES, F32, DType
from vxc.record import record


@record
class ScalarOp:
    """One scalar operation.

    `kinds` are the operand kinds accepted (letters of `DType.kind`). `result` is 'same', 'bool' or a dtype name. `ulp` and
    `ulp64` say how many representable values emitted f32 and f64 code may lie away from `evaluate` (0: none, to the bit;
    NaN is NaN). For f32 `evaluate` is the correctly rounded value; for f64 its own error of a few ulp is counted in.
    """

    name: str
    arity: int
    kinds: str
    result: str
    ulp: int
    ulp64: int
    doc: str

    @property
    def exact(self) -> bool:
        """True where interpreters and device must agree to the bit."""
        return self.ulp == 0


_ROWS = [
    # name       n  kinds   result  ulp ulp64  meaning
    ("add",      2, "fiu",  "same", 0, 0, "a + b; ints wrap"),
    ("sub",      2, "fiu",  "same", 0, 0, "a - b; ints wrap"),
    ("mul",      2, "fiu",  "same", 0, 0, "a * b; ints wrap"),
    ("div",      2, "f",    "same", 0, 0, "a / b, IEEE: x/0 is inf, 0/0 is NaN"),
    ("floordiv", 2, "iu",   "same", 0, 0, "floor(a / b); 0 where b is 0; INT_MIN // -1 wraps"),
    ("mod",      2, "iu",   "same", 0, 0, "a - b * floor(a / b), sign of b; 0 where b is 0"),
    ("ceildiv",  2, "iu",   "same", 0, 0, "ceil(a / b); 0 where b is 0; wraps as floordiv"),
    ("tdiv",     2, "iu",   "same", 0, 0, "a / b rounded to zero; 0 where b is 0; wraps as floordiv"),
    ("trem",     2, "iu",   "same", 0, 0, "a - b * tdiv(a, b), sign of a; 0 where b is 0"),
    ("min",      2, "fiu",  "same", 0, 0, "least; NaN if any operand is; -0 below +0"),
    ("max",      2, "fiu",  "same", 0, 0, "greatest; NaN if any operand is; -0 below +0"),
    ("minnum",   2, "f",    "same", 0, 0, "least that is not NaN; -0 below +0"),
    ("maxnum",   2, "f",    "same", 0, 0, "greatest that is not NaN; -0 below +0"),
    ("and",      2, "iub",  "same", 0, 0, "bitwise (logical for bool) and"),
    ("or",       2, "iub",  "same", 0, 0, "bitwise (logical for bool) or"),
    ("xor",      2, "iub",  "same", 0, 0, "bitwise (logical for bool) exclusive or"),
    ("shl",      2, "iu",   "same", 0, 0, "a << b; 0 where b is outside [0, width)"),
    ("shr",      2, "iu",   "same", 0, 0, "a >> b; the sign (0 if unsigned) where b is outside [0, width)"),
    ("eq",       2, "fiub", "bool", 0, 0, "a == b; false for NaN"),
    ("ne",       2, "fiub", "bool", 0, 0, "a != b; true for NaN"),
    ("lt",       2, "fiu",  "bool", 0, 0, "a < b; false for NaN"),
    ("le",       2, "fiu",  "bool", 0, 0, "a <= b; false for NaN"),
    ("gt",       2, "fiu",  "bool", 0, 0, "a > b; false for NaN"),
    ("ge",       2, "fiu",  "bool", 0, 0, "a >= b; false for NaN"),
    ("neg",      1, "fiu",  "same", 0, 0, "-a; floats flip the sign bit, ints wrap"),
    ("not",      1, "b",    "same", 0, 0, "logical negation"),
    ("bitnot",   1, "iu",   "same", 0, 0, "every bit inverted"),
    ("abs",      1, "fiu",  "same", 0, 0, "magnitude; abs(INT_MIN) wraps"),
    ("copysign", 2, "f",    "same", 0, 0, "magnitude of a with the sign bit of b"),
    ("isnan",    1, "f",    "bool", 0, 0, "true for NaN"),
    ("isinf",    1, "f",    "bool", 0, 0, "true for the two infinities"),
    ("isfinite", 1, "f",    "bool", 0, 0, "true for neither NaN nor infinite"),
    ("floor",    1, "f",    "same", 0, 0, "greatest integer not above a"),
    ("ceil",     1, "f",    "same", 0, 0, "least integer not below a"),
    ("trunc",    1, "f",    "same", 0, 0, "a rounded to zero"),
    ("round",    1, "f",    "same", 0, 0, "nearest integer, ties to even"),
    ("sqrt",     1, "f",    "same", 0, 0, "square root, IEEE"),
    ("fma",      3, "fiu",  "same", 0, 0, "a * b + c rounded once; ints wrap"),
    ("clamp",    3, "fiu",  "same", 0, 0, "min(max(a, b), c)"),
    ("select",   3, "fiub", "same", 0, 0, "b where a (a bool) is true, else c"),
    ("rsqrt",    1, "f",    "same", 2, 3, "1 / sqrt(a)"),
    ("exp",      1, "f",    "same", 2, 3, "e to the a"),
    ("exp2",     1, "f",    "same", 2, 3, "2 to the a"),
    ("log",      1, "f",    "same", 2, 3, "natural logarithm"),
    ("log2",     1, "f",    "same", 2, 3, "logarithm to base 2"),
    ("tanh",     1, "f",    "same", 2, 4, "hyperbolic tangent"),
    ("erf",      1, "f",    "same", 2, 4, "error function"),
    ("sin",      1, "f",    "same", 2, 4, "sine of radians"),
    ("cos",      1, "f",    "same", 2, 4, "cosine of radians"),
    ("pow",      2, "f",    "same", 2, 4, "a to the b, C99 Annex F special values"),
    ("sigmoid",  1, "f",    "same", 2, 8, "1 / (1 + exp(-a))"),
    ("silu",     1, "f",    "same", 2, 10, "a * sigmoid(a); -0 at -inf"),
    ("gelu",     1, "f",    "same", 2, 64, "a * (1 + erf(a / sqrt(2))) / 2; -0 at -inf"),
    ("gelu_tanh", 1, "f",   "same", 2, 16, "a * (1 + tanh(u)) / 2, u = sqrt(2/pi) * (a + 0.044715 a^3); -0 at -inf"),
    ("rand",     2, "i",    "f32",  0, 0, "uniform in [0, 1) from (seed, offset), two i64: Philox4x32-10"),
]  # fmt: skip

SCALAR_OPS: dict[str, ScalarOp] = {row[0]: ScalarOp(*row) for row in _ROWS}
DIVISIONS = ("floordiv", "mod", "ceildiv", "tdiv", "trem")  # of integers, by an operand that must not be 0 in --debug builds


@cache
def result_dtype(name: str, dtype: DType) -> DType:
    """The dtype of `name` applied to operands of the compute dtype `dtype` (for `select`, that of its values)."""
    result = SCALAR_OPS[name].result
    return dtype if result == "same" else _RESULTS[result]


_RESULTS = {"bool": BOOL, "f32": F32}


def accepts(name: str, dtype: DType) -> bool:
    """Whether the operation is defined on this compute dtype."""
    if name == "rand":
        return dtype == DTYPES["i64"]
    return dtype.kind in SCALAR_OPS[name].kinds and not dtype.is_storage
