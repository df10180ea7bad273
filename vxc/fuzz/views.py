"""Arrays that lie otherwise than declared: the plan that Python's calls compile for views (`api/strided.py`), run on such."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vxc.api.specialise import Units
from vxc.api.strided import with_strides
from vxc.binding import describe
from vxc.diag import VxcError
from vxc.diff import Executor, Results, flat_executor
from vxc.driver import compile_plan
from vxc.frontend.lower import lower
from vxc.frontend.typed import TypedKernel
from vxc.frontend.typed_program import TypedProgram
from vxc.inputs import Call
from vxc.interp.ast_interp import bind_shapes, poison
from vxc.ir.plan import Plan

VIEWS = "views"
OFTEN = 0.25  # of calls
STEPS = (1, 1, 2, 3)
BACKWARDS = "E0706"  # what is said of a tile that would be copied backwards


def viewed(kernel: TypedKernel | TypedProgram, call: Call, arch: str, seed: int) -> Executor | None:
    """Runs the kernel on views of the arrays of this call, made by chance; None where no array is one."""
    rng = np.random.default_rng((seed, 7))
    if rng.random() >= OFTEN:
        return None
    shapes = bind_shapes(kernel, {name: describe(array) for name, array in call.arrays.items()}, call.scalars, call.dims).shapes
    made: dict[str, _View] = {}
    for array in kernel.arrays:
        shape = shapes[array.name]
        if not any(array.pitches) and array.dtype.bits >= 8 and all(shape) and rng.random() < 0.7:
            made[array.name] = _View(rng, shape, array.dtype.numpy)
    try:
        plan = _plan(kernel, made, arch)
    except VxcError as error:
        if error.diagnostics[0].code != BACKWARDS:
            raise
        for view in made.values():
            view.turned = (False,) * len(view.turned)
        plan = _plan(kernel, made, arch)
    executor = flat_executor(VIEWS, kernel, plan)

    def run(call: Call, seed: int) -> Results:
        given = dict(call.arrays)
        for array in kernel.arrays:
            if array.name in made:
                data = call.arrays.get(array.name, poison(shapes[array.name], array.dtype))
                given[array.name] = made[array.name].of(data)
        found = executor.run(replace(call, arrays=given), seed)
        return {name: made[name].back(data) if name in made else data for name, data in found.items()}

    return replace(executor, run=run) if made else None


def _plan(kernel: TypedKernel | TypedProgram, made: dict[str, _View], arch: str) -> Plan:
    strided = {name: view.units() for name, view in made.items()}
    return compile_plan(with_strides(lower(kernel), strided), kernel, arch).plan


class _View:
    """How an array lies: in which order its dimensions, how far apart its elements, which dimensions backwards (`turned`)."""

    def __init__(self, rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype):
        self.order = tuple(map(int, rng.permutation(len(shape)))) if rng.random() < 0.4 else tuple(range(len(shape)))
        steps = rng.choice(STEPS, len(shape))
        self.turned = tuple(bool(rng.random() < 0.25) for _ in shape)
        whole = np.zeros([shape[d] * int(steps[d]) for d in self.order], dtype)
        part = whole[tuple(slice(None, None, int(steps[d])) for d in self.order)]
        self.memory = part.transpose(np.argsort(self.order))

    def units(self) -> Units:
        """As `api.specialise.units` has them, of strides without their signs."""
        strides = (n // self.memory.itemsize if extent > 1 else 0 for n, extent in zip(self.memory.strides, self.memory.shape))
        return tuple((-1 if turned else 1) * (1 if n == 1 else 2) for n, turned in zip(strides, self.turned))

    def of(self, array: np.ndarray) -> np.ndarray:
        """An array, as its kernel is passed it: dimensions that run backwards from their other end."""
        self.memory[...] = self.back(array)
        return self.memory

    def back(self, array: np.ndarray) -> np.ndarray:
        return array[tuple(slice(None, None, -1 if turned else 1) for turned in self.turned)]
