"""Which of a file's kernels is meant where none is named."""

from __future__ import annotations

from vxc.diag import Diagnostic, VxcError, listed
from vxc.source import Source


def no_kernel(source: Source) -> VxcError:
    """The error for a file without what is to be compiled (E0234)."""
    what = "defines no kernel" if source.text.strip() else "is empty"
    hint = "a kernel looks like `kernel scale(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = 2.0 * x[i]; } }`"
    return VxcError(Diagnostic("E0234", f"{source.name} {what}", source, help=hint))


def only(names: list[str], source: Source) -> str:
    """The one name. Raises VxcError E0234 where there is none or more."""
    if len(names) == 1:
        return names[0]
    if not names:
        raise no_kernel(source)
    known = listed(f"`{name}`" for name in names)
    text = f"{source.name} defines {len(names)} kernels: {known}"
    raise VxcError(Diagnostic("E0234", text, help="name one, with -k on the command line"))
