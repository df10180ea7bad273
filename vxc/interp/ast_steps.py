"""The steps of slices, in the AST interpreter: all are positive, and those that a call tells are looked at before anything runs."""

from __future__ import annotations

from vxc.diag import Diagnostic, VxcError
from vxc.frontend.required import required_steps, slice_steps
from vxc.frontend.typed import Copy, Loop, Reduce, TypedKernel
from vxc.interp.ast_machine import Machine
from vxc.interp.ast_scope import Scope
from vxc.ir.ops import BACKWARDS, HELP, STILL


def check_required(machine: Machine, kernel: TypedKernel) -> None:
    """Raises VxcError E0731 or E0735 for a step that makes the call wrong, whatever it computes."""
    for _, known, of_slice, span in required_steps(kernel):
        step = machine.run(known, Scope())
        if step <= 0 if of_slice else step == 0:
            code, message = ("E0735", BACKWARDS) if of_slice else ("E0731", STILL)
            raise VxcError(Diagnostic(code, message, machine.code.source, span, help=HELP[code]))


def check_slices(machine: Machine, node: Reduce | Loop | Copy, scope: Scope):
    """Raises VxcError E0735 where a slice that is reached does not go forwards."""
    for step in slice_steps(node):
        wrong = scope.active((yield step, scope) <= 0)
        if wrong.any():
            raise machine.error("E0735", BACKWARDS, step.span, scope, wrong, help=HELP["E0735"])
