"""Arrays in device memory that vxc owns: outputs of calls whose other arrays are of no library that allocates.

They speak the CUDA array interface (version 3) and DLPack (1.0, and before), by which any library takes them without a copy;
`np.asarray` copies them to the CPU. Where the inputs are JAX's, whose arrays nobody else may write, a call gives what JAX makes of one
once the kernel is on its stream (`handed`).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np

from vxc.api.dlpack import CUDA, LEGACY_STREAM, capsule
from vxc.api.errors import translated
from vxc.diag import Diagnostic, VxcError
from vxc.dtypes import DType
from vxc.runtime.arrays import packages
from vxc.runtime.driver import Driver
from vxc.runtime.streams import stream_handle

_ADOPT = {"jaxlib": "jax", "jax": "jax"}
"""By the package of arrays, the library whose `dlpack.from_dlpack` takes an array over."""


def adopter(arrays: Iterable[Any]) -> str:
    """The library that is to take over the outputs of a call with these inputs, "" for none."""
    return next((_ADOPT[top] for array in arrays for top in packages(array) if top in _ADOPT), "")


class DeviceArray:
    """A dense array on a device. Its memory is given back once nothing refers to it, also not what was made of it by DLPack.

    `given` is the stream on which it is written, None for the legacy default one; it is kept as long as the array, for who reads that by
    one of the interfaces does so in order. `stream` is its raw handle. `adopter` is the library that is to take the array over, "" for
    none. Making one raises `VxcError` E0604 where there is no memory, E0708 in a capture.
    """

    def __init__(
        self, cuda: Driver, name: str, shape: tuple[int, ...], dtype: DType, device: int, given: Any = None, adopter: str = ""
    ) -> None:
        stream = 0 if given is None else stream_handle(given)
        self.shape, self.device, self.stream, self.adopter = shape, device, stream, adopter
        self._cuda, self._name, self._type, self._given = cuda, name, dtype, given
        size = dtype.bytes
        for extent in shape:
            size *= extent
        with cuda.active(device):
            if stream and cuda.capturing(stream):
                message = f"argument `{name}` is missing, and no memory is allocated for it while the stream is captured into a graph"
                hint = f"pass `{name}`: an array of {dtype} of shape {list(shape)} on the device"
                raise VxcError(Diagnostic("E0708", message, help=hint))
            memory = cuda.allocate(max(size, 1))
            weakref.finalize(self, _free, cuda, device, memory).atexit = False  # the context goes first
            if stream:
                cuda.wait(stream, 0)  # on which the driver clears the end of what it allocates
        self._memory, self._address = memory, int(memory) if size else 0  # as the interfaces write it for no elements

    @property
    def dtype(self) -> Any:
        """NumPy's, or ml_dtypes'."""
        return self._type.numpy

    def __repr__(self) -> str:
        return f"<vxc array {self._name}: {self._type}[{', '.join(map(str, self.shape))}] on device {self.device}>"

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        typestr = self.dtype.str if self.dtype.isbuiltin == 1 else f"|V{self._type.bytes}"  # NumPy has no name for bf16 and f8
        place = {"shape": self.shape, "typestr": typestr, "data": (self._address, False), "strides": None}
        return {"version": 3, "stream": self.stream or LEGACY_STREAM, **place}

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """A copy in CPU memory, once what is on its stream has run. Raises ValueError where none is to be made, and `LaunchError` E0604
        for what went wrong on the stream.
        """
        if copy is False:
            raise ValueError("an array on a device is copied to become one of NumPy's")
        host = np.empty(self.shape, self.dtype)
        if host.size:
            with translated(), self._cuda.active(self.device):
                self._cuda.synchronize(self.stream)
                self._cuda.download(host, self._memory)
        return host if dtype is None else host.astype(dtype, copy=False)

    def __reduce__(self) -> Any:
        raise TypeError("an array on a device is not copied or pickled as it is: np.asarray(x) has its elements")

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.device

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule, safe to use on the consumer's stream: its handle, 1 or None for the legacy default one, -1 where it sees to that
        itself. Raises BufferError where it is asked for a copy, or for another device, `LaunchError` E0604 where CUDA refuses.
        """
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("an array of vxc is taken where it lies, and not copied")
        queue = 0 if stream in (None, LEGACY_STREAM) else stream
        if queue not in (-1, self.stream):
            with translated(), self._cuda.active(self.device):
                self._cuda.wait(queue, self.stream)
        return capsule(self, self._address, self.shape, self._type, self.__dlpack_device__(), (max_version or (0, 0))[0] > 0)


def handed(found: Any) -> Any:
    """What a call gives, arrays of its own handed to the library that takes them over."""
    if isinstance(found, tuple):
        return tuple(map(handed, found))
    if isinstance(found, DeviceArray) and found.adopter:
        return import_module(f"{found.adopter}.dlpack").from_dlpack(found)
    return found


def _free(cuda: Driver, device: int, memory: Any) -> None:
    """Not in a forked process, whose memory it is not, nor where the context is gone: there is nothing left to give back."""
    with suppress(VxcError), cuda.active(device):
        cuda.free(memory)
