"""Arrays from outside: describing what a caller passes, reading argument texts and `.npy`/`.npz` files, writing outputs.

`describe` sees any device array (`__cuda_array_interface__`, torch tensors of every dtype) or NumPy array as one
`ArrayView`. `read_argument` turns the text of `-a x=...` into a NumPy array or a number.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from threading import get_ident
from types import SimpleNamespace
from typing import Any, BinaryIO

import numpy as np

from vxc.binding import row_major
from vxc.diag import Diagnostic, VxcError, suggestion, unwritable
from vxc.dtypes import DTYPES, DType, from_numpy
from vxc.record import value
from vxc.runtime.generate import GENERATORS, generate_text

CPU = "cpu"
_NUMBERS = {"true": True, "false": False}


@value
class ArrayView:
    """An array in memory that someone else owns.

    `strides` are in elements. `dtype` is None for elements that are raw bytes (as bf16 is to NumPy itself). `device` is
    'cpu' or 'cuda'. `stream` is the stream on which the producer may still be writing, None for none.
    """

    ptr: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType | None
    itemsize: int
    readonly: bool
    device: str
    stream: int | None = None

    @property
    def size(self) -> int:
        """Number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def span(self) -> tuple[int, int]:
        """First address and the one behind the last element."""
        low, high = 0, 1
        for extent, stride in zip(self.shape, self.strides):
            if not extent:
                return self.ptr, self.ptr
            if stride < 0:
                low += (extent - 1) * stride
            else:
                high += (extent - 1) * stride
        return self.ptr + low * self.itemsize, self.ptr + high * self.itemsize

    @property
    def upwards(self) -> ArrayView:
        """The same memory from its first address on, its elements in the order in which they lie there."""
        if all(stride >= 0 for stride in self.strides):
            return self
        return replace(self, ptr=self.span[0], strides=tuple(map(abs, self.strides)))


def describe(array: Any, name: str) -> ArrayView:
    """How the array passed as parameter `name` lies in memory. Raises `VxcError`: E0703 for what is no array, E0704 for
    elements that are no numbers of 1, 2, 4 or 8 bytes or in the other byte order, E0706 for strides that are no multiple of the elements.
    """
    if isinstance(array, np.ndarray):
        if not _plain(array.dtype):
            raise unread(name, array.dtype)
        plain = array.view(f"u{array.dtype.itemsize}")  # NumPy cannot describe f8 arrays as they are
        return _view(name, plain.ctypes.data, array.shape, array.strides, array.dtype, not array.flags.writeable, CPU)
    if "torch" in packages(array):
        return _torch_view(array)
    with reading(array, name):
        return _of_interface(array, name)


def packages(array: Any) -> tuple[str, ...]:
    """The top packages of an array's type and of the types it derives from, nearest first: a user's subclass is its library's, too."""
    return _packages(type(array))


@lru_cache(maxsize=1024)
def _packages(kind: type) -> tuple[str, ...]:
    return tuple(base.__module__.partition(".")[0] for base in kind.__mro__)


def _of_interface(array: Any, name: str) -> ArrayView:
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is None:
        raise VxcError(
            Diagnostic(
                "E0703",
                f"argument `{name}` is no array: a {_type_name(array)}",
                help="pass a NumPy array or anything with `__cuda_array_interface__` (torch, CuPy, PyCUDA GPUArray, Numba, JAX)",
            )
        )
    if interface.get("mask") is not None:
        message = f"argument `{name}` is a masked array, and a kernel would read what is behind the mask"
        raise VxcError(Diagnostic("E0703", message, help="pass an array without the mask, its elements filled in"))
    ptr, readonly = interface["data"]
    dtype = np.dtype(_some(interface["typestr"]))
    if dtype.kind != "V" and from_numpy(dtype) is None:
        raise unread(name, dtype)
    shape = tuple(map(operator.index, interface["shape"]))
    given, stream = interface.get("strides"), interface.get("stream")
    strides = None if given is None else tuple(map(operator.index, given))
    check_lies(shape, strides)
    stream = None if stream is None else _word(stream)
    return _view(name, _word(ptr or 0), shape, strides, dtype, bool(readonly), "cuda", stream)


def check_lies(shape: tuple[int, ...], strides: tuple[int, ...] | None) -> None:
    """Raises ValueError for what is no shape, and for strides of another number of dimensions."""
    if min(shape, default=0) < 0 or strides is not None and len(strides) != len(shape):
        raise ValueError(f"its shape is {shape}, its strides are {strides}")


