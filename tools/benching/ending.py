"""How a tool ends: with its status, and quietly where nobody reads what it prints any more (`.. | head`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NoReturn


def end(main: Callable[[], int]) -> NoReturn:
    """Run a tool and exit with its status."""
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough, which is no failure; the flush at exit goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    sys.exit(status)
