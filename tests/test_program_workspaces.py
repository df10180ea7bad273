"""The arrays that a program declares: filled before they are read, and of the sizes that its calls need; who is named where not."""

from __future__ import annotations

import numpy as np
import pytest
from cli_tool import vxc as command

import vxc

FILL = "kernel fill(x: f32[N], out w: f32[N]) { parallel i in N { w[i] = x[i]; } }\n"
HALF = "kernel half(x: f32[N], out w: f32[N]) { parallel i in N // 2 { w[i] = x[i]; } }\n"
READ = "kernel read(w: f32[N], out y: f32[N]) { parallel i in N { y[i] = w[i]; } }\n"
BOTH = "kernel both(z: f32[M], out w: f32[M], out y: f32[M]) { parallel i in M { w[i] = z[i]; y[i] = z[i]; } }\n"
SIZES = BOTH + "program p(x: f32[N], z: f32[M], out y: f32[M]) { local v: f32[N]; both(z, v, y); }\n"


def program(body: str) -> str:
    return FILL + READ + f"program p(x: f32[N], out y: f32[N]) {{ local v: f32[N]; {body} }}\n"


@pytest.mark.parametrize("body, help", [
    ("read(v, y); fill(x, v);", "call `fill` before `read`"),
    ("read(v, y);", "call a kernel first to which `v` is `out`"),
])  # fmt: skip
def test_a_workspace_that_is_read_before_it_is_filled_is_refused(body, help):
    got = command("check", "-", stdin=program(body))
    assert got.status == 1 and "error[E0233]: `read` reads `v`, which no call before it has filled" in got.err
    assert f"= help: {help}" in got.err and ("filled here" in got.err) == ("fill(" in body)


def test_a_workspace_that_is_filled_is_not_refused():
    assert command("check", "-", stdin=program("fill(x, v); read(v, y);")).status == 0


def test_sizes_that_the_example_shows_to_disagree_are_refused():
    wrong = command("check", "-", stdin=SIZES + "example p(x = rand(f32, 8), z = rand(f32, 9));")
    assert wrong.status == 1 and "dimension 0 of the `local` array `v` is 8, and `both` needs 9 for `w`" in wrong.err
    assert command("check", "-", stdin=SIZES + "example p(x = rand(f32, 9), z = rand(f32, 9));").status == 0
    halved = SIZES.replace("v: f32[N]", "v: f32[n]").replace("{ local", "{ let n = N // 2 + 1; local")
    assert command("check", "-", stdin=halved + "example p(x = rand(f32, 16), z = rand(f32, 9));").status == 0
    assert command("check", "-", stdin=halved + "example p(x = rand(f32, 16), z = rand(f32, 8));").status == 1


@pytest.mark.parametrize("on, words", [
    ("flat", "dimension 0 of `w` is M in the call of `both`, which passes the `local` array `v`"), ("ast", "in this call of `both`"),
])  # fmt: skip
def test_sizes_that_disagree_at_run_time_name_the_call(on, words):
    got = command("run", "-", "--on", on, "-a", "x=rand:f32[8]", "-a", "z=rand:f32[9]", stdin=SIZES)
    assert got.status == 1 and words in got.err and "error[E0705]" in got.err and "both(z, v, y)" in got.err


@pytest.mark.parametrize("on", ["flat", "flat:thread", "ast"])
def test_a_workspace_that_is_filled_in_part_is_told_from_a_barrier(on):
    got = command("run", "-", "--on", on, "-a", "x=rand:f32[8]", stdin=program("half(x, v); read(v, y);") + HALF)
    assert got.status == 1 and "error[E0721]" in got.err and "barrier" not in got.err
    assert "help: call the kernel that fills all of it before: the program declares it with nothing in it" in got.err


def test_faults_from_python_say_where():
    p = vxc.kernel(program("half(x, v); read(v, y);") + HALF)
    with pytest.raises(vxc.LaunchError) as caught:
        p(np.ones(8, np.float32), device="cpu")
    assert "E0721: `v[4]` is read" in str(caught.value) and str(caught.value).endswith(" (`w[i]` at <kernel>:2:66)")
