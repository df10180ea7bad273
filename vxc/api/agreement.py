"""Whether the arrays of a call agree with each other: before what the first of them says becomes part of what is compiled."""

from __future__ import annotations

from collections.abc import Mapping

from vxc.api.signatures import Parameter, Signature
from vxc.api.specialise import Define
from vxc.diag import Diagnostics
from vxc.dtypes import DType
from vxc.runtime.arrays import ArrayView


def check_agreement(kernel: Signature, views: Mapping[str, ArrayView], defines: Mapping[str, Define]) -> None:
    """Refuses arrays of which two, or one and what is defined, give a name another dtype (E0704) or size (E0705), and says which two."""
    found = Diagnostics()
    generics = {name for name, _ in kernel.generics}
    known = {name: (value, f"{name} = {value} is defined") for name, value in defines.items()}
    given = [(p, views[p.name]) for p in kernel.params if p.name in views and len(views[p.name].shape) == len(p.dims)]
    for param, view in given:
        if param.dtype in generics and view.dtype:
            wanted, why = known.setdefault(param.dtype, (view.dtype, f"`{param.name}` makes {param.dtype} = {view.dtype}"))
            if isinstance(wanted, DType) and wanted.numpy_name != view.dtype.numpy_name:
                text = f"array argument `{param.name}` holds {view.dtype.numpy_name}, but {why}"
                found.add("E0704", text, help=f"convert it, as with x.astype({wanted.numpy_name!r})")
        _sizes(param, view, known, found)
    found.raise_if_errors()


def _sizes(param: Parameter, view: ArrayView, known: dict[str, tuple[Define, str]], found: Diagnostics) -> None:
    for axis, (name, size) in enumerate(zip(param.dims, view.shape)):
        if name is not None:
            wanted, why = known.setdefault(name, (size, f"dimension {axis} of `{param.name}` makes {name} = {size}"))
            if wanted != size:
                found.add("E0705", f"dimension {axis} of `{param.name}` is {size}, but {why}", help=f"it is declared `{param.text}`")
