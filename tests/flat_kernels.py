"""Helpers of the flat interpreter's tests: running IR text, and loosening a verified kernel into one the verifier would refuse."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from vxc.diag import VxcError
from vxc.dtypes import BOOL
from vxc.interp.flat_interp import run_flat
from vxc.ir.kernel import Value
from vxc.ir.plan import Plan
from vxc.ir.reader import read_ir
from vxc.source import Source


_UNTYPED = re.compile(r"(%[\w.]+) = (?!loop|reduce|scan|block_index|thread_index)")


def plan_of(text: str) -> Plan:
    """The plan in IR text, in which a result without a dtype is i64."""
    return read_ir(Source("test.vxir", _UNTYPED.sub(r"\1: i64 = ", text)))


def run(text: str | Plan, arrays: dict[str, np.ndarray] | None = None, scalars: dict | None = None, **options) -> dict[str, np.ndarray]:
    """Run IR text, or a plan."""
    return run_flat(plan_of(text) if isinstance(text, str) else text, arrays or {}, scalars or {}, **options)


def fault(text: str | Plan, *args, **options) -> tuple[str, str]:
    """(code, message) of the fault that a run ends in."""
    with pytest.raises(VxcError) as caught:
        run(text, *args, **options)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic.code, diagnostic.message


def grid(blocks: str, params: str, arguments: str, body: str, attrs: str = "threads=64") -> str:
    """A plan of one thread-stage kernel over `blocks` blocks; `arguments` are the names in `params`."""
    return (
        f"plan @k({params}) {{\n  launch @k[{blocks}]({arguments})\n}}\n"
        f"kernel @k({params}) stage=thread {{{attrs}}} {{\n%b = block_index\n%t = thread_index\n{body}\n}}\n"
    )


def when(plan: Plan, condition: str) -> Plan:
    """The plan with every `if %flag` testing `%condition` instead: control flow that the verifier refuses."""
    (kernel,) = plan.kernels
    insts = [replace(i, operands=(Value(condition, BOOL),)) if i.op == "if" and str(i.operands[0]) == "%flag" else i for i in kernel.insts]
    return plan.with_kernels([replace(kernel, insts=tuple(insts))])


def scaled(body: str, params: str = "%N: i64, @x: i64[%N] in, @y: i64[%N] out", independent: str = "") -> str:
    """A kernel of one loop over %N."""
    return f'kernel @k({params}) stage=tile {{\n%i = loop 0, %N {{{independent}kind="parallel"}}\n{body}\nend %i\n}}\n'
