"""The fast path: for one kernel and one array library, a Python function written for its signature.

    def __call__(self, x=_missing, y=_missing, n=_missing, *_more, **_others):
        if not _more and not _others:
            if n is not _missing:
                try:
                    _mask, _function, .. = _full[x.shape, x.dtype, x.get_device(), x.is_contiguous(), y.shape, ..]
                    _at_x = x.data_ptr()
                    ..

One dict hit finds what an earlier call with such arguments prepared. What its key does not imply is looked at here: where the memory
lies, whether it overlaps, whether scalars fit. Anything unusual, errors too, goes to `general`, which says what is wrong.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vxc.api.arguments import Parameter
from vxc.api.libraries import Library
from vxc.api.prepared import Prepared

_LIMIT = 4096  # remembered calls of a kernel
_COLUMNS = ("device", "mask", "pop", "push", "pack", "configs", "function")


def writable(params: Sequence[Parameter]) -> bool:
    """Whether Python can have the parameters, which are no words of its own, and take them for none of the names used here."""
    if any(p.name == "self" for p in params):
        return False
    return bool(params) and all(p.name.isidentifier() and not keyword.iskeyword(p.name) and p.name[0] != "_" for p in params)


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
            "_stream": library.stream(self._module), "_current": library.current(self._module), "_empty": self._module.empty,
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
        records = self._records[short]
        if len(records) >= _LIMIT:
            records.clear()
        prepared.slots.append(prepared.slot())  # one more for each call that found none
        records[self._keys[short](*(values[p.name] for p in given))] = self._row(prepared, short)

    def _row(self, prepared: Prepared, short: int) -> tuple:
        """What `_columns` names. `mask` has the bits of addresses that must be 0; or, where some array has one element, it is the
        complement of that: such a contiguous tensor, and no other, can be a lazy negation.
        """
        step = prepared.single
        extents = {e.name: e for e in prepared.extents}
        ends = (extents[p.name].high for p in self._given(short) if p.array)
        lone = any(e.high <= e.itemsize for e in prepared.extents)
        itemsize = max((e.itemsize for e in prepared.extents), default=1)
        mask = -itemsize if lone else itemsize - 1
        outs = [x for o in prepared.outs for x in (o.shape, self._library.native(self._module, o.dtype))]
        place = [self._library.place(self._module, prepared.device)] if outs else []
        launch = (step.configs, step.function) if step else (prepared.run, None)
        return (prepared.device, mask, prepared.slots.pop, prepared.slots.append, prepared.pack, *launch, *ends, *outs, *place)

    # ---- the text ----------------------------------------------------------------------------------------------------

    def _given(self, short: int) -> list[Parameter]:
        return [p for p in self._params if not (short and p.mode == "out")]

    def _text(self) -> list[str]:
        names = [p.name for p in self._params]
        outs = len(names) - len(self._given(1))
        lines = [f"def __call__(self, {', '.join(f'{name}=_missing' for name in names)}, *_more, **_others):"]
        lines += ["    if not _others and not _more:", f"        if {names[-1]} is not _missing:", *self._branch(0)]
        if outs:
            lines += ["        else:", *self._branch(1)]
        return lines + self._in_full(names) + self._key_functions()

    def _in_full(self, names: list[str]) -> list[str]:
        """A call in full, with the arguments as they came."""
        return [
            f"    return _refused(self, [{', '.join(names)}], _more, _others)",
            "",
            "def _refused(kernel, values, more, others):",
            f"    names = {names!r}",
            "    count = next((at for at, value in enumerate(values) if value is _missing), len(values))",
            "    keywords = {name: value for name, value in zip(names[count:], values[count:]) if value is not _missing}",
            "    return _general(kernel, [*values[:count], *more], {**keywords, **others})",
            "",
        ]

    def _key_functions(self) -> list[str]:
        lines = []
        for short, name in enumerate(("_full_key", "_short_key")):
            variables = self._variables(short)
            given = ", ".join(variables[p.name] for p in self._given(short))
            lines += [f"def {name}({given}):", f"    return ({self._key(short)})", ""]
        return lines

    def _variables(self, short: int) -> dict[str, str]:
        """The variable that has each argument: arguments without outputs come in the first of them, whatever these are called."""
        given = zip(self._given(short), self._params)
        return {p.name: f"_new_{p.name}" for p in self._params if p.mode == "out"} | {p.name: at.name for p, at in given}

    def _key(self, short: int) -> str:
        names = self._variables(short)
        decisive = (p for p in self._given(short) if p.array or p.name in self.deciding)
        parts = (self._library.key.format(names[p.name]) if p.array else names[p.name] for p in decisive)
        return "".join(f"{part}, " for part in parts).rstrip() or "()"

    def _columns(self, short: int, new: list[str]) -> str:
        parts = [*_COLUMNS, *(f"end_{p.name}" for p in self._given(short) if p.array)]
        parts += [f"{part}_{name}" for name in new for part in ("shape", "dtype")] + ["place"] * bool(new)
        return "".join(f"_{part}, " for part in parts).rstrip()

    def _branch(self, short: int) -> list[str]:
        """The calls with all arguments, or with all but the outputs."""
        given, names = self._given(short), self._variables(short)
        arrays = [p.name for p in given if p.array]
        outs = [p.name for p in self._params if p.mode == "out"]
        new = outs if short else []
        values = [f"_at_{p.name}" for p in self._params if p.array]
        scalars = [p.name for p in self._params if not p.array]
        values += [f"_packer_{name}({names[name]})" if name in self._packers else names[name] for name in scalars]
        packed = "".join(f"{value}, " for value in values).rstrip()
        allocated = [self._library.allocate.format(shape=f"_shape_{o}", dtype=f"_dtype_{o}", device="_place") for o in new]
        inside = [
            f"{self._columns(short, new)} = {('_full', '_short')[short]}[{self._key(short)}]",
            *(f"_at_{a} = {self._library.pointer.format(names[a])}" for a in arrays),
            *self._refusals(arrays, given, names),
            *(f"{names[o]} = {text}" for o, text in zip(new, allocated)),
            *(f"_at_{o} = {self._library.pointer.format(names[o])}" for o in new),
            "_queue = _stream(_device)",
            "if _function is not None:",
            "    _slot = _pop()",
            f"    _pack(_slot[0], 0, {packed})",
            "    _config = _configs[_queue]",
        ]
        result = names[outs[0]] if len(outs) == 1 else f"({', '.join(names[o] for o in outs)})" if outs else "None"
        return [
            "            try:",
            *(f"                {line}" for line in inside),
            "            except Exception:",
            "                pass",
            "            else:",
            "                if _function is not None:",
            "                    _status = _enqueue(_config, _function, _slot[1], 0)[0]",
            "                    _push(_slot)",
            "                else:",
            f"                    _status = _configs(({packed}), _queue)",
            "                if _status is _success:",
            f"                    return {result}",
        ]

    def _refusals(self, arrays: list[str], given: list[Parameter], names: dict[str, str]) -> list[str]:
        """What the key does not imply of the memory: that it is there, is aligned, and that what is written overlaps nothing."""
        if not arrays:
            return []
        modes = {p.name: p.mode for p in given}
        address = " | ".join(f"_at_{a}" for a in arrays)
        doubts = ["_mask > 0", f"({address}) & ~_mask"]
        if self._library.module == "torch":
            doubts += [f"{names[a]}.is_neg()" for a in arrays]
        tests = [f"({address}) & _mask and ({' or '.join(doubts)})", *(f"not _at_{a}" for a in arrays)]
        pairs = [(a, b) for at, a in enumerate(arrays) for b in arrays[at + 1 :] if {modes[a], modes[b]} != {"in"}]
        tests += [f"_at_{a} < _at_{b} + _end_{b} and _at_{b} < _at_{a} + _end_{a}" for a, b in pairs]
        tests += ["_current() != _device"] if self._several else []
        return [f"if {' or '.join(tests)}:", "    raise ValueError"]
