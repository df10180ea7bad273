"""Kernels as operators of torch: `torch.library.custom_op` with a schema and a fake implementation made from the declaration.

    kernel scale(x: f32[N], a: f32, inout y: f32[N], out z: f32[N])     ->     ns::scale(Tensor x, float a, Tensor(a0!) y) -> Tensor

Arrays are tensors, ints `SymInt`, other numbers `float` or `bool`, those of a generic dtype `Scalar`. What the kernel writes into an
array of the caller is declared so. On CUDA tensors the operator launches the kernel, on tensors in CPU memory it interprets it. The fake
implementation needs neither: it works out shapes, with symbolic sizes where torch has such. Generics, and sizes of arrays that a block or
thread holds, are part of the kernel's code, and so they become constants of the traced graph.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping
from typing import Any

from vxc.api.building import checked
from vxc.api.errors import expect, translated
from vxc.api.libraries import torch_dtype
from vxc.api.signatures import Parameter, Signature
from vxc.api.specialise import Define, Recipe, generics_of, sizes
from vxc.diag import Diagnostic, VxcError
from vxc.dtypes import BOOL, DTYPES, DType
from vxc.frontend import dims, typed
from vxc.frontend.check import Typed
from vxc.runtime.arrays import ArrayView

Shape = tuple[Any, ...]  # of ints, or of sizes that are not known yet
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*::[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def imported() -> Any:
    """torch. Raises `VxcError` E0605."""
    try:
        import torch
    except ImportError as error:
        cause = str(error).partition("\n")[0]
        raise VxcError(Diagnostic("E0605", "torch cannot be imported", notes=(cause,), help="pip install 'vxc[torch]'")) from None
    return torch


def schema(kernel: Signature, returned: bool) -> str:
    """How torch declares the operator: with `returned`, `out` arrays are what it gives, else arguments that it writes."""
    taken = [p for p in kernel.params if not (returned and p.mode == "out")]
    arguments = [f"{_type(p, at)} {argument_name(p.name, at)}" for at, p in enumerate(taken)]
    count = len(kernel.params) - len(taken)
    given = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
    return f"({', '.join(arguments)}) -> {given}"


def argument_name(name: str, at: int) -> str:
    """A parameter's name where a schema can have it."""
    return name if name.isascii() and not keyword.iskeyword(name) else f"argument_{at}"


def _type(param: Parameter, at: int) -> str:
    if param.array:
        return "Tensor" if param.mode == "in" else f"Tensor(a{at}!)"
    dtype = DTYPES.get(param.dtype)
    if dtype is None:
        return "Scalar"
    return "bool" if dtype is BOOL else "SymInt" if dtype.is_int else "float"


class Shapes:
    """Works out the `out` arrays of calls of one kernel from the other arguments, nothing being run."""

    def __init__(self, recipe: Recipe, kernel: Signature) -> None:
        self._recipe, self._kernel = recipe, kernel
        self._typed: dict[tuple[tuple[str, Define], ...], Typed] = {}

    def __call__(self, arrays: Mapping[str, tuple[DType, Shape]], scalars: Mapping[str, Any]) -> dict[str, tuple[DType, Shape]]:
        """By name, dtype and shape. Raises `VxcError` E0705 for arrays of another rank, E0714 where a size does not follow."""
        ranks = {p.name: len(p.dims) for p in self._kernel.params}
        arrays = {name: (dtype, shape or (1,) * ranks[name]) for name, (dtype, shape) in arrays.items()}  # as `fitted` of calls
        views = {name: ArrayView(0, shape, (), dtype, dtype.bytes, False, "cuda") for name, (dtype, shape) in arrays.items()}
        plain = sizes(self._kernel, {name: view.shape for name, view in views.items()})
        constant = {**{n: size for n, size in plain.items() if n in self._kernel.declared}, **generics_of(self._kernel, views)}
        fixed = {name: value if isinstance(value, (bool, DType)) else int(value) for name, value in constant.items()}
        kernel = self._checked(tuple(sorted({**fixed, **dict(self._recipe.defines)}.items())))
        known = _known(kernel, arrays, scalars)
        return {a.name: (a.dtype, _shape(a, known)) for a in kernel.arrays if a.mode == "out" and a.name not in arrays}

    def _checked(self, defines: tuple[tuple[str, Define], ...]) -> Typed:
        if defines not in self._typed:
            self._typed[defines] = checked(self._recipe, dict(defines))
        return self._typed[defines]


