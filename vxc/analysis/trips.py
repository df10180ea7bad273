"""Whether two trips of one loop can touch one element of a buffer, at stage=team.

The proof is that of `dependence`, of any loop: whoever runs the accesses, and in whatever order, those of different trips then do not
meet. It is tried only where the indices of every write are made of the loop's index, and forms are made at the first trial: a kernel
that fills one array in each trip, the usual case, costs next to nothing.
"""

from __future__ import annotations

from functools import cached_property

from vxc.analysis.access import KernelFacts, collect
from vxc.analysis.dependence import independent
from vxc.ir.kernel import Kernel, Value
from vxc.ir.ops import Access, accesses
from vxc.ir.walk import Regions, definitions


class Trips:
    """Answers for one kernel."""

    def __init__(self, kernel: Kernel, regions: Regions) -> None:
        self.kernel, self.regions, self.made = kernel, regions, definitions(kernel.insts)
        self.known: dict[tuple[int, str], bool] = {}

    @cached_property
    def facts(self) -> KernelFacts:
        return collect(self.kernel)

    def apart(self, at: int, buffer: str) -> bool:
        """True where it is shown that no element of the buffer is touched in two trips of the loop at a position and written in one.

        A buffer declared in the loop is the same bytes in every trip, so elements are told apart by their indices alone.
        """
        if (at, buffer) not in self.known:
            self.known[at, buffer] = self._shown(at, buffer)
        return self.known[at, buffer]

    def _shown(self, at: int, buffer: str) -> bool:
        body = self.kernel.insts[at + 1 : self.regions.end[at]]
        if not all(self._moves(x, at) for inst in body for x in accesses(inst) if x.buffer.name == buffer and "w" in x.mode):
            return False
        loop = next((x for x in self.facts.loops if x.at == at), None)  # None: a `while`
        return loop is not None and independent(self.facts, loop, [a for a in self.facts.within[at] if a.buffer.name == buffer])

    def _moves(self, access: Access, at: int) -> bool:
        """Whether an index of the access is made of the index of the loop at a position."""
        todo = [x for x in access.box if isinstance(x, Value)]
        seen: set[int] = set()
        while todo:
            made = self.made.get(todo.pop().name, -1)  # a parameter: before all
            if made == at:
                return True
            if made > at and made not in seen:
                seen.add(made)
                todo += [x for x in self.kernel.insts[made].operands if isinstance(x, Value)]
        return False
