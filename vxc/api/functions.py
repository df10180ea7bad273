"""Functions of the user that are called for a value, and those of Python that give none when they are called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def gives_none(function: Callable[..., Any]) -> str:
    """What a function is whose call gives no value yet, such as "an async function"; "" for any other."""
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        return "a generator, which yields"
    return "an async function" if inspect.iscoroutinefunction(function) else ""
