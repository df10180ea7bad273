"""The checklists of vxc/README.md, "Adding an opcode" and "Adding a pass": every item is a check here, of every opcode and pass."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from ir_samples import sample

from vxc.cuda.emit_ops import EXPRESSIONS, STATEMENTS
from vxc.interp.flat_interp import HANDLERS
from vxc.ir.kernel import STAGES
from vxc.ir.ops import ALL, OPS, PLAN
from vxc.ir.printer import print_plan
from vxc.ir.reader import read_ir
from vxc.ir.tiles import TILE_OPS
from vxc.ir.verify import verify
from vxc.pipeline import PASSES, PIPELINE
from vxc.source import Source

ROOT = Path(__file__).parent.parent

# ---- opcodes ---------------------------------------------------------------------------------------------------------


def row(op: str) -> None:
    found = OPS[op]
    assert found.doc and "\n" not in found.doc
    assert found.stages and set(found.stages) <= {*ALL, PLAN}


def access(op: str) -> None:
    modes = [mode for mode in OPS[op].access.split(",") if mode]
    assert len(modes) == OPS[op].operands.count("buffer") and set(modes) <= {"r", "w", "rw"}


def text(op: str) -> None:
    plan = sample(op)
    assert any(inst.op == op for inst in (*plan.entries, *plan.kernels[0].insts))
    verify(plan)
    assert read_ir(Source("sample.vxir", print_plan(plan))) == plan


def interpreter(op: str) -> None:
    for stage in STAGES:
        assert (op in HANDLERS[stage]) == (stage in OPS[op].stages and op not in TILE_OPS)


def emitter(op: str) -> None:
    assert (op in EXPRESSIONS) + (op in STATEMENTS) == ("thread" in OPS[op].stages)


# ---- passes ----------------------------------------------------------------------------------------------------------


def home(name: str) -> str:
    """The name of the file a pass is in."""
    return "simplify" if name.startswith("simplify-") else name  # the same, run again


def module(name: str):
    return importlib.import_module(f"vxc.passes.{home(name).replace('-', '_')}")


def file(name: str) -> None:
    assert PASSES[name] in vars(module(name)).values()


def contract(name: str) -> None:
    doc = module(name).__doc__
    assert doc.startswith(f"{home(name)}: ")
    assert re.search(r"^Before: .+\n( .+\n)*After:  .+\n(.*\n)*?    .*-> ", doc, re.M)


def properties(name: str) -> None:
    earlier = PIPELINE.passes[: PIPELINE.passes.index(PASSES[name])]
    given = {*PIPELINE.given, *(word for p in earlier for word in p.gives)}
    assert {*PASSES[name].needs, *PASSES[name].breaks} <= given


def order(name: str) -> None:
    constant = next(key for key, value in vars(module(name)).items() if value is PASSES[name])
    assert re.search(rf"^ +{constant},  # \w.+$", (ROOT / "vxc" / "pipeline.py").read_text("utf-8"), re.M)


def line(name: str) -> None:
    assert re.fullmatch(r"[a-z0-9][^.\n]{10,70}", PASSES[name].doc)


def filetests(name: str) -> None:
    cases = {path.stem for path in (ROOT / "tests" / "filetests" / home(name)).glob("*.vxt")}
    assert "example" in cases and len(cases) >= 3


# ---- the lists -------------------------------------------------------------------------------------------------------

OPCODE = {check.__name__: check for check in (row, access, text, interpreter, emitter)}
PASS = {check.__name__: check for check in (file, contract, properties, order, line, filetests)}


@pytest.mark.parametrize("title, checks", [("Adding an opcode", OPCODE), ("Adding a pass", PASS)])
def test_the_readme_lists_the_checks(title, checks):
    section = (ROOT / "vxc" / "README.md").read_text("utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\d+\. `(\w+)`: ", section, re.M) == list(checks)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("check", OPCODE)
def test_opcode(check, op):
    OPCODE[check](op)


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("check", PASS)
def test_pass(check, name):
    PASS[check](name)
