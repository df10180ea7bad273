"""The array libraries, one row each: how an array of it is recognised, looked at cheaply, allocated; and the general way for all others.

A row's `key`, `place` and `pointer` are texts of Python for the generated fast path (`fronts`). Two arrays of one key have the same shape
and dtype, and lie with the same strides, or both densely.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from vxc.api.devices import cuda
from vxc.api.dlpack import from_dlpack
from vxc.api.owned import DeviceArray, adopter
from vxc.binding import row_major
from vxc.diag import Diagnostic, VxcError
from vxc.dtypes import DType
from vxc.record import record
from vxc.runtime.arrays import CPU, ArrayView, describe, packages, reading, unread

Same = Callable[..., bool]
"""Says of arrays whether they have the type, dtype, device, shape and strides of those that it was made for."""


def _no_stream(module: Any) -> Callable[[int], int]:
    """For libraries that have no current stream: work goes to the legacy default one, and arrays say what else they need."""
    return lambda device: 0


def _current_device(module: Any) -> Callable[[], int]:
    return cuda().current_device


@record
class Library:
    """`module` is the top package of the types of its arrays; the functions of a row are given that module.

    In the texts `{0}` stands for an array, `_module` for that module, `_pointer` for what `address` gives, `_stream` for what `stream`
    gives and `_place` for a function from an address to its device; `queue` is the current stream of `_device`, and `place` is part of
    the key where there are several devices. `make(module, shape, dtype, device)` gives what allocates an output, in
    the context of that device. `ordinal` is the device of an array, None where arrays do not say. `stream` gives a function from a device
    to the handle of its current stream, `current` one to the current device of the thread. `same(module)` gives what makes a `Same` of
    arrays, or None where nothing is quicker than the key.
    """

    module: str
    key: str
    place: str
    pointer: str
    make: Callable[[Any, tuple[int, ...], DType, int], Callable[[], Any]]
    address: Callable[[Any], Any] = lambda module: None
    ordinal: Callable[[Any], int] | None = None
    queue: str = "0"
    stream: Callable[[Any], Callable[[int], int]] = _no_stream
    current: Callable[[Any], Callable[[], int]] = _current_device
    same: Callable[[Any], Callable[[Sequence[Any]], Same] | None] = lambda module: None

    @property
    def imported(self) -> Any:
        return sys.modules[self.module]

    @property
    def streams(self) -> bool:
        """Whether the library has a current stream."""
        return self.stream is not _no_stream

    def owns(self, array: Any) -> bool:
        """Whether an array is one of the library's."""
        return package(array) == self.module


def _torch_stream(torch: Any) -> Callable[[int], int]:
    """The raw handle at once where this torch has a way, else through a stream object."""
    return getattr(torch._C, "_cuda_getCurrentRawStream", None) or (lambda device: torch.cuda.current_stream(device).cuda_stream)


_GUARDED = (2, 11), (2, 13)  # the versions of torch, first to last, whose guards were tried: they are no part of its interface


def _torch_guards(torch: Any) -> Any:
    """What `torch.compile` has its compiled code check and allocate with, None in versions in which it was not tried."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    return torch._C._dynamo.guards if _GUARDED[0] <= version <= _GUARDED[1] else None


def _torch_same(torch: Any) -> Callable[[Sequence[Any]], Same] | None:
    """The check of tensors, in one call."""
    guards = _torch_guards(torch)
    if guards is None:
        return None

    def made(tensors: Sequence[Any]) -> Same:
        sizes, strides = [list(t.shape) for t in tensors], [list(t.stride()) for t in tensors]
        return guards.TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check

    return made


def _torch_make(torch: Any, shape: tuple[int, ...], dtype: DType, device: int) -> Callable[[], Any]:
    """Without torch's dispatcher where there is a way, which costs half as much, on the current device; else by `empty_strided`, which
    costs less than `empty`.
    """
    native, strides = torch_dtype(torch, dtype), row_major(shape)
    at_once = getattr(_torch_guards(torch), "_empty_strided_cuda", None)
    if at_once is not None:
        return partial(at_once, shape, strides, native)
    return partial(torch.empty_strided, shape, strides, dtype=native, device=torch.device("cuda", device))


LIBRARIES = {
    row.module: row
    for row in (
        Library(
            "torch",
            key="{0}.shape, {0}.dtype, {0}.get_device(), {0}.is_contiguous() or {0}.stride(), {0}.is_neg()",
            place="",  # in the key: tensors of the CPU are of the same type
            pointer="_pointer({0})",
            make=_torch_make,
            address=lambda torch: torch.Tensor.data_ptr,
            ordinal=lambda tensor: tensor.get_device(),
            queue="_stream(_device)",
            stream=_torch_stream,
            current=lambda torch: getattr(torch._C, "_cuda_getDevice", None) or torch.cuda.current_device,
            same=_torch_same,
        ),
        Library(
            "cupy",
            key="{0}.shape, {0}.dtype, {0}._c_contiguous or {0}.strides",  # what `flags` would look up
            place="{0}.data.device_id",
            pointer="{0}.data.ptr",
            make=lambda cupy, shape, dtype, device: partial(cupy.ndarray, shape, dtype.numpy),  # what `empty` does, after looking longer
            ordinal=lambda array: array.data.device_id,
            queue="_module.cuda.get_current_stream(_device).ptr",
            stream=lambda cupy: lambda device: cupy.cuda.get_current_stream(device).ptr,
            current=lambda cupy: cupy.cuda.runtime.getDevice,
        ),
        Library(
            "pycuda",
            key="{0}.shape, {0}.dtype, {0}.strides",
            place="_place(int({0}.gpudata))",
            pointer="int({0}.gpudata)",
            make=lambda pycuda, shape, dtype, device: partial(pycuda.gpuarray.empty, shape, dtype.numpy),
        ),
        Library(
            "numba",
            key="{0}.shape, {0}.dtype, {0}.strides, {0}.stream",
            place="_place({0}.device_ctypes_pointer.value)",
            pointer="{0}.device_ctypes_pointer.value",
            make=lambda numba, shape, dtype, device: partial(numba.cuda.device_array, shape, dtype.numpy),
        ),
    )
}


def torch_dtype(torch: Any, dtype: DType) -> Any:
    return getattr(torch, dtype.numpy_name)


def maker(
    arrays: Sequence[Any], name: str, shape: tuple[int, ...], dtype: DType, device: int, stream: Any = None
) -> Callable[[], Any]:  # fmt: skip
    """What makes an output, in the library of the other arrays; where they have none, one of vxc's own, to be written on the stream, None
    for the legacy default one.
    """
    library = library_of(arrays)
    if library is None:
        return partial(DeviceArray, cuda(), name, shape, dtype, device, stream, adopter(arrays))
    return library.make(library.imported, shape, dtype, device)


def package(array: Any) -> str:
    """The library whose array type an array's is or derives from, else the top package of its type."""
    return _of_these(packages(array))


