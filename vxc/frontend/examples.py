"""`example` lines: sample inputs of a kernel, from which generics take their values too."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from vxc.diag import count, listed, suggestion
from vxc.dtypes import BOOL, DTYPES, DType
from vxc.frontend import dims, syntax, typed
from vxc.frontend.node import walk
from vxc.frontend.scope import At, dtype_named, fail
from vxc.frontend.signature import Signature
from vxc.frontend.values import Value, assign
from vxc.record import record
from vxc.source import Span

GENERATORS = ("rand", "randint")


@record
class Given:
    """One argument of an example: a generic's or scalar's `value`, or how to make an array."""

    name: str
    span: Span
    generator: str = "value"
    value: Any = None  # DType, int, float or bool
    shape: tuple[int, ...] = ()
    bounds: tuple[int, ...] = ()


def read_example(at: At, kernel: syntax.Kernel, example: syntax.Example) -> Generator[Any, Any, dict[str, Given]]:
    """The arguments by name, before the kernel's generics are known."""
    given: dict[str, Given] = {}
    params = [param.name for param in kernel.params]
    if len(example.args) > len(params):
        hint = "remove some"
        fail(at, "E0224", f"`{kernel.name}` has {len(params)} parameters, and {len(example.args)} values are given", example, help=hint)
    pairs = [(name, arg.span, arg) for name, arg in zip(params, example.args)]
    pairs += [(named.name, named.name_span, named.value) for named in example.named]
    known = params + [generic.name for generic in kernel.generics]
    for name, span, arg in pairs:
        if name not in known:
            hint = suggestion(name, known, f"it has {listed(known)}")
            fail(at, "E0224", f"`{kernel.name}` has no parameter or generic `{name}`", span, help=hint)
        if name in given:
            fail(at, "E0224", f"`{name}` is given twice", span, help="remove one")
        given[name] = yield from _given(at, name, arg)
    return given


def _given(at: At, name: str, arg: syntax.Expr) -> Generator[Any, Any, Given]:
    if isinstance(arg, syntax.Name) and arg.name in DTYPES:
        return Given(name, arg.span, value=DTYPES[arg.name])
    if not (isinstance(arg, syntax.Call) and arg.func.name in GENERATORS):
        value = yield arg, at
        if value.flag is None and value.number is None:
            fail(at, "E0224", f"the value of `{name}` is not known when compiling", arg, help="write a number, `rand(..)` or `randint(..)`")
        return Given(name, arg.span, value=value.number if value.flag is None else value.flag)
    extra = 3 if arg.func.name == "randint" else 1
    sample = "randint(i32, 0, 10, 8)" if extra == 3 else "rand(f32, 8)"
    if len(arg.args) < extra or arg.named or not isinstance(arg.args[0], syntax.Name):
        fail(at, "E0224", f"`{arg.func.name}` takes a type{', two bounds' if extra == 3 else ''} and sizes", arg, help=f"write `{sample}`")
    dtype = dtype_named(at, arg.args[0].name, arg.args[0].span)
    numbers = []
    for part in arg.args[1:]:
        value = yield part, at
        if not isinstance(value.number, int):
            fail(at, "E0224", "an integer is needed here", part, help=f"write `{sample}`")
        numbers.append(value.number)
    shape = tuple(numbers[extra - 1 :])
    if any(size < 0 for size in shape):
        fail(at, "E0224", "a size is negative", arg, help="sizes are 0 or more")
    bounds = tuple(numbers[: extra - 1])
    if bounds and not (dtype.is_int and dtype.min <= bounds[0] < bounds[1] <= dtype.max + 1):
        hint = f"give an integer type and bounds that it holds: `{sample}`"
        fail(at, "E0224", f"`randint` of `{dtype}` from {bounds[0]} below {bounds[1]}", arg, help=hint)
    return Given(name, arg.span, arg.func.name, dtype, shape, bounds)


def generic_values(kernel: syntax.Kernel, given: dict[str, Given]) -> dict[str, Any]:
    """What an example says about generics: by name, or as the dtype or a dimension of an array."""
    names = {generic.name for generic in kernel.generics}
    values: dict[str, Any] = {}
    for param in kernel.params:
        arg = given.get(param.name)
        if arg is None or arg.generator == "value":
            continue
        if param.type.name in names:
            values.setdefault(param.type.name, arg.value)
        for dim, size in zip(param.type.dims, arg.shape):
            if isinstance(dim.size, syntax.Name) and dim.size.name in names:
                values.setdefault(dim.size.name, size)
    values.update({name: arg.value for name, arg in given.items() if name in names})
    return values


