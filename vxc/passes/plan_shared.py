"""plan-shared: offsets of shared arrays in one arena of the block, reused when their lives do not overlap.

Before: stage=team, after infer-layouts, so that all shared arrays are declared.
After:  each has an `offset` in bytes, a multiple of 16; the kernel says `shared_bytes`. Two arrays overlap only where no
        access to one lies between the first and last access to the other; a loop around accesses but not around the
        declaration counts as a whole. place-barriers puts a barrier between the two. Raises E0716 where a block of the target
        has less.

    shared @a: f32[64]                 shared @a: f32[64] {offset=0}
    ..                          ->     ..
    shared @b: f32[64]                 shared @b: f32[64] {offset=0}
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from vxc.diag import Diagnostic, VxcError
from vxc.ir.kernel import Buffer, Kernel, shared_bytes
from vxc.ir.plan import Plan
from vxc.ir.walk import Regions
from vxc.pass_manager import Context, Pass
from vxc.record import state

ALIGN = 16  # bytes: the widest access


@state
class _Life:
    """A shared array, its size in the arena, the first and last instruction that may touch it, and where it is declared: the position, and
    the place in the source.
    """

    buffer: Buffer
    bytes: int
    first: int
    last: int
    at: int
    loc: tuple[int, int] | None = None
    offset: int = 0

    def meets(self, other: _Life) -> bool:
        return self.first <= other.last and other.first <= self.last

    def overlaps(self, other: _Life) -> bool:
        """Whether the two have bytes in common where they lie."""
        return self.offset < other.offset + other.bytes and other.offset < self.offset + self.bytes


def lives(kernel: Kernel) -> list[_Life]:
    regions = Regions.of(kernel.insts)
    found: dict[str, tuple[int, _Life]] = {}
    for at, inst in enumerate(kernel.insts):
        if inst.op == "shared":
            life = _Life(inst.result, _rounded(shared_bytes(inst)), len(kernel.insts), at, at, inst.loc)
            found[inst.result.name] = regions.parent[at], life
        for operand in inst.operands:
            if isinstance(operand, Buffer) and operand.name in found:
                home, life = found[operand.name]
                top = at
                for parent in regions.parents(at):
                    if parent == home:
                        break
                    top = parent
                life.first, life.last = min(life.first, top), max(life.last, regions.end[top])
    return [life for _, life in found.values()]


def place(found: list[_Life], meets: Callable[[_Life, _Life], bool] = _Life.meets) -> int:
    """Give each life the lowest offset that is free of those it meets, large ones first; gives the arena's size."""
    placed: list[_Life] = []
    for life in sorted(found, key=lambda x: (-x.bytes, x.first)):
        taken = sorted((x.offset, x.offset + x.bytes) for x in placed if meets(x, life))
        for low, high in taken:
            if life.offset + life.bytes <= low:
                break
            life.offset = max(life.offset, high)
        placed.append(life)
    return max((x.offset + x.bytes for x in placed), default=0)


def run(plan: Plan, context: Context) -> Plan:
    kernels = []
    for kernel in plan.kernels:
        found = lives(kernel)
        if found:
            total, apart = place(found), sum(x.bytes for x in found)
            _check(kernel, found, total, context)
            _remark(kernel, found, total, apart, context)
            kernel = _with_offsets(kernel, found, total)
        kernels.append(kernel)
    return plan.with_kernels(kernels)


def lay_out_again(kernel: Kernel, sizes: dict[str, int]) -> Kernel:
    """The kernel with arrays of other sizes, in bytes, in its arena: those that have no byte in common now have none then."""
    found = [x for x in lives(kernel) if kernel.insts[x.at].attr("offset") is not None]
    apart = set()
    for x in found:
        x.offset = kernel.insts[x.at].attr("offset")
    for x in found:
        apart |= {(x.buffer.name, y.buffer.name) for y in found if not x.overlaps(y)}
    for x in found:
        x.bytes, x.offset = _rounded(sizes.get(x.buffer.name, x.bytes)), 0
    return _with_offsets(kernel, found, place(found, lambda x, y: (x.buffer.name, y.buffer.name) in apart))


def _with_offsets(kernel: Kernel, found: list[_Life], total: int) -> Kernel:
    offsets = {x.at: x.offset for x in found}
    insts = tuple(inst.with_attrs(offset=offsets[at]) if at in offsets else inst for at, inst in enumerate(kernel.insts))
    return replace(kernel, insts=insts).with_attrs(shared_bytes=total)


def _rounded(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


def _remark(kernel: Kernel, found: list[_Life], total: int, apart: int, context: Context) -> None:
    for x in found:
        over = [f"`{y.buffer.name}`" for y in found if y is not x and x.overlaps(y)]
        reuse = f", in bytes of {', '.join(over)}, not in use at the same time" if over else ""
        context.applied(f"`{x.buffer.name}` takes {x.bytes:,} bytes of shared memory{reuse}", kernel.name, x.loc)
    saved = f" instead of {apart:,}, since not all arrays are in use at once" if total < apart else ""
    context.applied(f"{total:,} bytes of shared memory a block{saved}", kernel.name)


def _check(kernel: Kernel, found: list[_Life], total: int, context: Context) -> None:
    limit = context.target.shared_per_block
    if total <= limit:
        return
    sizes = ", ".join(f"{x.buffer.name} {x.bytes:,}" for x in found)
    largest = max(found, key=lambda x: x.bytes).buffer
    declared = next(inst for inst in kernel.insts if inst.result == largest)
    raise VxcError(
        Diagnostic(
            "E0716",
            f"`{kernel.name}` needs {total:,} bytes of shared memory a block, and {context.target.name} has {limit:,}",
            kernel.source,
            kernel.span(declared),
            notes=(f"the arrays, in bytes: {sizes}",),
            help="use smaller tiles, or narrower element types",
        )
    )


PLAN_SHARED = Pass("plan-shared", run, "lay shared arrays out in one arena", needs=("team", "layouts"), gives=("arena",))
