"""`@layout` of the author's: honoured, the same result from every interpreter; and what is wrong with one that does not fit."""

from __future__ import annotations

import numpy as np
import pytest
from everywhere import compiled, outputs

from vxc.diag import VxcError
from vxc.driver import compile
from vxc.source import Source

ROWS = """kernel k(x: f32[M, 32], out y: f32[M, 32], out z: f32[M]) {
    @threads(64) grid b in ceildiv(M, 16) {
        @layout([i, j] -> [i % 8 * 4 + j // 2 % 4 + i // 8 * 32, j // 8 * 2 + j % 2]) fragment f: f32[16, 32];
        copy(x[b*16, 0], f);
        let m = max(f, axis = 1);
        parallel i in 16, j in 32 { f[i, j] = f[i, j] - m[i]; }
        copy(f, y[b*16, 0]);
        copy(m, z[b*16]);
    }
}"""
COPIES = """kernel k(x: f32[64], out y: f32[64], out z: f32[64]) {
    @threads(64) grid b in 1 {
        @layout([i, r in 2] -> [i % 32 + 32 * r, i // 32]) fragment f: f32[64];
        copy(x, f);
        parallel i in 64 { f[i] = f[i] * 2.0; }
        copy(f, y);
        parallel i in 64 { z[i] = f[63 - i]; }
    }
}"""
SHARED = """kernel k(x: f16[M, N], out y: f16[N, M]) {
    @threads(128) grid b in ceildiv(M, 32), c in ceildiv(N, 64) {
        @layout(LAYOUT) shared s: f16[32, 64];
        copy(x[b*32 :+ 32, c*64 :+ 64], s);
        parallel j in 64, i in 32 { if b*32 + i < M && c*64 + j < N { y[c*64 + j, b*32 + i] = s[i, j]; } }
    }
}"""


def declared(made, name: str, op: str):
    """The declaration of an array, as threads have it."""
    return next(inst for inst in made.plan.kernels[0].insts if inst.op == op and inst.result.name == name)


def test_a_fragment_in_the_quads_of_a_matrix_instruction():
    x = np.random.default_rng(0).standard_normal((37, 32)).astype(np.float32)
    found = outputs(ROWS, x=x)
    m = x.max(axis=1)
    assert (found["y"] == x - m[:, None]).all() and (found["z"] == m).all()
    made = compiled(ROWS)
    assert declared(made, "f", "local").result.shape[0].value == 8
    assert not any(inst.op in ("shared", "barrier") for inst in made.plan.kernels[0].insts), "all stays in registers"
    assert any("as @layout says" in str(remark) for remark in made.remarks)


def test_replicas_compute_alike_and_one_of_them_stores():
    x = np.arange(64, dtype=np.float32)
    found = outputs(COPIES, x=x)
    assert (found["y"] == 2 * x).all() and (found["z"] == 2 * x[::-1]).all()
    insts = compiled(COPIES).plan.kernels[0].insts
    assert declared(compiled(COPIES), "f", "local").result.shape[0].value == 2
    assert not any(inst.op in ("shared", "barrier") for inst in insts), "a read of what a thread has a copy of needs no exchange"


@pytest.mark.parametrize("layout, attr, value", [
    ("[i, j] -> [i, j ^ i % 8 * 8]", "swizzle", (8, 8, 64)),
    ("[i, j] -> [i, j ^ i % 8]", "swizzle", (1, 8, 64)),
    ("[i, j] -> [i * 66 + j]", "pitch", (64, 66)),
    ("[i, j] -> [i, j]", "swizzle", None),
])  # fmt: skip
def test_shared_arrays_lie_as_written(layout, attr, value):
    text = SHARED.replace("LAYOUT", layout)
    x = np.random.default_rng(1).standard_normal((70, 100)).astype(np.float16)
    assert (outputs(text, x=x)["y"] == x.T).all()
    made = declared(compiled(text), "s", "shared")
    assert made.attr(attr) == value and made.attr("layout") is None


def test_a_ladder_of_small_tiles():
    text = SHARED.replace("LAYOUT", "[i, j] -> [i // T, j // T, i % T, j % T]").replace("k(", "k<T = 16>(", 1)
    x = np.random.default_rng(2).standard_normal((70, 100)).astype(np.float16)
    assert (outputs(text, x=x)["y"] == x.T).all()
    assert tuple(n.value for n in declared(compiled(text), "s", "shared").result.shape) == (2, 4, 16, 16)


