"""Run mutually recursive handlers without Python recursion.

A handler takes (state, node, at) and returns its value or is a generator: each `value = yield (child, at)` asks for the
value of a child, found by the handler of the child's class. Source text may nest as deep as it likes.
"""

from __future__ import annotations

from collections.abc import Callable
from types import GeneratorType
from typing import Any

from vxc.diag import VxcError

Handlers = dict[type, Callable[..., Any]]


def run(handlers: Handlers, state: Any, node: Any, at: Any) -> Any:
    """The value of `node`. A VxcError raised by a child is raised in its parent at the `yield`."""
    stack: list[GeneratorType] = []
    value, error, job = None, None, (node, at)
    while True:
        try:
            if job is not None:
                value = handlers[type(job[0])](state, *job)
                if isinstance(value, GeneratorType):
                    stack.append(value)
                    value = None
                elif not stack:
                    return value
            parent = stack[-1]
            job, throw, error = None, error, None
            job = parent.send(value) if throw is None else parent.throw(throw)
        except StopIteration as stop:
            stack.pop()
            value = stop.value
            if not stack:
                return value
        except VxcError as found:
            if job is None:
                stack.pop()  # it was the generator itself that failed
            if not stack:
                raise
            value, error, job = None, found, None
