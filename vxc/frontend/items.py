"""The items of a file and of the files that it imports, by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import field
from os.path import realpath
from pathlib import Path

from vxc.diag import Diagnostic, Label, VxcError, read_source
from vxc.dtypes import DTYPES
from vxc.frontend import syntax
from vxc.frontend.check_attrs import misplaced
from vxc.frontend.check_calls import BUILTINS
from vxc.frontend.parse import parse
from vxc.record import state
from vxc.source import Source, Span

Resolve = Callable[[str, Source], Source]


@state
class Items:
    """Kernels, programs and functions with the source of each; `examples` in order; `errors` found on the way."""

    kernels: dict[str, tuple[syntax.Kernel, Source]] = field(default_factory=dict)
    programs: dict[str, tuple[syntax.Program, Source]] = field(default_factory=dict)
    functions: dict[str, tuple[syntax.Fn | syntax.Extern, Source]] = field(default_factory=dict)
    examples: list[tuple[syntax.Example, Source]] = field(default_factory=list)
    errors: list[Diagnostic] = field(default_factory=list)


def read_beside(path: str, importer: Source) -> Source:
    """The file at `path`, relative to the file that imports it."""
    return read_source(os.fsdecode(_native(str(Path(importer.name).parent / path))))


def _native(name: str) -> bytes:
    """A name as it is on disk, whatever the locale says."""
    return name.encode("utf-8", "replace")


def collect(module: syntax.Module, source: Source, resolve: Resolve = read_beside) -> Items:
    """The items of a module and of its imports, each file once, by whatever path it is reached."""
    items = Items()
    names: dict[str, tuple[Source, Span]] = {}
    seen = {realpath(_native(source.name))}
    todo: list[tuple[syntax.Module, Source, tuple[str, ...]]] = [(module, source, (source.name,))]
    while todo:
        here, text, path = todo.pop(0)
        for item in here.items:
            items.errors += _misplaced(item, text)
            if isinstance(item, syntax.Import):
                _import(items, item, text, path, seen, todo, resolve)
            elif isinstance(item, syntax.Example):
                items.examples.append((item, text))
            else:
                _add(items, item, text, names)
    return items


def _misplaced(item: syntax.Item, text: Source) -> list[Diagnostic]:
    """Attributes of functions, imports and parameters, none of which is honoured."""
    position = _POSITIONS.get(type(item))
    bearers = [(attr, position) for attr in item.attrs if position]
    bearers += [(attr, "parameter") for param in getattr(item, "params", ()) for attr in param.attrs]
    return [wrong for attr, position in bearers if (wrong := misplaced(attr, position, text))]


_POSITIONS = {syntax.Fn: "fn", syntax.Extern: "extern fn", syntax.Import: "import"}


def _import(items: Items, item: syntax.Import, text: Source, path: tuple[str, ...], seen: set, todo: list, resolve: Resolve) -> None:
    try:
        found = resolve(item.path, text)
        way = [realpath(_native(name)) for name in path]
        if (file := realpath(_native(found.name))) in way:
            chain = " -> ".join([*path[way.index(file) :], found.name])
            hint = "move what both need to a third file" if file != way[-1] else "remove it: a file has its own items"
            raise VxcError(Diagnostic("E0225", f"files import each other: {chain}", text, item.span, help=hint))
        if file not in seen:
            seen.add(file)
            todo.append((parse(found), found, (*path, found.name)))
    except VxcError as error:
        for d in error.diagnostics:
            if d.source is None:  # the file itself: say where it is wanted
                d = Diagnostic("E0225", d.message, text, item.span, help="the path is relative to this file")
            items.errors.append(d)


def _add(items: Items, item: syntax.Item, text: Source, names: dict[str, tuple[Source, Span]]) -> None:
    function = isinstance(item, (syntax.Fn, syntax.Extern))
    if function and (item.name in BUILTINS or item.name in DTYPES):
        items.errors.append(
            Diagnostic(
                "E0228", f"`{item.name}` is built in, and a function may not shadow it", text, item.name_span, help="choose another name"
            )
        )
        return
    if item.name in names:
        first = (Label(*names[item.name], "first defined here"),)
        items.errors.append(
            Diagnostic("E0228", f"`{item.name}` is defined twice", text, item.name_span, secondary=first, help="rename or remove one")
        )
        return
    names[item.name] = (text, item.name_span)
    table = items.functions if function else items.programs if isinstance(item, syntax.Program) else items.kernels
    table[item.name] = (item, text)
