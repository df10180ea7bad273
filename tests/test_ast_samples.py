"""The tile samples in the AST interpreter against their float64 references: at the sizes of their examples and at odd ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from references_tile import REFERENCES
from ast_kernels import RNG, equal, f32

from vxc.diag import VxcError
from vxc.dtypes import F16, F32
from vxc.frontend.check import check, check_module
from vxc.frontend.parse import parse
from vxc.inputs import complete
from vxc.interp.ast_interp import run_ast
from vxc.source import Source

SAMPLES = Path(__file__).parent.parent / "samples"
TILES = (
    "gemm", "gemm_bias_gelu", "batched_gemm", "transpose_tile", "layernorm_tile", "attention_flash", "conv2d_im2col", "topk",
    "flash_splitk", "flash_decode", "dequant_u4_manual", "dequant_u4_parallel", "dequant_u4_copy",
)  # fmt: skip


def source(name: str) -> Source:
    path = SAMPLES / f"{name}.vx"
    return Source(str(path), path.read_text())


def sample(name: str, generics: dict, **arguments) -> dict[str, np.ndarray]:
    """The outputs of the kernel or program that a sample is named after, with these generics."""
    text = source(name)
    arrays = {key: value for key, value in arguments.items() if isinstance(value, np.ndarray)}
    scalars = {key: value for key, value in arguments.items() if key not in arrays}
    return run_ast(check(parse(text), text, name, generics), arrays, scalars)


def near(got: dict, arguments: dict, name: str, **generics) -> None:
    """Within 2^-18 of the greatest element, or one rounding to f16."""
    narrow = (np.float16, np.float32)
    wide = {k: v.astype(np.float64) if isinstance(v, np.ndarray) and v.dtype in narrow else v for k, v in arguments.items()}
    for output, want in REFERENCES[name](**wide, **generics).items():
        rounding = 2.0**-11 if got[output].dtype == np.float16 else 2.0**-18
        largest = np.abs(want, where=np.isfinite(want), out=np.zeros(want.shape)).max(initial=0.0)
        assert got[output].shape == want.shape
        np.testing.assert_allclose(got[output].astype(np.float64), want, rtol=0, atol=rounding * largest, err_msg=output)


@pytest.mark.parametrize("name", TILES)
def test_examples(name):
    text = source(name)
    checked = check_module(parse(text), text)
    assert name in {code.name for code in checked}
    for code in checked:
        call = complete(code)
        got = run_ast(code, call.arrays, call.scalars, dims=call.dims)
        assert got.unwritten == {}
        near(got, {**call.arrays, **call.scalars}, code.name)


@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (15, 17, 16), (33, 1, 65), (64, 64, 64), (1, 129, 100), (63, 5, 0), (0, 3, 7)])
def test_gemm_of_integers_is_exact(m, n, k):
    a, b = (RNG.integers(-4, 5, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    got = sample("gemm", {"BM": 32, "BN": 64, "BK": 24}, a=a, b=b)["c"]
    equal(got, (a.astype(np.float64) @ b.astype(np.float64)).reshape(m, n))


@pytest.mark.parametrize("width", [1, 24, 31, 33, 100, 229])
def test_layernorm_of_any_width(width):
    x, w, b = f32(7, width), f32(width), f32(width)
    arguments = {"x": x, "w": w, "b": b, "eps": 1e-3}
    near(sample("layernorm_tile", {"T": F32, "D": width}, **arguments), arguments, "layernorm_tile")


@pytest.mark.parametrize("sq, sk, causal", [(5, 37, True), (37, 5, True), (33, 70, False), (3, 0, False), (1, 1, True)])
def test_attention(sq, sk, causal):
    q, k, v = f32(2, sq, 16), f32(2, sk, 16), f32(2, sk, 16)
    arguments = {"q": q, "k": k, "v": v, "scale": 0.3}
    got = sample("attention_flash", {"D": 16, "BM": 32, "BN": 16, "CAUSAL": causal}, **arguments)
    near(got, arguments, "attention_flash", CAUSAL=causal)
    one = {"q": q[1], "k": k[1], "v": v[1], "scale": 0.3}
    for chunks, chains in ((1, 1), (8, 2), (3, 4)):
        generics = {"T": F32, "HD": 16, "C": chunks, "CH": chains, "CAUSAL": causal}
        near(sample("flash_splitk", generics, **one), one, "flash_splitk", CAUSAL=causal)
    if causal and sq > sk:
        assert not got["o"][:, : sq - sk].any()


def test_a_row_of_infinite_scores_gives_zero_and_nan_stays():
    q, k, v = np.ones((3, 16), np.float32), np.ones((5, 16), np.float32), f32(5, 16)
    q[0], q[2, 3] = -np.inf, np.nan
    generics = {"T": F32, "HD": 16, "C": 2}
    got = sample("flash_splitk", generics, q=q, k=k, v=v, scale=1.0)["o"]
    assert not got[0].any() and np.isfinite(got[1]).all() and np.isnan(got[2]).all()
    tiled = sample("attention_flash", {"D": 16, "BM": 32, "BN": 16}, q=q[None], k=k[None], v=v[None], scale=1.0)["o"]
    assert not tiled[0, 0].any() and np.isfinite(tiled[0, 1]).all() and np.isnan(tiled[0, 2]).all()


@pytest.mark.parametrize(
    "heads, keys, dtype, want", [(1, 16, F32, 0.075), (8, 2048, F32, 10.235), (8, 2048, F16, 10.234375), (1, 16384, F32, 81.915)]
)
def test_equal_scores_average_the_values(heads, keys, dtype, want):
    v = np.broadcast_to((0.01 * np.arange(keys))[:, None], (heads, keys, 64)).astype(dtype.numpy)
    q, k = np.zeros((heads, 64), np.float32), np.full((heads, keys, 64), 0.01, np.float32)
    got = sample("flash_decode", {"T": dtype, "HD": 64, "C": 64}, q=q, k=k, v=v, scale=0.5)["o"]
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=1e-6)
    got = sample("flash_splitk", {"T": dtype, "HD": 64, "C": 8}, q=q[:1], k=k[0], v=v[0], scale=0.5)["o"]
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=1e-6)


@pytest.mark.parametrize("size, pad", [(1, 0), (3, 1), (5, 2)])
def test_convolution_of_any_filter(size, pad):
    x, w = RNG.standard_normal((2, 6, 5, 3)).astype(np.float16), RNG.standard_normal((size * size * 3, 9)).astype(np.float16)
    got = sample("conv2d_im2col", {"KH": size, "KW": size, "PAD": pad, "BM": 16, "BN": 16, "BK": 8}, x=x, w=w)
    near(got, {"x": x, "w": w}, "conv2d_im2col", KH=size, KW=size, PAD=pad)


def test_topk_of_ties_and_whole_rows():
    x = np.array([[1, 3, 3, 2], [0, -1, 0, 0]], np.float32)
    got = sample("topk", {"N": 4, "K": 4}, x=x)
    equal(got["index"], [[1, 2, 3, 0], [0, 2, 3, 1]])
    equal(got["value"], [[3, 3, 2, 1], [0, 0, 0, -1]])


def test_dequantisation_of_a_part_of_a_tile_is_out_of_range():
    with pytest.raises(VxcError, match="E0720"):
        sample("dequant_u4_copy", {"N": 80, "K": 48}, b=RNG.integers(0, 256, (5, 3, 16, 8), np.uint8))


def test_the_three_forms_of_dequantisation_give_the_same_bits():
    b = RNG.integers(0, 256, (16, 8, 16, 8), np.uint8)
    forms = [sample(f"dequant_u4_{form}", {"N": 256, "K": 128}, b=b)["w"] for form in ("manual", "parallel", "copy")]
    assert forms[0].tobytes() == forms[1].tobytes() == forms[2].tobytes()