@lru_cache(maxsize=1024)
def _of_these(tops: tuple[str, ...]) -> str:
    return next((top for top in tops if top in LIBRARIES), tops[0])


def ordinal(array: Any) -> int | None:
    """The device that an array says it is on, None where those of its library do not say."""
    row = LIBRARIES.get(package(array))
    return row.ordinal(array) if row and row.ordinal else None


def library_of(arrays: Iterable[Any]) -> Library | None:
    """The library whose stream a call follows and in which its missing outputs are allocated: that of the first array whose library has
    a current stream, else of the first that has one at all.
    """
    found = [LIBRARIES[package(array)] for array in arrays if package(array) in LIBRARIES]
    return next((row for row in found if row.streams), found[0] if found else None)


def is_array(value: Any) -> bool:
    """Whether a value is an array of some kind, and no number; NumPy's scalars are numbers."""
    if isinstance(value, np.ndarray):
        return True
    if isinstance(value, (int, float, np.generic, type)):
        return False
    if package(value) == "torch" or hasattr(type(value), "__dlpack__"):  # which asks no array, of which some take long to answer
        return True
    return offers(value, "__cuda_array_interface__") or offers(value, "__dlpack__")


def offers(value: Any, protocol: str) -> bool:
    """Whether a value has this attribute; one that raises has it, and raises again where it is read."""
    try:
        return hasattr(value, protocol)
    except Exception:
        return True


def on_device(array: Any, name: str) -> bool:
    """Whether an array lies in the memory of a device. Raises `VxcError` E0703."""
    if package(array) == "torch":
        return array.device.type != "cpu"
    if isinstance(array, (np.ndarray, np.generic)):
        return False
    with reading(array, name):
        return hasattr(array, "__cuda_array_interface__") or hasattr(array, "__dlpack_device__") and array.__dlpack_device__()[0] != 1


def view(array: Any, name: str, stream: int = 0) -> ArrayView:
    """What an array is and where it lies; `stream` is where it will be used, for those that only speak DLPack.

    Raises `VxcError`: as `describe`; E0703 for a torch tensor without memory of its own and for a masked array.
    """
    if package(array) == "torch":
        problem = _torch_problem(array)
        if problem:
            what, way_out = problem
            raise VxcError(Diagnostic("E0703", f"argument `{name}` is {what}, and a kernel needs memory", help=way_out))
    elif isinstance(array, np.ndarray):
        _check_unmasked(array, name)
    elif not offers(array, "__cuda_array_interface__") and offers(array, "__dlpack__"):
        with reading(array, name):
            return from_dlpack(array, name, stream)
    found = describe(array, name)
    if found.dtype is None and found.itemsize not in (1, 2):  # raw bytes may be bf16 or f8, which NumPy's interface cannot say
        raise unread(name, getattr(array, "dtype", f"{found.itemsize} raw bytes"))
    return found


def _check_unmasked(array: np.ndarray, name: str) -> None:
    if isinstance(array, np.ma.MaskedArray):
        message = f"argument `{name}` is a masked array, and a kernel would read what is behind the mask"
        raise VxcError(Diagnostic("E0703", message, help="pass x.filled(value), or x.data to have the mask disregarded"))


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
    """A NumPy array over an array's own memory in the CPU. Raises `VxcError` E0703 for one that is elsewhere or masked, E0704 for elements
    that kernels lack.
    """
    if isinstance(array, np.ndarray):
        _check_unmasked(array, name)
        return array
    found = view(array, name)
    if found.device != CPU:
        message = f'argument `{name}` lies on a CUDA device, and device="cpu" runs on arrays in CPU memory'
        raise VxcError(Diagnostic("E0703", message, help="pass NumPy arrays or tensors on the CPU"))
    if found.dtype is None:
        raise unread(name, getattr(array, "dtype", "unknown"))
    if package(array) == "torch":
        torch = sys.modules["torch"]
        plain = array.detach().view(getattr(torch, f"uint{8 * found.itemsize}" if found.itemsize < 2 else f"int{8 * found.itemsize}"))
        return plain.numpy().view(found.dtype.numpy)
    with reading(array, name):
        try:
            return np.from_dlpack(array)
        except (BufferError, RuntimeError):  # NumPy's, newer and older, of bf16 and f8, which it knows only in arrays that it is given
            given = np.asarray(array)
    if given.dtype != found.dtype.numpy:
        raise unread(name, getattr(array, "dtype", "unknown"))
    given.flags.writeable = False  # it may be a copy
    return given
