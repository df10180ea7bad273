"""What the compiler did with a kernel, as text."""

from __future__ import annotations

from vxc.driver import Compiled
from vxc.explain.make import explain
from vxc.explain.text import text
from vxc.inputs import complete
from vxc.ir.printer import print_plan


def ir(made: Compiled, after: str | None) -> str:
    """The IR after lowering (None), a pass, or all (`"final"`). Raises KeyError for a pass that did not run."""
    if after is None or after == "final":
        return print_plan(made.tile if after is None else made.plan)
    try:
        plan = made.after(after)
    except KeyError:
        ran = made.plan.kernels[0].done if made.plan.kernels else ()
        raise KeyError(f"no pass `{after}` ran; give None, 'final' or one of {', '.join(ran)}") from None
    return print_plan(plan)


def explained(made: Compiled) -> str:
    """What `vxc explain` says, at the sizes of the `example` line. Raises `VxcError`."""
    call = complete(made.typed) if made.typed is not None and made.typed.example else None
    return text(explain(made, call), made.source, made.target.name)