def declared_sizes(kernel: syntax.Kernel, given: dict[str, Given]) -> dict[str, int]:
    """What an example says of dimensions that stand in the shapes of arrays which the kernel declares itself."""
    shapes = [dim for node in walk(kernel) if isinstance(node, syntax.Decl) for dim in node.type.dims]
    names = {node.name for dim in shapes for node in walk(dim) if isinstance(node, syntax.Name)}
    sizes: dict[str, int] = {}
    for param in kernel.params:
        for dim, size in zip(param.type.dims, given[param.name].shape if param.name in given else ()):
            if isinstance(dim.size, syntax.Name) and dim.size.name in names:
                sizes.setdefault(dim.size.name, size)
    return sizes


def typed_example(
    at: At, node: syntax.Example, kernel: syntax.Kernel, sig: Signature, given: dict[str, Given], defines: dict
) -> typed.Example:
    """The example checked against the parameters. Sizes and dtypes fixed by `-D` replace the written ones."""
    arrays, scalars = [], []
    sizes = _sizes(at, sig, given)
    resized = any(type(value) is int for value in defines.values())
    for written, param in zip(kernel.params, sig.params):
        arg = given.get(param.name)
        if arg is None:
            if isinstance(param, typed.Symbol) or param.mode != "out":
                fail(at, "E0224", f"the example does not give `{param.name}`", node, help=f"add `{param.name} = ..`")
            continue
        if isinstance(param, typed.Symbol):
            scalars.append((param.name, _scalar(at, param, arg)))
            continue
        if arg.generator == "value":
            hint = f"write `{param.name} = rand({param.dtype}, ..)`"
            fail(at, "E0224", f"`{param.name}` is an array, and one value is given", arg.span, help=hint)
        if arg.value is not param.dtype and written.type.name not in defines:
            message = f"`{param.name}` has elements of `{param.dtype}`, and the example gives `{arg.value}`"
            fail(at, "E0224", message, arg.span, help=f"write `{arg.generator}({param.dtype}, ..)`")
        arrays.append((param.name, arg.generator, param.dtype, _shape(at, param, arg, sizes, resized), arg.bounds))
    return typed.Example(tuple(arrays), tuple(scalars), node.span)


def _sizes(at: At, sig: Signature, given: dict[str, Given]) -> dict[typed.Symbol, dims.Form]:
    """Each dimension's size, from the plain occurrences."""
    sizes: dict[typed.Symbol, dims.Form] = {}
    for param in sig.params:
        arg = given.get(param.name)
        if isinstance(param, typed.Symbol):
            if arg is not None and isinstance(arg.value, int):
                sizes[param] = dims.integer(arg.value)
            continue
        if arg is None or arg.generator == "value":
            continue
        if len(arg.shape) != len(param.shape):
            message = f"`{param.name}` has {count(len(param.shape), 'dimension')}, and the example gives {len(arg.shape)}"
            fail(at, "E0224", message, arg.span, help="give one size for each dimension")
        for extent, size in zip(param.shape, arg.shape):
            if isinstance(extent, typed.Var):
                sizes.setdefault(extent.symbol, dims.integer(size))
    return sizes


def _shape(at: At, param: typed.Array, arg: Given, sizes: dict, resized: bool) -> tuple[int, ...]:
    shape = tuple(dims.linear(extent, dims.Forms(sizes)).number for extent in param.shape)
    for k, (size, written) in enumerate(zip(shape, arg.shape)):
        if size is None:
            hint = "give every array that the size depends on"
            fail(at, "E0224", f"the example does not fix dimension {k} of `{param.name}`", arg.span, help=hint)
        if size != written and not resized:
            message = f"dimension {k} of `{param.name}` is {written}, and the other arguments make it {size}"
            fail(at, "E0224", message, arg.span, help="give arrays of one dimension name the same size")
    return shape


def _scalar(at: At, param: typed.Symbol, arg: Given) -> int | float | bool:
    value = arg.value
    if arg.generator != "value" or isinstance(value, DType):
        fail(at, "E0224", f"`{param.name}` is one `{param.dtype}`", arg.span, help=f"write a number: `{param.name} = 2`")
    if isinstance(value, bool) != (param.dtype is BOOL):
        fail(at, "E0224", f"`{param.name}` is `{param.dtype}`", arg.span, help="bools are `true` and `false`, numbers neither")
    return value if isinstance(value, bool) else assign(at, Value(arg.span, literal=value), param.dtype, f"`{param.name}`").value
