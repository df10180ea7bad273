"""`@layout` of the author's: honoured, the same result from every interpreter; and what is wrong with one that does not fit."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from everywhere import compiled, outputs

from vxc.diag import VxcError
from vxc.driver import compile
from vxc.interp.flat_interp import run_flat
from vxc.layout.layout import parse
from vxc.layout.places import places, problem
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
    ("fragment f", "[i, j] -> [i * 8 + j, 0]", "`@layout` does not fit `f`: i=4, j=0 has thread 32, outside the 32 threads of the block"),
    ("fragment f", "[i, j] -> [i, j % 4]", "`@layout` does not fit `f`: i=0, j=0 and i=0, j=4 both have slot 0 of thread 0"),
    ("fragment f", "[i, j, r in 2] -> [i, j]", "`@layout` does not fit `f`: i=0, j=0, r=0 and i=0, j=0, r=1 both have slot 0 of thread 0"),
    ("fragment f", "[i, j] -> [i - 1, j]", "`@layout` does not fit `f`: i=0, j=0 has thread -1, outside the 32 threads of the block"),
    ("fragment f", "[i, j] -> [i * 5 % 8 * 2 + j * 3 // 8, j]", "`@layout` does not fit `f`: which elements a thread has is no sum"),
    ("fragment f", "[i, j, k] -> [i, j]", "`@layout` does not fit `f`: it has 3 indices, and the array 2 dimensions"),
    ("fragment f", "[i, j] -> [i, j, 0]", "`@layout` of a fragment gives [thread, slot], not 3 results"),
    ("fragment f", "[i, i] -> [i, 0]", "`i` is named twice in a layout"),
    ("fragment f", "[i, j] -> [i / 2, j]", "this has no place in a layout"),
    ("fragment f", "[i, j] -> [i, j + 1.5]", "a layout counts with whole numbers from 0 up"),
    ("fragment f", "[i, j] -> [i, j * 2147483648]", "2,147,483,648 is too large for a layout"),
    ("fragment f", "[i, j] -> [i, j * 1000000]", "`@layout` does not fit `f`: it has a slot 7,000,000, and 32 threads have 524,288"),
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


BLOCK = "kernel k(out y: f32[8]) {{ @threads({}) grid b in 1 {{ @layout({}) fragment f: f32[{}] = 0.0; y[0] = 1.0; }} }}"


@pytest.mark.parametrize("threads", [32, 64, 96, 256, 1024])
def test_the_layout_that_is_advised_fits(threads):
    shapes = [(1,), (7,), (1000,), (32, 32), (33, 7), (1, 64), (64, 1), (128, 40), (5, 6, 7), (16, 16, 8), (2, 3, 4, 5), (16, 3, 33)]
    for shape in shapes:
        indices = ", ".join("abcd"[: len(shape)])
        for wrong in (f"[{indices}] -> [9999, 0]", f"[{indices}] -> [0, 0]", f"[{indices}] -> [0, 0, 0]", "[a, b, c, d, e] -> [0, 0]"):
            if shape == (1,) and wrong == "[a] -> [0, 0]":
                continue
            with pytest.raises(VxcError) as caught:
                compile(Source("k.vx", BLOCK.format(threads, wrong, ", ".join(map(str, shape)))))
            advised = re.search(r"`@layout\((.*)\)`$", caught.value.diagnostics[0].help)[1]
            assert (indices in advised) == ("e" not in wrong)
            assert problem(parse(advised), shape, threads) is None
    text = BLOCK.format(threads, "[i] -> [0, 0]", "32, 32")
    with pytest.raises(VxcError) as caught:
        compile(Source("k.vx", text))
    advised = re.search(r"`@layout\((.*)\)`$", caught.value.diagnostics[0].help)[1]
    assert compile(Source("k.vx", text.replace("[i] -> [0, 0]", advised))).cuda


OUTSIDE = "kernel k(n: i64, x: f32[4, 8], out y: f32[8, 8]) { LOOP }"
IN_GRID = OUTSIDE.replace("LOOP", "@threads(32) grid b in 1 { LOOP }")
INSIDE = IN_GRID.replace("LOOP", "parallel h in 1 { LOOP }")
STORE = "parallel i in 8, j in 8 { y[i, j] = 1.0; }"
WRONG_LOOPS = [
    (IN_GRID, "[i, j] -> [i * 8 + j, 0]", STORE, "`@layout` does not fit `i, j`: i=4, j=0 has thread 32, outside the 32 threads"),
    (IN_GRID, "[i, j] -> [i, j % 4]", STORE, "`@layout` does not fit `i, j`: i=0, j=0 and i=0, j=4 both have slot 0 of thread 0"),
    (IN_GRID, "[i, j] -> [i, j - 1]", STORE, "`@layout` does not fit `i, j`: i=0, j=0 has slot -1"),
    (IN_GRID, "[i, j] -> [i * 5 % 8 * 2 + j * 3 // 8, j]", STORE, "`@layout` does not fit `i, j`: which iterations a thread has is no sum"),
    (IN_GRID, "[e] -> [e % 32, e // 32]", STORE, "`@layout` has 1 index, and the loop 2 ranges"),
    (IN_GRID, "[i, j, r in 2] -> [i, j]", STORE, "`r` counts replicas of an iteration"),
    (IN_GRID, "[i, j] -> [i * 4 + j]", STORE, "`@layout` of a loop gives [thread, slot], not 1 results"),
    (IN_GRID, "[i, i] -> [i, 0]", STORE, "`i` is named twice in a layout"),
    (IN_GRID, "[i] -> [i % 32, i // 32]", "parallel i in n { y[i, 0] = 1.0; }", "`@layout` of a loop whose range of `i` is not known"),
    (IN_GRID, "[i] -> [i % 32, i // 32]", "parallel i in 3000000 { y[i, 0] = 1.0; }", "`@layout` of a loop is of 3,000,000 iterations"),
    (OUTSIDE, "[i, j] -> [i, j]", STORE, "`@layout` of a `parallel` loop outside a `grid`"),
    (INSIDE, "[i, j] -> [i, j]", STORE, "`@layout` of a `parallel` loop inside another one"),
    (IN_GRID, "[i] -> [i, 0]", "parallel i in 4 { y[i] = cumsum(x[i]); }", "`@layout` does not fit `i`: threads run the scan on line 1"),
]


@pytest.mark.parametrize("text, layout, loop, message", WRONG_LOOPS, ids=[f"{loop} {layout}" for _, layout, loop, _ in WRONG_LOOPS])
def test_layouts_of_loops_that_do_not_fit(text, layout, loop, message):
    with pytest.raises(VxcError) as caught:
        compile(Source("k.vx", text.replace("LOOP", f"@layout({layout}) {loop}")))
    (found,) = caught.value.diagnostics
    assert found.code == "E0235" and found.message.startswith(message) and found.span is not None and found.help


LOOPS = """kernel k(x: f32[M, 32], out y: f32[M, 32]) {
    @threads(64) grid b in ceildiv(M, 16) {
        TILE f: f32[16, 32];
        @layout(FIRST) parallel i in 16, j in 32 { f[i, j] = if b*16 + i < M { x[b*16 + i, j] } else { 0.0 }; }
        @layout(SECOND) parallel i in 16, j in 32 { if b*16 + i < M { y[b*16 + i, j] = f[i, j] * 2.0; } }
    }
}"""
QUADS = "[i, j] -> [i % 8 * 4 + j // 2 % 4 + i // 8 * 32, j // 8 * 2 + j % 2]"
EXCHANGED = "[i, j] -> [(i ^ j) % 32 + i // 8 * 32, i % 8]"
COLUMNS = "[i, j] -> [j + i % 2 * 32, i // 2]"
FEW = "[i, j] -> [j // 2, i * 2 + j % 2]"


@pytest.mark.parametrize("tile", ["fragment", "shared"])
@pytest.mark.parametrize("first, second", [(a, b) for a in (QUADS, EXCHANGED, COLUMNS, FEW) for b in (QUADS, EXCHANGED, FEW)])
def test_loops_go_to_the_threads_that_a_layout_says(tile, first, second):
    """By the race detector of the simulated threads too: what one loop stores to shared memory, other threads read in the next."""
    text = LOOPS.replace("TILE", tile).replace("FIRST", first).replace("SECOND", second)
    x = np.random.default_rng(3).standard_normal((37, 32)).astype(np.float32)
    assert (outputs(text, x=x)["y"] == 2 * x).all()
    made = compiled(text)
    assert sum("threads run the iterations that @layout gives them" in str(r) for r in made.remarks) == (1 if first == second else 2)
    insts = made.plan.kernels[0].insts
    apart = first != second
    assert any(inst.op == "barrier" for inst in insts) == apart, "threads meet where one reads what another has stored"
    if tile == "fragment":
        assert any(inst.op == "shared" for inst in insts) == apart


@pytest.mark.parametrize("layout", [QUADS, EXCHANGED, COLUMNS, FEW])
def test_a_thread_runs_what_it_is_given(layout):
    """Iterations store who runs them."""
    text = "kernel k(out y: i32[16, 32]) { @threads(64) grid b in 1 { @layout(LAYOUT) parallel i in 16, j in 32 { y[i, j] = 1; } } }"
    plan = compiled(text.replace("LAYOUT", layout)).after("lower-to-threads")
    thread = next(inst.result for inst in plan.kernels[0].insts if inst.op == "thread_index")
    insts = tuple(inst.over((*inst.operands[:-1], thread), None) if inst.op == "store" else inst for inst in plan.kernels[0].insts)
    found = run_flat(plan.with_kernels([replace(plan.kernels[0], insts=insts)]), {}, {})["y"]
    assert (found.ravel() == places(parse(layout), (16, 32)).thread[:, 0]).all()


def test_iterations_are_counted_from_0_in_every_range():
    text = """kernel k(inout y: i32[8, 96]) { @threads(96) grid b in 1 {
        @layout([i, j] -> [j, i]) parallel i in 1..8 step 2, j in 95..-1 step -1 { y[i, j] += (i * 100 + j) as i32; }
    } }"""
    wanted = np.zeros((8, 96), np.int32)
    wanted[1::2] = np.arange(1, 8, 2)[:, None] * 100 + np.arange(96)
    assert (outputs(text, y=np.zeros((8, 96), np.int32))["y"] == wanted).all()


def test_the_fragment_of_a_loop_and_its_own_layout_may_differ():
    text = LOOPS.replace("TILE", f"@layout({COLUMNS}) fragment").replace("FIRST", QUADS).replace("SECOND", QUADS)
    x = np.random.default_rng(4).standard_normal((16, 32)).astype(np.float32)
    assert (outputs(text, x=x)["y"] == 2 * x).all()
    assert any("f lives in shared memory, not as @layout says: another thread's element" in str(r) for r in compiled(text).remarks)


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
READ_BACK = """kernel k(x: f32[16, 16], table: f32[16], inout w: f32[16], out z: f32[16], out v: f32[16]) {
    @threads(64) grid b in 1 {
        fragment p: f32[16, 16];
        copy(x, p);
        let m = max(p, axis = 1);
        shared g: f32[16];
        shared n: i32[16];
        fragment f: f32[16];
        parallel i in 16 { g[i] = m[i]; n[i] = (15 - i) as i32; }
        parallel i in 16 { while g[i] < 100.0 { g[i] = g[i] * 2.0 + 1.0; } }
        parallel i in 16 { w[i] += m[i]; serial t in 3 { w[i] = w[i] * 2.0 + m[i]; } }
        parallel i in 16 { v[i] = table[n[i]] + m[i]; }
        parallel i in 16 { f[i] = g[i] + m[i]; g[i] += f[i]; }
        parallel i in 16 { z[i] = g[i] + f[15 - i]; }
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


def test_what_memory_gives_back_is_read_by_the_thread_that_stored_it():
    """Every element of `m` is held by several threads, of which one runs the loops that read what they store."""
    x, table, w = (np.arange(n, dtype=np.float32) for n in (256, 16, 16))
    found = outputs(READ_BACK, x=x.reshape(16, 16), table=table, w=w)
    m = x[15::16]
    g = m.copy()
    while (g < 100).any():
        g = np.where(g < 100, g * 2 + 1, g)
    f, w = g + m, w + m
    for _ in range(3):
        w = w * 2 + m
    assert (found["w"] == w).all() and (found["v"] == table[::-1] + m).all() and (found["z"] == g + f + f[::-1]).all()


def test_a_tile_that_does_not_fill_its_slots():
    x = np.arange(99, dtype=np.uint32).reshape(3, 33)
    assert (outputs(SWIZZLED, x=x)["y"] == x).all()


def test_elements_that_few_threads_hold_are_not_shuffled():
    w = np.arange(32, dtype=np.uint64)
    assert outputs(FEW, x=np.ones(1), w=w)["y"].tolist() == list(range(32))
    assert not any(inst.op == "shfl_idx" for inst in compiled(FEW).plan.kernels[0].insts)
