"""From a kernel and what it is specialised to, to the compiled plan: `compiled` is the one way, and where a cache belongs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vxc.api.specialise import Define, Specialisation, declared_dims, generics_of, row_dims, sizes, units
from vxc.api.strided import with_strides
from vxc.binding import row_major
from vxc.driver import Compiled, compile_plan
from vxc.frontend import syntax
from vxc.frontend.check import Typed, check
from vxc.frontend.lower import lower
from vxc.frontend.parse import parse
from vxc.runtime.arrays import ArrayView
from vxc.source import Source


@dataclass(frozen=True)
class Recipe:
    """A kernel or program of a file and how it is to be compiled: with the specialisation and the target all that decides the code."""

    source: Source
    name: str
    defines: tuple[tuple[str, Define], ...] = ()
    debug: bool = False
    maxrregcount: int | None = None
    reduce_chunk: int | None = None

    def defining(self, values: Mapping[str, Define]) -> Recipe:
        return replace(self, defines=tuple(sorted({**dict(self.defines), **values}.items())))


def compiled(recipe: Recipe, specialisation: Specialisation, target: str) -> Compiled:
    """The plan for a target, passes run. Raises `VxcError` with all that is wrong with the source."""
    typed = checked(recipe, dict(specialisation.defines))
    plan = lower(typed)
    if specialisation.strided:
        plan = with_strides(plan, dict(specialisation.strided))
    return compile_plan(plan, typed, target, debug=recipe.debug, maxrregcount=recipe.maxrregcount)


def checked(recipe: Recipe, defines: Mapping[str, Define]) -> Typed:
    """The typed kernel or program."""
    return check(parse(recipe.source), recipe.source, recipe.name, defines, reduce_chunk=recipe.reduce_chunk)


class Specialiser:
    """Decides for the calls of one kernel. What it learns of the kernel, it learns once for each choice of generics."""

    def __init__(self, recipe: Recipe, item: syntax.Kernel) -> None:
        self.recipe, self.item = recipe, item
        self._declared = set() if isinstance(item, syntax.Program) else declared_dims(item)  # arrays of a program are global
        self._rows: dict[tuple[tuple[str, Define], ...], frozenset[str]] = {}

    def __call__(self, views: Mapping[str, ArrayView]) -> Specialisation:
        """What to compile for arrays such as these. Raises `VxcError` with what is wrong with the source."""
        given = sizes(self.item, {name: view.shape for name, view in views.items()})
        generics = {**generics_of(self.item, views), **dict(self.recipe.defines)}
        needed = {name: size for name, size in given.items() if name in self._declared and name not in generics}
        first = tuple(sorted({**needed, **generics}.items()))
        if first not in self._rows:
            self._rows[first] = frozenset(row_dims(checked(self.recipe, dict(first))))
        rows = {name: given[name] for name in self._rows[first] if name in given}
        strided = tuple((name, units(view)) for name, view in sorted(views.items()) if self._is_strided(name, view))
        return Specialisation(tuple(sorted({**dict(first), **rows}.items())), strided)

    def _is_strided(self, name: str, view: ArrayView) -> bool:
        """Whether an array is declared without pitches and has some; one of another rank is refused later on."""
        declared = next(p.type.dims for p in self.item.params if p.name == name)
        return len(declared) == len(view.shape) and all(dim.stride is None for dim in declared) and not dense(view)


def dense(view: ArrayView) -> bool:
    """Whether elements lie one after the other, row by row."""
    strides = zip(view.shape, view.strides, row_major(view.shape))
    return view.size == 0 or all(extent == 1 or stride == packed for extent, stride, packed in strides)
