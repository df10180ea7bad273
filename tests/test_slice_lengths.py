"""A slice whose end is not ahead of its start is empty, and one that leaves its array is a fault, whatever the bounds: in all executors."""

from __future__ import annotations

import numpy as np
import pytest
from test_steps import made, plans_of

from vxc.diag import VxcError
from vxc.diff import first_difference
from vxc.interp.ast_interp import run_ast
from vxc.interp.flat_interp import run_flat

SIZE = 5
BOUNDS = (-(2**63), -1, 0, 2, SIZE, SIZE + 1, 2**31, 2**63 - 1)
ROW, ONE = "kernel k(x: {t}[N, N], s: i64, inout y: {t}[N])", "kernel k(x: {t}[N], s: i64, inout y: {t}[1])"
SLICES = {"s": (0, "s", 1), "3:s": (3, "s", 1), "s:3": ("s", 3, 1), "s:": ("s", SIZE, 1), "3:s:2": (3, "s", 2), "s:4:3": ("s", 4, 3)}
REDUCED = {
    "i32 sum": ("i32", "sum(x[i, {}])", np.sum, 0),
    "f32 sum": ("f32", "sum(x[i, {}])", np.sum, 0.0),
    "max": ("f32", "max(x[i, {}])", np.max, -np.inf),
    "min": ("f32", "min(x[i, {}])", np.min, np.inf),
    "absmax": ("f32", "absmax(x[i, {}])", lambda row: np.abs(row).max(), 0.0),
    "argmax": ("i32", "argmax(x[i, {}]) as i32", np.argmax, None),
    "dot": ("f32", "dot(x[i, {}], x[i, {}])", lambda row: (row * row).sum(), 0.0),
    "expression": ("f32", "sum(x[i, {}] * 2.0 + x[i, {}])", lambda row: (row * 3).sum(), 0.0),
}
TEXTS = {f"{name} {part}": (f"{ROW} {{{{ parallel i in N {{{{ y[i] = {text}; }}}} }}}}", t, part) for name, (t, text, *_) in REDUCED.items()
         for part in SLICES if name in ("i32 sum", "f32 sum", "argmax") or part in ("s", "3:s")}  # fmt: skip
TEXTS |= {f"alone {part}": (ONE + " {{ y[0] = sum(x[{}]); }}", "f32", part) for part in SLICES}
TEXTS |= {f"scan {part}": (ROW + " {{ parallel i in 1 {{ y[{}] = cumsum(x[i, {}]); }} }}", "f32", part) for part in ("s", "3:s", "s:3")}
TEXTS |= {f"store {part}": (ROW + " {{ parallel i in 1 {{ y[{}] = x[i, {}] * 2.0; }} }}", "f32", part) for part in ("s", "s:3")}


def text_of(name: str) -> str:
    text, t, part = TEXTS[name]
    part = f":{part}" if part == "s" else part
    return text.replace("{t}", t).replace("{}", part).replace("{{", "{").replace("}}", "}")


def arguments(name: str, s: int) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    dtype = np.int32 if TEXTS[name][1] == "i32" else np.float32
    x = (np.arange(SIZE * SIZE).reshape(SIZE, SIZE) % 7 - 2).astype(dtype)
    alone = name.startswith("alone")
    return {"x": x[0] if alone else x, "y": np.full(1 if alone else SIZE, 77, dtype)}, {"s": s}


def outcome(run, code, name: str, s: int, **more) -> dict[str, np.ndarray] | str:
    try:
        return run(code, *arguments(name, s), **more)
    except VxcError as error:
        return error.diagnostics[0].code


def same(a, b) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return a is b or isinstance(a, str) and a == b
    return first_difference(a, b) is None


def bounds_of(name: str, s: int) -> tuple[int, int, int]:
    return tuple(s if bound == "s" else bound for bound in SLICES[TEXTS[name][2]])


def faulty(name: str, s: int) -> bool:
    """Whether an element of the slice lies outside of its row."""
    taken = range(*bounds_of(name, s))
    return bool(taken) and not (0 <= taken[0] and taken[-1] < SIZE)


@pytest.mark.parametrize("name", TEXTS)
def test_executors_agree_after_every_pass(name):
    compiled = made(text_of(name))
    plans = plans_of(compiled)
    for s in BOUNDS:
        expected = outcome(run_ast, compiled.typed, name, s)
        assert (expected == "E0720" if isinstance(expected, str) else False) == faulty(name, s), s
        for plan in plans:
            got = outcome(run_flat, plan, name, s, seed=1)
            assert same(expected, got), (s, expected, got)


@pytest.mark.parametrize("name", [name for name in TEXTS if name.rsplit(" ", 1)[0] in REDUCED])
def test_values_are_those_of_numpy(name):
    _, _, reduced, empty = REDUCED[name.rsplit(" ", 1)[0]]
    code = made(text_of(name)).typed
    for s in BOUNDS:
        start, stop, step = bounds_of(name, s)
        if not faulty(name, s) and (empty is not None or range(start, stop, step)):
            given, got = arguments(name, s)[0]["x"], outcome(run_ast, code, name, s)["y"]
            rows = [row[[*range(start, stop, step)]] for row in given]
            wanted = np.array([reduced(row) if row.size else empty for row in rows], given.dtype)
            assert got.tobytes() == wanted.tobytes(), s


@pytest.mark.parametrize("part, asks", [
    (":", False), (":i", False), (":i + 1", False), ("2 * i:3 * i", False), ("0 :+ N", False), ("i // 2 :+ i % 3", False),
    (":min(i, N)", False), ("i:", True), (":i - 3", True), (":s", True), ("0 :+ s", True),
])  # fmt: skip
def test_what_is_never_negative_is_not_asked_about(part, asks):
    compiled = made(f"{ROW.replace('{t}', 'f32')} {{ parallel i in N {{ y[i] = sum(x[i, {part}]); }} }}")
    assert any(inst.op == "max" for inst in compiled.tile.kernels[0].insts) == asks
