"""A case: a kernel as text and one call of it, in the format of a filetest (`tests/filetest.py`).

    # What it shows, in plain words.
    # seed: 17
    # aligned: x=true
    # run: N=5 a=0.5 x=rand:f32[5]
    kernel ...
    ----

`run` gives sizes, scalars and descriptions of arrays (`vxc.runtime.generate`), `seed` what arrays are made from, `aligned` of which it is
known how they lie (as `--aligned`); below the line stands what the filetest expects.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace

import numpy as np

from vxc.diag import Diagnostic, VxcError, listed, there_are
from vxc.dtypes import DType
from vxc.frontend.check import check, kernel_names, program_names
from vxc.frontend.parse import parse
from vxc.frontend.selection import only
from vxc.frontend.syntax import Module
from vxc.frontend.typed import Array, Const, TypedKernel, Var
from vxc.frontend.typed_program import TypedProgram
from vxc.fuzz.program import Program
from vxc.inputs import Call, shapes
from vxc.record import record
from vxc.runtime.arrays import read_argument
from vxc.source import Source, Span

SEPARATOR = "----\n"
_DIRECTIVE = re.compile(r"^# (\w+):(.*)$", re.MULTILINE)
_HEADER = re.compile(r"(?:#.*\n)*")


@record
class Case:
    """`arguments` has the texts of a `run` line by name; `name` is what diagnostics call the text."""

    text: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    name: str = "k.vx"
    aligned: Mapping[str, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, program: Program) -> Case:
        """A generated program with its arguments."""
        named = {name: str(size) for name, size in program.sizes.items()}
        scalars = {name: _text(value) for name, value in program.scalars}
        arrays = {a.name: describe(a.fill, a.dtype, [d.size for d in a.dims], a.spaced) for a in program.arrays if a.mode != "out"}
        return cls(program.text, named | scalars | arrays, program.seed, aligned=lying(program))

    @classmethod
    def read(cls, source: Source) -> list[Case]:
        """The cases of a file, one for each `run` line. Raises VxcError E0709 for a line that is none."""
        text = source.text.partition(SEPARATOR)[0]
        rows = list(directives(source))
        seed = next((_seed(value, source, span) for name, value, span in rows if name == "seed"), 0)
        runs = [pairs(value, source, span) for name, value, span in rows if name == "run"]
        aligned = {k: v == "true" for name, value, span in rows if name == "aligned" for k, v in pairs(value, source, span).items()}
        return [cls(text, run, seed, source.name, aligned) for run in runs or [{}]]

    @property
    def source(self) -> Source:
        return Source(self.name, self.text)

    def typed(self) -> tuple[Module, TypedKernel | TypedProgram]:
        """The only program, else the only kernel, parsed and checked. Raises VxcError."""
        source = self.source
        module = parse(source)
        return module, check(module, source, only(program_names(module) or kernel_names(module), source))

    def call(self, kernel: TypedKernel | TypedProgram) -> Call:
        """The arguments. Raises VxcError E0708..E0710."""
        taken = (p.name for p in kernel.params if not isinstance(p, Array) or p.mode != "out")
        missing = [name for name in taken if name not in self.arguments]
        if missing:
            hint = "write one in front of the kernel, as `# run: N=5 a=0.5 x=rand:f32[5]`, with all that it takes"
            raise VxcError(Diagnostic("E0708", f"no `run` line gives {listed(f'`{name}`' for name in missing)}", self.source, help=hint))
        return call(self.arguments, [d.name for d in kernel.dims], [p.name for p in kernel.params], self.seed)

    def fitted(self, kernel: TypedKernel | TypedProgram) -> Case:
        """The same for a kernel whose parameters have changed: sizes and scalars that it has, arrays as it declares them."""
        sizes = {d.name: self.arguments.get(d.name, "3") for d in kernel.dims}
        scalars = {p.name: self.arguments.get(p.name, "1") for p in kernel.params if not isinstance(p, Array)}
        given = call(sizes | scalars, sizes, scalars, 0)
        wanted = shapes(kernel, {}, given.scalars, given.dims, {a.name for a in kernel.arrays})
        fills = {a.name: _fill(self.arguments.get(a.name, "rand")) for a in kernel.arrays}
        inputs = [a for a in kernel.arrays if a.mode != "out"]
        arrays = {a.name: describe(fills[a.name], a.dtype, wanted[a.name], _pitches(a, given.dims)) for a in inputs}
        aligned = {a.name: self.aligned[a.name] for a in kernel.arrays if a.name in self.aligned}
        return replace(self, arguments=sizes | scalars | arrays, aligned=aligned)

    def file(self, headline: str, *more: str) -> str:
        """The case as a filetest that expects nothing yet; the headline and what follows it are comments."""
        run = " ".join(f"{name}={text}" for name, text in self.arguments.items())
        aligned = " ".join(f"{name}={_text(lies)}" for name, lies in self.aligned.items())
        lines = [headline, *more, f"seed: {self.seed}", *([f"aligned: {aligned}"] if aligned else []), f"run: {run}"]
        return "".join(f"# {line}\n" for line in lines) + self.text.rstrip("\n") + "\n" + SEPARATOR


def lying(program: Program) -> dict[str, bool]:
    """Of some arrays of a program how they lie: of others a kernel finds out. Rows between which a size is no multiple of 16 bytes do not
    begin at such.
    """
    rng = np.random.default_rng((program.seed, 16))
    found = {}
    for array in program.arrays:
        steps = [d.size for d in (*array.dims[1:], *array.pitches) if d]
        lies, known = rng.integers(2, size=2).astype(bool).tolist()
        if known and array.dtype.bits >= 8:
            found[array.name] = lies and all(step * array.dtype.bytes % 16 == 0 for step in steps)
    return found


def describe(fill: tuple, dtype: DType, shape: Collection[int], pitches: Iterable[int | None]) -> str:
    """`KIND:DTYPE[DIM,...]:ARGUMENT...` of a kind of array and its arguments; a dimension that has a pitch is `DIM:PITCH`."""
    kind, *arguments = map(str, fill)
    dims = [str(size) if pitch is None else f"{size}:{pitch}" for size, pitch in zip(shape, pitches)]
    return ":".join([kind, f"{dtype}[{','.join(dims)}]", *arguments])


def _pitches(array: Array, dims: Mapping[str, int]) -> list[int | None]:
    """The pitches that are declared as a number or a name."""
    written = array.pitches or (None,) * len(array.shape)
    return [p.value if isinstance(p, Const) else dims[p.symbol.name] if isinstance(p, Var) else None for p in written]


def _fill(text: str) -> tuple[str, ...]:
    """The kind and arguments of a description, which may lack its dtype and shape."""
    kind, _, rest = text.partition(":")
    return (kind, *rest.rpartition("]")[2].split(":")[1:])


def call(arguments: Mapping[str, str], dims: Collection[str], params: Collection[str], seed: int) -> Call:
    """The values of the texts of a `run` line. Raises VxcError E0708 for a name that is no dimension or parameter, E0709, E0710."""
    for name in arguments:
        if name not in dims and name not in params:
            known = dict.fromkeys([*dims, *params])
            raise VxcError(Diagnostic("E0708", f"there is no parameter or dimension `{name}`", help=there_are(known)))
    values = {name: read_argument(text, name, None, seed=seed) for name, text in arguments.items()}
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    numbers = {name: value for name, value in values.items() if name not in arrays}
    sizes = {name: int(value) for name, value in numbers.items() if name in dims}
    return Call(arrays, {name: value for name, value in numbers.items() if name not in dims}, sizes)


def _text(value: int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


# ---- the header --------------------------------------------------------------------------------------------------------


def directives(source: Source) -> Iterator[tuple[str, str, Span]]:
    """`# name: value` of the comment lines that a text begins with, and where the value stands."""
    for found in _DIRECTIVE.finditer(source.text, 0, _HEADER.match(source.text).end()):
        yield found[1], found[2].strip(), Span(*found.span(2))


def _seed(text: str, source: Source, span: Span) -> int:
    try:
        return int(text)
    except ValueError:
        raise VxcError(Diagnostic("E0709", f"the seed `{text}` is no integer", source, span)) from None


def pairs(text: str, source: Source, span: Span) -> dict[str, str]:
    """`NAME=VALUE ...` as a dict. Raises VxcError E0709."""
    words = [word.partition("=") for word in text.split()]
    for name, equals, value in words:
        if not (name and equals and value):
            hint = "write sizes, scalars and arrays, as in `# run: N=5 a=0.5 x=rand:f32[5]`"
            raise VxcError(Diagnostic("E0709", f"`{name}{equals}{value}` is not NAME=VALUE", source, span, help=hint))
    return {name: value for name, _, value in words}
