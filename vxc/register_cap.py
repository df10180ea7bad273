"""How many registers a thread may have: what an argument says, else the environment. One rule for all that compiles."""

from __future__ import annotations

import operator
import os
from typing import Any

from vxc.binding import brief
from vxc.diag import Diagnostic, VxcError
from vxc.target import LEAST_REGISTER_CAP, MAX_REGISTERS_PER_THREAD, REGISTER_CAP


def register_cap(registers: Any) -> int | None:
    """What `maxrregcount` says, and where it is None the environment. Raises `VxcError` E0709."""
    what, read = "`maxrregcount`", operator.index
    if registers is None:
        what, read, registers = f"`{REGISTER_CAP}` in the environment", int, os.environ.get(REGISTER_CAP) or None
    if registers is None:
        return None
    try:
        number = read(registers) if not isinstance(registers, bool) else 0
    except Exception:  # TypeError, ValueError, or what the type's own code raises
        number = 0
    if not LEAST_REGISTER_CAP <= number <= MAX_REGISTERS_PER_THREAD:
        hint = f"give an int from {LEAST_REGISTER_CAP} to {MAX_REGISTERS_PER_THREAD}, or None for no cap"
        raise VxcError(Diagnostic("E0709", f"{what} is {brief(registers)}, which caps no registers of a thread", help=hint))
    return number
