"""Runs the filetests (`tests/filetest.py`), and asks of every pass that its docstring's example is one of them."""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.filetest import FOLDER, SEPARATOR, FileTest
from vxc.dtypes import F32
from vxc.ir.kernel import Const
from vxc.pipeline import PASSES

FILES = sorted(FOLDER.rglob("*.vxt"))
SAMPLES = Path(__file__).parent.parent / "samples"
ARROW = re.compile(r"(?<=  )->(?=  )")
MODULES = {name: name.replace("-", "_") for name in PASSES if not name.startswith("simplify-")}  # those are simplify, run again


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_file(path, bless):
    test = FileTest.read(path)
    actual = test.actual()
    if bless and actual != test.expected:
        test.bless(actual)
    else:
        assert actual == test.expected


def test_a_wrong_answer_cannot_be_blessed(monkeypatch):
    def zeros(plan, context):
        kernel = plan.kernels[0]
        insts = (replace(i, operands=(*i.operands[:-1], Const(0.0, F32))) if i.op == "store" else i for i in kernel.insts)
        return plan.with_kernels([replace(kernel, insts=tuple(insts))])

    test = FileTest.read(FOLDER / "simplify" / "example.vxt")
    monkeypatch.setitem(PASSES, "simplify", replace(PASSES["simplify"], run=zeros))
    with pytest.raises(AssertionError, match=r"run n=5 \(rand\): y\[0\] is 0.0, expected"):
        test.actual()


def test_a_directive_that_is_none_is_refused(tmp_path):
    path = tmp_path / "case.vxt"
    path.write_text("# runs: N=5\nkernel k(out y: f32[N]) { }\n----\n")
    with pytest.raises(ValueError, match="`runs` is no directive; there are run, seed, define, aligned, remarks"):
        FileTest.read(path)


@pytest.mark.parametrize("name, module", MODULES.items())
def test_the_example_of_each_pass_is_executed(name, module):
    """The docstring shows lines of the input and of the expected text of `filetests/<pass>/example.vxt`; `..` stands for anything."""
    doc = importlib.import_module(f"vxc.passes.{module}").__doc__
    assert doc.startswith(f"{name}: ")
    assert re.search(r"^Before: .+\n( .+\n)*After:  ", doc, re.M)
    before, _, after = (FOLDER / name / "example.vxt").read_text("utf-8").partition(SEPARATOR)
    shown = next(part for part in doc.split("\n\n") if part.startswith("    ") and ARROW.search(part)).splitlines()
    start, end = next(found.span() for found in map(ARROW.search, shown) if found)
    sides = [[line[:start].strip() for line in shown], [line[end:].strip() for line in shown]]
    for lines, text in zip(sides, (before, after)):
        assert any(lines)
        pattern = r"\n(?:.*\n)*?\s*".join(re.escape(line).replace(r"\.\.", ".*") for line in lines if line)
        assert re.search(rf"^\s*{pattern}$", text, re.M), f"these lines do not occur in this order: {lines}"


@pytest.mark.parametrize("name", MODULES)
def test_every_pass_has_several_cases(name):
    assert len(list((FOLDER / name).glob("*.vxt"))) >= 3


SIBLINGS = FOLDER / "fuse-siblings"


@pytest.mark.parametrize("name", ["momentum", "swiglu", "row_stats"])
def test_loops_of_samples_become_one(name):
    """The filetest has the kernel of the sample, to the letter."""
    sample = (SAMPLES / f"{name}.vx").read_text("utf-8")
    kernel = sample[sample.index("kernel ") : sample.index("example ")]
    given, _, made = (SIBLINGS / f"sample-{name.replace('_', '-')}.vxt").read_text("utf-8").partition(SEPARATOR)
    assert given.endswith(kernel) and "\napplied fuse-siblings " in made


def test_each_loop_that_stays_apart_says_why():
    refused = sorted(SIBLINGS.glob("refused-*.vxt"))
    assert len(refused) >= 6
    for path in refused:
        assert re.search(r"^missed fuse-siblings k:\d+:\d+: .+ stays apart from .+ before it: .+$", path.read_text("utf-8"), re.M), path
