"""The fast path of one kernel and one array library: the functions of `front_text`, and what they know of the calls that were made."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from vxc.api.arguments import Parameter
from vxc.api.errors import translated
from vxc.api.front_text import FrontText
from vxc.api.libraries import Library, maker
from vxc.api.prepared import Prepared
from vxc.api.traced import untraced
from vxc.diag import VxcError

_LIMIT = 4096  # remembered calls of a kernel
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
        self._params, module = params, library.imported
        self._same = None if deciding else library.same(module)  # which says nothing of numbers
        self._records: tuple[dict, dict] = ({}, {})
        self._text = FrontText(params, library, deciding, packers.keys(), self._same is not None, place is not None)
        self.text = "\n".join(self._text.lines())
        scope = {
            "_missing": object(), "_general": general, "_full": self._records[0], "_short": self._records[1], "_numbers": _NUMBERS,
            "_last_full": self._record(0, _unlike, 0, ()), "_last_short": self._record(1, _unlike, 0, ()), "_seen": None,
            "_module": module, "_pointer": library.address(module), "_stream": library.stream(module), "_place": place,
            "_current": library.current(module), "_partial": partial, "_Error": VxcError,
            "_enqueue": raw_launch[0], "_success": raw_launch[1], **{f"_packer_{name}": packer for name, packer in packers.items()},
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
        records, key = self._records[short], self._keys[short](*(values[p.name] for p in given))
        if key in records:
            return
        if len(records) >= _LIMIT:
            records.clear()
        arrays = [values[p.name] for p in given if p.array]
        makers = [maker(arrays, o.name, o.shape, o.dtype, prepared.device) for o in prepared.outs]
        same = self._same(arrays) if self._same else None
        records[key] = self._record(short, same, prepared.device, self._row(prepared, short, same, makers))

    def _record(self, short: int, same: Callable | None, device: int, row: tuple) -> tuple:
        """That of a key of which no call was made twice. Calls that allocate outputs have new memory each, and are never like the last."""
        known = () if short else (None, *(None for _ in self._params), None)
        return (*((same,) if self._same else ()), device, *known, row)

    def _row(self, prepared: Prepared, short: int, same: Callable | None, makers: list) -> tuple:
        """What is common to the calls of a key: what `FrontText` calls a row, where each array ends from its address on, what allocates.
        """
        step, extents = prepared.single, {e.name: e for e in prepared.extents}
        ends = (extents[p.name].high for p in self._text.given(short) if p.array)
        mask = max((e.itemsize for e in prepared.extents), default=1) - 1
        new = prepared.slot if step else translated()(prepared.run)
        own = (*((same,) if self._same else ()), prepared.device)
        return (*own, prepared.slots, new, prepared.pack, step and step.configs, step and step.function, mask, *ends, *makers)
