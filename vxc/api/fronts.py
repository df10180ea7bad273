"""The fast path: for one kernel and one array library, a Python function written for its signature.

    def __call__(self, x=_missing, y=_missing, n=_missing, /, *_more, **_others):
        if not _others and not _more:
            if n is not _missing:
                try:
                    _same, _device, _function, .. = _last_full
                    if not _same(x, y):
                        _, _device, _function, .. = _find_full(x, y, n)
                    _at_x = _pointer(x)
                    ..

    def _find_full(x, y, n):
        _lone, _last_full = _full[x.shape, x.dtype, x.get_device(), x.is_contiguous(), y.shape, ..]
        ..

A call like the last one is known by one question to the library, any other by one dict hit on what decides how it runs; where memory and
numbers are the same, too, the parameters stand there already. What the key does not imply is looked at here: where the memory lies,
whether it overlaps, whether scalars fit. Anything unusual, errors too, goes to `general`, which says what is wrong.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vxc.api.arguments import Parameter
from vxc.api.errors import translated
from vxc.api.libraries import Library, maker
from vxc.api.prepared import Prepared

_LIMIT = 4096  # remembered calls of a kernel
# of a plan of several launches, `pop` is its `run` and `function` None
_COLUMNS = ("device", "pop", "push", "function", "rare")
_RARE = ("mask", "pack", "configs")


def writable(params: Sequence[Parameter]) -> bool:
    """Whether Python can have the parameters, which are no words of its own, and take them for none of the names used here."""
    names = [p.name for p in params]
    return names != [] and all(n.isidentifier() and not keyword.iskeyword(n) and n[0] != "_" and n != "self" for n in names)


def _unlike(*_: Any) -> bool:
    """For calls that only their key tells apart from others."""
    return False


def _nothing(new: int) -> tuple:
    """A row that no call has, of as many columns as one with so many outputs to allocate."""
    return (_unlike, *(None for _ in range(len(_COLUMNS) + new)))


class Front:
    """`call` is the function; `remember` has it know a call. `deciding` names scalars that are part of the key, `packers` the functions
    that scalars go through which `struct` does not pack as they are. `general(kernel, args, keywords)` is a call in full.
    """

    def __init__(
        self, params: Sequence[Parameter], library: Library, deciding: frozenset[str], packers: Mapping[str, Callable],
        general: Callable, raw_launch: tuple[Callable, Any], several_devices: bool,
    ) -> None:  # fmt: skip
        self.deciding = deciding
        self._params, self._library, self._module = params, library, library.imported
        self._packers, self._several = packers, several_devices
        self._records: tuple[dict, dict] = ({}, {})
        self.text = "\n".join(self._text())
        scope = {
            "_missing": object(), "_general": general, "_full": self._records[0], "_short": self._records[1],
            "_numbers": (int, float, bool), "_last_full": _nothing(0), "_last_short": _nothing(sum(p.mode == "out" for p in params)),
            "_pointer": library.address(self._module), "_stream": library.stream(self._module),
            "_current": library.current(self._module),
            "_enqueue": raw_launch[0], "_success": raw_launch[1], **{f"_packer_{name}": packer for name, packer in packers.items()},
        }  # fmt: skip
        exec(compile(self.text, f"<fast path for {library.module}>", "exec"), scope)
        self.call = scope["__call__"]
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
        numbers = any(p.name in self.deciding for p in given)  # of which `same` says nothing
        same = None if numbers else self._library.same(self._module, arrays)
        lone = any(e.high <= e.itemsize for e in prepared.extents)
        records[key] = lone, (same or _unlike, *self._row(prepared, short, makers))

    def _row(self, prepared: Prepared, short: int, makers: list) -> tuple:
        """What `_columns` names; `mask` has the bits of addresses that must be 0."""
        step = prepared.single
        extents = {e.name: e for e in prepared.extents}
        ends = (extents[p.name].high for p in self._given(short) if p.array)
        mask = max((e.itemsize for e in prepared.extents), default=1) - 1
        rare = (mask, prepared.pack, step and step.configs, *ends)
        pop = prepared.slots.pop if step else translated()(prepared.run)
        return (prepared.device, pop, prepared.slots.append, step and step.function, rare, *makers)

    # ---- the text ----------------------------------------------------------------------------------------------------

    def _given(self, short: int) -> list[Parameter]:
        return [p for p in self._params if not (short and p.mode == "out")]

    def _text(self) -> list[str]:
        names = [p.name for p in self._params]
        outs = len(names) - len(self._given(1))
        lines = [f"def __call__(self, {', '.join(f'{name}=_missing' for name in names)}, /, *_more, **_others):"]
        lines += ["    if not _others and not _more:", f"        if {names[-1]} is not _missing:", *self._branch(0)]
        if outs:
            lines += ["        else:", *self._branch(1)]
        return lines + self._in_full(names) + self._key_functions()

    def _in_full(self, names: list[str]) -> list[str]:
        """Calls with arguments by name, put in order where that is all there is to it; and calls in full, as they came."""
        inputs = [p.name for p in self._given(1)]
        return [
            f"    return _otherwise(self, [{', '.join(names)}], _more, _others)",
            "",
            "def _otherwise(kernel, values, more, others):",
            "    args = [value for value in values if value is not _missing]",
            f"    given = dict(zip({names!r}, args))",
            "    if others and not more and given.keys().isdisjoint(others):",
            "        given.update(others)",
            f"        for names in {names!r}, {inputs!r}:",
            "            if given.keys() == set(names):",
            "                return kernel(*[given[name] for name in names])",
            "    return _general(kernel, [*args, *more], others)",
            "",
        ]

    def _key_functions(self) -> list[str]:
        lines = []
        for short, kind in enumerate(("full", "short")):
            names = self._variables(short)
            given = ", ".join(names[p.name] for p in self._given(short))
            lines += [
                f"def _{kind}_key({given}):",
                f"    return ({self._key(short)})",
                "",
                f"def _find_{kind}({given}):",
                f"    global _last_{kind}",
                f"    _lone, _row = _{kind}[{self._key(short)}]",
                *self._lazy([names[p.name] for p in self._given(short) if p.array]),
                f"    _last_{kind} = _row",
                "    return _row",
                "",
            ]
        return lines

    def _lazy(self, arrays: list[str]) -> list[str]:
        """Of contiguous tensors those of one element, and no others, can be a lazy negation."""
        if self._library.module != "torch" or not arrays:
            return []
        return [f"    if _lone and ({' or '.join(f'{a}.is_neg()' for a in arrays)}):", "        raise ValueError"]

    def _variables(self, short: int) -> dict[str, str]:
        """The variable that has each argument: arguments without outputs come in the first of them, whatever these are called."""
        given = zip(self._given(short), self._params)
        return {p.name: f"_new_{p.name}" for p in self._params if p.mode == "out"} | {p.name: at.name for p, at in given}

    def _key(self, short: int) -> str:
        names = self._variables(short)
        decisive = (p for p in self._given(short) if p.array or p.name in self.deciding)
        parts = (self._library.key.format(names[p.name]) if p.array else names[p.name] for p in decisive)
        return "".join(f"{part}, " for part in parts).rstrip() or "()"

    def _columns(self, new: list[str]) -> str:
        return "".join(f"_{part}, " for part in (*_COLUMNS, *(f"make_{name}" for name in new))).rstrip()

    def _branch(self, short: int) -> list[str]:
        """The calls with all arguments, or with all but the outputs."""
        given, names = self._given(short), self._variables(short)
        arrays = [p.name for p in given if p.array]
        outs = [p.name for p in self._params if p.mode == "out"]
        kind, every = ("full", "short")[short], ", ".join(names[p.name] for p in given)
        new = outs if short else []
        values = [f"_at_{p.name}" for p in self._params if p.array]
        scalars = [p.name for p in self._params if not p.array]
        values += [f"_packer_{name}({names[name]})" if name in self._packers else names[name] for name in scalars]
        packed = "".join(f"{value}, " for value in values).rstrip()
        ends = "".join(f"_end_{a}, " for a in arrays)
        refusals = [f"{''.join(f'_{part}, ' for part in _RARE)}{ends}= _rare", *self._refusals(arrays, given)]
        inside = [
            f"_same, {self._columns(new)} = _last_{kind}",
            f"if not _same({', '.join(names[a] for a in arrays)}):",
            f"    _, {self._columns(new)} = _find_{kind}({every})",
            *(f"_at_{a} = {self._library.pointer.format(names[a])}" for a in arrays),
            *(["if _current() != _device:", "    raise ValueError"] if self._several else []),
            *self._made(new, names),
            "_queue = _stream(_device)",
            "if _function is not None:",
            "    _slot = _pop()",
            f"    _address, _was_queue, _config, {''.join(f'_was_{p.name}, ' for p in self._ordered)}_, _ = _slot",
            f"    if {' or '.join(self._changed(names))}:",
            *(f"        {line}" for line in refusals),
            f"        _pack(_slot[-2], 0, {packed})",
            "        _config = _configs[_queue]",
            f"        _slot[1:-2] = _queue, _config, {self._kept(names)}",
            "else:",
            *(f"    {line}" for line in refusals),
        ]
        result = names[outs[0]] if len(outs) == 1 else f"({', '.join(names[o] for o in outs)})" if outs else "None"
        return [
            "            try:",
            *(f"                {line}" for line in inside),
            "            except Exception:",
            "                pass",
            "            else:",
            "                if _function is not None:",
            "                    _status = _enqueue(_config, _function, _address, 0)[0]",
            "                    _push(_slot)",
            "                else:",
            f"                    _status = _pop(({packed}), _queue)",
            "                if _status is _success:",
            f"                    return {result}",
        ]

    @property
    def _ordered(self) -> list[Parameter]:
        """As a slot has them."""
        return sorted(self._params, key=lambda p: not p.array)

    def _changed(self, names: dict[str, str]) -> list[str]:
        """What differs from the call that a slot was written for. Numbers are compared as objects, for 1.0 is no 1."""
        parts = (f"_was_{p.name} != _at_{p.name}" if p.array else f"_was_{p.name} is not {names[p.name]}" for p in self._ordered)
        return ["_was_queue != _queue", *parts]

    def _kept(self, names: dict[str, str]) -> str:
        """Python's numbers cannot change, which those of other libraries may."""
        parts = (f"_at_{p.name}" if p.array else f"{names[p.name]} if type({names[p.name]}) in _numbers else None" for p in self._ordered)
        return "".join(f"{part}, " for part in parts).rstrip()

    def _made(self, new: list[str], names: dict[str, str]) -> list[str]:
        """Outputs that the call allocates."""
        lines = []
        for o in new:
            lines.append(f"{names[o]} = _make_{o}()")
            lines.append(f"_at_{o} = {self._library.pointer.format(names[o])}")
        return lines

    def _refusals(self, arrays: list[str], given: list[Parameter]) -> list[str]:
        """What the key does not imply of the memory: that it is there, is aligned, and that what is written overlaps nothing."""
        if not arrays:
            return []
        modes = {p.name: p.mode for p in given}
        tests = [f"({' | '.join(f'_at_{a}' for a in arrays)}) & _mask", *(f"not _at_{a}" for a in arrays)]
        pairs = [(a, b) for at, a in enumerate(arrays) for b in arrays[at + 1 :] if {modes[a], modes[b]} != {"in"}]
        tests += [f"_at_{a} < _at_{b} + _end_{b} and _at_{b} < _at_{a} + _end_{a}" for a, b in pairs]
        return [f"if {' or '.join(tests)}:", "    raise ValueError"]
