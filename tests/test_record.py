"""A record is what `dataclass(frozen=True)` makes, but for the methods that it shares."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, replace
from functools import cached_property

import pytest

from vxc.record import record


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
