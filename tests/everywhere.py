"""Helper of tests about what kernels compute: one call on every interpreter, which must agree, and machine code made of it."""

from __future__ import annotations

import numpy as np
import pytest

from vxc.diag import VxcError
from vxc.diff import first_difference
from vxc.driver import Compiled, compile
from vxc.dtypes import from_numpy
from vxc.interp.ast_interp import run_ast
from vxc.interp.flat_interp import run_flat
from vxc.source import Source


TEAMS = "place-barriers"  # the last pass before lanes are explicit


def compiled(text: str, *, binary: bool = True, **defines) -> Compiled:
    """The only kernel of a text; with `binary`, NVRTC has accepted what is emitted for it."""
    made = compile(Source("case.vx", text), defines=defines)
    if binary:
        assert made.binary.cubin
    return made


def outputs(text: str, *, binary: bool = True, dims=None, defines: dict | None = None, **arguments) -> dict[str, np.ndarray]:
    """Every output: the same bits from the syntax tree, from the IR as lowered, from teams, and from threads in two orders."""
    return agreed(compiled(text, binary=binary, **(defines or {})), dims=dims, **arguments)


def agreed(made: Compiled, *, dims=None, **arguments) -> dict[str, np.ndarray]:
    """`outputs` of a kernel that is compiled."""
    arrays = {name: value for name, value in arguments.items() if isinstance(value, np.ndarray)}
    scalars = {name: value for name, value in arguments.items() if name not in arrays}
    expected = run_ast(made.typed, arrays, scalars, dims=dims)
    for plan, seed in ((made.tile, 0), (made.after(TEAMS), 0), (made.plan, 0), (made.plan, 1)):
        difference = first_difference(expected, run_flat(plan, arrays, scalars, dims=dims, seed=seed))
        assert not difference, f"{plan.kernels[0].stage}: {difference}"
    return expected


def output(text: str, **call) -> np.ndarray:
    """The only output."""
    (value,) = outputs(text, **call).values()
    return value


def each(result: str, expression: str, *, binary: bool = True, **arrays: np.ndarray) -> np.ndarray:
    """`expression` for every element of equally long arrays: in it, `x` is the element of `arrays["x"]`; `result` its dtype."""
    params = "".join(f"{name}_: {from_numpy(value.dtype)}[N], " for name, value in arrays.items())
    lets = " ".join(f"let {name} = {name}_[i];" for name in arrays)
    text = f"kernel k({params}out o_: {result}[N]) {{ parallel i in N {{ {lets} o_[i] = {expression}; }} }}"
    return output(text, binary=binary, **{f"{name}_": value for name, value in arrays.items()})


def constant(result: str, expression: str) -> np.ndarray:
    """The one value of an expression of constants."""
    return output(f"kernel k(out o: {result}[1]) {{ parallel i in 1 {{ o[i] = {expression}; }} }}")


def bits(array: np.ndarray) -> list[int]:
    return array.view(f"u{array.dtype.itemsize}").ravel().tolist()


def refused(text: str) -> list[str]:
    """The codes for which a kernel does not compile."""
    with pytest.raises(VxcError) as caught:
        compile(Source("case.vx", text))
    return [d.code for d in caught.value.diagnostics]
