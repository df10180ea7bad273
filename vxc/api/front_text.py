"""The text of a kernel's fast path: Python functions written for its signature and an array library, as `fronts` describes them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations

from vxc.api.arguments import Parameter
from vxc.api.libraries import Library

ROW = ("ways", "lies", "apart", "slots", "new", "pack", "configs", "function")  # of a program, `new` is the plan's `run`
MOST = 4096  # launches of a kernel that are kept


class FrontText:
    """`deciding` names scalars that are part of the key, `packed` those that go through a function first. `asks` says that the library
    has a quick question, `several` that there are several devices, `renames` that keywords may have other names than their parameters.
    """

    def __init__(
        self, params: Sequence[Parameter], library: Library, deciding: Collection[str], packed: Collection[str], *,
        asks: bool, several: bool, renames: bool,
    ) -> None:  # fmt: skip
        self._params, self._library, self._deciding, self._packed = params, library, deciding, packed
        self._asks, self._several, self._renames = asks, several, renames

    def given(self, short: int) -> list[Parameter]:
        """The parameters of calls with all arguments, or of those that allocate outputs."""
        return [p for p in self._params if not (short and p.mode == "out")]

    def lines(self) -> list[str]:
        """All functions: `_call`, `_full_key` and `_short_key` are asked for."""
        names = [_local(p) for p in self._params]
        lines = [
            f"def _call({', '.join(f'{name}=_missing' for name in names)}, /, *_more, **_others):",
            "    global _last",
            "    try:",
            f"        if {names[-1]} is not _missing and not _more and not _others:",
            *(f"            {line}" for line in self._repeated()),
        ]
        if len(self.given(1)) < len(names):
            given = ", ".join(names[: len(self.given(1))])
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
        return lines + self._written(0) + self._written(1) + self._in_full() + self._key_functions()

    def _in_full(self) -> list[str]:
        """Calls with arguments by name, put in order where that is all there is to it; and calls in full, as they came."""
        names, inputs = [_local(p) for p in self._params], [_local(p) for p in self.given(1)]
        outs = [_local(p) for p in self._params if p.mode == "out"]
        return [
            "def _otherwise(values, more, others):",
            "    if others and not more:",
            "        placed = values.copy()",
            "        try:",
            f"            for name, value in {'_renamed(others)' if self._renames else 'others'}.items():",
            "                at = _places[name]",
            "                if placed[at] is not _missing:",
            "                    raise LookupError",
            "                placed[at] = value",
            "        except (LookupError, _Error):",
            "            pass",
            "        else:",
            f"            {''.join(f'{name}, ' for name in names)}= placed",
            f"            if {_all(inputs, 'is not')}:",
            f"                if {_all(outs, 'is not')}:",
            f"                    return _call({', '.join(names)})",
            f"                if {_all(outs, 'is')}:",
            f"                    return _call({', '.join(inputs)})",
            "    return _general([*[value for value in values if value is not _missing], *more], others)",
            "",
        ]

    def _key_functions(self) -> list[str]:
        lines = []
        for short, kind in enumerate(("full", "short")):
            names = self._variables(short)
            given, arrays = (", ".join(names[p.name] for p in self.given(short) if p.array or not only) for only in (False, True))
            found = [f"_found = _{kind}[_key]"]
            if self._asks:
                found = [
                    f"_shapes = ({''.join(f'{names[p.name]}.shape, ' for p in self.given(short) if p.array).rstrip()})",
                    f"_found = _shaped_{kind}.get(_shapes)",
                    f"if _found is None or not _found[0]({arrays}):",
                    f"    _found = _shaped_{kind}[_shapes] = _{kind}[{self._key(short)}]",
                ]
            lines += [
                f"def _{kind}_key({given}):",
                *(f"    {line}" for line in self._addresses(short)),
                f"    return ({self._key(short)}), {self._low(short)}, ({self._distances(short)})",
                "",
                f"def _find_{kind}({arrays if self._asks else '_key'}):",
                f"    global _last_{kind}",
                *(f"    {line}" for line in found),
                f"    _last_{kind} = _found",
                "    return _found",  # another thread may have found another since
                "",
            ]
        return lines

    def _variables(self, short: int) -> dict[str, str]:
        """The variable that has each argument: arguments without outputs come in the first of them, whatever these are called."""
        given = zip(self.given(short), self._params)
        return {p.name: f"_new_{p.name}" for p in self._params if p.mode == "out"} | {p.name: _local(at) for p, at in given}

    def _key(self, short: int) -> str:
        names, library = self._variables(short), self._library
        text = ", ".join([library.key, *([library.place] if self._several and library.place else [])])
        decisive = (p for p in self.given(short) if p.array or p.name in self._deciding)
        parts = (text.format(names[p.name]) if p.array else names[p.name] for p in decisive)
        return "".join(f"{part}, " for part in parts).rstrip() or "()"

    def _addresses(self, short: int) -> list[str]:
        names = self._variables(short)
        return [f"_at_{p.name} = {self._library.pointer.format(names[p.name])}" for p in self.given(short) if p.array]

    def pairs(self, short: int) -> list[tuple[str, str]]:
        """Arrays that a call is given of which one is written."""
        modes = {p.name: p.mode for p in self.given(short) if p.array}
        return [(a, b) for a, b in combinations(modes, 2) if {modes[a], modes[b]} != {"in"}]

    def _distances(self, short: int) -> str:
        """How far apart the two of each pair begin."""
        return "".join(f"_at_{a} - _at_{b}, " for a, b in self.pairs(short)).rstrip()

    def _low(self, short: int) -> str:
        """Where the arrays of a call lie modulo 16 bytes: 0 where all are at multiples of that."""
        places = [f"_at_{p.name}" for p in self.given(short) if p.array]
        each = "".join(f"{place} & 15, " for place in places)
        return f"({' | '.join(places)}) & 15 and ({each})" if places else "0"

    def _odd(self, short: int) -> str:
        """What is true if that is not 0, before an `or`."""
        return "".join(f"_at_{p.name} & 15 or " for p in self.given(short) if p.array)

    def _repeated(self) -> list[str]:
        """The calls with all arguments: the launch that was kept for such a one, or parameters written anew."""
        names, entry, places = self._variables(0), ", ".join(self.entry()), self._places()
        arrays = ", ".join(names[p.name] for p in self._params if p.array)
        alike = [f"{_local(p)} is _was_{p.name}" for p in self._params if not p.array]
        return [
            "try:",
            *([] if self._asks else [f"    _key = {self._key(0)}"]),
            *(f"    {line}" for line in self._addresses(0)),
            *(["    _device = _current()"] if self._several else []),
            f"    _queue = {self._library.queue}",
            f"    {entry} = _last",
            f"    if {' or '.join(f'{now} != {was}' for now, was in zip(places, self.entry()))}:",
            f"        {entry} = _last = _kept.get({_tuple(places)}, _none)",
            f"    _again = {' and '.join([*alike, f'_same({arrays})' if self._asks else '_key == _known'])}",
            "except Exception:",
            "    pass",
            "else:",
            "    if _again:",
            "        if not _launch():",
            f"            return {self._result(names)}",
            f"    elif _write_full({self._taken()}):",
            f"        return {self._result(names)}",
        ]

    def _places(self) -> list[str]:
        """What a launch that is kept is found by: where arrays are now, the stream, and the current device where there are several."""
        return [*(f"_at_{p.name}" for p in self._params if p.array), "_queue", *(["_device"] if self._several else [])]

    def entry(self) -> list[str]:
        """What is kept with a launch: its places, what tells whether arrays are as they were, and the numbers."""
        known, numbers = "_same" if self._asks else "_known", [f"_was_{p.name}" for p in self._params if not p.array]
        return [*(f"_then{place}" for place in self._places()), known, *numbers, "_launch"]

    def _taken(self) -> str:
        """The arguments of `_write_full`."""
        return ", ".join([*map(_local, self._params), *self._places(), *([] if self._asks else ["_key"])])

    def _record_of(self, short: int) -> list[str]:
        """What is known of such calls."""
        kind, names = ("full", "short")[short], self._variables(short)
        columns = "_same, _device, _row" if self._asks else "_known, _device, _row"
        asked = ", ".join(names[p.name] for p in self.given(short) if p.array) if self._asks else "_key"
        other = f"if not _same({asked}):" if self._asks else "if _key != _known:"
        return [f"{columns} = _last_{kind}", other, f"    {columns} = _find_{kind}({asked})"]

    def _begun(self, short: int) -> list[str]:
        """How such a function begins: with the record of the call, and, for calls that allocate, where the inputs are now."""
        names, record = self._variables(short), [f"        {line}" for line in self._record_of(short)]
        if not short:
            several = "        _here = _device", "        if _here != _device:", "            raise ValueError"
            before, behind = (several[:1], several[1:]) if self._several else ((), ())
            return [f"def _write_full({self._taken()}):", "    global _last", "    try:", *before, *record, *behind]
        return [
            f"def _allocating({', '.join(names[p.name] for p in self.given(1))}):",
            "    try:",
            *([] if self._asks else [f"        _key = {self._key(1)}"]),
            *record,
            *(f"        {line}" for line in self._addresses(1)),
            *(["        if _current() != _device:", "            raise ValueError"] if self._several else []),
            f"        _queue = {self._library.queue}",
        ]

    def _written(self, short: int) -> list[str]:
        """The function that writes the parameters of a call anew and launches, and says whether that went well: if not, `general` is to
        look. Or that of calls that allocate outputs, which gives these, or `_missing`.
        """
        names = self._variables(short)
        outs = [p.name for p in self._params if p.mode == "out"]
        if short and not outs:
            return []
        nothing, row = "_missing" if short else "False", self._row_columns(short)
        values = self._values(names)
        head = self._begun(short)
        inside = [
            f"{row} = _row",
            f"if ({self._odd(short)}_lies) and (_low := {self._low(short)}) != _lies:",
            "    _row = _ways[_low]",
            f"    {row} = _row",
            f"if {' or '.join(self._refusals(short)) or 'False'}:",
            f"    return {nothing}",
            *(self._made(outs, names) if short else []),
            "if _function is None:",
            f"    _values = ({values})",
            "else:",
            "    _slot = _slots.pop() if _slots else _new()",
            "    try:",
            "        _memory, _table = _slot",
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
            "        _status = _enqueue(_config, _function, _table, None)",
            "    finally:",
            "        _slots.append(_slot)",
            f"return {self._result(names)} if _status == 0 else _missing" if short else "return _status == 0",
        ]
        lines = [*(f"        {line}" for line in inside), "    except Exception:", f"        return {nothing}"]
        return [*head, *lines, *(f"    {line}" for line in behind), ""]

    def _result(self, names: dict[str, str]) -> str:
        outs = [names[p.name] for p in self._params if p.mode == "out"]
        return outs[0] if len(outs) == 1 else f"({', '.join(outs)})" if outs else "None"

    def _row_columns(self, short: int) -> str:
        """What a row has."""
        pairs, new = self.pairs(short), [p.name for p in self._params if p.mode == "out" and short]
        bounds = [f"_{side}_{at}" for at in range(len(pairs)) for side in ("from", "to")]
        return ", ".join([*(f"_{part}" for part in ROW), *bounds, *(f"_make_{name}" for name in new)])

    def _values(self, names: dict[str, str]) -> str:
        """What is packed, in the order of the plan: addresses, then scalars."""
        scalars = [p.name for p in self._params if not p.array]
        values = [f"_at_{p.name}" for p in self._params if p.array]
        values += [f"_packer_{name}({names[name]})" if name in self._packed else names[name] for name in scalars]
        return "".join(f"{value}, " for value in values).rstrip()

    def _kept(self) -> list[str]:
        """A call that is made a second time, with no other on the same memory in between, keeps its parameters."""
        known, numbers = "_same" if self._asks else "_known", [_local(p) for p in self._params if not p.array]
        once = [f"_known_once is {known}", *(f"{now} is _once_{at}" for at, now in enumerate(numbers))]
        return [
            f"_one = {_tuple(self._places())}",
            f"{', '.join(['_known_once', *(f'_once_{at}' for at in range(len(numbers)))])}, = _once.get(_one, _never)",
            f"if {' and '.join(once)}:",
            f"    if len(_kept) >= {MOST}:",
            "        _kept.clear()",
            "    _launch = _partial(_enqueue, _config, _function, _table, None)",  # which holds the slot, too
            f"    _kept[_one] = _last = {', '.join([*self._places(), known, *numbers, '_launch'])}",
            "    return not _launch()",
            f"if len(_once) >= {MOST}:",
            "    _once.clear()",
            f"_once[_one] = {', '.join([known, *numbers])},",
        ]

    def _made(self, new: list[str], names: dict[str, str]) -> list[str]:
        """Outputs that the call allocates."""
        lines = []
        for o in new:
            lines.append(f"{names[o]} = _make_{o}()")
            lines.append(f"_at_{o} = {self._library.pointer.format(names[o])}")
        return [*lines, f"if ({' | '.join(f'_at_{o}' for o in new)}) & 15:", "    return _missing"]

    def _refusals(self, short: int) -> list[str]:
        """What the key does not imply: that the memory is there, and that what is written overlaps nothing, or lies in between as it did
        in a call that was checked in full; that scalars are plain numbers.
        """
        names, given = self._variables(short), self.given(short)
        tests = [f"type({names[p.name]}) not in _numbers" for p in given if not p.array]
        tests += [f"not _at_{p.name}" for p in given if p.array]
        apart = [f"_at_{a} - _at_{b}" for a, b in self.pairs(short)]
        return tests + [f"_from_{at} < {one} < _to_{at} and ({at}, {one}) not in _apart" for at, one in enumerate(apart)]


def _local(param: Parameter) -> str:
    """The variable that has an argument: no name of Python's own, nor one that the text uses."""
    return f"{param.name}_"


def _tuple(parts: Sequence[str]) -> str:
    return f"({', '.join(parts)},)"


def _all(names: list[str], test: str) -> str:
    return " and ".join(f"{name} {test} _missing" for name in names) or "True"
