"""Raw CUDA stream handles: of stream objects, and of the stream that an array's library is working on."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from vxc.binding import brief
from vxc.diag import Diagnostic, VxcError
from vxc.runtime.arrays import packages

_CURRENT_STREAM = {
    "torch": lambda torch, device: torch.cuda.current_stream(device).cuda_stream,
    "cupy": lambda cupy, device: cupy.cuda.get_current_stream().ptr,
}
_HANDLES = ("cuda_stream", "ptr", "handle")  # of torch, CuPy and PyCUDA streams


def current_stream(arrays: Iterable[Any], device: int) -> int:
    """The current stream of the library that the first array with one comes from, else the default stream."""
    for array in arrays:
        for package in packages(array):
            if package in _CURRENT_STREAM:
                return _CURRENT_STREAM[package](sys.modules[package], device)
    return 0


def stream_handle(stream: Any) -> int:
    """The raw handle of a stream object. Raises `VxcError` E0709 for what is none."""
    try:
        found = _handle(stream)
    except Exception:  # of the object's own code
        found = None
    if type(found) is int and 0 <= found < 1 << 64:  # with any other number CUDA ends the process
        return found
    said = brief(stream) if isinstance(stream, int) else f"a {type(stream).__name__}"
    message = f"`stream` is {said}, which is no CUDA stream"
    raise VxcError(Diagnostic("E0709", message, help="pass a torch, CuPy or PyCUDA stream, or its raw handle"))


def _handle(stream: Any) -> Any:
    if isinstance(stream, int):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    return next((getattr(stream, name) for name in _HANDLES if isinstance(getattr(stream, name, None), int)), None)