def _some(value: Any) -> Any:
    if value is None:  # which NumPy takes for float64
        raise TypeError("its typestr is None")
    return value


def _word(value: Any) -> int:
    """An address or handle. Raises ValueError for an int that is none."""
    number = operator.index(value)
    if not 0 <= number < 1 << 64:
        raise ValueError(f"{number:#x} is no address and no handle")
    return number


@contextmanager
def reading(array: Any, name: str) -> Iterator[None]:
    """What an array's own code raises, or says in another form than its protocol has, becomes a diagnostic (E0703)."""
    try:
        yield
    except VxcError:
        raise
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())  # in one line
        message = f"argument `{name}`, a {_type_name(array)}, does not say where it lies ({said})"
        hint = "pass an array that fulfils its protocol, and whose memory was not freed"
        raise VxcError(Diagnostic("E0703", message, help=hint)) from None


def _plain(dtype: np.dtype) -> bool:
    """Whether elements are raw bytes or may be numbers, of a size that numbers of kernels have."""
    return not dtype.hasobject and dtype.names is None and dtype.kind not in "SUMm" and dtype.itemsize in (1, 2, 4, 8)


def unread(name: str, kind: Any, hint: str = "") -> VxcError:
    """The error for an array of elements that are none of kernels (E0704)."""
    message = f"argument `{name}` holds elements of {kind}, which no kernel reads"
    return VxcError(Diagnostic("E0704", message, help=hint or f"convert it to one of {', '.join(DTYPES)}"))


def describe_device(array: Any, name: str) -> ArrayView:
    """`describe` for a kernel on the GPU: E0703 also for an array in CPU memory."""
    view = describe(array, name)
    if view.device == CPU:
        raise VxcError(
            Diagnostic(
                "E0703",
                f"argument `{name}` is a CPU array ({_type_name(array)})",
                help="pass a CUDA array, or use run_numpy(), which copies to the device and back",
            )
        )
    return view


def _view(name: str, ptr: int, shape, byte_strides, dtype: np.dtype, readonly: bool, device: str, stream: int | None = None) -> ArrayView:
    shape, item = tuple(map(operator.index, shape)), dtype.itemsize
    if not dtype.isnative:
        message = f"argument `{name}` is in the other byte order ({dtype.str})"
        raise VxcError(Diagnostic("E0704", message, help="pass x.astype(x.dtype.newbyteorder('='))"))
    if byte_strides is None:
        strides = row_major(shape)
    elif any(s % item for n, s in zip(shape, byte_strides) if n > 1):
        message = f"argument `{name}` has strides of {tuple(byte_strides)} bytes, which are no multiple of its {item}-byte elements"
        raise VxcError(Diagnostic("E0706", message, help="pass a copy of the array"))
    else:
        strides = tuple(s // item for s in byte_strides)
    return ArrayView(ptr, shape, strides, from_numpy(dtype), item, readonly, device, stream)


def _torch_view(tensor: Any) -> ArrayView:
    """A torch tensor by its own methods: its `__cuda_array_interface__` lacks bf16 and f8, refuses gradients and costs more."""
    dtype = from_numpy(str(tensor.dtype).removeprefix("torch."))
    device = "cuda" if tensor.is_cuda else CPU
    return ArrayView(tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), dtype, tensor.element_size(), False, device)


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


# ---- argument texts and files ------------------------------------------------------------------------------------------


def read_argument(text: str, name: str, dtype: DType | None, *, seed: int) -> np.ndarray | int | float | bool:
    """The value of `-a NAME=TEXT`: a number, `KIND:DTYPE[DIMS]` (see `generate`), `FILE.npy`, `FILE.npz` or `FILE.npz:KEY`.

    `dtype` is the declared element type, needed only for files of raw elements (bf16, f8). Raises `VxcError` E0709, E0710.
    """
    if is_number(text):
        return _NUMBERS[text] if text in _NUMBERS else _integer(text) if _INTEGER.fullmatch(text) else float(text)
    if text.partition(":")[0] in GENERATORS and ":" in text:
        return generate_text(text, name=name, seed=seed)
    return read_array(text, name, dtype)


