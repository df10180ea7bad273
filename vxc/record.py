"""Dataclasses that are quick to make: the compiler has some two hundred, which are all made before it can compile anything.

`dataclass` writes and compiles up to six methods for each class. Here `__init__` alone is written, and only for classes that are called
often, which few are in a process that compiles one kernel; the others are shared. Those look fields up by name, so for what is compared
very often (instructions, values, accesses) there is `value`, for which comparisons are written too, when they are first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, fields
from types import MemberDescriptorType
from typing import Any, NoReturn, dataclass_transform

_FEW = 8  # calls


@dataclass_transform(frozen_default=True)
def record(cls):
    """Class decorator: as `dataclass(frozen=True)`, for classes without slots.

    What a class defines itself is left as it is.
    """
    return _made(cls, _FROZEN | _COMPARED)


@dataclass_transform(frozen_default=True, eq_default=False)
def entity(cls):
    """Class decorator: a record that is equal to itself alone."""
    return _made(cls, _FROZEN)


@dataclass_transform()
def state(cls):
    """Class decorator: a record whose fields may be set, and which therefore has no hash: as `dataclass`."""
    return _made(cls, {**_COMPARED, "__hash__": None})


@dataclass_transform(frozen_default=True)
def value(cls):
    """Class decorator: as `dataclass(frozen=True, slots=True)`, for what is made and compared very often."""
    own = cls.__dict__
    written = {name: write for name, write in _WRITTEN.items() if name not in own}
    for name, method in _SLOTTED.items():
        if name not in own:
            setattr(cls, name, method)
    cls.__doc__ = cls.__doc__ or cls.__name__
    cls = late(dataclass(init=False, eq=False, repr=False, slots=True)(cls))
    for name, write in written.items():
        setattr(cls, name, _at_first(cls, name, write))
    return cls


def late(cls):
    """Gives a dataclass made with `init=False` an `__init__`. Its first calls set the fields by name; one is written for a class that is
    called more often, which takes as long as dozens of such calls.
    """
    left = _FEW

    def method(self: Any, *values: Any, **named: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0 or not _filled(self, fields(cls), values, named):
            cls.__init__ = _initialiser(cls)  # which also says what is wrong with the arguments
            cls.__init__(self, *values, **named)

    cls.__init__ = method
    return cls


def _filled(self: Any, rows: Sequence[Field], values: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Sets the fields of a new object as the `__init__` that is written does. False, and nothing is set, for arguments that do not fit."""
    given = {**dict(zip([row.name for row in rows if not row.kw_only], values)), **named}
    if len(given) < len(values) + len(named):  # too many, or one twice
        return False
    for row in rows:
        if row.name not in given:
            if row.default is MISSING and row.default_factory is MISSING:
                return False
            given[row.name] = row.default if row.default_factory is MISSING else row.default_factory()
    if len(given) > len(rows):
        return False
    for row in rows:
        object.__setattr__(self, row.name, given[row.name])
    if hasattr(self, "__post_init__"):
        self.__post_init__()
    return True


def _at_first(cls: type, name: str, write: Callable[[type], Callable]) -> Callable:
    """A method that puts the one that is written in its place when it is first called."""

    def method(self: Any, *values: Any, **named: Any) -> Any:
        made = write(cls)
        setattr(cls, name, made)
        return made(self, *values, **named)

    return method


def keep(self: Any, name: str, value: Any = None) -> NoReturn:
    """`__setattr__` and `__delattr__` of what is frozen."""
    raise FrozenInstanceError(f"cannot change field {name!r}")


def _made(cls: type, methods: Mapping[str, Any]) -> type:
    for name, method in methods.items():
        if name not in cls.__dict__:
            setattr(cls, name, method)
    cls.__doc__ = cls.__doc__ or cls.__name__  # `dataclass` would write one, which takes as long as a method
    return late(dataclass(init=False, eq=False, repr=False)(cls))


def _initialiser(cls: type) -> Callable[..., None]:
    """`__init__` as `dataclass` writes it: fields in order, those that are `kw_only` behind, and at last `__post_init__`."""
    scope: dict[str, Any] = {"_set": object.__setattr__, "_new": object()}
    slots = {field.name: getattr(cls, field.name, None) for field in fields(cls)}
    given: dict[bool, list[str]] = {False: [], True: []}
    lines = []
    for field in fields(cls):
        name, value = field.name, field.name
        if field.default is not MISSING:
            scope[f"_default_{name}"] = field.default
            value = f"{name}=_default_{name}"
        elif field.default_factory is not MISSING:
            scope[f"_make_{name}"] = field.default_factory
            value = f"{name}=_new"
            lines.append(f"    if {name} is _new: {name} = _make_{name}()")
        given[field.kw_only].append(value)
        if isinstance(slots[name], MemberDescriptorType):
            scope[f"_set_{name}"] = slots[name].__set__
            lines.append(f"    _set_{name}(self, {name})")
        else:
            lines.append(f"    _set(self, {name!r}, {name})")
    behind = ["*", *given[True]] if given[True] else []
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()")
    return _method(cls, f"def __init__({', '.join(['self', *given[False], *behind])}):", [*lines, "    pass"], scope)


def _equality(cls: type) -> Callable[[Any, Any], bool]:
    """`__eq__` as `dataclass` writes it."""
    test = ["    if other.__class__ is self.__class__:", f"        return {_tuple(cls, 'self')} == {_tuple(cls, 'other')}"]
    return _method(cls, "def __eq__(self, other):", [*test, "    return NotImplemented"], {})


def _hashing(cls: type) -> Callable[[Any], int]:
    """`__hash__` as `dataclass` writes it."""
    return _method(cls, "def __hash__(self):", [f"    return hash({_tuple(cls, 'self')})"], {})


def _tuple(cls: type, of: str) -> str:
    """The fields that count in comparisons."""
    return f"({''.join(f'{of}.{field.name}, ' for field in fields(cls) if field.compare)})"


def _method(cls: type, head: str, lines: Sequence[str], scope: dict[str, Any]) -> Callable:
    exec("\n".join([head, *lines]), scope)
    made = scope[head.removeprefix("def ").partition("(")[0]]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.{made.__name__}", cls.__module__
    return made


def _state(self: Any) -> tuple[Any, ...]:
    return tuple([getattr(self, name) for name in self.__dataclass_fields__])


def _restore(self: Any, values: Iterable[Any]) -> None:
    for name, kept in zip(self.__dataclass_fields__, values):
        object.__setattr__(self, name, kept)


def _values(self: Any) -> tuple[Any, ...]:
    known = self.__dict__
    return tuple([known[name] for name, field in self.__dataclass_fields__.items() if field.compare])


def _equal(self: Any, other: Any) -> bool:
    return _values(self) == _values(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _text(self: Any) -> str:
    named = ", ".join(f"{name}={getattr(self, name)!r}" for name, field in self.__dataclass_fields__.items() if field.repr)
    return f"{type(self).__qualname__}({named})"


_FROZEN = {"__setattr__": keep, "__delattr__": keep, "__repr__": _text}
_COMPARED = {"__eq__": _equal, "__hash__": _hash, "__repr__": _text}
_SLOTTED = {**_FROZEN, "__getstate__": _state, "__setstate__": _restore}
_WRITTEN = {"__eq__": _equality, "__hash__": _hashing}
