"""Reads of elements that other threads hold: shuffles in a warp, exchanges through shared memory, copies that teams keep. Any width."""

from __future__ import annotations

import numpy as np
import pytest
from everywhere import compiled, output, outputs
from hypothesis import given, settings
from hypothesis import strategies as st


def kernel(body: str, n: int, threads: int, params: str = "") -> str:
    return f"""kernel k(x: f32[{n}], {params}out y: f32[{n}]) {{
        @threads({threads}) grid b in 1 {{ fragment f: f32[{n}]; copy(x, f); {body} }}
    }}"""


def ops(text: str) -> list[str]:
    return [inst.op for inst in compiled(text).plan.kernels[0].insts]


def remarks(text: str) -> str:
    return "\n".join(map(str, compiled(text, binary=False).remarks))


SHUFFLED = {
    "shift": ("f[i] + f[(i + 1) % 64]", lambda x: x + np.roll(x, -1), 2),
    "far shift": ("f[i] + f[(i + 37) % 64]", lambda x: x + np.roll(x, -37), 2),
    "reversed": ("f[i] + f[63 - i]", lambda x: x + x[::-1], 1),
    "transposed": ("f[i] + f[i % 8 * 8 + i // 8]", lambda x: x + x.reshape(8, 8).T.ravel(), 2),
    "broadcast": ("f[i] + f[i // 32 * 32 + 5]", lambda x: x + np.repeat(x[5::32], 32), 1),
}


@pytest.mark.parametrize("case", SHUFFLED)
def test_what_a_warp_holds_comes_by_shuffles(case):
    expression, reference, shuffles = SHUFFLED[case]
    text = kernel(f"parallel i in 64 {{ y[i] = {expression}; }}", 64, 32)
    x = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    assert (output(text, x=x) == reference(x)).all()
    made = ops(text)
    assert made.count("shfl_idx") == shuffles and "shared" not in made and "barrier" not in made
    assert "elements of other threads come by shuffles in the warp" in remarks(text)


def test_what_another_warp_holds_comes_through_shared_memory_once():
    sums = "f[i] + f[(i + 1) % 256] + f[(i + 77) % 256] + f[255 - i]"
    text = kernel(f"parallel i in 256 {{ f[i] = f[i] * f[i]; }} parallel i in 256 {{ y[i] = {sums}; }}", 256, 128)
    x = np.random.default_rng(0).standard_normal(256).astype(np.float32)
    square = x * x
    assert (output(text, x=x) == square + np.roll(square, -1) + np.roll(square, -77) + square[::-1]).all()
    assert ops(text).count("barrier") == 1 and "fragment f lives in registers" in remarks(text)


def test_what_is_stored_to_after_a_copy_is_copied_again():
    loops = "parallel i in 256 { y[i] = f[i] + f[255 - i]; } parallel i in 256 { f[i] = f[i] * 2.0; }"
    text = kernel(f"{loops} parallel i in 256 {{ y[i] = y[i] + f[i] + f[255 - i]; }}", 256, 128).replace("out y", "inout y")
    x = np.arange(256, dtype=np.float32)
    assert (output(text, x=x, y=np.zeros_like(x)) == 3 * (x + x[::-1])).all()


def test_a_tile_that_is_filled_in_part_is_not_copied():
    half = "parallel i in 32 { f[i] = x[i]; } parallel i in 32 { y[i] = f[i] + f[31 - i]; y[i + 32] = 0.0; }"
    text = kernel("", 64, 64).replace("copy(x, f);", half)
    x = np.arange(64, dtype=np.float32)
    assert (output(text, x=x)[:32] == 31).all()


def test_a_loop_that_stores_what_it_also_reads_elsewhere_keeps_the_tile_in_shared_memory():
    text = kernel("parallel i in 32 { f[i] = f[i] + f[i + 32]; } copy(f, y);", 64, 64)
    x = np.arange(64, dtype=np.float32)
    assert (output(text, x=x) == np.concatenate([x[:32] + x[32:], x[32:]])).all()


ATTENTION = """kernel k<R = 16, N = 32>(x: f32[R, N], out y: f32[R, N], out z: f32[R]) {
    @threads(THREADS) grid b in 1 {
        fragment s: f32[R, N];
        fragment l: f32[R] = 1.0;
        copy(x, s);
        let m = max(s, axis = 1);
        parallel i in R, j in N { s[i, j] = s[i, j] - m[i]; }
        l = l + sum(s, axis = 1);
        parallel i in R, j in N { y[i, j] = s[i, j] * l[i]; }
        copy(l, z);
    }
}"""


def test_rows_and_what_is_reduced_of_them_stay_with_their_teams():
    text = ATTENTION.replace("THREADS", "64")
    x = np.random.default_rng(3).integers(-9, 9, (16, 32)).astype(np.float32)
    found = outputs(text, x=x)
    s = x - x.max(axis=1, keepdims=True)
    l = 1 + s.sum(axis=1)
    assert (found["y"] == s * l[:, None]).all() and (found["z"] == l).all()
    made = ops(text)
    assert "shared" not in made and "barrier" not in made
    assert "strict, rows as the max on line 6 deals them to 4 lanes" in remarks(text)
    assert "are not free, an element to each thread in turn" in remarks(text)


@pytest.mark.parametrize("threads", [32, 96, 128, 256])
@pytest.mark.parametrize("n", [1, 3, 31, 32, 33, 96, 100, 127, 229])
@pytest.mark.parametrize("rows", [1, 5])
def test_row_kernels_of_any_width_and_number_of_threads(rows, n, threads):
    text = ATTENTION.replace("R = 16, N = 32", f"R = {rows}, N = {n}").replace("THREADS", str(threads))
    x = np.random.default_rng(n).integers(-9, 9, (rows, n)).astype(np.float32)
    found = outputs(text, binary=False, x=x)
    s = x - x.max(axis=1, keepdims=True)
    l = 1 + s.sum(axis=1)
    assert (found["y"] == s * l[:, None]).all() and (found["z"] == l).all()


LAYOUTS = ("", "[i] -> [i % 32, i // 32]", "[i, r in 2] -> [i % 16 + 16 * r, i // 16]", "[i] -> [i // 8 % 32, i // 256 * 8 + i % 8]")
INDICES = ["(i + {a}) % {n}", "{n} - 1 - i", "i // {a} * {a} % {n}", "i * {a} % {n}", "(i ^ 1) % {n}"]


@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 150), st.sampled_from([32, 64, 96]), st.sampled_from(LAYOUTS),
    st.lists(st.tuples(st.sampled_from(INDICES), st.integers(1, 40)), min_size=1, max_size=3),
)  # fmt: skip
def test_reads_from_anywhere(n, threads, layout, reads):
    indices = [text.format(a=a, n=n) for text, a in reads]
    terms = " + ".join(f"f[{index}]" for index in indices)
    text = kernel(f"parallel i in {n} {{ f[i] = f[i] + 1.0; }} parallel i in {n} {{ y[i] = f[i] + {terms}; }}", n, threads)
    text = text.replace("fragment f", f"@layout({layout}) fragment f") if layout else text
    x = np.arange(n, dtype=np.float32)
    i = np.arange(n)
    expected = x + 1
    for index in indices:
        expected = expected + (x + 1)[eval(index, {"i": i})]  # noqa: S307  the text of an index is also Python's
    assert (output(text, binary=False, x=x) == expected).all()
