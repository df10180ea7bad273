"""Whether two trips of one loop can touch one element of a buffer, at stage=team.

The proof is that of `dependence`, of any loop: whoever runs the accesses, and in whatever order, those of different trips then do not
meet. Forms are made at the first question, as most kernels ask none.
"""

from __future__ import annotations

from functools import cached_property

from vxc.analysis.access import KernelFacts, collect
from vxc.analysis.dependence import independent
from vxc.ir.kernel import Kernel


class Trips:
    """Answers for one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
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
        loop = next((x for x in self.facts.loops if x.at == at), None)  # None: a `while`
        return loop is not None and independent(self.facts, loop, [a for a in self.facts.within[at] if a.buffer.name == buffer])
