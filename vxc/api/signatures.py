"""What calls need to know of a kernel's text: enough to match arguments and to decide what is compiled, without reading the text again."""

from __future__ import annotations

from typing import Any

from vxc.record import record


@record
class Parameter:
    """`mode` is 'in', 'out' or 'inout'; a scalar is 'in'. `dtype` may be the name of a generic. `dims` are the names that stand alone as
    dimensions, None for any other dimension, () for a scalar; `names` are those that each dimension is computed of, none of a number.
    `text` is as it is declared.
    """

    name: str
    mode: str
    dtype: str
    dims: tuple[str | None, ...]
    names: tuple[tuple[str, ...], ...]
    pitched: bool
    text: str

    @property
    def array(self) -> bool:
        return bool(self.dims)


@record
class Signature:
    """A kernel or program. `generics` are names and kinds; `sizes` the names in dimensions of parameters, `declared` those in the shapes
    of arrays that the kernel declares itself (those of a program lie in global memory and are not counted).
    """

    name: str
    program: bool
    generics: tuple[tuple[str, str], ...]
    params: tuple[Parameter, ...]
    sizes: frozenset[str]
    declared: frozenset[str]


def plain(found: Signature) -> dict[str, Any]:
    """As JSON holds it."""
    params = [list(vars(p).values()) for p in found.params]
    return {**vars(found), "params": params, "sizes": sorted(found.sizes), "declared": sorted(found.declared)}


def of_plain(data: dict[str, Any]) -> Signature:
    """What `plain` was given."""
    params = tuple(
        Parameter(*first, tuple(dims), tuple(map(tuple, names)), pitched, text) for *first, dims, names, pitched, text in data["params"]
    )
    generics = tuple((name, kind) for name, kind in data["generics"])
    return Signature(data["name"], data["program"], generics, params, frozenset(data["sizes"]), frozenset(data["declared"]))
