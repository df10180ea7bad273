"""What a record of tuning is, as JSON: one description, by which all that is read is checked before it is used.

A check is given a value and its place, such as `entries[0].rows[2].milliseconds`, and raises ValueError for what does not belong there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from vxc.api.tune_refusals import shown

Check = Callable[[Any, str], None]


def _one(wanted: str, right: Callable[[Any], bool]) -> Check:
    def check(value: Any, place: str) -> None:
        if not right(value):
            raise ValueError(f"{place} is {shown(value)}, and is to be {wanted}")

    return check


def _many(each: Check) -> Check:
    def check(value: Any, place: str) -> None:
        _LIST(value, place)
        for at, item in enumerate(value):
            each(item, f"{place}[{at}]")

    return check


def _named(each: Check) -> Check:
    """An object with names of any kind."""

    def check(value: Any, place: str) -> None:
        _OBJECT(value, place)
        for name, item in value.items():
            each(item, f"{place}.{name}")

    return check


def _object(fields: Mapping[str, Check], whole: Check | None = None) -> Check:
    """An object with these fields and no others; `whole` looks at how they fit together."""

    def check(value: Any, place: str) -> None:
        _OBJECT(value, place)
        for name in [*fields, *value]:
            if name not in value or name not in fields:
                raise ValueError(f"{place} {'lacks' if name in fields else 'has an unknown'} `{name}`")
        for name, field in fields.items():
            field(value[name], f"{place}.{name}")
        if whole:
            whole(value, place)

    return check


def _fitting(entry: Any, place: str) -> None:
    chosen, configs = entry["chosen"], [row["config"] for row in entry["rows"]]
    if any(list(config) != list(chosen) for config in configs):
        raise ValueError(f"{place}.rows are not all of the axes of what is chosen")
    if chosen not in configs:
        raise ValueError(f"{place}.chosen is {shown(chosen)}, which is the configuration of no row")


_LIST = _one("a list", lambda value: isinstance(value, list))
_OBJECT = _one("an object", lambda value: isinstance(value, dict))
_TEXT = _one("a text", lambda value: isinstance(value, str))
_VALUE = _one("a number or a name", lambda value: isinstance(value, (int, str)))
_TIME = _one(
    "null or a number of 0 or more",
    lambda value: value is None or isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= sys.float_info.max,
)
_ROW = _object({"config": _named(_VALUE), "milliseconds": _TIME, "said": _TEXT})
_ABOUT = {name: _TEXT for name in ("kernel", "text", "fixed", "shapes", "device", "arch")}
ENTRY = _object(
    {**_ABOUT, "checked": _TEXT, "versions": _named(_TEXT), "chosen": _named(_VALUE), "rows": _many(_ROW)},
    _fitting,
)


def check_file(data: Any, form: int) -> None:
    """Raises ValueError for what is no record of this format."""
    _OBJECT(data, "the file")
    if data.get("vxc_tuned") != form:
        raise ValueError(f"it is of format {shown(data.get('vxc_tuned'))}, and this vxc reads {form}")
    _object({"vxc_tuned": _VALUE, "entries": _many(ENTRY)})(data, "the file")
