"""Generated programs on arrays that lie otherwise than declared: what runs, and that a fault in it is noticed."""

from __future__ import annotations

import numpy as np
import pytest

import vxc.api.strided
from vxc.diff import Disagreement, ast_executor, findings
from vxc.fuzz import views
from vxc.fuzz.case import Case
from vxc.fuzz.examine import examine
from vxc.fuzz.gen import generate
from vxc.fuzz.views import viewed

PROGRAMS = 12


def found(seed: int) -> Disagreement | None:
    """What views of a program's arrays change, if they change anything."""
    case = Case.of(generate(seed))
    kernel = case.typed()[1]
    call = case.call(kernel)
    executor = viewed(kernel, call, "sm_90a", seed)
    return next(findings([ast_executor(kernel), executor], {"its arguments": call}), None) if executor else None


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(views, "OFTEN", 1.0)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_views_change_nothing(seed):
    assert not isinstance(found(seed), Disagreement)


def test_arrays_that_run_backwards_by_mistake_are_noticed(monkeypatch):
    monkeypatch.setattr(vxc.api.strided, "_turned", lambda launch, kernel, backwards: kernel)
    assert sum(isinstance(found(seed), Disagreement) for seed in range(PROGRAMS)) > PROGRAMS // 4
    outcome = next(o for seed in range(PROGRAMS) if (o := examine(Case.of(generate(seed)))).failure)
    assert (outcome.failure.kind, outcome.failure.where) == ("difference", "views")


@pytest.mark.parametrize("seed", range(20))
def test_a_view_holds_what_the_array_does(seed):
    array = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    view = views._View(np.random.default_rng(seed), array.shape, array.dtype)
    given = view.of(array)
    assert given.base is not None and np.array_equal(view.back(given), array)
    for unit, turned, stride in zip(view.units(), view.turned, given.strides):
        assert (unit < 0) == turned and stride > 0 and (abs(unit) == 1) == (stride == array.itemsize)
