"""Words of C++, CUDA and the prelude are ordinary names of the language, wherever a name may stand."""

from __future__ import annotations

import pytest

from vxc.cuda.names import _MATHS, _WORDS, kernel_symbol
from vxc.cuda.prelude import blocks
from vxc.driver import compile
from vxc.dtypes import DTYPES
from vxc.frontend.build import RESERVED
from vxc.frontend.check_calls import BUILTINS
from vxc.source import Source

MACROS = """
    INT_MAX UINT_MAX CHAR_BIT FLT_MAX DBL_EPSILON M_PI EOF errno stdin stdout NDEBUG NULL offsetof signbit isnan uint ushort ulong uchar4
    float2 double4 int8_t uint64_t intptr_t nullptr_t byte complex texture surface tex1D cudaError_t cudaMalloc atomicAdd atomicCAS wmma
    cooperative_groups nv nvcuda cuda tensor __syncthreads __global__ __CUDA_ARCH__ _Complex _Pragma __int128 i386 vx_shared vx_kernel_k
    vx_scaled vx_unsigned threadIdx blockIdx warpSize W T To From half __half __nv_bfloat16 __nv_fp8_e4m3 memcpy printf __trap x y z
""".split()
PRELUDE = sorted({word for block in blocks() for word in block.identifiers})
WORDS = sorted({*_WORDS, *_MATHS, *MACROS, *PRELUDE, "größe", "а", "変数", "_", "__", "t7", "b_1", "lane"} - RESERVED - {"inf", "nan"})
FEW = WORDS[::7]  # for what NVRTC takes its time over
FUNCTIONS = [word for word in WORDS if word not in BUILTINS and word not in DTYPES]


def each(template: str, sep: str = " ", words: list[str] = WORDS) -> str:
    """The template for every word, `@` standing for it."""
    return sep.join(template.replace("@", word) for word in words)


def thread(body: str, value: str) -> str:
    return f"kernel k_(x_: f32[8], out y_: f32[8]) {{ parallel i_ in 8 {{ {body} y_[i_] = {value}; }} }}"


def block(body: str) -> str:
    return f"kernel k_(out y_: f32[8]) {{ grid b_ in 1 {{ {body} }} }}"


TEXTS = {
    "scalars": f"kernel k_({each('@: f32', ', ')}, out y_: f32[8]) {{ y_[0] = {each('@', ' + ')}; }}",
    "arrays": f"kernel k_({each('@: f32[4]', ', ')}, out y_: f32[8]) {{ y_[0] = {each('@[0]', ' + ')}; }}",
    "dimensions": f"kernel k_({each('a_@_: f32[@]', ', ')}, out y_: i64[8]) {{ y_[0] = {each('@', ' + ')}; }}",
    "generics": f"kernel k_<{each('@ = 3', ', ')}>(out y_: i64[8]) {{ y_[0] = {each('@', ' + ')}; }}",
    "lets": thread(each("let @ = exp(x_[i_]);"), each("@", " + ")),
    "vars": thread(each("var @ = x_[i_];") + each("@ += 1.0;"), each("@", " + ")),
    "locals": thread(each("local @: f32[2] = 1.0;"), each("@[i_ % 2]", " + ")),
    "loops": thread(each("serial @ in 4 { y_[i_] = @ as f32; }"), "1.0"),
    "indices": block(each("parallel @ in 8 { y_[@] = 1.0; }", words=FEW)),
    "shared": block(each("shared @: f32[8] = 1.0; copy(@, y_);", words=FEW)),
    "fragments": block(each("fragment @: f32[8] = 1.0; copy(@, y_);", words=FEW)),
    "functions": each("fn @(v_: f32, @: f32) -> f32 { return v_ + @; }", words=FUNCTIONS)
    + thread("", each("@(1.0, 2.0)", " + ", FUNCTIONS)),
    "externs": each('extern fn @(v_: f32) -> f32 = "return v_ + 1.0f;" { return v_ + 1.0; }', words=FUNCTIONS)
    + thread("", each("@(1.0)", " + ", FUNCTIONS)),
}


@pytest.mark.parametrize("role", TEXTS)
def test_every_word_is_a_name(role):
    made = compile(Source("k.vx", TEXTS[role]), "k_")
    assert made.cuda.isascii() and set(made.binary.kernels) == {"k_"}


def test_every_word_names_a_kernel():
    """A program calls one of each name; each has a symbol of its own."""
    kernels = each("kernel @(inout a: f32[8]) { parallel i in 8 { a[i] += 1.0; } }")
    made = compile(Source("k.vx", f"{kernels} program p_(inout a: f32[8]) {{ {each('@(a);')} }}"), "p_")
    assert set(made.binary.kernels) == {kernel_symbol(word) for word in WORDS} and len(made.binary.kernels) == len(WORDS)


@pytest.mark.parametrize("word", WORDS[::40])
def test_every_word_names_a_program(word):
    text = f"kernel k_(inout a: f32[8]) {{ parallel i in 8 {{ a[i] += 1.0; }} }} program {word}(inout a: f32[8]) {{ k_(a); }}"
    assert compile(Source("k.vx", text), word).plan.name == word
