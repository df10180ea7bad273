"""The opcode table: every row occurs in a sample that verifies and whose text reads back equal."""

import pytest
from ir_samples import ORDER, PARAMS, sample

from vxc.ir.kernel import Inst
from vxc.ir.ops import DECLARES, OPS, accesses
from vxc.ir.printer import print_plan
from vxc.ir.reader import read_ir
from vxc.ir.verify import verify
from vxc.source import Source


@pytest.mark.parametrize("op", OPS)
def test_row(op):
    plan = sample(op)
    insts = (*plan.entries, *plan.kernels[0].insts)
    assert any(inst.op == op for inst in insts)
    verify(plan)
    text = print_plan(plan)
    read = read_ir(Source("sample.vxir", text))
    assert read == plan
    assert print_plan(read) == text


@pytest.mark.parametrize("row", OPS.values(), ids=OPS)
def test_row_is_documented_and_well_formed(row):
    assert row.doc
    assert row.result in ("none", "index", "bool", "same", "elem", "any", "buffer")
    kinds = set("index bool value same elem buffer cell ring idx arg place".split())
    assert {kind.rstrip("?*") for kind in row.operands} <= kinds
    assert row.scope in ("thread", "warp", "block")
    assert all(d.type in ("int", "bool", "str", "ints", "reason") for _, d in row.attrs)


def test_accesses():
    n, x, y = PARAMS
    assert accesses(Inst("load", (x, n, n))) == ((x, (n, n), "r"),)
    assert [(a.buffer, a.mode) for a in accesses(Inst("atomic", (y, n, n)))] == [(y, "rw")]
    assert accesses(Inst("add", (n, n))) == ()


def test_storage_declarations():
    assert DECLARES == ("cell", "local", "shared", "fragment", "ring", "workspace")
    assert ORDER == sample("reduce").kernels[0].insts[2].attr("order")
