"""No barrier between trips of a loop that touch different elements, and one wherever two of them, or what follows, meet.

The machine of threads notices every race, under each of its orders, so a barrier that is missing fails the run.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.everywhere import compiled, outputs
from vxc.ir.kernel import Kernel
from vxc.ir.walk import Regions

OWN = "s[e // 128, e // 16 % 8, e % 16]"  # an element of s: u8[8, 8, 16] by the three digits of its number


def kernel(body: str) -> str:
    params = "x: u8[1024], out y: u8[1024], out z: u8[64]"
    return f"kernel k({params}) {{ @threads(64) grid b in 1 {{ shared s: u8[8, 8, 16]; {body} }} }}"


def filled(e: str, trips: int = 8, loop: str = "serial r in {}", more: str = "") -> str:
    """Trips that each write 128 elements, e being the number of one, and then what reads all in another order.

    Of the zeros that are there before, no trip has to wait: d is read behind a barrier.
    """
    zeros = f"parallel i in 64 {{ d[i] = 5; }} parallel e in 1024 {{ {OWN} = 0; }} parallel i in 64 {{ z[i] = d[63 - i]; }}"
    write = f"parallel t in 128 {{ let e = {e}; {OWN} = x[e]; }}"
    read = "parallel f in 1024 { y[f] = s[(1023 - f) // 128, (1023 - f) // 16 % 8, (1023 - f) % 16]; }"
    return kernel(f"shared d: u8[64]; {zeros} {loop.format(trips)} {{ {write} {more} }} {read}")


def barriers(text: str) -> tuple[int, int]:
    """How many stand in a serial loop, and how many in none."""
    (found,) = compiled(text, binary=False).plan.kernels
    inside = [_in_serial(found, at) for at, inst in enumerate(found.insts) if inst.op == "barrier"]
    return sum(inside), len(inside) - sum(inside)


def _in_serial(found: Kernel, at: int) -> bool:
    return any(found.insts[p].result is not None and found.insts[p].result.name == "r" for p in Regions.of(found.insts).parents(at))


def check(text: str, want: np.ndarray, x: np.ndarray) -> None:
    found = outputs(text, binary=False, x=x)
    assert found["y"].tolist() == want.tolist() and found["z"].tolist() == [5] * 64


X = np.random.default_rng(0).integers(0, 256, 1024).astype(np.uint8)


DIFFERENT = ["r*128 + t", "(7 - r)*128 + t", "t*8 + r", "t // 4 * 32 + r*4 + t % 4", "(r*128 + t) // 16 * 16 + (15 - t % 16)"]


@pytest.mark.parametrize("e", DIFFERENT)
def test_trips_that_touch_different_elements_wait_for_none(e):
    text = filled(e)
    assert barriers(text)[0] == 0
    check(text, X[::-1], X)


@pytest.mark.parametrize("e", ["r*64 + t", "(r*128 + t) % 512", "(r % 4)*128 + t", "(r ^ r)*128 + t", "r // 2 * 128 + t", "(t + r) % 128"])
def test_trips_that_meet_wait_for_each_other(e):
    text = filled(e)
    assert barriers(text)[0] == 1
    r, t = np.mgrid[0:8, 0:128]
    touched = np.zeros(1024, bool)
    touched[eval(e)] = True  # noqa: S307 -- the same expression in NumPy
    check(text, np.where(touched, X, 0)[::-1], X)


def test_what_follows_the_loop_waits_for_all_its_trips():
    text = filled("r*128 + t")
    assert barriers(text)[1] == 2  # before the loop and behind it
    check(text, X[::-1], X)


def test_what_follows_a_loop_waits_for_the_trip_that_left_it():
    """The other trips end behind a barrier, for d."""
    text = filled("r*128 + t", more="if r == 5 { break; } parallel i in 64 { d[i] = 5; } parallel i in 64 { z[i] = d[63 - i]; }")
    check(text, np.where(np.arange(1024) < 6 * 128, X, 0)[::-1], X)


def test_a_read_of_what_another_trip_wrote_waits():
    """The writes alone are apart."""
    text = filled("r*128 + t", more="if r > 0 { parallel u in 128 { y[u] = s[r - 1, u // 16, 15 - u % 16]; } }")
    assert barriers(text)[0] >= 1
    check(text, X[::-1], X)


def test_trips_of_an_outer_loop_meet_where_those_of_the_inner_do_not():
    text = filled("q*128 + (t + r) % 128", loop="serial r in 2 {{ serial q in {}", more="}")
    assert barriers(text)[0] == 1
    check(text, X[::-1], X)


def test_trips_of_an_inner_loop_meet_where_those_of_the_outer_do_not():
    text = filled("r*128 + (t + q) % 128", loop="serial r in {} {{ serial q in 2", more="}")
    assert barriers(text)[0] == 1
    check(text, X[::-1], X)


def test_an_array_in_bytes_of_another_waits_for_that():
    """p and q share bytes; trips of each are apart."""
    text = kernel(
        """parallel i in 64 { z[i] = 5; }
        serial r in 4 {
            shared p: u8[4, 128]; parallel t in 128 { p[r, t] = x[r*128 + t]; } parallel t in 128 { y[r*128 + t] = p[r, 127 - t]; }
            s[0, 0, 0] = 1;
            shared q: u8[4, 128]; parallel t in 128 { q[3 - r, t] = x[t]; } parallel t in 128 { y[512 + r*128 + t] = q[3 - r, 127 - t]; }
        }"""
    )
    (found,) = compiled(text, binary=False).plan.kernels
    assert found.attr("shared_bytes") == 512 + 1024
    assert barriers(text)[0] == 4
    check(text, np.concatenate([*X[:512].reshape(4, 128)[:, ::-1], *[X[127::-1]] * 4]), X)
