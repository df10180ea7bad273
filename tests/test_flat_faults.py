"""The flat interpreter at stage=tile: the faults that it finds, and how it words them."""

from __future__ import annotations

import numpy as np
from flat_kernels import fault, run, scaled


def test_out_of_bounds():
    text = scaled("%0: i64 = add %i, 2\n%1: i64 = load @x, %0\nstore @y, %i, %1")
    assert fault(text, {"x": np.arange(10)}) == ("E0720", "index 10 is out of range for dimension 0 of `x`, which has 10 (at i=8)")
    guarded = scaled("%0: i64 = add %i, 2\n%2: bool = lt %0, %N\nif %2\n%1: i64 = load @x, %0\nstore @y, %i, %1\nend")
    np.testing.assert_array_equal(run(guarded, {"x": np.arange(10), "y": np.zeros(10, int)})["y"], [2, 3, 4, 5, 6, 7, 8, 9, 0, 0])


def test_asserts_and_prints(capsys):
    text = scaled('%0: bool = lt %i, 3\nassert %0 {message="small"}\nprint %i, %0 {label="i"}')
    assert fault(text, {"x": np.arange(5)}) == ("E0723", "assertion failed: small (at i=3)")
    run(text, {"x": np.arange(2)})
    assert capsys.readouterr().err == "i 0 true\ni 1 true\n"


def test_division_by_zero_traps_on_request():
    text = scaled("%0: i64 = load @x, %i\n%1: i64 = floordiv 7, %0\nstore @y, %i, %1")
    x = np.array([2, 0, -2])
    assert run(text, {"x": x})["y"].tolist() == [3, 0, -4]
    assert fault(text, {"x": x}, trap_div=True) == ("E0724", "integer division by zero (at i=1)")


def test_a_step_of_zero():
    text = scaled('%0: i64 = load @x, %i\n%k = loop 0, 3, %0 {kind="serial"}\nend %k')
    code, _ = fault(text, {"x": np.array([1, 0])})
    assert code == "E0731"


def test_iterations_that_collide():
    half = "%0: i64 = floordiv %i, 2\nstore @y, %0, %i"
    code, message = fault(scaled(half, independent='independent="so I say", '), {"x": np.arange(4)})
    assert (code, message) == ("E0722", "iterations 0 and 1 both write `y[0]`")
    shifted = "%0: i64 = add %i, 1\n%1: i64 = mod %0, %N\n%2: i64 = load @y, %1\nstore @y, %i, %2"
    params = "%N: i64, @y: i64[%N] inout"
    code, message = fault(scaled(shifted, params), {"y": np.arange(4)})
    assert (code, message) == ("E0722", "iterations 0 and 3 access, and one writes, `y[0]`")
    assert run(scaled(half), {"x": np.arange(4)}, debug=False)["y"].shape == (4,)


def test_inner_iterations_that_collide_and_sibling_loops_that_do_not():
    text = """
kernel @k(%N: i64, @y: i64[%N, 8] inout) stage=tile {
  %i = loop 0, %N {kind="parallel"}
    %j = loop 0, 8 {kind="parallel"}
      store @y, %i, %j, %j
    end %j
    %k = loop 0, 8 {kind="parallel"}
      %0: i64 = sub 7, %k
      %1: i64 = load @y, %i, %0
      STORE
    end %k
  end %i
}
"""
    y = {"y": np.zeros((3, 8), np.int64)}
    assert run(text.replace("STORE", ""), y)["y"].tolist() == [list(range(8))] * 3
    code, message = fault(text.replace("STORE", "store @y, %i, %k, %1"), y)
    assert code == "E0722" and "inner iterations" in message and "of iteration 0" in message
