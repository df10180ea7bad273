"""A plan: what a source kernel becomes, an ordered list of host entries over one or more flat kernels.

Entries are instructions of the opcode table whose stage is 'plan': scalar arithmetic on dimensions, `require` (a condition
checked before anything runs), `workspace` (device memory for the time of the call) and `launch`. The signature is the
caller's: a Value that occurs in a Buffer's shape or strides is a dimension and is bound from the arrays; any other Value
is a scalar argument. Every component of a parameter's shape and strides is such a Value or a Const: a written dimension
like `M // P`, and a scalar parameter used as a dimension, become a fresh dimension and a `require`.
"""

from __future__ import annotations

from vxc.ir.kernel import Buffer, Const, Inst, Kernel, Value
from vxc.record import value


@value
class Plan:
    """`entries` run in order; `kernels` are what its launches name, in order of first launch."""

    name: str
    params: tuple[Value | Buffer, ...]
    entries: tuple[Inst, ...]
    kernels: tuple[Kernel, ...]

    def kernel(self, name: str) -> Kernel:
        return next(k for k in self.kernels if k.name == name)

    def with_kernels(self, kernels) -> Plan:
        return Plan(self.name, self.params, self.entries, tuple(kernels))

    @property
    def shares_arguments(self) -> set[str]:
        """Kernels to which some launch passes one buffer twice; to all others, different parameters are different memory."""
        found = set()
        for inst in self.entries:
            if inst.op == "launch":
                buffers = [x.name for x in inst.operands if isinstance(x, Buffer)]
                if len(set(buffers)) < len(buffers):
                    found.add(inst.attr("kernel"))
        return found

    def most_blocks(self, kernel: Kernel) -> int | None:
        """The most blocks that a kernel is launched over, where all launches say a constant."""
        grids = [inst.operands[0] for inst in self.entries if inst.op == "launch" and inst.attr("kernel") == kernel.name]
        return max(max(1, x.value) for x in grids) if all(isinstance(x, Const) for x in grids) else None

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return tuple(p for p in self.params if isinstance(p, Buffer))

    @property
    def dims(self) -> tuple[Value, ...]:
        """Values of the signature that are bound from array shapes and strides."""
        used = {v.name for b in self.buffers for v in (*b.shape, *(b.strides or ())) if isinstance(v, Value)}
        return tuple(p for p in self.params if isinstance(p, Value) and p.name in used)

    @property
    def scalars(self) -> tuple[Value, ...]:
        """Values of the signature that the caller passes."""
        dims = {d.name for d in self.dims}
        return tuple(p for p in self.params if isinstance(p, Value) and p.name not in dims)
