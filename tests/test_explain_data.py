"""What `vxc explain --json` has of fused loops, layouts and traffic."""

from __future__ import annotations

import pytest
from cli_tool import SAMPLES, vxc
from test_explain import explained, launch


def nest(index: str, line: int, how: str = "nest") -> dict:
    return {"index": index, "line": line, "how": how}


def test_siblings_that_are_one_loop():
    (fused,) = launch(SAMPLES / "momentum.vx")["loops"]
    assert (fused["index"], fused["line"], fused["fused_with"]) == ("i", 3, [nest("i", 4, "sibling")])
    (fused,) = launch(SAMPLES / "swiglu.vx")["loops"]
    assert fused["fused_with"] == [nest("j", 3), nest("i", 4, "sibling"), nest("j", 4, "sibling")]
    said = "parallel over i, j: one thread runs each iteration; the one over i, j on line 4 is part of it"
    assert said in vxc("explain", SAMPLES / "swiglu.vx").out
    loops = "parallel i in N { y[i] = x[i]; } parallel i in N { z[i] = y[N - 1 - i]; }"
    apart = f"kernel f(x: f32[N], out y: f32[N], out z: f32[N]) {{ {loops} }}"
    (kernel,) = explained("-", "-a", "x=rand:f32[64]", stdin=apart)["kernels"]
    assert [x["fused_with"] for one in kernel["launches"] for x in one["loops"]] == [[], []]


def test_layouts():
    one = launch(SAMPLES / "transpose_tile.vx", "--dynamic")
    found = {(x["kind"], x["buffer"] or x["index"], x["line"]): x for x in one["layouts"]}
    tile, shared = found["fragment", "flipped", 5], found["shared", "tile", 4]
    assert (tile["shape"], tile["layout"]) == ([32, 32], "[e] -> [e % 256, e // 256]")
    assert (tile["threads"], tile["slots"], tile["replicas"]) == (256, 4, 1) and tile["bytes"] is tile["pitch"] is tile["offset"] is None
    assert (shared["shape"], shared["offset"], shared["bytes"], shared["pitch"]) == ([32, 32], 0, 2048, None)
    assert len(shared["swizzle"]) == 3
    assert shared["bytes"] == one["resources"]["shared_bytes"] and shared["layout"] is shared["threads"] is None
    assert found["loop", "i", 7]["layout"] == tile["layout"] and found["loop", "i", 7]["shape"] == [1024]
    said = "element [e] of flipped, counted in memory order, is number e // 256 of thread e % 256\n"
    assert said in vxc("explain", SAMPLES / "transpose_tile.vx").out
    (row,) = [x for x in launch(SAMPLES / "rowdot.vx")["layouts"] if x["kind"] == "reduction"]
    assert (row["buffer"], row["shape"], row["threads"], row["slots"]) == ("dot", [64], 16, 4)
    (kernel,) = explained(SAMPLES / "softmax.vx", "--dynamic")["kernels"]  # rows as long as only the call knows
    unknown = [x for one in kernel["launches"] if one["kernel"] == "softmax" for x in one["layouts"]]
    assert unknown and all(x["layout"] and x["shape"] is x["threads"] is x["slots"] is None for x in unknown)


@pytest.mark.parametrize("size", [1, 1000, 1001, 262_144, 400_003])
def test_a_copy_moves_each_sector_once(size):
    """Where the elements behind the last vector begin a sector, which no other request touches then."""
    traffic = launch(SAMPLES / "copy.vx", "-a", f"x=rand:f32[{size}]")["traffic"]
    assert traffic["moved_bytes"] == traffic["minimum_bytes"] == 2 * 32 * -(-size // 8)


LARGER = [
    ("transpose", "f64", "511,513"), ("transpose", "f64", "1023,2049"), ("transpose", "f16", "1023,1025"),
    ("transpose_tile", "f16", "777,1025"),
    ("softmax", "f32", "3000,77"), ("rowsum", "f32", "9000,64"), ("argmax", "f32", "300,77"), ("stencil2d", "f32", "200,333"),
    ("swiglu", "f32", "500,131"), ("rmsnorm", "f16", "300,1000"), ("conv1d", "f32", "90,2000"), ("histogram", "i32", "70000"),
]  # fmt: skip


@pytest.mark.parametrize("name, dtype, shape", LARGER)
def test_nothing_moves_less_than_the_least(name, dtype, shape):
    how = f"randint:{dtype}[{shape}]:0:64" if dtype == "i32" else f"rand:{dtype}[{shape}]"
    given = [word for array in ("x", "g")[: 1 + (name == "swiglu")] for word in ("-a", f"{array}={how}")]
    for kernel in explained(SAMPLES / f"{name}.vx", *given)["kernels"]:
        for one in (x for x in kernel["launches"] if x["traffic"]):
            assert one["traffic"]["moved_bytes"] >= one["traffic"]["minimum_bytes"] > 0


def test_the_least_is_what_a_transposition_of_many_blocks_has_to_move():
    traffic = launch(SAMPLES / "transpose.vx", "-a", "x=rand:f64[1023,2049]")["traffic"]
    assert traffic["minimum_bytes"] == pytest.approx(2 * 8 * 1023 * 2049, rel=0.01)
    least = launch(SAMPLES / "swiglu.vx")["traffic"]["minimum_bytes"]
    assert least == 4 * 32 * -(-4 * 50 * 130 // 32)  # x and g are read, h and y written, and h is not read again
