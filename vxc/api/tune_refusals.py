"""Why a kernel cannot be tuned, in one paragraph; and what functions of the user raise, as one."""

from __future__ import annotations

import reprlib
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from vxc.diag import Diagnostic, VxcError

T = TypeVar("T")
_LONGEST = 300  # characters of what an exception says


def untunable(message: str, way_out: str, notes: Sequence[str] = ()) -> VxcError:
    return VxcError(Diagnostic("E0719", message, notes=tuple(notes), help=way_out))


def shown(value: Any) -> str:
    """What a user gave, on one line, shortened where it is long."""
    return " ".join(reprlib.repr(value).split())


def guarded(what: str, way_out: str, function: Callable[..., T], *args: Any, **keywords: Any) -> T:
    """What a function of the user gives. Whatever it raises is the cause of a `VxcError` E0719 about `what`."""
    try:
        return function(*args, **keywords)
    except Exception as error:
        said = " ".join("".join(traceback.format_exception_only(error)).split())
        raise untunable(f"{what} fails with {said[:_LONGEST]}", way_out) from error
