"""On which device an address is: asked of the driver's library itself, for `cuda-bindings` 13.2 to 13.4 answer 0 for every address."""

from __future__ import annotations

import ctypes
import os
from functools import cache

DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL in cuda.h


@cache
def _library() -> ctypes.CDLL:
    """The library, which the bindings have loaded before."""
    return ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")


def device_ordinal(address: int) -> tuple[int, int]:
    """(status of the driver, the device)."""
    found = ctypes.c_int()
    return _library().cuPointerGetAttribute(ctypes.byref(found), DEVICE_ORDINAL, ctypes.c_void_p(address)), found.value
