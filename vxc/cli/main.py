"""The `vxc` command: a group whose commands are imported when they are called, and what becomes of every kind of failure.

Commands return nothing or a `Status`. Findings about the input travel as `VxcError`; here they are printed, on standard
error, and become the exit status.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

import click
from click.exceptions import Exit

from vxc.cli.common import Status, show
from vxc.diag import VxcError, suggestion, told, unwritable

COMMANDS = ("check", "run", "compile", "diff", "explain", "bench", "fuzz", "opt", "ops", "passes", "doctor", "cache")
"""Each is the click command `command` of `vxc.cli.NAME`."""

_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EAGAIN)
"""What writing to standard output fails with, where the fault is in what it is connected to."""

EPILOG = """Exit status: 0 success, 1 the input is wrong or unreadable, 2 usage, 3 a difference or failed check,
4 the environment lacks what was asked (GPU, NVRTC, driver), 70 internal error, 130 interrupted.

Completion: put `eval "$(_VXC_COMPLETE=bash_source vxc)"` into ~/.bashrc (zsh_source, fish_source for other shells)."""


class Commands(click.Group):
    """A group that imports a command's module on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return import_module(f"vxc.cli.{name}").command if name in COMMANDS else None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and (meant := suggestion(args[0], COMMANDS)):
            ctx.fail(f"No such command '{args[0]}'; {meant}")
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)  # prints what --help and --version ask for
        except BrokenPipeError:
            raise Exit(_abandon_stdout()) from None

    def invoke(self, ctx: click.Context) -> int:
        try:
            return super().invoke(ctx) or Status.OK
        except BrokenPipeError:  # the reader has seen enough; click would call it a failure
            return _abandon_stdout()


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="vxc", message="vxc %(version)s")
def vxc() -> None:
    """Compile kernels from .vx to CUDA, run them, and look at every step between."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; gives the exit status."""
    if sys.stdout is None:  # closed by who started this process
        sys.stdout = open(os.devnull, "w")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # whatever the locale says
    try:
        status = vxc.main(arguments, "vxc", standalone_mode=False)
        sys.stdout.flush()
        return int(status or Status.OK)
    except click.Abort:
        return Status.INTERRUPTED
    except click.ClickException as error:
        error.show()
        return Status.USAGE
    except BrokenPipeError:
        return _abandon_stdout()
    except VxcError as error:
        return show(error)
    except OSError as error:
        return _internal(error) if error.errno not in _UNWRITABLE else _unwritten(error)
    except MemoryError:
        print("error: this machine's memory does not suffice\n  = help: use smaller arrays", file=sys.stderr)
        return Status.ENVIRONMENT
    except Exception as error:
        return _internal(error)


def _abandon_stdout() -> Status:
    """Nobody reads any more, which is no failure: later writes, such as the flush at exit, go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return Status.OK


def _unwritten(error: OSError) -> Status:
    """Standard output takes no more; files have their own E0711."""
    _abandon_stdout()
    return show(unwritable("standard output", error))


def _internal(error: Exception) -> Status:
    if os.environ.get("VXC_TRACEBACK") == "1":
        traceback.print_exception(error)
    print(
        f"internal error: {told(error)}\n"
        "This is a fault of vxc, not of your input. Please report it with the file, the command line and the output of `vxc doctor`;\n"
        "VXC_TRACEBACK=1 shows the whole traceback.",
        file=sys.stderr,
    )
    return Status.INTERNAL
