"""What generated programs are made of: nodes of the syntax tree and opcodes, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from vxc.frontend import syntax
from vxc.frontend.node import Expr, Item, Node, Stmt, walk
from vxc.ir.ops import OPS
from vxc.ir.plan import Plan


def constructs(module: syntax.Module, plans: Iterable[Plan]) -> Counter[str]:
    """How often each class of node occurs in a module, and each opcode in its plans."""
    nodes = Counter(type(node).__name__ for node in walk(module))
    lists = [insts for plan in plans for insts in (plan.entries, *(kernel.insts for kernel in plan.kernels))]
    return nodes + Counter(inst.op for insts in lists for inst in insts)


def known() -> tuple[str, ...]:
    """All names that `constructs` may count."""
    classes = {value for value in vars(syntax).values() if isinstance(value, type) and issubclass(value, Node)}
    return (*sorted(c.__name__ for c in classes - {Node, Expr, Item, Stmt}), *OPS)
