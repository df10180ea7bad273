"""Helpers of tests of emission: plans from IR text, and the statements that are emitted for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vxc.cuda.emit import emit
from vxc.diag import VxcError
from vxc.ir.plan import Plan
from vxc.ir.reader import read_ir
from vxc.source import Source


def plan(text: str, file: str = "") -> Plan:
    """A plan whose places are in `file`."""
    made = read_ir(Source("k.vxir", text))
    return made.with_kernels(replace(k, source=Source(file, "") if file else None) for k in made.kernels)


def body(text: str, params: str = "@x: f32[64] inout", file: str = "", **more) -> str:
    """The statements emitted for instructions in a kernel of 64 threads."""
    made = emit(plan(f"kernel @k({params}) stage=thread {{threads=64}} {{\n{text}\n}}\n", file), **more)
    return made[made.index("// kernel k") :].split("{\n", 1)[1].rsplit("}\n", 1)[0]


def refused(code: str, of: Plan) -> str:
    with pytest.raises(VxcError) as caught:
        emit(of)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code and diagnostic.help
    return diagnostic.message
