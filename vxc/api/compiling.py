"""From a kernel and what it is specialised to, to what can be launched: from the cache where it is there, else through the compiler.

Kinds of entries that answer the questions of a call in turn, each named by all that its answer follows from; with machine code
(`vxc.cuda.cached`) they make the first call in a process free of reading, checking and compiling where an earlier process has done it.

    source    a text                                          -> the signatures of its kernels
    line      a text                                          -> the expression that it is, and where that has names
    rows      a text, a kernel, its generics                  -> which sizes become constants
    plan      a text, a kernel, a specialisation, a target    -> what launching needs of the plan, and the key of the machine code
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from vxc.api.agreement import check_agreement
from vxc.api.lying import Lying
from vxc.api.signatures import Signature, of_plain, plain
from vxc.api.specialise import Define, Recipe, Specialisation, generics_of, sizes, units
from vxc.binding import row_major
from vxc.cache.places import key_of, store
from vxc.collector import COLLECTOR
from vxc.cuda.cached import recalled
from vxc.cuda.nvrtc import Binary, toolchain
from vxc.diag import VxcError
from vxc.ir import heads
from vxc.ir.plan import Plan
from vxc.record import record
from vxc.runtime.arrays import ArrayView
from vxc.source import Source

if TYPE_CHECKING:
    from vxc.driver import Compiled


@record
class Built:
    """A compiled kernel as launching needs it: the plan, its kernels without instructions, and the machine code."""

    source: Source
    plan: Plan
    binary: Binary


def compiled(recipe: Recipe, specialisation: Specialisation, target: str) -> Compiled:
    """The plan for a target, passes run. Raises `VxcError` with all that is wrong with the source."""
    with COLLECTOR.paused():
        from vxc.api import building

        return building.compiled(recipe, specialisation, target)


def remembered(recipe: Recipe, specialisation: Specialisation, target: str) -> Built | None:
    """What an earlier process compiled."""
    try:
        found = _kept(_plan_key(recipe, specialisation, target)) if recipe.alone and store() else None
    except VxcError:  # no NVRTC
        return None
    binary = recalled(found["code"]) if found else None
    return Built(recipe.source, heads.of_plain(found["plan"]), binary) if binary else None


def built(recipe: Recipe, specialisation: Specialisation, target: str, make: Callable[[], Compiled]) -> Built:
    """What `make` gives as launching needs it, noted for later processes. Raises as `Compiled.binary`."""
    made = make()
    found = Built(recipe.source, made.plan, made.binary)
    if recipe.alone and made.job.alone and store():
        facts = {"plan": heads.plain(made.plan), "code": made.job.key}
        _keep(_plan_key(recipe, specialisation, target), f"{recipe.name} for {target}", facts)
    return found


def _plan_key(recipe: Recipe, specialisation: Specialisation, target: str) -> str:
    """The name of the text is part of checks alone, which print it."""
    named = recipe.source.name if recipe.debug else ""
    options = (named, recipe.debug, recipe.maxrregcount, recipe.reduce_chunk)
    return _key("plan", recipe, specialisation.defines, specialisation.strided, specialisation.aligned, target, *options, toolchain())


def _key(kind: str, recipe: Recipe, defines: tuple[tuple[str, Define], ...], *more: Any) -> str:
    named = [(name, type(value).__name__, str(value)) for name, value in defines]
    return key_of(kind, recipe.source.text, recipe.name, named, *more)


@lru_cache(maxsize=64)
def signatures(source: Source) -> tuple[tuple[Signature, ...], bool]:
    """The kernels and programs of a text, and whether it is all there is to read. Raises `VxcError` E01xx."""

    def read(building: Any) -> dict[str, Any]:
        kernels, alone = building.signatures(source)
        return {"kernels": [plain(k) for k in kernels], "alone": alone}

    key = key_of("source", source.text) if store() else ""
    found = _once(key, lambda facts: ", ".join(k["name"] for k in facts["kernels"]), read)
    return tuple(map(of_plain, found["kernels"])), found["alone"]


@lru_cache(maxsize=64)
def expression(source: Source) -> tuple[str, tuple[tuple[int, int], ...]]:
    """As `building.expression`."""

    def read(building: Any) -> dict[str, Any]:
        text, names = building.expression(source)
        return {"text": text, "names": names}

    key = key_of("line", source.text) if store() else ""
    found = _once(key, lambda facts: facts["text"], read)
    return found["text"], tuple((start, end) for start, end in found["names"])


def _row_dims(recipe: Recipe, defines: tuple[tuple[str, Define], ...]) -> frozenset[str]:
    """Dimensions that become constants because rows or declared arrays have them."""
    key = _key("rows", recipe, defines) if recipe.alone and store() else ""
    found = _once(key, lambda _: recipe.name, lambda building: {"rows": sorted(building.row_dims(recipe, dict(defines)))})
    return frozenset(found["rows"])


def _once(key: str, about: Callable[[dict[str, Any]], str], read: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """What the cache has under the key, or what `read` finds by means of `building`, which it has from then on. "" is no key."""
    found = _kept(key) if key else None
    if found is None:
        with COLLECTOR.paused():
            from vxc.api import building

            found = read(building)
        if key:
            _keep(key, about(found), found)
    return found


def _kept(key: str) -> dict[str, Any] | None:
    kept = store()
    data = kept.get(key) if kept else None
    return None if data is None else json.loads(data)


def _keep(key: str, about: str, facts: Mapping[str, Any]) -> None:
    kept = store()
    if kept:
        kept.put(key, about, json.dumps(facts).encode())


class Specialiser:
    """Decides for the calls of one kernel. What it learns of the kernel, it learns once for each choice of generics."""

    def __init__(self, recipe: Recipe, signature: Signature) -> None:
        self.recipe, self.signature = recipe, signature
        self._rows: dict[tuple[tuple[str, Define], ...], frozenset[str]] = {}

    def __call__(self, views: Mapping[str, ArrayView]) -> Specialisation:
        """What to compile for arrays such as these. Raises `VxcError` with what is wrong with the source, and where they disagree."""
        check_agreement(self.signature, views, dict(self.recipe.defines))
        given = sizes(self.signature, {name: view.shape for name, view in views.items()})
        generics = {**generics_of(self.signature, views), **dict(self.recipe.defines)}
        needed = {name: size for name, size in given.items() if name in self.signature.declared and name not in generics}
        first = tuple(sorted({**needed, **generics}.items()))
        if first not in self._rows:
            self._rows[first] = _row_dims(self.recipe, first)
        rows = {name: given[name] for name in self._rows[first] if name in given}
        known = {**dict(first), **rows}
        strided = tuple((name, units(view)) for name, view in sorted(views.items()) if self._is_strided(name, view))
        lying = Lying(self.signature, known, {name for name, _ in strided})
        return Specialisation(tuple(sorted(known.items())), strided, tuple(sorted(lying.aligned(views, given).items())))

    def _is_strided(self, name: str, view: ArrayView) -> bool:
        """Whether an array lies otherwise than it is declared; one of another rank is refused later on."""
        param = next(p for p in self.signature.params if p.name == name)
        backwards = any(unit < 0 for unit in units(view))
        return len(param.dims) == len(view.shape) and view.size > 0 and (backwards or not param.pitched and not dense(view))


def dense(view: ArrayView) -> bool:
    """Whether elements lie one after the other, row by row."""
    strides = zip(view.shape, view.strides, row_major(view.shape))
    return view.size == 0 or all(extent == 1 or stride == packed for extent, stride, packed in strides)
