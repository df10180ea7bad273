"""Where an array of the caller lies, as far as that is known: `@x: f32[%M, %N] in align=16`.

`align=A` says that the array begins at a multiple of A bytes, and so does each of its rows: every stride between elements that is no
constant is a multiple of A bytes (constant ones are there to be looked at). Nothing is tested of such an array: where A is no more than
an element, each access goes by its address. Without `align` nothing is known, and a kernel tests what it counts on.

A is a power of two, at least the bytes of an element and at most those of the widest access. Launching refuses arrays that lie otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import gcd, prod

from vxc.diag import Diagnostic, VxcError
from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Operand, Value
from vxc.ir.plan import Plan
from vxc.target import VECTOR


def divisors(buffer: Buffer) -> dict[str, int]:
    """Dimensions and strides that are multiples, and of what, by what is known of an array."""
    whole = (buffer.align or 0) // buffer.dtype.bytes
    if whole < 2:
        return {}
    if buffer.strides is not None:
        return {stride.name: whole for stride in buffer.strides if isinstance(stride, Value)}
    last = max((d for d, extent in enumerate(buffer.shape) if isinstance(extent, Value)), default=0)
    by = whole // gcd(whole, prod(n.value for n in buffer.shape[last + 1 :]))
    return {buffer.shape[last].name: by} if last and by > 1 else {}


def multiples(params: Iterable[Operand]) -> dict[str, int]:
    """By name, what each dimension and stride of a plan or kernel is known to be a multiple of: a power of two."""
    found: dict[str, int] = {}
    for buffer in params:
        for name, by in divisors(buffer).items() if isinstance(buffer, Buffer) else ():
            found[name] = max(found.get(name, 1), by)
    return found


def check_rows(plan: Plan, dims: Mapping[str, int]) -> None:
    """Refuses dimensions and strides with which rows lie otherwise than the plan says. Raises VxcError E0706."""
    for buffer in plan.buffers:
        for name, by in divisors(buffer).items():
            if dims[name] % by:
                so = f"`{buffer.name}` is compiled for rows that begin at multiples of {buffer.align} bytes, so {name} has to be"
                hint = "pass arrays whose rows begin there, or compile for arrays that begin anywhere"
                raise VxcError(Diagnostic("E0706", f"{so} a multiple of {by}, and is {dims[name]}", help=hint))


def lies(array: Buffer, address: int) -> bool:
    """Whether an array at an address begins where it is known to."""
    return address % (array.align or 1) == 0


def elsewhere(array: Buffer) -> VxcError:
    """What is said of one that does not."""
    message = f"argument `{array.name}` starts at an address that is no multiple of {array.align} bytes, for which this was compiled"
    return VxcError(Diagnostic("E0706", message, help="pass a copy of the array, or compile for arrays that begin anywhere"))


def align_problem(buffer: Buffer) -> str | None:
    """What is wrong with what is said of a parameter by itself."""
    if buffer.align is None:
        return None
    if buffer.space != "param" or buffer.dtype.bits < 8:
        return f"`align` is of arrays of the caller with whole bytes for elements, which {buffer} is not"
    sizes = [1 << k for k in range(VECTOR.bit_length()) if buffer.dtype.bytes <= 1 << k <= VECTOR]
    return None if buffer.align in sizes else f"`align` of {buffer} is {buffer.align}, not one of {', '.join(map(str, sizes))}"


def known_align(parameter: Buffer, argument: Buffer, passed: Mapping[str, Operand]) -> int | None:
    """What is known of a kernel's parameter where a launch passes it this array, and `passed` for its dimensions and strides."""
    if argument.align is None:
        return None
    given = divisors(replace(parameter, align=argument.align)).items()
    constants = ((passed[name], by) for name, by in given if isinstance(passed[name], Const))
    return argument.align if all(size.value % by == 0 for size, by in constants) else parameter.dtype.bytes


def with_alignment(plan: Plan, known: Mapping[str, bool]) -> Plan:
    """The plan where it is known of these arrays of its signature whether they, and their rows, begin at multiples of a vector. A kernel
    knows of a parameter what holds in all its launches.
    """
    if not known:
        return plan
    sizes = {b.name: VECTOR if known[b.name] else b.dtype.bytes for b in plan.buffers if b.name in known and b.dtype.bits >= 8}
    arrays = {b.name: replace(b, align=sizes.get(b.name)) for b in plan.buffers}
    entries = tuple(_over(arrays, inst) for inst in plan.entries)
    kernels = tuple(_known(kernel, [i for i in entries if i.attr("kernel") == kernel.name]) for kernel in plan.kernels)
    return replace(plan, params=tuple(arrays.get(p.name, p) for p in plan.params), entries=entries, kernels=kernels)


def _known(kernel: Kernel, launches: Sequence[Inst]) -> Kernel:
    inside: dict[str, Buffer] = {}
    for param in kernel.params:
        if isinstance(param, Buffer):
            calls = (dict(zip((p.name for p in kernel.params), inst.operands[1:])) for inst in launches)
            found = [known_align(param, passed[param.name], passed) for passed in calls]
            inside[param.name] = replace(param, align=None if None in found else min(found, default=None))
    params = tuple(inside.get(p.name, p) for p in kernel.params)
    return replace(kernel, params=params, insts=tuple(_over(inside, inst) for inst in kernel.insts))


def _over(arrays: Mapping[str, Buffer], inst: Inst) -> Inst:
    """An instruction with these arrays in place of those of their names."""
    return inst.over((arrays.get(x.name, x) if isinstance(x, Buffer) else x for x in inst.operands), inst.result)
