"""What calling vxc from Python raises. All are `VxcError`, with the diagnostics in `diagnostics`."""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import Any

from vxc.api.wording import in_python
from vxc.diag import Diagnostic, VxcError


class CompileError(VxcError):
    """The source of a kernel is wrong, or cannot become machine code. Its str shows each place in the source."""


class LaunchError(VxcError):
    """A call that was refused before anything ran, or that CUDA refused. Its str is one paragraph."""

    def __str__(self) -> str:
        return "; also ".join(map(_paragraph, self.diagnostics))


class NoDeviceError(LaunchError):
    """There is no GPU or driver to run on. Its str says what to install, as `vxc doctor` does."""

    def __str__(self) -> str:
        (d, *_) = self.diagnostics
        cause = f" ({'; '.join(d.notes)})" if d.notes else ""
        return f'{d.code}: {d.message}{cause}; {d.help}, or pass device="cpu", which interprets'


class UnwrittenWarning(UserWarning):
    """An interpreted kernel stored nothing to some elements of an array that it made: on a GPU they may hold anything."""


class WrongTypeError(LaunchError, TypeError):
    """An argument of a type that vxc does not take; for Python a TypeError, as of its own functions."""


_NO_DEVICE = "E0603"
_OF_ARGUMENTS = ("E0703", "E0704", "E0705", "E0706", "E0707", "E0708", "E0709", "E0713", "E0714")
_OF_CALLS = ("E0604", "E0605", "E0710", "E0711", "E0712", "E0718", "E0719")  # besides
_AT_RUN_TIME = "E072", "E073"  # what the interpreters find while a kernel runs


def _paragraph(d) -> str:
    parts = [d.message, *d.notes, d.help]
    place = f" (`{d.source.slice(d.span).splitlines()[0]}` at {d.place})" if found_running(d.code) and d.source and d.span else ""
    return f"{d.code}: " + "; ".join(part for part in parts if part) + place


def found_running(code: str) -> bool:
    """Whether a fault is one of a kernel that runs."""
    return code.startswith(_AT_RUN_TIME)


def of_arguments(code: str) -> bool:
    """Whether a fault is one of the arguments of a call: their kinds, dtypes, shapes, places."""
    return code in _OF_ARGUMENTS


def _kind(code: str) -> type[VxcError]:
    if code == _NO_DEVICE:
        return NoDeviceError
    return LaunchError if code in (*_OF_CALLS, *_OF_ARGUMENTS) or found_running(code) else CompileError


def expect(what: str, value: Any, kinds: type | tuple[type, ...], wanted: str) -> None:
    """Raises `WrongTypeError` where an argument is of none of these types; `wanted` says what it is to be."""
    if not isinstance(value, kinds):
        raise WrongTypeError(Diagnostic("E0709", f"{what} is {wanted}, not {type(value).__qualname__}"))


class translated(ContextDecorator):
    """Where a call from outside enters: diagnostics raised within become the errors of this file, `kernel` named in those of a call.

    The frames of vxc are dropped from their tracebacks, which end at the caller's own line: what is wrong is there. An error that is
    no diagnostic, a fault of vxc, keeps them all.
    """

    def __init__(self, kernel: str = "") -> None:
        self._kernel = kernel

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        if not isinstance(error, VxcError):
            return
        if not isinstance(error, (CompileError, LaunchError)):
            error.diagnostics = tuple(map(in_python, error.diagnostics))
            error.__class__ = _kind(error.diagnostics[0].code)  # the same object: raising another would begin a traceback here
            error.__suppress_context__ = True
            if self._kernel and isinstance(error, LaunchError):
                error.add_note(f"in the call of `{self._kernel}`")
        error.__traceback__ = None  # and nothing adds the frame of the `with`, which raises again what it has
