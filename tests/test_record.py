"""Records are what `dataclass` makes, but for the methods that they share and for `__init__`, which is written when it is needed."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, replace
from functools import cached_property

import pytest

from vxc.dtypes import DTYPES
from vxc.record import entity, record, state, value


@record
class Point:
    x: int
    y: int = 2

    @cached_property
    def sum(self) -> int:
        return self.x + self.y


@record
class Named(Point):
    name: str = ""

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Plain:
    x: int
    y: int = 2


def test_it_equals_hashes_and_prints_as_a_frozen_dataclass():
    assert repr(Point(1)) == repr(Plain(1)).replace("Plain", "Point")
    assert Point(1) == Point(1, 2) != Point(2) and hash(Point(1)) == hash(Plain(1))
    assert Point(1) != Plain(1) and Point(1) != Named(1) and Point(1) != (1, 2)
    assert len({Point(1), Point(1, 2), Point(1, 3)}) == 2
    with pytest.raises(TypeError, match="z"):
        Named(1, z=3)


@pytest.mark.parametrize("name", ["x", "y", "other"])
def test_it_refuses_changes(name):
    point = Point(1)
    with pytest.raises(FrozenInstanceError, match=name):
        setattr(point, name, 5)
    with pytest.raises(FrozenInstanceError, match=name):
        delattr(point, name)
    assert point == Point(1)


def test_it_may_be_copied_and_changed_in_a_copy():
    point = Named(1, 4, "p")
    assert point.sum == 5 and replace(point, x=2).sum == 6
    assert pickle.loads(pickle.dumps(point)) == copy.deepcopy(point) == copy.copy(point) == point
    assert asdict(point) == {"x": 1, "y": 4, "name": "p"}


def test_its_own_methods_are_left():
    assert repr(Named(1, name="origin")) == "origin" and Named(1, name="a") != Named(1, name="b")


@record
class Half:
    x: int
    y: list[int] = field(default_factory=list, compare=False)


def test_a_field_may_have_no_say_in_comparisons():
    assert Half(1, [2]) == Half(1, [3]) != Half(2, [2]) and hash(Half(1, [2])) == hash(Half(1))


@entity
class Self:
    x: int


@state
class Many:
    """Every kind of field; `made` is there once `__post_init__` has run."""

    x: int
    y: list[int] = field(default_factory=list)
    z: int = field(default=3, kw_only=True)

    def __post_init__(self) -> None:
        self.made = self.x


@state
class More(Many):
    w: int = 5


def test_one_that_is_equal_to_itself_alone():
    one = Self(1)
    assert one == one != Self(1) and len({one, Self(1)}) == 2
    with pytest.raises(FrozenInstanceError, match="x"):
        setattr(one, "x", 2)


def test_a_state_may_be_changed_and_has_no_hash():
    many = Many(1)
    many.x, other = 2, Many(2)
    assert many == other and many.y is not other.y and many.made == 1 and repr(many) == "Many(x=2, y=[], z=3)"
    with pytest.raises(TypeError, match="unhashable"):
        hash(many)


@pytest.mark.parametrize("make", [lambda: Many(), lambda: Many(1, [], 3), lambda: Many(1, v=2), lambda: More(1, [], 5, 6)])
def test_it_is_called_as_a_dataclass_is(make):
    with pytest.raises(TypeError, match="__init__"):
        make()


def fresh(kind):
    """A class that was never called."""

    class Fresh:
        x: int
        y: list[int] = field(default_factory=list)
        z: int = field(default=3, kw_only=True)

        def __post_init__(self) -> None:
            assert self.z

    return kind(Fresh)


@pytest.mark.parametrize("kind", [record, state, value])
def test_the_first_calls_and_the_init_that_is_written_for_later_ones_make_the_same(kind):
    made = fresh(kind)
    filled = made.__init__
    several = [made(1, z=4) for _ in range(20)]
    assert made.__init__ is not filled and all((one.x, one.y, one.z) == (1, [], 4) for one in several)
    assert len({id(one.y) for one in several}) == 20


@pytest.mark.parametrize("wrong", [((), {}), ((1,), {"v": 2}), ((1,), {"x": 1}), ((1, [], 3), {}), ((), {"v": 1})])
def test_a_first_call_refuses_what_a_later_one_does(wrong):
    values, named = wrong
    made = fresh(record)
    for _ in range(2):
        with pytest.raises(TypeError, match="__init__"):
            made(*values, **named)


def test_what_follows_the_init_is_asked_at_first_calls_and_later():
    made = fresh(record)
    for _ in range(20):
        with pytest.raises(AssertionError):
            made(1, z=0)


def test_its_fields_are_given_as_those_of_a_dataclass():
    assert More(1, [2], 6, z=7) == More(1, y=[2], w=6, z=7) != More(1, [2], 6)
    assert [*inspect.signature(More).parameters] == ["x", "y", "w", "z"]


@value
class Slots:
    x: int
    y: int = 2
    z: int = field(default=0, compare=False, repr=False)


@value
class Own:
    x: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own)

    def __hash__(self) -> int:
        return 1


def test_a_value_equals_hashes_and_prints_as_a_frozen_dataclass_with_slots():
    assert Slots(1) == Slots(1, 2, 7) != Slots(2) and Slots(1) != Plain(1) and Slots(1) != (1, 2)
    assert hash(Slots(1, z=7)) == hash(Plain(1)) and repr(Slots(1, z=7)) == repr(Plain(1)).replace("Plain", "Slots")
    assert len({Own(1), Own(2)}) == 1 and not hasattr(Slots(1), "__dict__")


def test_a_value_is_frozen_and_may_be_copied():
    one = Slots(1, 2, 3)
    for name in ("x", "other"):
        with pytest.raises(FrozenInstanceError, match=name):
            setattr(one, name, 5)
        with pytest.raises(FrozenInstanceError, match=name):
            delattr(one, name)
    for copied in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one)), replace(one, x=1)):
        assert copied == one and copied.z == 3 and copied is not one


def test_a_dtype_is_one_object():
    for dtype in DTYPES.values():
        assert copy.deepcopy(dtype) is copy.copy(dtype) is pickle.loads(pickle.dumps(dtype)) is dtype
