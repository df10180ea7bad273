"""The fast path: for one kernel and one array library, a Python function written for its signature.

    def _call(x=_missing, y=_missing, n=_missing, /, *_more, **_others):
        if n is not _missing and not _more and not _others:
            try:
                _at_x, _at_y = _pointer(x), _pointer(y)
                _same, _device, _was_queue, _was_x, _was_y, _was_n, _launch, _held, _row = _last
                if not _same(x, y):
                    .. = _find_full(x, y, n, _low)
                _queue = _stream(_device)
                if _at_x != _was_x or _at_y != _was_y or n is not _was_n or _queue != _was_queue:
                    ..
            ..
                _status = _launch()[0]

What decides how a call runs is its *key*: shapes, dtypes, strides, the device, and addresses modulo 16 bytes. To each key belongs a
*record*: the last call that was made twice running, with parameters of its own, which nobody writes again. A call like the last one is
known by one question to the library, where it has a quick one, any other by one dict hit on its key. Where memory, numbers and stream are
those of the record, its launch is made again. Else the parameters are written, once it was seen that the memory is there, lies as that
of the record modulo 16 bytes (there is one dict hit on the key for memory that does not), and that what is written overlaps nothing.
Anything unusual, errors too, goes to `general`, which says what is wrong.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from vxc.api.arguments import Parameter
from vxc.api.errors import translated
from vxc.api.libraries import Library, maker
from vxc.api.prepared import Prepared

_LIMIT = 4096  # remembered calls of a kernel
_ROW = ("slots", "new", "pack", "configs", "function", "lies")  # of a plan of several launches, `new` is its `run` and `function` None
_NUMBERS = frozenset({int, float, bool, np.bool_, *(np.dtype(code).type for code in "bBhHiIlLqQefd")})
"""Types of numbers: they cannot change, and reading one asks no device."""


def writable(params: Sequence[Parameter]) -> bool:
    """Whether Python can have the parameters, which are no words of its own, and take them for none of the names used here."""
    names = [p.name for p in params]
    return names != [] and all(n.isidentifier() and not keyword.iskeyword(n) and n[0] != "_" for n in names)


def _unlike(*_: Any) -> bool:
    """As `same`, where no call is known."""
    return False


class Front:
    """`call` is the function; `remember` has it know a call. `deciding` names scalars that are part of the key, `packers` the functions
    that scalars go through which `struct` does not pack as they are. `general(args, keywords)` is a call in full. `place`, from
    an address to its device, is None where there is one device.
    """

    def __init__(
        self, params: Sequence[Parameter], library: Library, deciding: frozenset[str], packers: Mapping[str, Callable],
        general: Callable, raw_launch: tuple[Callable, Any], place: Callable[[int], int] | None,
    ) -> None:  # fmt: skip
        self.deciding = deciding
        self._params, self._library, self._module = params, library, library.imported
        self._packers, self._several = packers, place is not None
        self._same = None if deciding else library.same(self._module)  # which says nothing of numbers
        self._records: tuple[dict, dict] = ({}, {})
        self.text = "\n".join(self._text())
        scope = {
            "_missing": object(), "_general": general, "_full": self._records[0], "_short": self._records[1], "_numbers": _NUMBERS,
            "_last_full": self._record(0, _unlike, 0, ()), "_last_short": self._record(1, _unlike, 0, ()), "_seen": None,
            "_module": self._module, "_pointer": library.address(self._module), "_stream": library.stream(self._module), "_place": place,
            "_current": library.current(self._module), "_partial": partial,
            "_enqueue": raw_launch[0], "_success": raw_launch[1], **{f"_packer_{name}": packer for name, packer in packers.items()},
        }  # fmt: skip
        exec(compile(self.text, f"<fast path for {library.module}>", "exec"), scope)
        self.call = scope["_call"]
        self._keys: tuple[Callable, Callable] = (scope["_full_key"], scope["_short_key"])

    def remember(self, values: Mapping[str, Any], prepared: Prepared) -> None:
        """Have calls like this one take the fast path; `values` are all arguments, without outputs that it allocates."""
        short = int(bool(prepared.outs))
        given = self._given(short)
        if set(values) != {p.name for p in given} or not prepared.steps:
            return
        records, key = self._records[short], self._keys[short](*(values[p.name] for p in given))
        if key in records:
            return
        if len(records) >= _LIMIT:
            records.clear()
        arrays = [values[p.name] for p in given if p.array]
        makers = [maker(arrays, o.name, o.shape, o.dtype, prepared.device) for o in prepared.outs]
        same = self._same(arrays) if self._same else None
        records[key] = self._record(short, same, prepared.device, self._row(prepared, short, key[-1], makers))

    def _record(self, short: int, same: Callable | None, device: int, row: tuple) -> tuple:
        """That of a key of which no call was made twice. Calls that allocate outputs have new memory each, and are never like the last."""
        known = () if short else (None, *(None for _ in self._params), None, None)
        return (*((same,) if self._same else ()), device, *known, row)

    def _columns(self, short: int) -> str:
        """What a record has."""
        known = [] if short else ["_was_queue", *(f"_was_{p.name}" for p in self._params), "_launch", "_held"]
        return ", ".join([*(["_same"] if self._same else []), "_device", *known, "_row"])

    def _row(self, prepared: Prepared, short: int, low: Any, makers: list) -> tuple:
        """What `_ROW` names, where each array ends from its address on, what allocates; `low` says where arrays lie modulo 16 bytes."""
        step, extents = prepared.single, {e.name: e for e in prepared.extents}
        ends = (extents[p.name].high for p in self._given(short) if p.array)
        new = prepared.slot if step else translated()(prepared.run)
        return (prepared.slots, new, prepared.pack, step and step.configs, step and step.function, low, *ends, *makers)

    # ---- the text ----------------------------------------------------------------------------------------------------

    def _given(self, short: int) -> list[Parameter]:
        return [p for p in self._params if not (short and p.mode == "out")]

    def _text(self) -> list[str]:
        names = [p.name for p in self._params]
        outs = len(names) - len(self._given(1))
        lines = [f"def _call({', '.join(f'{name}=_missing' for name in names)}, /, *_more, **_others):"]
        lines += ["    global _last_full, _seen", f"    if {names[-1]} is not _missing and not _more and not _others:", *self._branch(0)]
        if outs:
            lines += ["    elif not _more and not _others:", *self._branch(1)]
        return lines + self._in_full(names) + self._key_functions()

    def _in_full(self, names: list[str]) -> list[str]:
        """Calls with arguments by name, put in order where that is all there is to it; and calls in full, as they came."""
        inputs = [p.name for p in self._given(1)]
        return [
            f"    return _otherwise([{', '.join(names)}], _more, _others)",
            "",
            "def _otherwise(values, more, others):",
            "    args = [value for value in values if value is not _missing]",
            f"    given = dict(zip({names!r}, args))",
            "    if others and not more and given.keys().isdisjoint(others):",
            "        given.update(others)",
            f"        for names in {names!r}, {inputs!r}:",
            "            if given.keys() == set(names):",
            "                return _call(*[given[name] for name in names])",
            "    return _general([*args, *more], others)",
            "",
        ]

    def _key_functions(self) -> list[str]:
        lines = []
        for short, kind in enumerate(("full", "short")):
            names = self._variables(short)
            given = "".join(f"{names[p.name]}, " for p in self._given(short))
            lines += [
                f"def _{kind}_key({given}):",
                *(f"    {line}" for line in self._addresses(short)),
                f"    _low = {self._low(short)}",
                f"    return ({self._key(short)})",
                "",
                f"def _find_{kind}({given}_low):",
                f"    global _last_{kind}",
                f"    _last_{kind} = _found = _{kind}[{self._key(short)}]",
                "    return _found",  # another thread may have found another since
                "",
            ]
        return lines

    def _variables(self, short: int) -> dict[str, str]:
        """The variable that has each argument: arguments without outputs come in the first of them, whatever these are called."""
        given = zip(self._given(short), self._params)
        return {p.name: f"_new_{p.name}" for p in self._params if p.mode == "out"} | {p.name: at.name for p, at in given}

    def _key(self, short: int) -> str:
        names, library = self._variables(short), self._library
        text = ", ".join([library.key, *([library.place] if self._several and library.place else [])])
        decisive = (p for p in self._given(short) if p.array or p.name in self.deciding)
        parts = (text.format(names[p.name]) if p.array else names[p.name] for p in decisive)
        return "".join(f"{part}, " for part in (*parts, "_low")).rstrip()

    def _addresses(self, short: int) -> list[str]:
        names = self._variables(short)
        return [f"_at_{p.name} = {self._library.pointer.format(names[p.name])}" for p in self._given(short) if p.array]

    def _low(self, short: int) -> str:
        """Where the arrays lie modulo 16 bytes: 0 where all are at multiples of it."""
        places = [f"_at_{p.name}" for p in self._given(short) if p.array]
        each = "".join(f"{place} & 15, " for place in places)
        return f"({' | '.join(places)}) & 15 and ({each})" if places else "0"

    def _branch(self, short: int) -> list[str]:
        """The calls with all arguments, or with all but the outputs."""
        given, names = self._given(short), self._variables(short)
        arrays, outs = [p.name for p in given if p.array], [p.name for p in self._params if p.mode == "out"]
        values, row = self._values(names), self._row_columns(arrays, outs if short else [])
        result = names[outs[0]] if len(outs) == 1 else f"({', '.join(names[o] for o in outs)})" if outs else "None"
        found = f"_find_{('full', 'short')[short]}({', '.join([*(names[p.name] for p in given), '_low'])})"
        elsewhere = [
            f"if (_low := {self._low(short)}) != _lies:",
            f"    {self._columns(short)} = {found}",
            f"    {row} = _row",
        ]
        written = [
            f"{row} = _row",
            *(elsewhere if self._same else []),  # else it was looked up
            "_launch = None",
            f"if {' or '.join(self._refusals(arrays, given, names))}:",
            "    raise ValueError",
            *(self._made(outs, names) if short else []),
            "if _function is not None:",
            "    _slot = _slots.pop() if _slots else _new()",
            "    _memory, _address, _ = _slot",
            f"    _pack(_memory, 0, {values})",
            "    _config = _configs[_queue]",
        ]
        again = [
            f"if {' or '.join(self._changed(names))}:",
            *(f"    {line}" for line in written),
            *(f"        {line}" for line in self._kept(names)),
        ]
        inside = [
            *self._addresses(short),
            *self._looked_up(short, [names[a] for a in arrays], found),
            *(["if _current() != _device:", "    raise ValueError"] if self._several else []),
            f"_queue = {self._library.queue}",
            *(written if short else again),
        ]
        return [
            "        try:",
            *(f"            {line}" for line in inside),
            "        except Exception:",
            "            pass",
            "        else:",
            "            if _launch is not None:",
            "                _status = _launch()[0]",
            "            elif _function is not None:",
            "                _status = _enqueue(_config, _function, _address, 0)[0]",
            "                _slots.append(_slot)",
            "            else:",
            f"                _status = _new(({values}), _queue)",
            "            if _status is _success:",
            f"                return {result}",
        ]

    def _looked_up(self, short: int, arrays: list[str], found: str) -> list[str]:
        kind, columns, low = ("full", "short")[short], self._columns(short), f"_low = {self._low(short)}"
        if not self._same:
            return [low, f"{columns} = _{kind}[{self._key(short)}]"]
        return [f"{columns} = _last_{kind}", f"if not _same({', '.join(arrays)}):", f"    {low}", f"    {columns} = {found}"]

    def _row_columns(self, arrays: list[str], new: list[str]) -> str:
        return ", ".join([*(f"_{part}" for part in _ROW), *(f"_end_{a}" for a in arrays), *(f"_make_{name}" for name in new)])

    def _values(self, names: dict[str, str]) -> str:
        """What is packed, in the order of the plan: addresses, then scalars."""
        scalars = [p.name for p in self._params if not p.array]
        values = [f"_at_{p.name}" for p in self._params if p.array]
        values += [f"_packer_{name}({names[name]})" if name in self._packers else names[name] for name in scalars]
        return "".join(f"{value}, " for value in values).rstrip()

    def _changed(self, names: dict[str, str]) -> list[str]:
        """What differs from the call of the record. Numbers are compared as objects, for 1.0 is no 1, nor -0.0 0.0."""
        parts = (f"_at_{p.name} != _was_{p.name}" if p.array else f"{names[p.name]} is not _was_{p.name}" for p in self._params)
        return [*parts, "_queue != _was_queue"]

    def _kept(self, names: dict[str, str]) -> list[str]:
        """A call that is made a second time running becomes the record of its key, and keeps its parameters."""
        now = ", ".join([*(f"_at_{p.name}" if p.array else names[p.name] for p in self._params)])
        record = f"({'_same, ' if self._same else ''}_device, _queue, {now}, _launch, _slot, _row)"
        store = "_last_full" if self._same else f"_full[{self._key(0)}]"
        return [
            f"_now = _device, _queue, {now}",
            "if _now == _seen:",
            "    _launch = _partial(_enqueue, _config, _function, _address, 0)",
            f"    _held, {store} = _slot, {record}",
            "else:",
            "    _seen = _now",
        ]

    def _made(self, new: list[str], names: dict[str, str]) -> list[str]:
        """Outputs that the call allocates."""
        lines = []
        for o in new:
            lines.append(f"{names[o]} = _make_{o}()")
            lines.append(f"_at_{o} = {self._library.pointer.format(names[o])}")
        return [*lines, f"if ({' | '.join(f'_at_{o}' for o in new)}) & 15:", "    raise ValueError"]

    def _refusals(self, arrays: list[str], given: list[Parameter], names: dict[str, str]) -> list[str]:
        """What the key does not imply: that the memory is there, and that what is written overlaps nothing; that scalars are plain
        numbers."""
        modes = {p.name: p.mode for p in given}
        tests = [f"type({names[p.name]}) not in _numbers" for p in given if not p.array]
        tests += [f"not _at_{a}" for a in arrays]
        pairs = [(a, b) for at, a in enumerate(arrays) for b in arrays[at + 1 :] if {modes[a], modes[b]} != {"in"}]
        return tests + [f"_at_{a} < _at_{b} + _end_{b} and _at_{b} < _at_{a} + _end_{a}" for a, b in pairs]
