"""The array libraries, one row each: how an array of it is recognised, looked at cheaply, allocated; and the general way for all others.

A row's `key` and `pointer` are texts of Python for the generated fast path (`fronts`). Two contiguous arrays of one key have
the same shape, dtype and device.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from vxc.api.dlpack import from_dlpack
from vxc.binding import row_major
from vxc.diag import Diagnostic, VxcError
from vxc.dtypes import DType
from vxc.runtime.arrays import CPU, ArrayView, describe, unread


@dataclass(frozen=True)
class Library:
    """`module` is the top package of the types of its arrays; the functions of a row are given that module.

    In `key` and `pointer`, `{0}` stands for an array and `_pointer` for what `address` gives. `stream` gives a function from a device to
    the handle of its current stream, `current` one to the current device of the thread. `same(module, arrays)` gives a function that
    says of other arrays whether they have the key and the strides of these, or None where nothing is quicker than the key. `ordinal`
    is the device of an array.
    """

    module: str
    key: str
    pointer: str
    address: Callable[[Any], Any]
    ordinal: Callable[[Any], int]
    stream: Callable[[Any], Callable[[int], int]]
    current: Callable[[Any], Callable[[], int]]
    same: Callable[[Any, Sequence[Any]], Callable[..., bool] | None] = lambda module, arrays: None

    @property
    def imported(self) -> Any:
        return sys.modules[self.module]

    def owns(self, array: Any) -> bool:
        """Whether an array is one of the library's."""
        return package(array) == self.module


def _torch_stream(torch: Any) -> Callable[[int], int]:
    """The raw handle at once where this torch has a way, else through a stream object."""
    return getattr(torch._C, "_cuda_getCurrentRawStream", None) or (lambda device: torch.cuda.current_stream(device).cuda_stream)


def _cupy_stream(cupy: Any) -> Callable[[int], int]:
    """As for torch."""
    raw = getattr(sys.modules.get("cupy_backends.cuda.stream"), "get_current_stream_ptr", None)
    return (lambda device: raw()) if raw else (lambda device: cupy.cuda.get_current_stream().ptr)


_GUARDED = (2, 11), (2, 13)  # the versions of torch, first to last, whose guards were tried: they are no part of its interface


def _torch_same(torch: Any, tensors: Sequence[Any]) -> Callable[..., bool] | None:
    """The check that `torch.compile` makes before it uses what it compiled: type, dtype, device, sizes and strides in one call."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if not _GUARDED[0] <= version <= _GUARDED[1] or not tensors:
        return None
    sizes, strides = [list(t.shape) for t in tensors], [list(t.stride()) for t in tensors]
    return torch._C._dynamo.guards.TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check


LIBRARIES = {
    row.module: row
    for row in (
        Library(
            "torch",
            key="{0}.shape, {0}.dtype, {0}.get_device(), {0}.is_contiguous()",
            pointer="_pointer({0})",
            address=lambda torch: torch.Tensor.data_ptr,
            ordinal=lambda tensor: tensor.get_device(),
            stream=_torch_stream,
            current=lambda torch: getattr(torch._C, "_cuda_getDevice", None) or torch.cuda.current_device,
            same=_torch_same,
        ),
        Library(
            "cupy",
            key="{0}.shape, {0}.dtype, {0}.data.device_id, {0}.strides",
            pointer="{0}.data.ptr",
            address=lambda cupy: None,
            ordinal=lambda array: array.data.device_id,
            stream=_cupy_stream,
            current=lambda cupy: cupy.cuda.runtime.getDevice,
        ),
    )
}

def _torch_maker(shape: tuple[int, ...], dtype: DType, device: int) -> Callable[[], Any]:
    torch = sys.modules["torch"]
    place, native = torch.device("cuda", device), torch_dtype(torch, dtype)
    return partial(torch.empty_strided, shape, row_major(shape), dtype=native, device=place)  # less than `empty` costs


_MAKERS: dict[str, Callable[[tuple[int, ...], DType, int], Callable[[], Any]]] = {
    "torch": _torch_maker,
    "cupy": lambda shape, dtype, device: partial(sys.modules["cupy"].empty, shape, dtype.numpy),
    "pycuda": lambda shape, dtype, device: partial(sys.modules["pycuda.gpuarray"].empty, shape, dtype.numpy),
    "numba": lambda shape, dtype, device: partial(sys.modules["numba.cuda"].device_array, shape, dtype.numpy),
}
"""By library, what makes outputs of a shape and dtype on a device, whose context is current."""


def torch_dtype(torch: Any, dtype: DType) -> Any:
    return getattr(torch, dtype.numpy_name)


def maker(arrays: Iterable[Any], name: str, shape: tuple[int, ...], dtype: DType, device: int) -> Callable[[], Any]:
    """What makes an output, in the library of the first array that has a way. Raises `VxcError` E0708 where none has."""
    found = next((package(array) for array in arrays if package(array) in _MAKERS), None)
    if found is None:
        message = f"argument `{name}` is missing, and it cannot be allocated in the library of the other arrays"
        raise VxcError(Diagnostic("E0708", message, help=f"pass `{name}`: an array of {dtype} of shape {list(shape)} on the device"))
    return _MAKERS[found](shape, dtype, device)


def package(array: Any) -> str:
    """The top package of an array's type."""
    return type(array).__module__.partition(".")[0]


