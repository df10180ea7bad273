"""How the arrays of one call of a one-line kernel run together, by NumPy's rules: which loops, and which array runs over which of them.

    x: [2, 3, 4], y: [4]      ->  x: [6, 4], y: [4]       loops of 6 and 4, y over the second alone
    x: [2, 3, 4], y: [2, 3, 4]    x: [24], y: [24]        one loop
    x: [2, 3, 4], axis 1          x: [2, 3, 4]            loops of 2 and 4, and rows of 3

Dimensions of size 1 are none. Neighbours become one loop where every array runs over both as over one, wherever its elements lie: strides
are kept, nothing is copied. Along a dimension in which an input repeats itself (stride 0), it does not run where another input does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from vxc.diag import Diagnostic, VxcError
from vxc.record import record
from vxc.runtime.arrays import ArrayView

Shape = tuple[int, ...]


@record
class Form:
    """What a kernel is written for. `reduced` says of each loop, from the outermost, whether it is a row's; `over` of each array over
    which of them it runs.
    """

    reduced: tuple[bool, ...]
    over: tuple[tuple[str, tuple[bool, ...]], ...]


@record
class Loop:
    """`strides` has those arrays that run over it."""

    size: int
    reduced: bool
    strides: Mapping[str, int]

    def around(self, inner: Loop) -> bool:
        """Whether the two are one loop for every array."""
        alike = self.reduced == inner.reduced and self.strides.keys() == inner.strides.keys()
        return alike and all(stride == inner.strides[name] * inner.size for name, stride in self.strides.items())


def broadcast(shapes: Mapping[str, Shape]) -> Shape:
    """The shape of arrays together, which are named by parameter. Raises `VxcError` E0705. Sizes may be any that compare, as torch's do."""
    found: list[tuple[Any, str]] = []  # from the last dimension on, each size with the array that it is of
    for name, shape in shapes.items():
        for at, size in enumerate(reversed(shape)):
            if at == len(found):
                found.append((size, name))
            elif found[at][0] == 1:
                found[at] = (size, name)
            elif size != 1 and size != found[at][0]:
                other = found[at][1]
                message = f"arguments `{other}` of shape {list(shapes[other])} and `{name}` of shape {list(shape)} do not broadcast"
                hint = f"their dimensions {-1 - at} are {found[at][0]} and {size}: from the last on, sizes are the same or 1"
                raise VxcError(Diagnostic("E0705", message, help=hint))
    return tuple(size for size, _ in reversed(found))


def reduced_dims(axis: Sequence[int] | None, rank: int, kernel: str) -> frozenset[int]:
    """The dimensions that `axis` names, None for all. An array of no dimensions counts as one of one. Raises `VxcError` E0705."""
    if axis is None:
        return frozenset(range(rank))
    within = max(rank, 1)
    for one in axis:
        if not -within <= one < within:
            message = f"`axis` of `{kernel}` is {one}, and its arguments have {rank} dimensions together"
            raise VxcError(Diagnostic("E0705", message, help=f"they are counted from {-within} to {within - 1}"))
    found = frozenset(one % within for one in axis)
    if len(found) < len(axis):
        message = f"`axis` of `{kernel}` is {tuple(axis)}, which of {rank} dimensions names one twice"
        raise VxcError(Diagnostic("E0705", message, help="name each once"))
    return found


def result_shape(whole: Shape, reduced: Collection[int], keepdims: bool) -> Shape:
    """What is left of the shape of the inputs."""
    return tuple(1 if at in reduced else size for at, size in enumerate(whole) if keepdims or at not in reduced)


def check_output(name: str, shape: Shape, wanted: Shape, inputs: Mapping[str, Shape]) -> None:
    """Refuses an output of another shape (E0705)."""
    if shape != wanted:
        of = ", ".join(f"`{other}` of shape {list(given)}" for other, given in inputs.items())
        message = f"argument `{name}` has shape {list(shape)}, and the result of {of} has shape {list(wanted)}"
        raise VxcError(Diagnostic("E0705", message, help=f"pass one of shape {list(wanted)}, or leave `{name}` out"))


def loops(inputs: Mapping[str, ArrayView], outputs: Mapping[str, ArrayView], whole: Shape, reduced: Collection[int]) -> list[Loop]:
    """The loops over inputs of this shape together, the outermost first; outputs have, of dimensions that are `reduced`, 1 or none."""
    found: list[Loop] = []
    steps = {name: _steps(view, len(whole)) for name, view in inputs.items()}
    kept = [at for at in range(len(whole)) if at not in reduced]
    for name, view in outputs.items():
        given = iter(view.strides) if len(view.shape) < len(whole) else (view.strides[at] for at in kept)
        steps[name] = {at: stride for at, stride in zip(kept, given) if whole[at] != 1}
    for at in reversed(range(len(whole))):
        if whole[at] == 1:
            continue
        along = {name: strides[at] for name, strides in steps.items() if at in strides}
        if at not in reduced and any(along.get(name) for name in inputs):
            along = {name: stride for name, stride in along.items() if stride or name not in inputs}
        loop = Loop(whole[at], at in reduced, along)
        if found and loop.around(found[-1]):
            found[-1] = Loop(loop.size * found[-1].size, loop.reduced, found[-1].strides)
        else:
            found.append(loop)
    return found[::-1]


def _steps(view: ArrayView, rank: int) -> dict[int, int]:
    """The strides of an input along those of so many dimensions in which it is longer than 1, or has no elements."""
    first = rank - len(view.shape)
    return {first + at: stride for at, (size, stride) in enumerate(zip(view.shape, view.strides)) if size != 1}


def spread(found: Sequence[Loop], names: Collection[str]) -> list[Loop]:
    """The same loops, with these arrays running over every reduced one: staying where they are along those over which they do not."""
    return [Loop(o.size, o.reduced, {**dict.fromkeys(names, 0), **o.strides}) if o.reduced else o for o in found]


def as_looped(found: Sequence[Loop], views: Mapping[str, ArrayView]) -> dict[str, ArrayView]:
    """The arrays with a dimension for each loop over which they run, or one of size 1."""
    made = {}
    for name, view in views.items():
        along = [(o.size, o.strides[name]) for o in found if name in o.strides] or [(1, 1)]
        made[name] = looking(view, tuple(size for size, _ in along), tuple(stride for _, stride in along))
    return made


def looking(view: ArrayView, shape: Shape, strides: Shape) -> ArrayView:
    """The same memory, looked at so."""
    if (view.shape, view.strides) == (shape, strides):
        return view
    return ArrayView(view.ptr, shape, strides, view.dtype, view.itemsize, view.readonly, view.device, view.stream)


def form_of(found: Sequence[Loop], names: Collection[str]) -> Form:
    """`names` are those of all arrays."""
    return Form(tuple(o.reduced for o in found), tuple((name, tuple(name in o.strides for o in found)) for name in names))
