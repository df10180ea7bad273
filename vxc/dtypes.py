"""Scalar types: name, kind, width, C spelling, NumPy type. Every other module takes these facts from here.

A dtype is *storage*: what an array element is in memory. `compute` says what a load widens to: f16, bf16 and f8 are
storage types whose arithmetic is f32; packed i4 and u4 widen to i8 and u8. All other types compute in themselves.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

from vxc.record import entity


@entity
class DType:
    """One scalar type, which is one object: those of `DTYPES`.

    `kind` is 'f' (float), 'i' (signed), 'u' (unsigned) or 'b' (bool); `bits` the width in memory.
    """

    name: str
    kind: str
    bits: int
    c: str
    numpy_name: str
    compute_name: str = ""

    def __reduce__(self) -> tuple:
        """Copies, and what other processes send, are the one object, too."""
        return _named, (self.name,)

    @cached_property
    def bytes(self) -> int:
        """Bytes of one element; 1 for packed 4-bit types, of which two share a byte."""
        return max(1, self.bits // 8)

    @cached_property
    def is_float(self) -> bool:
        return self.kind == "f"

    @cached_property
    def is_int(self) -> bool:
        return self.kind in "iu"

    @cached_property
    def is_signed(self) -> bool:
        return self.kind in "if"

    @cached_property
    def is_storage(self) -> bool:
        """True where arithmetic is done in another, wider type."""
        return bool(self.compute_name)

    @cached_property
    def compute(self) -> DType:
        return DTYPES[self.compute_name] if self.compute_name else self

    @cached_property
    def numpy(self):
        """The NumPy dtype (`ml_dtypes` for bf16 and f8; one byte an element for i4 and u4, unpacked)."""
        import numpy as np

        if self.numpy_name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            import ml_dtypes

            return np.dtype(getattr(ml_dtypes, self.numpy_name))
        return np.dtype(self.numpy_name)

    @cached_property
    def min(self) -> int:
        """Least value of an integer type."""
        return -(1 << (self.bits - 1)) if self.kind == "i" else 0

    @cached_property
    def max(self) -> int:
        """Greatest value of an integer type (1 for bool)."""
        return 1 if self.kind == "b" else (1 << (self.bits - (self.kind == "i"))) - 1

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


_TABLE = [
    # name     kind bits  C                    NumPy            computes in
    ("f16",     "f", 16, "__half",            "float16",       "f32"),
    ("bf16",    "f", 16, "__nv_bfloat16",     "bfloat16",      "f32"),
    ("f32",     "f", 32, "float",             "float32",       ""),
    ("f64",     "f", 64, "double",            "float64",       ""),
    ("f8e4m3",  "f",  8, "__nv_fp8_e4m3",     "float8_e4m3fn", "f32"),
    ("f8e5m2",  "f",  8, "__nv_fp8_e5m2",     "float8_e5m2",   "f32"),
    ("i4",      "i",  4, "signed char",       "int8",          "i8"),
    ("u4",      "u",  4, "unsigned char",     "uint8",         "u8"),
    ("i8",      "i",  8, "signed char",       "int8",          ""),
    ("i16",     "i", 16, "short",             "int16",         ""),
    ("i32",     "i", 32, "int",               "int32",         ""),
    ("i64",     "i", 64, "long long",         "int64",         ""),
    ("u8",      "u",  8, "unsigned char",     "uint8",         ""),
    ("u16",     "u", 16, "unsigned short",    "uint16",        ""),
    ("u32",     "u", 32, "unsigned int",      "uint32",        ""),
    ("u64",     "u", 64, "unsigned long long", "uint64",       ""),
    ("bool",    "b",  8, "bool",              "bool",          ""),
]  # fmt: skip


def _named(name: str) -> DType:
    return DTYPES[name]


DTYPES: dict[str, DType] = {row[0]: DType(*row) for row in _TABLE}

F16, BF16, F32, F64 = (DTYPES[n] for n in ("f16", "bf16", "f32", "f64"))
F8E4M3, F8E5M2 = DTYPES["f8e4m3"], DTYPES["f8e5m2"]
I4, U4 = DTYPES["i4"], DTYPES["u4"]
I8, I16, I32, I64 = (DTYPES[n] for n in ("i8", "i16", "i32", "i64"))
U8, U16, U32, U64 = (DTYPES[n] for n in ("u8", "u16", "u32", "u64"))
BOOL = DTYPES["bool"]


def signed(bits: int) -> DType:
    return DTYPES[f"i{bits}"]


def unsigned(bits: int) -> DType:
    return DTYPES[f"u{bits}"]


@lru_cache(maxsize=256)
def from_numpy(dtype) -> DType | None:
    """The dtype whose elements a NumPy array of this type holds, or None (i4 and u4 are never guessed)."""
    name = getattr(dtype, "name", str(dtype))
    return _BY_NUMPY.get(name)


_BY_NUMPY = {d.numpy_name: d for d in DTYPES.values() if d.bits != 4}
