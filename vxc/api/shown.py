"""What the compiler did with a kernel, as text."""

from __future__ import annotations

from collections.abc import Mapping

from vxc.diag import Diagnostic, VxcError
from vxc.driver import Compiled
from vxc.explain.make import explain
from vxc.explain.text import text
from vxc.inputs import complete
from vxc.ir.printer import print_plan


def ir(made: Compiled, after: str | None) -> str:
    """The IR after lowering (None), a pass, or all (`"final"`). Raises `VxcError` E0709 for a pass that did not run."""
    if after is None or after == "final":
        return print_plan(made.tile if after is None else made.plan)
    try:
        plan = made.after(after)
    except KeyError:
        ran = made.plan.kernels[0].done if made.plan.kernels else ()
        hint = f"give None, 'final' or one of {', '.join(ran)}"
        raise VxcError(Diagnostic("E0709", f"no pass `{after}` ran", help=hint)) from None
    return print_plan(plan)


def explained(made: Compiled, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """What `vxc explain` says, at the sizes of these arrays, and for the rest of the `example` line. Raises `VxcError`."""
    call = complete(made.typed, sized=shapes) if made.typed is not None and made.typed.example else None
    return text(explain(made, call), made.source, made.target.name)
