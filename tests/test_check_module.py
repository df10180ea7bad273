"""Whole files: generics, `-D`, examples, functions, imports, sizes of files."""

from __future__ import annotations

import time

import pytest
from typed_text import body, errors, expr, kernels

from vxc.diag import VxcError
from vxc.dtypes import F16, F32
from vxc.frontend.check import check
from vxc.frontend.parse import parse
from vxc.semantics import Order
from vxc.source import Source

SOFTMAX = """
kernel softmax<T: dtype>(x: T[M, N], out y: T[M, N]) {
    parallel i in M {
        let m = max(x[i]);
        let z = sum(exp(x[i] - m));
        y[i] = exp(x[i] - m) / z;
    }
}
example softmax(x = rand(f32, 37, 1000));
"""

FLASH = """
@fp(fast) kernel flash_r1<C = 8, CH = 2, HD = 64>(q: f32[SQ, HD], k: f32[SK, HD], v: f32[SK, HD], scale: f32,
                                                   out po: f32[C, SQ, HD], out pml: f32[C, SQ, 2]) {
    @lanes(1) parallel c in C, i in SQ {
        local m: f32[CH] = -inf;
        local l: f32[CH] = 0.0;
        local o: f32[CH, HD] = 0.0;
        serial j in c..SK step C * CH {
            unroll h in CH {
                let jj = j + h * C;
                if jj < SK {
                    let s = scale * @chunk(8) dot(q[i], k[jj]);
                    let mn = max(m[h], s);
                    let al = exp(m[h] - mn);
                    let p = exp(s - mn);
                    m[h] = mn;
                    l[h] = l[h] * al + p;
                    o[h] = o[h] * al + p * v[jj];
                }
            }
        }
        let mx = max(m);
        pml[c, i, 0] = mx;
        pml[c, i, 1] = sum(l * exp(m - mx));
        serial h in CH { po[c, i] += o[h] * exp(m[h] - mx); }
    }
}
"""

def check_one(text: str, name: str, defines: dict | None = None, **more):
    source = Source("t.vx", text)
    return check(parse(source), source, name, defines or {}, **more)


# Whole kernels -------------------------------------------------------------------------------------------------------------------


def test_softmax():
    assert body(SOFTMAX) == [
        "parallel i in 0..M step 1",
        f"  let m: f32 = max{Order(4, 4, 32, 0)}[j in N](x[i, j]):f32",
        f"  let z: f32 = sum{Order(4, 4, 32, 0)}[j in N](exp(sub(x[i, j], m))):f32",
        "  parallel j in 0..N step 1 row",
        "    y[i, j] = div(exp(sub(x[i, j], m)), z)",
    ]


def test_flash_attention_rows_in_local_arrays():
    [kernel] = kernels(FLASH)
    assert dict(kernel.attrs) == {"fp": "fast"}
    assert [dim.name for dim in kernel.dims] == ["SQ", "SK"]
    lines = [line.strip() for line in body(FLASH)]
    assert "parallel c in 0..8 step 1, i in 0..SQ step 1 {'lanes': 1}" in lines
    assert "serial j in c..SK step 16" in lines
    assert f"let dot: f32 = dot{Order(4, 8, 1)}[j in 64](q[i, j], k[jj, j]):f32" in lines
    assert "o[h, j] = add(mul(o[h, j], al), mul(p, v[jj, j]))" in lines
    assert "po[c, i, j] = add(po[c, i, j], mul(o[h, j], exp(sub(m[h], mx))))" in lines


# Generics, -D, examples ----------------------------------------------------------------------------------------------------------


def test_a_generic_takes_its_value_from_definition_then_example_then_default():
    text = "kernel k<C = 4>(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i] * C; } }"
    assert "4.0:f32" in body(text)[1]
    text += " example k(x = rand(f32, 8), C = 5);"
    assert "5.0:f32" in body(text)[1]
    assert "6.0:f32" in body(text, defines={"C": 6})[1]


def test_the_example_fixes_a_dtype_but_no_dimension():
    [kernel] = kernels(SOFTMAX)
    assert kernel.arrays[0].dtype is F32
    assert [dim.name for dim in kernel.dims] == ["M", "N"]
    assert kernel.example.arrays == (("x", "rand", F32, (37, 1000), ()),)
    [kernel] = kernels(SOFTMAX, {"T": F16})
    assert kernel.example.arrays == (("x", "rand", F16, (37, 1000), ()),)


