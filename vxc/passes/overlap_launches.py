"""overlap-launches: a launch that goes on with what the one before it leaves in a workspace is started before that has ended.

Before: stage=thread; each launch of the plan begins when the one before it has ended.
After:  where a launch reads a workspace that the launch before it writes, it is `early`: its blocks take their places as soon as the last
        blocks before them run, and wait there. What a launch costs to start is then over when its input is there.

    launch @parts[%N](%N, @x, @w)                 launch @parts[%N](%N, @x, @w)
    launch @fold[%N](%N, @w, @s)           ->     launch @fold[%N](%N, @w, @s) {early=true}

Text for an `early` launch waits before all else and that for the one before it allows it (`cuda/emit.py`). Launches that share no workspace
are left alone: of those that are for different sizes, a call runs one. Needs an architecture with `griddepcontrol`.
"""

from __future__ import annotations

from dataclasses import replace

from vxc.ir.kernel import Buffer, Inst
from vxc.ir.ops import accesses
from vxc.ir.plan import Plan
from vxc.pass_manager import Context, Pass


def run(plan: Plan, context: Context) -> Plan:
    entries, before = [], None
    for entry in plan.entries:
        if entry.op == "launch":
            handed = sorted(_workspaces(plan, before, "w") & _workspaces(plan, entry, "r")) if before else []
            if handed and context.target.has("early_launch"):
                names = f"{entry.attr('kernel')} starts while {before.attr('kernel')} ends"
                context.applied(f"{names}, and waits for what that leaves in `{handed[0]}`", entry.attr("kernel"), entry.loc)
                entry = entry.with_attrs(early=True)
            elif handed:
                text = f"it starts when {before.attr('kernel')} has ended: {context.target.name} cannot start it earlier"
                context.missed(text, entry.attr("kernel"), entry.loc)
            before = entry
        entries.append(entry)
    return replace(plan, entries=tuple(entries))


def _workspaces(plan: Plan, launch: Inst, mode: str) -> set[str]:
    """Names of the workspaces of the plan that a launch reads or writes."""
    kernel = plan.kernel(launch.attr("kernel"))
    touched = {a.buffer.name for inst in kernel.insts for a in accesses(inst) if mode in a.mode}
    passed = zip(kernel.params, launch.operands[1:], strict=True)
    return {x.name for p, x in passed if isinstance(x, Buffer) and x.space == "workspace" and p.name in touched}


OVERLAP_LAUNCHES = Pass("overlap-launches", run, "start a launch while the one that it goes on from ends", needs=("thread",))