# longer ones fit nowhere, and Python refuses to read them
_INTEGER = re.compile(r"[+-]?(0[xX][0-9a-fA-F]{1,64}|0[bB][01]{1,256}|[0-9]{1,80})")
_NUMBER = re.compile(rf"true|false|[+-]?(inf|nan)|{_INTEGER.pattern}|[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def is_number(text: str) -> bool:
    """Whether a text is a number or truth value."""
    return _NUMBER.fullmatch(text) is not None


def _integer(text: str) -> int:
    return int(text, 10 if text.lstrip("+-").isdigit() else 0)


def read_array(path: str, name: str, dtype: DType | None = None) -> np.ndarray:
    """The array in a `.npy` file, or in a `.npz` file after `:KEY` (no key needed if it holds one), row-major and native.

    Raw 1- and 2-byte elements, and the unsigned ints that stand for them, are taken as `dtype` where that is bf16 or f8.
    Nothing is unpickled. Raises `VxcError` E0710.
    """
    file, key = (path, "") if os.path.exists(path) or ".npz:" not in path else path.rsplit(":", 1)
    try:
        with open(file, "rb") as opened:
            loaded = _load(opened, key)
    except OSError as error:
        hint = "check the path; arrays can also be made up: rand:f32[8,64]"
        hint = suggestion(path.partition(":")[0], GENERATORS, hint) if ":" in path else hint
        raise _unreadable(name, path, error.strerror or str(error), hint) from None
    except Exception as error:  # the readers of NumPy and zipfile raise what they like where a file is damaged
        said = error.args[0] if error.args and isinstance(error.args[0], str) else error
        cause = str(said).partition("\n")[0]
        raise _unreadable(name, path, cause, "give a .npy or .npz file written by numpy.save or numpy.savez") from None
    if loaded.dtype.hasobject or loaded.dtype.names or loaded.dtype.kind not in "fiubV":
        raise _unreadable(name, path, f"elements of type {loaded.dtype} are no numbers", "save it with a numeric dtype")
    if dtype is not None and not _is_numpys(dtype.numpy) and loaded.dtype.kind in "Vu" and loaded.dtype.itemsize == dtype.bytes:
        loaded = loaded.view(dtype.numpy)
    return np.ascontiguousarray(loaded, loaded.dtype.newbyteorder("=")).reshape(loaded.shape)


def _load(file: BinaryIO, key: str) -> np.ndarray:
    magic = file.read(6)
    file.seek(0)
    if magic != b"\x93NUMPY" and magic[:2] != b"PK":
        raise ValueError("it is neither a .npy nor a .npz file")
    loaded = np.load(file, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return loaded
    with loaded:
        if not key and len(loaded.files) != 1:
            raise KeyError(f"it holds {len(loaded.files)} arrays; name one as FILE.npz:KEY, of {', '.join(loaded.files)}")
        return loaded[key or loaded.files[0]]


def _unreadable(name: str, path: str, cause: str, hint: str) -> VxcError:
    return VxcError(Diagnostic("E0710", f"argument `{name}`: cannot read {path}: {cause}", help=hint))


def save_array(file: BinaryIO, array: np.ndarray) -> None:
    """Writes an array in the format of `.npy` files; bf16 and f8 as raw elements."""
    plain = array if _is_numpys(array.dtype) else array.view(f"V{array.dtype.itemsize}")
    np.save(SimpleNamespace(write=file.write), plain, allow_pickle=False)  # np.save seeks in what looks like a file


def _is_numpys(dtype: np.dtype) -> bool:
    """Whether the type is NumPy's own: of others, `np.save` writes headers that `np.load` rejects."""
    return dtype.isbuiltin == 1


def write_file(path: str, write: Callable[[BinaryIO], Any]) -> None:
    """Has `write` fill a temporary file beside `path`, then renames it; pipes and devices are written directly. Raises `VxcError` E0711."""
    special = os.path.exists(path) and not os.path.isfile(path)
    target = path if special else os.path.realpath(path)
    temporary = target if special else f"{target}.{os.getpid()}.{get_ident()}.tmp"  # threads, too, may write the same at once
    try:
        try:
            with open(temporary, "wb") as file:
                write(file)
            if not special:
                os.replace(temporary, target)
        except BaseException:
            if not special and os.path.exists(temporary):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise unwritable(path, error) from None


def make_folder(path: str) -> None:
    """Makes a folder and those around it, where they are missing. Raises `VxcError` E0711."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise unwritable(path, error) from None