def test_a_defined_dimension_is_constant_everywhere():
    [kernel] = kernels(SOFTMAX, {"N": 64})
    assert [dim.name for dim in kernel.dims] == ["M"]
    assert [expr(size) for size in kernel.arrays[0].shape] == ["M", "64"]
    assert kernel.example.arrays[0][3] == (37, 64)
    assert f"max{Order(4, 4, 16)}[j in 64]" in body(SOFTMAX, defines={"N": 64})[1]


def test_a_definition_of_nothing():
    assert errors(SOFTMAX, defines={"MM": 3}) == [("E0229", "`-D MM`: nothing in the file is a generic or dimension of that name")]
    assert errors(SOFTMAX, defines={"M": F16}) == [("E0229", "`-D M=f16` is no size")]
    assert errors(SOFTMAX, defines={"T": 3}) == [("E0218", "generic `T` is of kind `dtype`, and `3` is given")]


def test_example_scalars_and_integers():
    text = """kernel k<C: int>(a: f32, n: i64, b: bool, idx: i32[C], x: f32[n], out y: f32[K]) { y = a; }
    example k(a = 0.5, n = 7, b = true, idx = randint(i32, -2, 9, 5), x = rand(f32, 7), y = rand(f32, 3));"""
    [kernel] = kernels(text)
    assert kernel.example.scalars == (("a", 0.5), ("n", 7), ("b", True))
    assert kernel.example.arrays[0] == ("idx", "randint", kernel.arrays[0].dtype, (5,), (-2, 9))
    assert expr(kernel.arrays[0].shape[0]) == "5"


def test_a_bool_generic_removes_the_other_arm_before_typing():
    text = "kernel k<B: bool = false>(out y: f32[1]) { if B { y[0] = nothing; } else if !B && B == false { y[0] = 1; } }"
    assert body(text) == ["y[0] = 1.0:f32"]


def test_strides():
    [kernel] = kernels("kernel k(x: f32[M, N : ld], out y: f32[M]) { parallel i in M { y[i] = sum(x[i]); } }")
    assert [dim.name for dim in kernel.dims] == ["M", "N", "ld"]
    assert [pitch and expr(pitch) for pitch in kernel.arrays[0].pitches] == [None, "ld"]


# Functions, imports ----------------------------------------------------------------------------------------------------


def test_functions_are_inlined():
    text = """
    fn pick<T: dtype, K = 5>(a: T, b: T) -> T { let d = a - b; if d > 0 { return a; } else if d < -K { return d; } return b; }
    extern fn fast(x: f32) -> f32 = "return __sinf(x);" { return sin(x); }
    kernel k(n: i32[N], x: f32[N], out y: f32[N], out z: i32[N]) { z = pick(n, 3, K = 7); y = fast(x * 2); }"""
    assert body(text) == [
        "parallel j in 0..N step 1 row",
        "  z[j] = (a = n[j]; (d = sub(a, 3:i32); if(gt(d, 0:i32), a, if(lt(d, -7:i32), d, 3:i32))))",
        "parallel j in 0..N step 1 row",
        "  y[j] = extern fast(mul(x[j], 2.0:f32) | sin(x))",
    ]


def test_functions_do_not_recurse():
    text = "fn f(x: f32) -> f32 { return g(x); } fn g(x: f32) -> f32 { return f(x); } kernel k(out y: f32[1]) { y[0] = f(1.0); }"
    assert ("E0223", "`f` calls itself (f -> g -> f)") in errors(text)


def test_inlining_has_a_limit():
    assert errors(_doubling(24)) == [("E0223", "more than 10000 calls would be inlined")]


def _doubling(depth: int) -> str:
    steps = "".join(f"fn g{k}(x: f32) -> f32 {{ return g{k - 1}(x) + g{k - 1}(x + 1); }}" for k in range(1, depth))
    return f"fn g0(x: f32) -> f32 {{ return x; }} {steps} kernel k(out y: f32[1]) {{ y[0] = g{depth - 1}(1.0); }}"


