"""The local memory that a thread's arrays take, which may be more than there is (part of lower-to-threads)."""

from __future__ import annotations

from math import prod

from vxc.diag import Diagnostic, VxcError
from vxc.ir.kernel import Kernel
from vxc.target import MAX_LOCAL_BYTES


def fitting(kernel: Kernel) -> Kernel:
    """The kernel. Raises VxcError (E0717) where the arrays of a thread need more local memory than there is."""
    arrays = [inst for inst in kernel.insts if inst.op == "local"]
    sizes = [prod(n.value for n in inst.result.shape) * inst.result.dtype.bytes for inst in arrays]
    if sum(sizes) > MAX_LOCAL_BYTES:
        largest = max(zip(sizes, arrays), key=lambda pair: pair[0])[1]
        message = f"a thread needs {sum(sizes):,} bytes of local memory, and there are {MAX_LOCAL_BYTES:,}"
        hint = "use smaller `local` arrays, or a smaller `@chunk` of the reductions"
        raise VxcError(Diagnostic("E0717", message, kernel.source, kernel.span(largest), help=hint))
    return kernel