def library_of(arrays: Iterable[Any]) -> Library | None:
    """The library whose stream a call follows and in which its missing outputs are allocated: that of the first array with one."""
    return next((LIBRARIES[package(array)] for array in arrays if package(array) in LIBRARIES), None)


def is_array(value: Any) -> bool:
    """Whether a value is an array of some kind, and no number; NumPy's scalars are numbers."""
    if isinstance(value, np.ndarray):
        return True
    if isinstance(value, (int, float, np.generic)) or isinstance(value, type):
        return False
    return package(value) == "torch" or hasattr(value, "__cuda_array_interface__") or hasattr(value, "__dlpack__")


def view(array: Any, name: str, stream: int = 0) -> ArrayView:
    """What an array is and where it lies; `stream` is where it will be used, for those that only speak DLPack.

    Raises `VxcError`: as `describe`; E0703 for a torch tensor without memory of its own.
    """
    if package(array) == "torch":
        problem = _torch_problem(array)
        if problem:
            what, way_out = problem
            raise VxcError(Diagnostic("E0703", f"argument `{name}` is {what}, and a kernel needs memory", help=way_out))
    elif not isinstance(array, np.ndarray) and not hasattr(array, "__cuda_array_interface__") and hasattr(array, "__dlpack__"):
        return from_dlpack(array, name, stream)
    found = describe(array, name)
    if found.dtype is None and found.itemsize not in (1, 2):  # raw bytes may be bf16 or f8, which NumPy's interface cannot say
        raise unread(name, getattr(array, "dtype", "unknown"))
    return found


def _torch_problem(tensor: Any) -> tuple[str, str] | None:
    """What keeps a tensor from being plain memory, and a way out."""
    torch = sys.modules["torch"]
    if tensor.layout is not torch.strided:
        return f"a tensor of layout {tensor.layout}", "pass tensor.to_dense()"
    if tensor.device.type not in ("cuda", "cpu"):
        return f"on device {tensor.device}", "move it with tensor.cuda()"
    if tensor.is_neg() or tensor.is_conj():
        return "a lazy negation or conjugate", "pass tensor.resolve_neg().resolve_conj()"
    try:
        address = tensor.data_ptr()
    except RuntimeError:
        return f"a {type(tensor).__name__}, which stands for a tensor without being one", "call the kernel outside of tracing"
    if not address and tensor.numel():
        return "a tensor whose storage was freed", "pass one that has its memory"
    return None


def host_view(array: Any, name: str) -> np.ndarray:
    """A NumPy array over an array's own memory in the CPU. Raises `VxcError` E0703 for one that is elsewhere."""
    if isinstance(array, np.ndarray):
        return array
    found = view(array, name)
    if found.device != CPU:
        message = f'argument `{name}` lies on a CUDA device, and device="cpu" runs on arrays in CPU memory'
        raise VxcError(Diagnostic("E0703", message, help="pass NumPy arrays or tensors on the CPU"))
    if package(array) == "torch":
        torch = sys.modules["torch"]
        plain = array.detach().view(getattr(torch, f"uint{8 * found.itemsize}" if found.itemsize < 2 else f"int{8 * found.itemsize}"))
        return plain.numpy().view(found.dtype.numpy)
    return np.from_dlpack(array)
