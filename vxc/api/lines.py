"""One-line kernels as text: what a signature and expressions say, and the kernel of the language that they are for one form of arrays.

    x: f32, y: f32 -> f32      x * x + y          kernel elementwise(x: f32[N], y: f32[N], out result: f32[N]) {
                                                      parallel i in N { result[i] = x[i] * x[i] + y[i]; }
                                                  }
    x: f32 -> f32    abs(x)    max, axis 1        kernel reduction(x: f32[N0, K, N1], out result: f32[N0, N1]) {
                                                      parallel i0 in N0, i1 in N1 {
                                                          result[i0, i1] = @chunk(32) max(abs(x[i0, :, i1]));
                                                      }
                                                  }
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from vxc.api.broadcasting import (
    Form,
    Loop,
    Shape,
    as_looped,
    broadcast,
    check_output,
    form_of,
    loops,
    reduced_dims,
    result_shape,
    spread,
)
from vxc.api.compiling import expression
from vxc.api.signatures import Parameter, Signature
from vxc.api.specialise import dtype_of
from vxc.diag import UNDEFINED, Diagnostic, Label, VxcError, suggestion
from vxc.dtypes import DTYPES
from vxc.record import record
from vxc.runtime.arrays import ArrayView
from vxc.source import Source, Span

# Partial results of an axis that is not the last. The default of 4 deals a column to 4 threads: timed by hand on an H200, 8192 x 8192 f32
# took .102 ms with it and .075 with 32, f16 .092 and .053 (torch .082 and .053, a copy of half of it .068 and .037), 1000 x 1000 f32 .018
# and .009.
COLUMN_CHUNK = 32

_INPUT = re.compile(r"\s*(?P<name>[^\W\d]\w*)\s*:\s*(?P<scalar>scalar\s+)?(?P<type>\w+)\s*")
_OUTPUT = re.compile(r"\s*(?:(?P<name>[^\W\d]\w*)\s*:\s*)?(?P<type>\w+)\s*")
_GENERIC = re.compile(r"[A-Z]\d*")


@record
class Expression:
    """A text, and where in it names stand for values: (start, end) of each, in order."""

    text: str
    names: tuple[tuple[int, int], ...]

    @property
    def used(self) -> set[str]:
        return {self.text[start:end] for start, end in self.names}

    def at(self, places: Mapping[str, str]) -> str:
        """With other texts for these names."""
        return "".join(text for text, _ in self._pieces(places))

    def origin(self, places: Mapping[str, str], span: Span) -> Span:
        """Where that which lies there in `at(places)` is written here: of what stands for a name, the name."""
        start, end, done = len(self.text), 0, 0
        for text, own in self._pieces(places):
            verbatim, past = text == self.text[own.start : own.end], done + len(text)
            if span.start < past and done < span.end:
                start = min(start, own.start + (max(span.start - done, 0) if verbatim else 0))
                end = own.end - (max(past - span.end, 0) if verbatim else 0)
            done = past
        return Span(min(start, end), end) if end else Span(len(self.text), len(self.text))

    def _pieces(self, places: Mapping[str, str]) -> list[tuple[str, Span]]:
        """The texts that `at` joins, and what each stands for."""
        pieces, done = [], 0
        for start, end in self.names:
            name = self.text[start:end]
            pieces += [(self.text[done:start], Span(done, start)), (places.get(name, name), Span(start, end))]
            done = end
        return [*pieces, (self.text[done:], Span(done, len(self.text)))]


@record
class Line:
    """`inputs` are names and types, of which `scalars` are numbers; `outputs` are as many as `expressions`. `op` reduces these, '' where
    the kernel is elementwise, along the dimensions `axis`, None for all.
    """

    name: str
    inputs: tuple[tuple[str, str], ...]
    scalars: frozenset[str]
    outputs: tuple[tuple[str, str], ...]
    expressions: tuple[Expression, ...]
    op: str = ""
    axis: tuple[int, ...] | None = ()
    keepdims: bool = False

    @property
    def arrays(self) -> list[str]:
        """The inputs that are arrays."""
        return [name for name, _ in self.inputs if name not in self.scalars]

    @property
    def generics(self) -> list[str]:
        """The types that follow from the arrays."""
        return list(dict.fromkeys(kind for _, kind in (*self.inputs, *self.outputs) if kind not in DTYPES))

    @property
    def signature(self) -> Signature:
        """As a kernel over arrays of any shape."""
        inputs = [(name, kind, "in", name not in self.scalars) for name, kind in self.inputs]
        every = [*inputs, *((name, kind, "out", True) for name, kind in self.outputs)]
        params = [
            Parameter(name, mode, kind, (None,) * array, ((),) * array, False, f"{'out ' * (mode == 'out')}{name}: {kind}{'[..]' * array}")
            for name, kind, mode, array in every
        ]
        generics = tuple((name, "dtype") for name in self.generics)
        return Signature(self.name, False, generics, tuple(params), frozenset(), frozenset())

    def result(self, shapes: Mapping[str, Shape]) -> Shape:
        """The shape of the outputs for arrays of these shapes. Raises `VxcError` E0705."""
        inputs = {name: shape for name, shape in shapes.items() if name in self.arrays}
        whole = broadcast(inputs)
        wanted = result_shape(whole, reduced_dims(self.axis, len(whole), self.name), self.keepdims)
        for name, _ in self.outputs:
            check_output(name, shapes.get(name, wanted), wanted, inputs)
        return wanted

    def fit(self, views: Mapping[str, ArrayView]) -> tuple[Form, dict[str, ArrayView], Shape]:
        """The form of a call, its arrays as the kernel of that declares them, and the shape of its outputs. Raises `VxcError` E0705."""
        result = self.result({name: view.shape for name, view in views.items()})
        inputs = {name: views[name] for name in self.arrays}
        outputs = {name: view for name, view in views.items() if name not in inputs}
        whole = broadcast({name: view.shape for name, view in inputs.items()})
        reduced = reduced_dims(self.axis, len(whole), self.name)
        found = self._reducing(loops(inputs, outputs, whole, reduced)) if self.op else loops(inputs, outputs, whole, reduced)
        found = found or [Loop(1, False, dict.fromkeys(inputs, 1))]
        return form_of(found, self.arrays), as_looped(found, views), result

    def _reducing(self, found: list[Loop]) -> list[Loop]:
        """With a reduced loop, if of one element. The rows of one expression have the same dimensions, and one row there is at least."""
        if not any(loop.reduced for loop in found):
            return [*found, Loop(1, True, dict.fromkeys(self.arrays, 1))]
        used = [name for name in self.arrays if any(name in one.used for one in self.expressions)]
        rows = {tuple(name in loop.strides for loop in found if loop.reduced) for name in used}
        whole = (True,) * sum(loop.reduced for loop in found)
        return found if whole in rows and all(row == whole or not any(row) for row in rows) else spread(found, self.arrays)

    def usual(self) -> Form:
        """The form of arrays of few dimensions, all of one shape."""
        axis = self.axis or ()
        rank = 1 + max([one + 1 for one in axis if one >= 0], default=0) + max([-one for one in axis if one < 0], default=0)
        view = ArrayView(0, (2,) * rank, tuple(2**at for at in reversed(range(rank))), None, 1, False, "cuda")
        return self.fit(dict.fromkeys(self.arrays, view))[0]

    def text(self, form: Form) -> str:
        """The kernel for a form."""
        head, statements, places, tail = self._parts(form)
        return head + " ".join(before + one.at(places) + after for before, one, after in statements) + tail

    def written(self, found: Diagnostic, form: Form) -> Diagnostic:
        """A diagnostic of the kernel for a form as one of the expression that it is about."""
        head, statements, places, _ = self._parts(form)
        first = len(head)
        for (before, one, after), (name, _) in zip(statements, self.outputs):
            start, text = first + len(before), one.at(places)
            last = start + len(text) + len(after)
            if found.span and first <= found.span.start < last:
                source = Source(f"<{self.name}>", one.text)

                def own(span: Span, start=start, text=text, one=one) -> Span:
                    inside = start <= span.start < start + len(text)
                    return one.origin(places, Span(span.start - start, span.end - start)) if inside else Span(0, len(one.text))

                near = tuple(Label(source, own(x.span), x.text) for x in found.secondary if first <= x.span.start < last)
                notes = (*found.notes, f"this is the expression for `{name}`")
                advice = found.help.replace(UNDEFINED, "declare it in the signature")
                return replace(found, source=source, span=own(found.span), secondary=near, notes=notes, help=advice)
            first = last + 1
        return found

    def _parts(self, form: Form) -> tuple[str, list[tuple[str, Expression, str]], dict[str, str], str]:
        """Of the kernel for a form what stands before its statements; each of these as what is before and behind an expression; what
        arrays are in these; and what ends the kernel.
        """
        size, length, index = (self._free(letter) for letter in "NKi")
        kept = [at for at, reduced in enumerate(form.reduced) if not reduced]
        rows = [at for at, reduced in enumerate(form.reduced) if reduced]
        sizes = {**_numbered(size, kept), **_numbered(length, rows)}
        indices = {**_numbered(index, kept), **dict.fromkeys(rows, ":")}
        over = {name: [at for at, runs in enumerate(along) if runs] for name, along in form.over}
        over |= {name: kept for name, _ in self.outputs}
        params = [f"{name}: {kind}{_listed(over[name], sizes, '1') if name in over else ''}" for name, kind in self.inputs]
        params += [f"out {name}: {kind}{_listed(kept, sizes, '1')}" for name, kind in self.outputs]
        places = {name: f"{name}{_listed(along, indices, '0')}" for name, along in over.items()}
        apart = f"@chunk({COLUMN_CHUNK}) " if rows and not form.reduced[-1] else ""
        before, after = (f"{apart}{self.op}(", ");") if self.op else ("", ";")
        statements = [(f"{places[name]} = {before}", one, after) for (name, _), one in zip(self.outputs, self.expressions)]
        ranges = ", ".join(f"{indices[at]} in {sizes[at]}" for at in kept)
        generics = ", ".join(f"{name}: dtype" for name in self.generics)
        head = f"kernel {self.name}{f'<{generics}>' if generics else ''}({', '.join(params)})"
        taken = {name: places[name] for name in self.arrays}
        return f"{head} {{\n    {f'parallel {ranges} {{ ' if ranges else ''}", statements, taken, f"{' }' if ranges else ''}\n}}\n"

    def _free(self, letter: str) -> str:
        """A beginning of names that are no others here."""
        words = (word for pair in (*self.inputs, *self.outputs) for word in pair)
        said = " ".join([self.name, *(one.text for one in self.expressions), *words])
        while re.search(rf"\b{letter}\d*\b", said):
            letter += "_"
        return letter


def _numbered(name: str, places: Sequence[int]) -> dict[int, str]:
    return {place: name if len(places) == 1 else f"{name}{at}" for at, place in enumerate(places)}


def _listed(places: Sequence[int], texts: Mapping[int, str], none: str) -> str:
    return f"[{', '.join(texts[at] for at in places) or none}]"


def read_signature(text: str) -> tuple[tuple[tuple[str, str], ...], frozenset[str], tuple[tuple[str, str], ...]]:
    """`x: f32, a: scalar f32 -> f32` as inputs, which of them are numbers, and outputs. Raises `VxcError` E0107, E0210."""
    before, arrow, after = text.partition("->")
    inputs = [_INPUT.fullmatch(part) for part in before.split(",")]
    outputs = [_OUTPUT.fullmatch(part) for part in after.split(",")]
    if not arrow or None in inputs or None in outputs:
        hint = "write it as in `x: f32, y: f32 -> f32`, a number as in `a: scalar f32`, several outputs as in `-> u: f32, v: f32`"
        raise VxcError(Diagnostic("E0107", f"`{text}` is no signature", help=hint))
    taken = tuple((found["name"], _type(found["type"])) for found in inputs if found)
    scalars = frozenset(found["name"] for found in inputs if found and found["scalar"])
    if len(scalars) == len(taken):
        hint = "declare an array: `x: f32` is one, `a: scalar f32` a number"
        raise VxcError(Diagnostic("E0107", f"the signature `{text}` has no array among its inputs, and so no shape", help=hint))
    names = ["result"] if len(outputs) == 1 else [f"result{at}" for at in range(len(outputs))]
    given = tuple((found["name"] or name, _type(found["type"])) for found, name in zip(outputs, names) if found)
    _check_apart(text, [name for name, _ in taken], [name for name, _ in given])
    return taken, scalars, given


def _check_apart(text: str, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Refuses two parameters of one name (E0107)."""
    for at, name in enumerate(every := [*inputs, *outputs]):
        if name in every[:at]:
            written = at >= len(inputs) and name in inputs
            hint = f"`{name}` is an input: the output is another array, as in `-> y: f32`" if written else "give each its own"
            raise VxcError(Diagnostic("E0107", f"the signature `{text}` has two parameters of the name `{name}`", help=hint))


def read_expressions(given: Sequence[str], outputs: int, signature: str, name: str) -> tuple[Expression, ...]:
    """The expressions of a kernel of this name, one to an output. Raises `VxcError` E01xx."""
    if len(given) != outputs:
        there = f"{outputs} output{'s' * (outputs != 1)}, and there {'is' if len(given) == 1 else 'are'} {len(given) or 'no'} expression"
        message = f"the signature `{signature}` has {there}{'s' * (len(given) != 1)}"
        raise VxcError(Diagnostic("E0107", message, help="give an expression for each output, as in ('x + y', 'x - y')"))
    return tuple(Expression(*expression(Source(f"<{name}>", one))) for one in given)


def _type(name: str) -> str:
    """The type, if it is a dtype or a capital letter, which stands for any. Raises `VxcError` E0210."""
    if name in DTYPES or _GENERIC.fullmatch(name):
        return name
    meant = dtype_of(name)
    hint = f"write `{meant}`" if meant else suggestion(name, DTYPES, f"types are {', '.join(DTYPES)}, or a capital letter for any")
    raise VxcError(Diagnostic("E0210", f"`{name}` is no type", help=hint))
