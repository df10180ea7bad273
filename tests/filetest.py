"""Filetests: one case to a file, its input and exactly what comes out.

    # What the case shows, in plain words.
    # run: N=5 a=0.5 idx=randint:i32[5]:0:3
    kernel or plan, as .vx or as IR
    ----
    the expected text

The folder says what is done with the input. `check`: its diagnostics. `lower`: the plan from .vx. The name of a pass: the plan
after it, from .vx (then the passes before it run first) or from IR (then it runs alone). `emit`: the CUDA text after all passes,
without the prelude. A step that refuses its input gives the diagnostics.

Each `run` line is one call: sizes, scalars and descriptions of arrays (see `vxc.runtime.generate`); arrays but outputs that it does
not name are made up twice, random and from the edges of their types; scalars are 3, 1.5 or true. Without a `run` line, every
dimension has 5, then 1. Before a text is compared or blessed, what went in and what came out must give the same bits on every call.
Other directives: `seed`, from which arrays are made; `define` and `aligned` (as `-D` and `--aligned`); `remarks`, which shows the remarks
of the pass below the plan. `vxc fuzz` writes its failures in this format (`vxc/fuzz/case.py`); `--bless` fills in what they expect once
they pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

import numpy as np

from vxc.cuda.emit import emit
from vxc.diag import VxcError
from vxc.diff import ORDERS, first_difference
from vxc.dtypes import BOOL, DTYPES, DType
from vxc.frontend.check import check, kernel_names, program_names
from vxc.frontend.lower import lower
from vxc.frontend.parse import parse
from vxc.frontend.typed import TypedKernel
from vxc.fuzz.case import SEPARATOR, call, directives
from vxc.interp.ast_interp import run_ast
from vxc.interp.flat_interp import run_flat
from vxc.ir.alignment import with_alignment
from vxc.ir.kernel import Const
from vxc.ir.plan import Plan
from vxc.ir.printer import print_kernel, print_plan
from vxc.ir.reader import read_ir
from vxc.pass_manager import Context, run_pass
from vxc.pipeline import PASSES, PIPELINE
from vxc.runtime.generate import generate
from vxc.source import Source
from vxc.target import target

FOLDER = Path(__file__).parent / "filetests"
DIRECTIVES = ("run", "seed", "define", "aligned", "remarks")
TARGET = "sm_90a"

Results = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class FileTest:
    """One file. `source` is the input with the header, so that places in diagnostics are those of the file."""

    path: Path
    source: Source
    directives: tuple[tuple[str, str], ...]
    expected: str

    @classmethod
    def read(cls, path: Path) -> FileTest:
        """Raises ValueError for a directive that is none."""
        text, _, expected = path.read_text("utf-8").partition(SEPARATOR)
        source = Source(f"{path.stem}{'.vxir' if _is_ir(text) else '.vx'}", text)
        unknown = [name for name, _, _ in directives(source) if name not in DIRECTIVES]
        if unknown:
            raise ValueError(f"{path}: `{unknown[0]}` is no directive; there are {', '.join(DIRECTIVES)}")
        return cls(path, source, tuple((name, value) for name, value, _ in directives(source)), expected)

    @property
    def action(self) -> str:
        return self.path.relative_to(FOLDER).parts[0]

    def of(self, directive: str) -> list[str]:
        return [text for name, text in self.directives if name == directive]

    def actual(self) -> str:
        """What comes out now. AssertionError where it means another thing than the input."""
        try:
            return ACTIONS[self.action](self)
        except VxcError as error:
            return f"{error}\n"

    def bless(self, text: str) -> None:
        self.path.write_text(self.source.text + SEPARATOR + text, "utf-8")


def _is_ir(text: str) -> bool:
    return re.search(r"^(plan|kernel) @", text, re.M) is not None


# ---- actions ---------------------------------------------------------------------------------------------------------


def _typed(test: FileTest) -> TypedKernel:
    module = parse(test.source)
    defines = dict(pair.split("=") for text in test.of("define") for pair in text.split())
    values = {name: DTYPES.get(text) or {"true": True, "false": False}.get(text, text) for name, text in defines.items()}
    values = {name: int(value) if isinstance(value, str) else value for name, value in values.items()}
    return check(module, test.source, (program_names(module) or kernel_names(module))[0], values)


def _lowered(test: FileTest, typed: TypedKernel) -> Plan:
    aligned = dict(pair.split("=") for text in test.of("aligned") for pair in text.split())
    return with_alignment(lower(typed), {name: lies == "true" for name, lies in aligned.items()})


def _check(test: FileTest) -> str:
    _typed(test)
    return "accepted\n"


def _lower(test: FileTest) -> str:
    typed = _typed(test)
    plan = lower(typed)
    agree(test, plan, _interpreter(typed), [_flat(plan)])
    return print_plan(plan)


def _pass(test: FileTest) -> str:
    p, context = PASSES[test.action], Context(target(TARGET))
    whole = True
    if _is_ir(test.source.text):
        before = read_ir(test.source)
        whole = re.search(r"^plan @", test.source.text, re.M) is not None
    else:
        before = _lowered(test, _typed(test))
        for earlier in takewhile(lambda earlier: earlier.name != p.name, PIPELINE.passes):
            before = run_pass(earlier, before, context)
    context.remarks.clear()
    after = run_pass(p, before, context)
    agree(test, before, _flat(before), [_flat(after, order) for order in ORDERS])
    assert read_ir(Source("printed", print_plan(after))) == after, "the printed text reads back as another plan"
    shown = after.with_kernels(replace(k, done=()) for k in after.kernels)  # which passes ran is no part of the case
    text = print_plan(shown) if whole or len(shown.kernels) > 1 else print_kernel(shown.kernels[0])
    return text + "".join(f"{remark}\n" for remark in context.remarks if test.of("remarks"))


def _emit(test: FileTest) -> str:
    typed = _typed(test)
    plan = PIPELINE.run(_lowered(test, typed), Context(target(TARGET)))
    agree(test, plan, _interpreter(typed), [_flat(plan, order) for order in ORDERS])
    text = emit(plan)
    return text[text.index("// kernel ") :]


ACTIONS: dict[str, Callable[[FileTest], str]] = {"check": _check, "lower": _lower, "emit": _emit} | dict.fromkeys(PASSES, _pass)


# ---- meaning ---------------------------------------------------------------------------------------------------------

Run = Callable[[Mapping, Mapping, Mapping], Results]


def _interpreter(typed: TypedKernel) -> Run:
    return lambda arrays, scalars, dims: run_ast(typed, arrays, scalars, dims=dims)


def _flat(plan: Plan, order: int = 0) -> Run:
    return lambda arrays, scalars, dims: run_flat(plan, arrays, scalars, dims=dims, seed=order)


def agree(test: FileTest, plan: Plan, before: Run, after: list[Run]) -> None:
    """Every run gives what `before` gives, on every call of the test. Raises AssertionError, or what a run raises, with its cause."""
    default = [" ".join(f"{dim.name}={size}" for dim in plan.dims) for size in (5, 1)]
    for text in test.of("run") or default:
        for kind in ("rand", "special"):
            arguments = _call(test, plan, text, kind)
            try:
                expected = before(*arguments)
                differences = [first_difference(expected, run(*arguments)) for run in after]
            except VxcError as error:
                raise AssertionError(f"run {text} ({kind}): {error}") from None
            assert not any(differences), f"run {text} ({kind}): {next(filter(None, differences))}"


def _call(test: FileTest, plan: Plan, text: str, kind: str) -> tuple[dict, dict, dict]:
    """Arrays, scalars and sizes of one call."""
    seed = int((test.of("seed") or ["0"])[0])
    given = call(dict(pair.split("=", 1) for pair in text.split()), [d.name for d in plan.dims], [p.name for p in plan.params], seed)
    scalars = {p.name: _default(p.dtype) for p in plan.scalars} | dict(given.scalars)
    arrays = dict(given.arrays)
    for buffer in plan.buffers:
        if buffer.name not in arrays and buffer.mode != "out" and all(isinstance(n, Const) or n.name in given.dims for n in buffer.shape):
            shape = [n.value if isinstance(n, Const) else given.dims[n.name] for n in buffer.shape]
            arrays[buffer.name] = generate(kind, buffer.dtype, shape, name=buffer.name, seed=seed)
    return arrays, scalars, dict(given.dims)


def _default(dtype: DType) -> int | float | bool:
    return 1.5 if dtype.is_float else dtype is BOOL or 3