def _known(kernel: Typed, arrays: Mapping[str, tuple[DType, Shape]], scalars: Mapping[str, Any]) -> dict[typed.Symbol, dims.Form]:
    """The size of each dimension that stands alone in the shape of an array, and the value of each int argument."""
    known = {p: dims.integer(scalars[p.name]) for p in kernel.params if isinstance(p, typed.Symbol) and p.dtype.is_int}
    for array in kernel.arrays:
        if array.name not in arrays:
            continue
        shape = arrays[array.name][1]
        if len(shape) != len(array.shape):
            message = f"argument `{array.name}` has {len(shape)} dimensions, and {len(array.shape)} are declared"
            raise VxcError(Diagnostic("E0705", message, help="pass a tensor of as many dimensions"))
        for extent, size in zip(array.shape, shape):
            if isinstance(extent, typed.Var):
                known.setdefault(extent.symbol, dims.integer(size))
    return known


def _shape(array: typed.Array, known: dict[typed.Symbol, dims.Form]) -> Shape:
    shape = tuple(dims.linear(extent, dims.Forms(known)).number for extent in array.shape)
    if None in shape:
        message = f"the shape of `{array.name}` does not follow from the other arguments"
        raise VxcError(Diagnostic("E0714", message, help="have the operator take it as an argument: as_torch_op(name, out=True)"))
    return shape


def operator(kernel: Callable[..., Any], declared: Signature, shapes: Callable[..., Any], name: str, out: bool) -> Any:
    """Registers the operator; `shapes` is called as `Shapes`. Raises `VxcError` E0605, E0708 for a kernel that takes no arrays, E0709 for a
    name that is none.
    """
    expect("the `name` of as_torch_op", name, str, "a str such as 'mylib::softmax'")
    if not _NAME.fullmatch(name):
        message = f"`{name}` is no name of a torch operator"
        raise VxcError(Diagnostic("E0709", message, help="write it as namespace::name, such as mylib::softmax"))
    taken = [p for p in declared.params if out or p.mode != "out"]
    if not any(p.array for p in taken):
        message = f"`{declared.name}` takes no arrays, and so an operator could not tell on which device to run"
        raise VxcError(Diagnostic("E0708", message, help="have it take its outputs: as_torch_op(name, out=True), or declare them inout"))
    torch = imported()

    def run(*arguments: Any) -> Any:
        on_cpu = all(x.device.type == "cpu" for x, p in zip(arguments, taken) if p.array)
        result = kernel(*arguments, device="cpu") if on_cpu else kernel(*arguments)
        return None if out else result

    def fake(*arguments: Any) -> Any:
        with translated(declared.name):
            tensors = {p.name: x for p, x in zip(taken, arguments) if p.array}
            scalars = {p.name: x for p, x in zip(taken, arguments) if not p.array}
            found = shapes({n: (dtype_of(torch, x, n), tuple(x.shape)) for n, x in tensors.items()}, scalars)
        like = next(iter(tensors.values()))
        made = tuple(like.new_empty(shape, dtype=torch_dtype(torch, dtype)) for dtype, shape in found.values())
        return made[0] if len(made) == 1 else made or None

    mutated = [argument_name(p.name, at) for at, p in enumerate(taken) if p.array and p.mode != "in"]
    made = torch.library.custom_op(name, run, mutates_args=mutated, schema=schema(declared, not out))
    made.register_fake(fake)
    return made


def dtype_of(torch: Any, tensor: Any, name: str) -> DType:
    """The dtype of a tensor. Raises `VxcError` E0704 for one that kernels lack."""
    found = next((d for d in DTYPES.values() if getattr(torch, d.numpy_name, None) == tensor.dtype), None)
    if found is None:
        message = f"argument `{name}` is of {tensor.dtype}, which kernels lack"
        raise VxcError(Diagnostic("E0704", message, help=f"convert it to one of {', '.join(DTYPES)}"))
    return found
