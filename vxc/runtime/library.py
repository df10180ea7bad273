"""The driver's library itself, through `ctypes`, for what the bindings do wrong or slowly."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL in cuda.h


@cache
def library() -> ctypes.CDLL:
    """The library, which the bindings have loaded before."""
    return ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")


def device_ordinal(address: int) -> tuple[int, int]:
    """(status of the driver, the device of an address): `cuda-bindings` 13.2 to 13.4 answer 0 for every address."""
    found = ctypes.c_int()
    return library().cuPointerGetAttribute(ctypes.byref(found), DEVICE_ORDINAL, ctypes.c_void_p(address)), found.value


def reference(address: int, owner: Any) -> Any:
    """An address as an argument that `ctypes` passes on as it is, which is the quickest; it keeps the owner of what is there."""
    place = ctypes.c_char.from_address(address)
    place.owner = owner  # type: ignore[attr-defined]
    return ctypes.byref(place)