GRID = "kernel k(out y: f32[8]) {{ @threads(32) grid b in 1 {{ @layout({}) {}: f32[8, 8] = 0.0; y[0] = 1.0; }} }}"
WRONG = [
    ("fragment f", "[i, j] -> [i * 8 + j, 0]", "`@layout` does not fit `f`: i=4, j=0 has thread 32, outside the 32 of the team"),
    ("fragment f", "[i, j] -> [i, j % 4]", "`@layout` does not fit `f`: i=0, j=0 and i=0, j=4 both have slot 0 of thread 0"),
    ("fragment f", "[i, j, r in 2] -> [i, j]", "`@layout` does not fit `f`: i=0, j=0, r=0 and i=0, j=0, r=1 both have slot 0 of thread 0"),
    ("fragment f", "[i, j] -> [i - 1, j]", "`@layout` does not fit `f`: i=0, j=0 has thread -1, outside the 32 of the team"),
    ("fragment f", "[i, j] -> [i ^ j % 4, j]", "`@layout` does not fit `f`: which elements a thread holds is no sum"),
    ("fragment f", "[i, j, k] -> [i, j]", "`@layout` does not fit `f`: it has 3 indices, and the array 2 dimensions"),
    ("fragment f", "[i, j] -> [i, j, 0]", "`@layout` of a fragment gives [thread, slot], not 3 results"),
    ("fragment f", "[i, i] -> [i, 0]", "`i` is named twice in a layout"),
    ("fragment f", "[i, j] -> [i / 2, j]", "this has no place in a layout"),
    ("fragment f", "[i, j] -> [i, j + 1.5]", "a layout counts with whole numbers from 0 up"),
    ("fragment f", "[i, j, r in 0] -> [i, j]", "`r` has no number of replicas"),
    ("shared s", "[i, j] -> [i, j // 2]", "`@layout` does not fit `s`: i=0, j=0 and i=0, j=1 lie in one place"),
    ("shared s", "[i, j] -> [i * 100 + j]", "`@layout` does not fit `s`: its 64 elements would take 708 places"),
    ("shared s", "[i, j, r in 2] -> [i, j]", "`r` counts replicas of a shared array"),
]


@pytest.mark.parametrize("array, layout, message", WRONG, ids=[layout for _, layout, _ in WRONG])
def test_layouts_that_do_not_fit(array, layout, message):
    with pytest.raises(VxcError) as caught:
        compile(Source("k.vx", GRID.format(layout, array)))
    (found,) = caught.value.diagnostics
    assert found.code == "E0235" and found.message.startswith(message) and found.span is not None and found.help


def test_loops_that_others_bind_do_not_store_to_half_the_replicas():
    """A loop follows f, of which threads hold an element each, and stores to g, of which two hold each; the last loop would read both."""
    text = """kernel k(x: f32[64], z: f32[128], out y: f32[128]) {
        @threads(128) grid b in 1 {
            @layout([i] -> [i, 0]) fragment f: f32[64];
            @layout([i, r in 2] -> [i + 64 * r, 0]) fragment g: f32[64];
            @layout([i] -> [i, 0]) fragment h: f32[128];
            copy(x, f);
            copy(z, h);
            parallel i in 64 { f[i] = f[i] + 1.0; g[i] = f[i]; }
            parallel i in 128 { y[i] = h[i] + g[i % 64]; }
        }
    }"""
    x, z = np.arange(64, dtype=np.float32), np.arange(128, dtype=np.float32)
    assert (outputs(text, x=x, z=z)["y"] == z + np.tile(x + 1, 2)).all()
    said = "fragment g lives in shared memory, not as @layout says: not all threads that hold an element store to it"
    assert any(said in str(remark) for remark in compiled(text).remarks)


BACKWARDS = """kernel k(x: u8[2], out y: i32[2]) {
    grid b in 1 {
        @layout([e, r in 2] -> [e + r * 3, 0]) fragment f: i32[2];
        parallel i in 2 { f[1 - i] = x[i] as i32; }
        parallel i in 2 { y[i] = f[i]; }
    }
}"""
OVERTAKEN = """kernel k(inout z: f32[64], out y: f32[64]) {
    @threads(64) grid b in 1 {
        @layout([e, r in 2] -> [e % 32 + 32 * r, e // 32]) fragment f: f32[64];
        parallel i in 64 { f[i] = z[i]; z[i] = 0.0; }
        parallel i in 64 { y[i] = f[i]; }
    }
}"""
SWIZZLED = """kernel k(x: u32[3, 33], out y: u32[3, 33]) {
    @threads(32) grid b in 1 {
        shared s: u32[3, 33, 1];
        copy(x[0, 0], s[:, :, 0]);
        @layout([e, r in 2] -> [e // 4 % 16 + r * 16, e // 64 * 4 + e % 4]) fragment f: u32[3, 33, 1];
        copy(s[0, 0, 0], f);
        copy(f[:, :, 0], y[0, 0]);
    }
}"""
FEW = """kernel k(x: f64[1], w: u64[32], out y: f32[32]) {
    @threads(32) grid b in 1 {
        fragment f: f32[2];
        copy(x[0 :+ 2], f);
        parallel i in 32 { y[i] = (w[i] as f32) + f[1]; }
    }
}"""


def test_threads_that_hold_nothing_run_nothing():
    """Counted backwards, the third thread would hold the element before the first."""
    assert outputs(BACKWARDS, x=np.array([3, 5], np.uint8))["y"].tolist() == [5, 3]


def test_a_replica_does_not_read_what_another_has_written():
    z = np.arange(64, dtype=np.float32)
    found = outputs(OVERTAKEN, z=z)
    assert (found["y"] == z).all() and not found["z"].any()
    assert any("one thread may be ahead of another" in str(remark) for remark in compiled(OVERTAKEN).remarks)


def test_a_tile_that_does_not_fill_its_slots():
    x = np.arange(99, dtype=np.uint32).reshape(3, 33)
    assert (outputs(SWIZZLED, x=x)["y"] == x).all()


def test_elements_that_few_threads_hold_are_not_shuffled():
    w = np.arange(32, dtype=np.uint64)
    assert outputs(FEW, x=np.ones(1), w=w)["y"].tolist() == list(range(32))
    assert not any(inst.op == "shfl_idx" for inst in compiled(FEW).plan.kernels[0].insts)
