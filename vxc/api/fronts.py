"""The fast path: for one kernel and one array library, Python functions written for its signature.

    def _call(x=_missing, y=_missing, n=_missing, /, *_more, **_others):
        ..
                _same, _device, _was_queue, _was_x, _was_y, _was_n, _launch, _row = _last_full
                if not _same(x, y):
                    .. = _find_full(x, y, n)
                _at_x, _at_y, _queue = _pointer(x), _pointer(y), _stream(_device)
                ..
                if _at_x == _was_x and _at_y == _was_y and n is _was_n and _queue == _was_queue:
                    if _launch()[0] is _success:
                        return y
                elif _write_full(_row, _queue, _at_x, _at_y, n) is _success:
                    return y

What decides how a call runs is its *key*: shapes, dtypes, strides, the device. To each key belongs a *record*: the last call that was
made twice running, with parameters of its own, which nobody writes again. A call like the last one is known by one question to the
library, where it has a quick one, any other by one dict hit on its key. Where memory, numbers and stream are those of the record, its
launch is made again. Else the parameters are written, once it was seen that the memory is there, and that what is written overlaps
nothing. What is compiled also follows from where arrays lie modulo 16 bytes: calls of one key that lie otherwise than the last are found
by one dict hit more. Anything unusual, errors too, goes to `general`, which says what is wrong.

A call costs what its functions and their variables do, so what is not needed to repeat one is in functions of its own.
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
from vxc.api.traced import untraced
from vxc.diag import VxcError

_LIMIT = 4096  # remembered calls of a kernel
_ROW = ("ways", "lies", "slots", "new", "pack", "configs", "function")  # of several launches, `new` is the plan's `run`
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
    an address to its device, is None where there is one device. `renamed` gives keywords their parameters' names, None if they have them.
    """

    def __init__(
        self, params: Sequence[Parameter], library: Library, deciding: frozenset[str], packers: Mapping[str, Callable],
        general: Callable, raw_launch: tuple[Callable, Any], place: Callable[[int], int] | None, renamed: Callable | None,
    ) -> None:  # fmt: skip
        self.deciding = deciding
        self._params, self._library, self._module = params, library, library.imported
        self._packers, self._several, self._renames = packers, place is not None, renamed is not None
        self._same = None if deciding else library.same(self._module)  # which says nothing of numbers
        self._records: tuple[dict, dict] = ({}, {})
        self.text = "\n".join(self._text())
        scope = {
            "_missing": object(), "_general": general, "_full": self._records[0], "_short": self._records[1], "_numbers": _NUMBERS,
            "_last_full": self._record(0, _unlike, 0, ()), "_last_short": self._record(1, _unlike, 0, ()),
            "_seen": (None,) * (len(params) + 2),  # the arguments of the last call, its stream and device
            "_module": self._module, "_pointer": library.address(self._module), "_stream": library.stream(self._module), "_place": place,
            "_renamed": renamed, "_current": library.current(self._module), "_partial": partial, "_Error": VxcError,
            "_enqueue": raw_launch[0], "_success": raw_launch[1], **{f"_packer_{name}": packer for name, packer in packers.items()},
        }  # fmt: skip
        exec(compile(self.text, f"<fast path for {library.module}>", "exec"), scope)
        self.call = untraced(scope["_call"])
        self._keys: tuple[Callable, Callable] = (scope["_full_key"], scope["_short_key"])

    def remember(self, values: Mapping[str, Any], prepared: Prepared) -> None:
        """Have calls like this one take the fast path; `values` are all arguments, without outputs that it allocates."""
        short = int(bool(prepared.outs))
        given = self._given(short)
        if set(values) != {p.name for p in given} or not prepared.steps:
            return
        records, (key, low) = self._records[short], self._keys[short](*(values[p.name] for p in given))
        ways = records[key][-1][len(self._class())] if key in records else {}
        if low in ways:
            return
        for known in (records, ways):
            if len(known) >= _LIMIT:
                known.clear()
        arrays = [values[p.name] for p in given if p.array]
        makers = [maker(arrays, o.name, o.shape, o.dtype, prepared.device) for o in prepared.outs]
        same = self._same(arrays) if self._same else None
        ways[low] = row = self._row(prepared, short, same, (ways, low), makers)
        records.setdefault(key, self._record(short, same, prepared.device, row))

    def _record(self, short: int, same: Callable | None, device: int, row: tuple) -> tuple:
        """That of a key of which no call was made twice. Calls that allocate outputs have new memory each, and are never like the last."""
        known = () if short else (None, *(None for _ in self._params), None)
        return (*((same,) if self._same else ()), device, *known, row)

    def _columns(self, short: int) -> str:
        """What a record has."""
        known = [] if short else ["_was_queue", *(f"_was_{p.name}" for p in self._params), "_launch"]
        return ", ".join([*self._class(), *known, "_row"])

    def _class(self) -> list[str]:
        return [*(["_same"] if self._same else []), "_device"]

    def _row(self, prepared: Prepared, short: int, same: Callable | None, lies: tuple[dict, Any], makers: list) -> tuple:
        """What is common to the calls of a key that lie alike: what `_class` and `_ROW` name, where each array ends from its address on,
        what allocates; `ways` has the rows of the key by where arrays lie modulo 16 bytes.
        """
        step, extents = prepared.single, {e.name: e for e in prepared.extents}
        ends = (extents[p.name].high for p in self._given(short) if p.array)
        new = prepared.slot if step else translated()(prepared.run)
        own = (*((same,) if self._same else ()), prepared.device)
        return (*own, *lies, prepared.slots, new, prepared.pack, step and step.configs, step and step.function, *ends, *makers)

    # ---- the text ----------------------------------------------------------------------------------------------------

    def _given(self, short: int) -> list[Parameter]:
        return [p for p in self._params if not (short and p.mode == "out")]

    def _text(self) -> list[str]:
        names = [p.name for p in self._params]
        lines = [
            f"def _call({', '.join(f'{name}=_missing' for name in names)}, /, *_more, **_others):",
            "    try:",
            f"        if {names[-1]} is not _missing and not _more and not _others:",
            *(f"            {line}" for line in self._repeated()),
        ]
        if len(self._given(1)) < len(names):
            given = ", ".join(names[: len(self._given(1))])
            lines += [
                "        elif not _more and not _others:",
                f"            _made = _allocating({given})",
                "            if _made is not _missing:",
                "                return _made",
            ]
        lines += [
            f"        return _otherwise([{', '.join(names)}], _more, _others)",
            "    except _Error as _error:",
            "        _error.__traceback__ = None",  # as `translated` does
            "        raise",
            "",
        ]
        return lines + self._written(0) + self._written(1) + self._in_full(names) + self._key_functions()

    def _in_full(self, names: list[str]) -> list[str]:
        """Calls with arguments by name, put in order where that is all there is to it; and calls in full, as they came."""
        inputs = [p.name for p in self._given(1)]
        return [
            "def _otherwise(values, more, others):",
            *(["    others = _renamed(others)"] if self._renames else []),
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
            given = ", ".join(names[p.name] for p in self._given(short))
            lines += [
                f"def _{kind}_key({given}):",
                *(f"    {line}" for line in self._addresses(short)),
                f"    return ({self._key(short)}), {self._low(short)}",
                "",
                f"def _find_{kind}({given}):",
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
        return "".join(f"{part}, " for part in parts).rstrip() or "()"

    def _addresses(self, short: int) -> list[str]:
        names = self._variables(short)
        return [f"_at_{p.name} = {self._library.pointer.format(names[p.name])}" for p in self._given(short) if p.array]

    def _low(self, short: int) -> str:
        """Where the arrays of a call lie modulo 16 bytes: 0 where all are at multiples of that."""
        places = [f"_at_{p.name}" for p in self._given(short) if p.array]
        each = "".join(f"{place} & 15, " for place in places)
        return f"({' | '.join(places)}) & 15 and ({each})" if places else "0"

    def _repeated(self) -> list[str]:
        """The calls with all arguments: the record's launch again, or parameters written anew."""
        names = self._variables(0)
        key = "_key, " if not self._same else ""
        values = ", ".join(f"_at_{p.name}" if p.array else p.name for p in self._params)
        return [
            *self._read(0),
            "except Exception:",
            "    pass",
            "else:",
            f"    if {' and '.join(self._alike(names))}:",
            "        if _launch()[0] is _success:",
            f"            return {self._result(names)}",
            f"    elif _write_full({key}_row, _queue, {values}) is _success:",
            f"        return {self._result(names)}",
        ]

    def _read(self, short: int) -> list[str]:
        """What is known of such calls, and where the arrays are now; the `try` is for whoever asks to end."""
        given, names, columns = self._given(short), self._variables(short), self._columns(short)
        kind, arrays = ("full", "short")[short], [names[p.name] for p in given if p.array]
        if self._same:
            found = f"{columns} = _find_{kind}({', '.join(names[p.name] for p in given)})"
            looked_up = [f"{columns} = _last_{kind}", f"if not _same({', '.join(arrays)}):", f"    {found}"]
        else:
            looked_up = [f"_key = {self._key(short)}", f"{columns} = _{kind}[_key]"]
        lines = [
            *looked_up,
            *self._addresses(short),
            *(["if _current() != _device:", "    raise ValueError"] if self._several else []),
            f"_queue = {self._library.queue}",
        ]
        return ["try:", *(f"    {line}" for line in lines)]

    def _written(self, short: int) -> list[str]:
        """The function that writes the parameters of a call anew and launches, and gives the status, None where `general` is to look;
        or that of calls that allocate outputs, which gives these, or `_missing`.
        """
        given, names = self._given(short), self._variables(short)
        arrays, outs = [p.name for p in given if p.array], [p.name for p in self._params if p.mode == "out"]
        if short and not outs:
            return []
        nothing, row = "_missing" if short else "None", self._row_columns(arrays, outs if short else [])
        values = self._values(names)
        if short:
            head = [f"def _allocating({', '.join(names[p.name] for p in given)}):", *(f"    {line}" for line in self._read(1))]
        else:
            key = "_key, " if not self._same else ""
            taken = ", ".join(f"_at_{p.name}" if p.array else p.name for p in given)
            head = [f"def _write_full({key}_row, _queue, {taken}):", "    global _last_full, _seen", "    try:"]
        inside = [
            f"{row} = _row",
            f"if (_low := {self._low(short)}) != _lies:",
            "    _row = _ways[_low]",
            f"    {row} = _row",
            f"if {' or '.join(self._refusals(arrays, given, names)) or 'False'}:",
            f"    return {nothing}",
            *(self._made(outs, names) if short else []),
            "if _function is None:",
            f"    _values = ({values})",
            "else:",
            "    _slot = _slots.pop() if _slots else _new()",
            "    try:",
            "        _memory, _address, _ = _slot",
            f"        _pack(_memory, 0, {values})",
            "        _config = _configs[_queue]",
            "    except BaseException:",
            "        _slots.append(_slot)",
            "        raise",
        ]
        behind = [
            "if _function is None:",
            "    _status = _new(_values, _queue)",
            "else:",
            *([] if short else (f"    {line}" for line in self._kept())),
            "    try:",
            "        _status = _enqueue(_config, _function, _address, 0)[0]",
            "    finally:",
            "        _slots.append(_slot)",
            f"return {self._result(names)} if _status is _success else _missing" if short else "return _status",
        ]
        lines = [*(f"        {line}" for line in inside), "    except Exception:", f"        return {nothing}"]
        return [*head, *lines, *(f"    {line}" for line in behind), ""]

    def _result(self, names: dict[str, str]) -> str:
        outs = [names[p.name] for p in self._params if p.mode == "out"]
        return outs[0] if len(outs) == 1 else f"({', '.join(outs)})" if outs else "None"

    def _row_columns(self, arrays: list[str], new: list[str]) -> str:
        own = [*(f"_{part}" for part in _ROW), *(f"_end_{a}" for a in arrays), *(f"_make_{name}" for name in new)]
        return ", ".join([*self._class(), *own])

    def _values(self, names: dict[str, str]) -> str:
        """What is packed, in the order of the plan: addresses, then scalars."""
        scalars = [p.name for p in self._params if not p.array]
        values = [f"_at_{p.name}" for p in self._params if p.array]
        values += [f"_packer_{name}({names[name]})" if name in self._packers else names[name] for name in scalars]
        return "".join(f"{value}, " for value in values).rstrip()

    def _alike(self, names: dict[str, str]) -> list[str]:
        """What is as in the call of the record, or in the one before. Numbers are compared as objects, for 1.0 is no 1, nor -0.0 0.0, and
        to compare NumPy's may warn."""
        parts = (f"_at_{p.name} == _was_{p.name}" if p.array else f"{names[p.name]} is _was_{p.name}" for p in self._params)
        return [*parts, "_queue == _was_queue"]

    def _kept(self) -> list[str]:
        """A call that is made a second time running becomes the record of its key, and keeps its parameters."""
        now, was = (", ".join(f"{at}_{p.name}" if p.array or at == "_was" else p.name for p in self._params) for at in ("_at", "_was"))
        return [
            f"{was}, _was_queue, _was_device = _seen",
            f"if {' and '.join(self._alike(self._variables(0)))} and _device == _was_device:",
            "    _launch = _partial(_enqueue, _config, _function, _address, 0)",
            "    _launch.slot = _slot",  # held as long as the launch
            f"    {'_last_full' if self._same else '_full[_key]'} = {', '.join(self._class())}, _queue, {now}, _launch, _row",
            "    return _launch()[0]",
            f"_seen = {now}, _queue, _device",
        ]

    def _made(self, new: list[str], names: dict[str, str]) -> list[str]:
        """Outputs that the call allocates."""
        lines = []
        for o in new:
            lines.append(f"{names[o]} = _make_{o}()")
            lines.append(f"_at_{o} = {self._library.pointer.format(names[o])}")
        return [*lines, f"if ({' | '.join(f'_at_{o}' for o in new)}) & 15:", "    return _missing"]

    def _refusals(self, arrays: list[str], given: list[Parameter], names: dict[str, str]) -> list[str]:
        """What the key does not imply: that the memory is there, and that what is written overlaps nothing; that scalars are plain
        numbers."""
        modes = {p.name: p.mode for p in given}
        tests = [f"type({names[p.name]}) not in _numbers" for p in given if not p.array]
        tests += [f"not _at_{a}" for a in arrays]
        pairs = [(a, b) for at, a in enumerate(arrays) for b in arrays[at + 1 :] if {modes[a], modes[b]} != {"in"}]
        return tests + [f"-_end_{a} < _at_{a} - _at_{b} < _end_{b}" for a, b in pairs]
