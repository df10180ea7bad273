"""Arrays that only speak DLPack, as `ArrayView`, and arrays of vxc as DLPack: the structures of dlpack.h 1.0, by ctypes.

The consumer's stream is passed to `__dlpack__`, which has the producer order its work before it (Python array API standard,
"Data interchange mechanisms").
"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np

from vxc.binding import row_major
from vxc.diag import Diagnostic, VxcError
from vxc.dtypes import DTYPES, DType
from vxc.runtime.arrays import CPU, ArrayView, check_lies

_CPU, CUDA, _MANAGED = 1, 2, 13  # DLDeviceType
LEGACY_STREAM = 1  # how the protocol writes the legacy default stream; 0 is not allowed
_READ_ONLY = 1
# DLDataTypeCode and bits
_DTYPES = {
    (0, 8): "i8", (0, 16): "i16", (0, 32): "i32", (0, 64): "i64", (1, 8): "u8", (1, 16): "u16", (1, 32): "u32", (1, 64): "u64",
    (2, 16): "f16", (2, 32): "f32", (2, 64): "f64", (4, 16): "bf16", (6, 8): "bool", (10, 8): "f8e4m3", (12, 8): "f8e5m2",
}  # fmt: skip


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    ]  # fmt: skip


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_is_named = ctypes.pythonapi.PyCapsule_IsValid
_is_named.restype, _is_named.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)


def from_dlpack(array: Any, name: str, stream: int = 0) -> ArrayView:
    """The view of an array with `__dlpack__`, safe to use on `stream` (a raw handle). The array keeps owning its memory.

    Raises `VxcError`: E0703 for memory of another device, E0704 for an element type that vxc lacks.
    """
    kind, _ = array.__dlpack_device__()
    if kind not in (_CPU, CUDA, _MANAGED):
        message = f"argument `{name}` is in memory of DLPack device type {int(kind)}, and kernels reach only that of CUDA devices"
        raise VxcError(Diagnostic("E0703", message, help="move it to a CUDA device"))
    asked = {} if kind == _CPU else {"stream": stream or LEGACY_STREAM}
    tensor, readonly = _opened(_given(array, **asked))
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    check_lies(shape, strides)
    dtype = _dtype(tensor, name)
    device = CPU if kind == _CPU else "cuda"
    return ArrayView((tensor.data or 0) + tensor.byte_offset, shape, strides or row_major(shape), dtype, dtype.bytes, readonly, device)


def _given(array: Any, **asked: Any) -> Any:
    """The capsule that an array gives, of DLPack 1.0 if it can."""
    try:
        return array.__dlpack__(**asked, max_version=(1, 0))
    except TypeError:  # of before 1.0
        return array.__dlpack__(**asked)


def _opened(capsule: Any) -> tuple[_Tensor, bool]:
    if _is_named(capsule, b"dltensor_versioned"):
        managed = _ManagedVersioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        if managed.major != 1:  # of another, nothing else may be read
            raise ValueError(f"it is of DLPack {managed.major}, and asked for is 1")
        return managed.tensor, bool(managed.flags & _READ_ONLY)
    return _Managed.from_address(_pointer(capsule, b"dltensor")).tensor, False


def _dtype(tensor: _Tensor, name: str) -> DType:
    found = _DTYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if found is None:
        message = f"argument `{name}` has elements of DLPack type {tensor.code} with {tensor.bits} bits, which vxc lacks"
        raise VxcError(Diagnostic("E0704", message, help=f"convert it to one of {', '.join(DTYPES)}"))
    return DTYPES[found]


# ---- arrays of vxc ---------------------------------------------------------------------------------------------------

_CODES = {name: code for code, name in _DTYPES.items()}


def capsule(owner: Any, address: int, shape: tuple[int, ...], dtype: DType, place: tuple[int, int], versioned: bool) -> Any:
    """A capsule of a dense array in memory of `owner`, which it keeps. Raises BufferError for a dtype that DLPack lacks.

    It is one that NumPy makes, of ints as wide, with the place and the type written over: who ends a capsule may do so while an error is
    raised, without the interpreter's lock, or when the interpreter is gone, which functions of Python would not survive.
    """
    if dtype.name not in _CODES:
        raise BufferError(f"DLPack has no {dtype}")
    lying = {"version": 3, "shape": shape, "typestr": f"<u{dtype.bytes}", "data": (address, False)}
    ints = np.asarray(SimpleNamespace(__array_interface__=lying, owner=owner))  # reads nothing, and keeps what it is made of
    made = _given(ints) if versioned else ints.__dlpack__()
    tensor, _ = _opened(made)
    tensor.data = address or None  # NumPy has memory of its own for no elements
    (tensor.device_type, tensor.device_id), (tensor.code, tensor.bits) = place, _CODES[dtype.name]
    return made
