"""How `print` spells values: as C's printf does with these formats, on the device and in the interpreters."""

from __future__ import annotations

from vxc.dtypes import F64, U64, DType


def print_format(dtype: DType) -> str:
    """The format of a value with all its digits; %s is that of true and false."""
    if dtype.kind == "b":
        return "%s"
    if dtype.is_float:
        return "%.17g" if dtype is F64 else "%.9g"
    return "%llu" if dtype is U64 else "%lld"


def printed(value, dtype: DType) -> str:
    """The text of a number of this dtype."""
    if dtype.kind == "b":
        return "true" if value else "false"
    return print_format(dtype) % float(value) if dtype.is_float else str(int(value))
