"""What diagnostics advise, as it is written in Python: most of the compiler's advice names options of the command line."""

from __future__ import annotations

import re
from dataclasses import replace

from vxc.diag import Diagnostic

_OPTIONS = (
    (r"--arch (sm_\w+)", r'`target="\1"`'),
    (r"--arch\b", "`target=`"),
    (r"`?-D (\w+)=(\d+|true|false)\b`?", r"`define(\1=\2)`"),
    (r"`?-D (\w+)=(\w+)\b`?", r'`define(\1="\2")`'),
    (r"`-D (\w+)`", r"`define(\1=..)`"),
    (r"`-D`", "`define(..)`"),
    (r"with -k on the command line", "as the second argument of vxc.kernel, or as an attribute of what vxc.load gives"),
    (r"--maxrregcount=(\d+)", r"`maxrregcount=\1`"),
    (r"--debug\b", "`debug=True`"),
)  # fmt: skip


def in_python(found: Diagnostic) -> Diagnostic:
    """The diagnostic with options of the command line as arguments of Python."""
    return replace(found, message=_worded(found.message), help=_worded(found.help))


def _worded(text: str) -> str:
    for pattern, instead in _OPTIONS if "-" in text else ():
        text = re.sub(pattern, instead, text)
    return text
