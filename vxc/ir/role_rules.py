"""The verifier's rule for roles and rings at stage=team.

A kernel has one role, around its loop over blocks or in it, or several: side by side at the end of the body of that loop,
behind what they share. Each takes the next warps of the block. A ring belongs to them all: one role fills its slots
(acquire, commit), others empty them (wait, release).
"""

from __future__ import annotations

from vxc.ir.kernel import Buffer, Inst, Kernel
from vxc.ir.ops import OPS, RING_OPS
from vxc.ir.walk import Regions
from vxc.record import record
from vxc.target import WARP

SHARED = ("shared", "ring", "load", "role")  # what stands beside several roles, besides pure instructions
FILLS, EMPTIES = ("acquire", "commit"), ("wait", "release")


@record
class Roles:
    """The roles of a kernel by position, and for each ring the roles that do each thing with it."""

    kernel: Kernel
    regions: Regions
    at: tuple[int, ...]
    users: dict[str, dict[str, set[int]]]

    @classmethod
    def of(cls, kernel: Kernel, regions: Regions) -> Roles:
        at = tuple(i for i, inst in enumerate(kernel.insts) if inst.op == "role")
        users = {inst.result.name: {op: set() for op in RING_OPS} for inst in kernel.insts if inst.op == "ring" and inst.result}
        for i, inst in enumerate(kernel.insts):
            ring = inst.operands[0] if inst.op in RING_OPS and inst.operands else None
            if isinstance(ring, Buffer) and ring.name in users:  # else another rule says what is wrong
                users[ring.name][inst.op].add(regions.innermost(i, ("role",)))
        return cls(kernel, regions, at, users)

    @property
    def several(self) -> bool:
        return len(self.at) > 1

    def over_blocks(self, i: int) -> bool:
        """Whether i stands directly in the loop over blocks."""
        parent = self.regions.parent[i]
        return parent >= 0 and self.kernel.insts[parent].attr("map") == "blocks"


def roles_problem(roles: Roles, i: int, inst: Inst) -> str | None:
    """What is wrong with an instruction in view of the kernel's roles, or None."""
    if inst.op == "role":
        return _role(roles, i, inst)
    if inst.op == "ring":
        return _ring(roles, i, inst)
    if inst.op in RING_OPS and roles.regions.innermost(i, ("role",)) < 0:
        return f"`{inst.op}` stands in no role"
    if inst.op == "barrier" and inst.attr("scope") == ("group" if roles.several else "role"):
        return f'a `barrier` of scope "{inst.attr("scope")}" in a kernel of {"several roles" if roles.several else "one role"}'
    if roles.several and roles.over_blocks(i) and inst.op != "end":
        if i > roles.at[0]:
            return f"`{inst.op}` stands behind a role, where only other roles do"
        if inst.op not in SHARED and not OPS[inst.op].pure:
            return f"`{inst.op}` stands beside several roles, where no role runs it"
    return None


def _role(roles: Roles, i: int, inst: Inst) -> str | None:
    if roles.several and not roles.over_blocks(i):
        return "several roles stand side by side in the loop over blocks, this one does not"
    if roles.regions.parent[i] >= 0 and not roles.over_blocks(i):
        return "`role` stands neither at the top of the kernel nor directly in the loop over blocks"
    if not roles.several or i != roles.at[0]:
        return None
    members = [roles.kernel.insts[at] for at in roles.at]
    names, threads = [m.attr("name") for m in members], WARP * sum(m.attr("warps") for m in members)
    if len(set(names)) < len(names):
        return "two roles have one name"
    if not threads == roles.kernel.attr("threads") == roles.kernel.attr("group"):
        given = f"threads={roles.kernel.attr('threads')}, group={roles.kernel.attr('group')}"
        return f"the roles have {threads} threads together, so the kernel has threads={threads}, group={threads}, not {given}"
    return None


def _ring(roles: Roles, i: int, inst: Inst) -> str | None:
    if not roles.several or not roles.over_blocks(i):
        return "a ring stands directly in the loop over blocks, before the roles that use it"
    users = roles.users[inst.result.name]
    fill, empty = (set().union(*(users[op] for op in ops)) for ops in (FILLS, EMPTIES))
    if len(fill) != 1:
        return f"{inst.result} is filled (acquire, commit) by {len(fill)} roles, not one"
    if not empty or fill & empty:
        return f"{inst.result} is emptied (wait, release) by {'the role that fills it' if empty else 'no role'}"
    return None
