"""Frozen dataclasses that are quick to make: the compiler has more than a hundred, which are all made before it can compile anything.

`dataclass(frozen=True)` writes and compiles six methods for each class. Here `__init__` alone is written, and the others are shared. They
look fields up by name, so what is made or compared very often (instructions, values, accesses) is rather a frozen dataclass.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass
from typing import Any, NoReturn, dataclass_transform


@dataclass_transform(frozen_default=True)
def record(cls):
    """Class decorator: as `dataclass(frozen=True)`, for classes without slots whose fields all count in comparisons.

    What a class defines itself is left as it is.
    """
    for name, method in _SHARED.items():
        if name not in cls.__dict__:
            setattr(cls, name, method)
    cls.__doc__ = cls.__doc__ or cls.__name__  # `dataclass` would write one, which takes as long as a method
    return dataclass(eq=False, repr=False)(cls)


def keep(self: Any, name: str) -> NoReturn:
    """`__delattr__` of what is frozen."""
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _set_once(self: Any, name: str, value: Any) -> None:
    """A field is set when the record is made, and then never again."""
    if name in self.__dict__ or name not in self.__dataclass_fields__:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    self.__dict__[name] = value


def _values(self: Any) -> tuple[Any, ...]:
    known = self.__dict__
    return tuple([known[name] for name in self.__dataclass_fields__])


def _equal(self: Any, other: Any) -> bool:
    return _values(self) == _values(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _text(self: Any) -> str:
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__dataclass_fields__)
    return f"{type(self).__qualname__}({fields})"


_SHARED = {"__setattr__": _set_once, "__delattr__": keep, "__eq__": _equal, "__hash__": _hash, "__repr__": _text}
