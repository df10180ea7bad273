"""Rows further apart than they are long: pitches that arguments show, leave open or contradict, alone and through a program."""

from __future__ import annotations

import numpy as np
import pytest

from tests.everywhere import compiled, output, outputs
from vxc.diag import VxcError
from vxc.dtypes import DTYPES
from vxc.interp.ast_interp import run_ast
from vxc.interp.flat_interp import run_flat


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


@pytest.mark.parametrize("batch", [0, 1, 2])
@pytest.mark.parametrize("pitch", ["7", "lm", "2 * N"])
def test_rows_with_a_pitch_inside_a_batch(pitch, batch):
    """Of one batch no stride tells the pitch of its rows."""
    text = f"kernel k(x: f32[B, M : {pitch}, N], out y: f32[B, M, N]) {{ parallel b in B, i in M, j in N {{ y[b, i, j] = x[b, i, j]; }} }}"
    x = rng().standard_normal((batch, 8 if pitch[0] == "2" else 7, 4), np.float32)[:, :5]
    assert output(text, x=x).tolist() == x.tolist()


@pytest.mark.parametrize("shape", [(3, 5, 0), (3, 0, 4), (0, 5, 4), (3, 1, 0)])
def test_a_pitch_of_rows_without_elements(shape):
    text = "kernel k(x: f32[B, M : lm, N], inout y: i64[1]) { y[0] += 1; }"
    assert output(text, x=np.zeros(shape, np.float32), y=np.zeros(1, np.int64)).tolist() == [1]


@pytest.mark.parametrize("pitch, dims", [("7", {}), ("lm", {"lm": 9}), ("2 * N", {}), ("8, N : 6", {})])
def test_rows_of_an_output_that_the_call_leaves_out(pitch, dims):
    pitched = f"B, M : {pitch}" + ("" if "," in pitch else ", N")
    text = f"kernel k(x: f32[B, M, N], out y: f32[{pitched}]) {{ parallel b in B, i in M, j in N {{ y[b, i, j] = x[b, i, j]; }} }}"
    x = rng().standard_normal((2, 5, 4), np.float32)
    assert output(text, x=x, dims=dims).tolist() == x.tolist()


@pytest.mark.parametrize("shape", [(3, 1, 1, 5), (3, 1, 4, 5), (1, 3, 1, 5), (1, 1, 3, 5), (1, 1, 1, 5), (3, 2, 1, 1)])
@pytest.mark.parametrize("dims", ["A, B, C, D : ld", "A, B, C : ld, D", "A, B : ld, C, D : 7", "A, B, C : lc, D : ld"])
def test_dimensions_of_one_element_show_no_stride(dims, shape):
    """The nearest dimension outside does."""
    body = "parallel a in A, b in B, c in C, d in D { y[a, b, c, d] = x[a, b, c, d]; }"
    text = f"kernel k(x: f32[{dims}], out y: f32[A, B, C, D]) {{ {body} }}"
    allotted = [7 if "ld" in part or "7" in part else 6 if "lc" in part else n for part, n in zip(dims.split(", "), shape)]
    x = rng().standard_normal(allotted, np.float32)[tuple(map(slice, shape))]
    assert output(text, x=x).tolist() == x.tolist()


def test_atomics_on_rows_with_a_pitch():
    text = "kernel k(inout y: i32[M, N : ld]) { parallel i in M { parallel j in N { atomic_add(y[i, (j * 3) % N], 1); } } }"
    y = np.arange(24, dtype=np.int32).reshape(3, 8)[:, :5]
    assert output(text, y=y).tolist() == (y + 1).tolist()


@pytest.mark.parametrize("inner", ["f32[M, N]", "f32[M, N : 7]"])
def test_a_program_does_not_pass_rows_with_another_pitch(inner):
    text = f"kernel one(x: {inner}, out y: f32[M, N]) {{ y = x; }} program p(x: f32[M, N : ld], out y: f32[M, N]) {{ one(x, y); }}"
    made, x = compiled(text, binary=False), np.zeros((3, 6), np.float32)[:, :5]
    for run in (run_ast, lambda _, *call: run_flat(made.tile, *call), lambda _, *call: run_flat(made.plan, *call)):
        with pytest.raises(VxcError) as caught:
            run(made.typed, {"x": x}, {})
        assert {d.code for d in caught.value.diagnostics} == {"E0705"}


def test_a_size_for_a_pitch_that_follows_from_others_is_no_size_of_the_call():
    text = "kernel k(x: f32[M], out y: f32[3, M, 7 : lm, 7], inout z: f32[2]) { parallel i in 2 { z[i] += 1.0; } }"
    got = outputs(text, x=np.zeros(0, np.float32), z=np.zeros(2, np.float32), dims={"lm": 8})
    assert got["y"].shape == (3, 0, 7, 7) and got["z"].tolist() == [1, 1]


@pytest.mark.parametrize("dtype", ["float32", "float8_e5m2"])
def test_rows_with_a_pitch_through_a_program(dtype):
    name = {"float32": "f32", "float8_e5m2": "f8e5m2"}[dtype]
    text = f"""kernel one(x: {name}[M, N : ld], out y: {name}[M, N : 6], inout z: {name}[M, N : lz]) {{
        parallel i in M, j in N {{ y[i, j] = x[i, j]; z[i, j] += x[i, j]; }} }}
    program p(x: {name}[M, N : la], out y: {name}[M, N : 6], inout z: {name}[M, N : lb]) {{ one(x, y, z); }}"""
    wide = (np.arange(24).reshape(4, 6) % 5).astype(DTYPES[name].numpy)
    x, z = wide[:, :5], np.concatenate([wide, wide], axis=1)[:, :5]
    got = outputs(text, x=x, z=z)
    assert got["y"].astype("f4").tolist() == x.astype("f4").tolist()
    assert got["z"].astype("f4").tolist() == (x.astype("f4") + z.astype("f4")).tolist()
