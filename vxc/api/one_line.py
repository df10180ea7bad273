"""`vxc.elementwise` and `vxc.reduction`: kernels of one line over arrays of any shapes that NumPy would broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vxc.api.devices import arch_named
from vxc.api.errors import expect, translated
from vxc.api.families import OneLine, axes_of, kept_of
from vxc.api.kernels import Kernel
from vxc.api.lines import Line, read_expressions, read_signature
from vxc.api.specialise import Recipe
from vxc.diag import Diagnostic, VxcError, suggestion
from vxc.register_cap import register_cap
from vxc.semantics import REDUCTIONS
from vxc.source import Source
from vxc.target import Target

Axis = int | Sequence[int] | None


def elementwise(
    signature: str, expression: str | Sequence[str], *, name: str = "elementwise", target: str | Target | None = None
) -> Kernel:
    """A kernel over arrays that broadcast: `vxc.elementwise("x: f32, y: f32 -> f32", "x * x + y")`; its output is `result`.

    Arrays may have any number of dimensions, none too, and sizes of 1, as for NumPy; the result has the shape of all together, and an
    output that is given must have it (`out=`, or by its name or place). Those of one shape without gaps are one flat dimension.
    `a: scalar f32` declares a number; a number is also taken for an array. A capital letter is any dtype, the same wherever it
    stands: `"x: T, y: T -> T"`. Several outputs have an expression each, and may have names:
    `vxc.elementwise("x: f32, y: f32 -> s: f32, d: f32", ("x + y", "x - y"))`.

    Raises `CompileError` for what is wrong with the text, and `LaunchError` E0705 when called with arrays that do not broadcast.
    """
    with translated():
        return _made("elementwise", signature, expression, name, target)


def reduction(
    signature: str,
    expression: str | Sequence[str],
    op: str = "sum",
    *,
    axis: Axis = -1,
    keepdims: bool = False,
    name: str = "reduction",
    target: str | Target | None = None,
) -> Kernel:
    """A kernel that reduces what an expression gives: `vxc.reduction("x: f32, y: f32 -> f32", "x * y")`, of [M, N] the sums of M rows.

    `op` is a reduction of the language: sum, prod, max, min, absmax, any, all, argmax, argmin (which counts in the dimensions that are
    reduced, the first outermost, and gives i64). `axis` is an int or several, from the last where negative, or None for all; `keepdims`
    leaves them with size 1. A call may say otherwise: `k(x, axis=None)`. Where nothing is reduced the result is the language's: 0 for
    sum, -inf for max. Signature, expressions, shapes and errors as for `elementwise`; the output is `result`.
    """
    with translated():
        expect("the `op` of vxc.reduction", op, str, "a str such as 'sum'")
        if op not in REDUCTIONS:
            mean = op in ("mean", "average", "avg")
            known = f"reductions are {', '.join(REDUCTIONS)}"
            hint = "take 'sum', and divide by how many there are" if mean else suggestion(op, REDUCTIONS, known)
            raise VxcError(Diagnostic("E0207", f"there is no reduction `{op}`", help=hint))
        return _made("reduction", signature, expression, name, target, op=op, axis=axes_of(axis), keepdims=kept_of(keepdims))


def _made(function: str, signature: Any, expression: Any, name: str, target: str | Target | None, **more: Any) -> Kernel:
    expect(f"the `signature` of vxc.{function}", signature, str, "a str such as 'x: f32, y: f32 -> f32'")
    expect(f"the `name` of vxc.{function}", name, str, "a str such as 'fma'")
    if not name.isidentifier():
        message = f"the `name` of vxc.{function} is {name!r}, and kernels are called as variables are"
        raise VxcError(Diagnostic("E0107", message, help="write letters, digits and `_`, as in 'fma'"))
    wanted = "a str such as 'x * y'"
    expect(f"the `expression` of vxc.{function}", expression, (str, tuple, list), wanted)
    texts = (expression,) if isinstance(expression, str) else tuple(expression)
    for one in texts:
        expect(f"an `expression` of vxc.{function}", one, str, wanted)
    inputs, scalars, outputs = read_signature(signature)
    line = Line(name, inputs, scalars, outputs, read_expressions(texts, len(outputs), signature, name), **more)
    cap = register_cap(None)
    return OneLine(line, Recipe(Source("", ""), name, maxrregcount=cap, alone=True), arch_named(target))
