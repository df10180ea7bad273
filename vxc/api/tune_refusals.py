"""Why a kernel cannot be tuned, in one paragraph; and what functions of the user raise, as one."""

from __future__ import annotations

import reprlib
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from vxc.api.errors import found_running, of_arguments
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


@contextmanager
def about(what: str) -> Iterator[None]:
    """What is refused of a call that is made with `what`, and not with the arguments that the user just passed, says so."""
    try:
        yield
    except VxcError as error:
        error.diagnostics = tuple(
            replace(d, notes=(*d.notes, f"this is about {what}")) if of_arguments(d.code) or found_running(d.code) else d
            for d in error.diagnostics
        )
        raise
