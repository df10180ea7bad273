"""The fast path: for one kernel and one array library, Python functions written for its signature (`front_text`).

    def _call(x_=_missing, y_=_missing, n_=_missing, /, *_more, **_others):
        ..
                _at_x, _at_y, _queue = _pointer(x_), _pointer(y_), _stream(_device)
                _then_at_x, _then_at_y, _then_queue, _same, _was_n, _launch = _last
                if _at_x != _then_at_x or _at_y != _then_at_y or _queue != _then_queue:
                    .. = _last = _kept.get((_at_x, _at_y, _queue), _none)
                _again = n_ is _was_n and _same(x_, y_)
                ..
                if _again:
                    if not _launch():
                        return y_
                elif _write_full(x_, y_, n_, _at_x, _at_y, _queue):
                    return y_

A call that is made a second time, with the same memory, stream and numbers, gets a *launch*, with parameters of its own, which nobody
writes again. It is found by comparing these with those of the last call, else by one dict hit on memory and stream; and it runs if one
question to the library, where it has a quick one, says that the arrays are as they were, else if the call's *key* is what it was: shapes,
dtypes, strides of what is not dense, the device. So calls with arrays of many shapes in turns cost little more than one that is repeated.

Else the parameters are written. To each key belongs a *record*: that of the last call is known by the question or the key; any other by one
dict hit on its key, or, of a library with a quick question, by one on its shapes and that question. Parameters are written once it was
seen that the memory is there, and that what is written overlaps nothing. What is compiled also follows from where arrays lie modulo 16
bytes: calls of one key that lie otherwise than the last are found by one dict hit more. Anything unusual, errors too, goes to `general`,
which says what is wrong.

A call costs what its functions and their variables do, so what is not needed to repeat one is in functions of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import add
from typing import Any

import numpy as np

from vxc.api.arguments import Parameter
from vxc.api.errors import translated
from vxc.api.front_text import ROW, FrontText
from vxc.api.libraries import Library, maker
from vxc.api.prepared import Prepared
from vxc.api.traced import untraced
from vxc.diag import VxcError

_LIMIT = 4096  # remembered calls of a kernel
_NUMBERS = frozenset({int, float, bool, np.bool_, *(np.dtype(code).type for code in "bBhHiIlLqQefd")})
"""Types of numbers: they cannot change, and reading one asks no device."""


def writable(params: Sequence[Parameter]) -> bool:
    """Whether there are parameters, which Python can have, and takes for none of the names used here."""
    names = [p.name for p in params]
    return names != [] and all(n.isidentifier() and n[0] != "_" for n in names)


def _unlike(*_: Any) -> bool:
    """As `same`, where no call is known."""
    return False


class Front:
    """`call` is the function; `remember` has it know a call. `deciding` names scalars that are part of the key, `packers` the functions
    that scalars go through which `struct` does not pack as they are. `general(args, keywords)` is a call in full. `place`, from
    an address to its device, is None where there is one device. `renamed` gives keywords their parameters' names, None if they have them.
    """

    def __init__(
        self, params: Sequence[Parameter], library: Library, deciding: frozenset[str], packers: Mapping[str, Callable],
        general: Callable, enqueue: Callable, place: Callable[[int], int] | None, renamed: Callable | None,
    ) -> None:  # fmt: skip
        self.deciding = deciding
        self._params, self._library, self._module = params, library, library.imported
        self._same = None if deciding else library.same(self._module)  # which says nothing of numbers
        self._records: tuple[dict, dict] = ({}, {})
        self._shaped: tuple[dict, dict] = ({}, {})
        scalars = sum(not p.array for p in params)
        asks, several, renames = self._same is not None, place is not None, renamed is not None
        self._text = FrontText(params, library, deciding, packers.keys(), asks=asks, several=several, renames=renames)
        self.text = "\n".join(self._text.lines())
        none = (*(None for _ in self._text.entry()[: -2 - scalars]), _unlike, *(None for _ in range(scalars)), None)
        scope = {
            "_missing": object(), "_general": general, "_full": self._records[0], "_short": self._records[1], "_numbers": _NUMBERS,
            "_shaped_full": self._shaped[0], "_shaped_short": self._shaped[1],
            "_last_full": (_unlike, 0, ()), "_last_short": (_unlike, 0, ()), "_device": 0,  # the only one, if it is asked for
            "_kept": {}, "_once": {}, "_last": none, "_none": none, "_never": (None, *(None for p in params if not p.array)),
            "_module": self._module, "_pointer": library.address(self._module), "_stream": library.stream(self._module), "_place": place,
            "_renamed": renamed, "_current": library.current(self._module), "_partial": partial, "_Error": VxcError,
            "_enqueue": enqueue, "_places": {p.name: at for at, p in enumerate(params)},
            **{f"_packer_{name}": packer for name, packer in packers.items()},
        }  # fmt: skip
        exec(compile(self.text, f"<fast path for {library.module}>", "exec"), scope)
        self.call = untraced(scope["_call"])
        self._keys: tuple[Callable, Callable] = (scope["_full_key"], scope["_short_key"])

    def remember(self, values: Mapping[str, Any], prepared: Prepared) -> None:
        """Have calls like this one take the fast path; `values` are all arguments, without outputs that it allocates."""
        short = int(bool(prepared.outs))
        given = self._text.given(short)
        if set(values) != {p.name for p in given} or not prepared.steps:
            return
        records, (key, lies, distances) = self._records[short], self._keys[short](*(values[p.name] for p in given))
        ways = records[key][-1][ROW.index("ways")] if key in records else {}
        if lies not in ways:
            for kept in (records, self._shaped[short], ways):
                if len(kept) >= _LIMIT:
                    kept.clear()
            arrays = [values[p.name] for p in given if p.array]
            makers = [maker(arrays, o.name, o.shape, o.dtype, prepared.device) for o in prepared.outs]
            ways[lies] = self._row(prepared, short, (ways, lies), makers)
            records.setdefault(key, (self._same(arrays) if self._same else key, prepared.device, ways[lies]))
        apart = ways[lies][ROW.index("apart")]
        if len(apart) >= _LIMIT:
            apart.clear()
        bounds = _bounds(prepared, self._text.pairs(short))
        apart.update((at, one) for at, (one, (low, high)) in enumerate(zip(distances, bounds)) if low < one < high)

    def _row(self, prepared: Prepared, short: int, lies: tuple[dict, Any], makers: list) -> tuple:
        """What is common to the calls of a key that lie alike: what the text's `ROW` names, between which distances the memory of a pair of
        arrays may overlap, what allocates. All rows of a key have its `ways`, the rows by where arrays lie modulo 16 bytes. `apart` has the
        distances at which memory does not overlap all the same, as two columns of one array.
        """
        step, (pack, run) = prepared.single, _from_first(prepared)
        new = prepared.slot if step else run
        function = step and step.configs, step and step.function
        bounds = (bound for both in _bounds(prepared, self._text.pairs(short)) for bound in both)
        return (*lies, set(), prepared.slots, new, pack, *function, *bounds, *makers)


def _bounds(prepared: Prepared, pairs: Sequence[tuple[str, str]]) -> list[tuple[int, int]]:
    """For each pair, between which distances of the first array from the second there are bytes of both."""
    extents = {e.name: e for e in prepared.extents}
    found = [(extents[a], extents[b]) for a, b in pairs]
    return [(b.low - a.high, b.high - a.low) if a.high > a.low and b.high > b.low else (0, 0) for a, b in found]


def _from_first(prepared: Prepared) -> tuple[Callable, Callable]:
    """`pack` and `run` of what was prepared, given the addresses of first elements, as libraries have them, where they take those of the
    lowest ones: along a dimension that runs backwards these are the last.
    """
    lows, pack, run = [e.low for e in prepared.extents], prepared.pack, translated()(prepared.run)
    if not any(lows):
        return pack, run

    def lowest(values: Sequence[Any]) -> tuple[Any, ...]:
        return *map(add, values, lows), *values[len(lows) :]

    return lambda memory, at, *values: pack(memory, at, *lowest(values)), lambda values, stream: run(lowest(values), stream)