def test_imports():
    files = {
        "a.vx": 'import "b.vx"; kernel k(out y: f32[N]) { y = twice(3); }',
        "b.vx": 'import "c.vx"; fn twice(x: f32) -> f32 { return double(x); }',
        "c.vx": "fn double(x: f32) -> f32 { return x * 2; }",
        "loop.vx": 'import "loop.vx"; kernel k(out y: f32[N]) { y = 1; }',
        "bad.vx": 'import "bad2.vx"; kernel k(out y: f32[N]) { y = broken(1); }',
        "bad2.vx": "fn broken(x: f32) -> f32 { return x + nothing; }",
    }

    def resolve(path: str, importer: Source) -> Source:
        return Source(path, files[path])

    def checked(name: str):
        source = Source(name, files[name])
        return check(parse(source), source, "k", resolve=resolve)

    [loop] = checked("a.vx").body
    assert expr(loop.body[0].value) == "mul(3.0:f32, 2.0:f32)"
    assert loop.body[0].value.span == (45, 53)  # the call, in the kernel's own text
    with pytest.raises(VxcError) as caught:
        checked("loop.vx")
    assert [d.message for d in caught.value.diagnostics] == ["files import each other: loop.vx -> loop.vx"]
    with pytest.raises(VxcError) as caught:
        checked("bad.vx")
    [found] = caught.value.diagnostics
    assert (found.source.name, found.code, found.place) == ("bad2.vx", "E0201", "bad2.vx:1:39")


def test_all_errors_of_a_file_in_source_order():
    text = "kernel a(out y: f32[1]) { y[0] = p; let t = q; y[0] = t; }\nkernel b(out y: f32[1]) { y[0] = r; }"
    assert [message for _, message in errors(text)] == [f"nothing is named `{name}` here" for name in "pqr"]


def test_names_of_kernels_and_builtins_are_apart():
    assert [k.name for k in kernels("kernel exp(x: f32[N], out y: f32[N]) { let max = exp(x); y = max; }")] == ["exp"]


# Size ----------------------------------------------------------------------------------------------------------------------------

DEEP = {
    "parentheses": ("(" * 500, "x[i]", "+ 1.0)" * 500),
    "signs": ("-" * 500, "x[i]", ""),
    "right": ("x[i] + (" * 500, "x[i]", ")" * 500),
    "calls": ("exp(" * 500, "x[i]", ")" * 500),
    "ifs": ("if x[i] > 0 { 1 } else " * 500, "{ 2 }", ""),
    "index": ("x[" + "(" * 500, "i", "+ i)" * 500 + "]"),
    "sums": ("sum(x * " * 200, "x", ")" * 200),
}


@pytest.mark.parametrize("kind", DEEP)
def test_an_expression_500_levels_deep(kind):
    [kernel] = kernels(f"kernel k(x: f64[N], out y: f64[N]) {{ parallel i in N {{ y[i] = {''.join(DEEP[kind])}; }} }}")
    assert kernel.body


def test_slices_500_levels_deep():
    half = "0 : N" + " // 2" * 500
    assert kernels(f"kernel k(x: f32[N], inout y: f32[N]) {{ y[{half}] = x[{half}]; }}")
    assert [code for code, _ in errors(f"kernel k(x: f32[N], inout y: f32[N]) {{ y[{half}] = x[{half} // 2]; }}")] == ["E0213"]


def test_blocks_500_levels_deep():
    [kernel] = kernels("kernel k(out y: f32[N]) { " + "if N > 1 { " * 500 + "y[0] = 1;" + " }" * 500 + " }")
    assert kernel.body


@pytest.mark.parametrize(
    "statement", ["let a{k} = x[i] * {k}.5 + w;", "y[i] += x[i] * {k};", "let a{k} = max(m[i]);", "let a{k} = {before} * {k}.5 + m[i];"]
)
def test_5000_statements(statement):
    lines = "\n".join(statement.format(k=k, before=f"a{k - 1}" if k else "m[i]") for k in range(5000))
    source = Source("t.vx", f"kernel k(x: f64[N], m: f32[N, N], w: f64, inout y: f64[N]) {{ parallel i in N {{ {lines} }} }}")
    module = parse(source)
    start = time.process_time()
    assert check(module, source, "k").body
    assert time.process_time() - start < 4  # seconds of this process: well under 2 on a machine of its own
