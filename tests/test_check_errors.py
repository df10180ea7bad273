"""What the checker rejects: code, place and message of each; `§` stands before the place."""

from __future__ import annotations

import pytest
from typed_text import rejects

from vxc.codes import CODES

HEAD = """kernel k(x: f32[M, N], w: f32[N], n: i32[M], u: u32[M], q: i64[M], d: f64[N], h: f16[N], f: bool[M], inout y: f32[M, N],
         inout z: i32[8], a: f32, c: i32, b: bool) { parallel i in M {
"""
TAIL = "\n} }\n"


STATEMENTS = [
    ("E0111", "let §inf = 3;", "`inf` is a reserved word and cannot be a name"),
    ("E0113", "§exp(a);", "the value of `exp` is not used"),
    ("E0201", "y[i] = §xx[i];", "nothing is named `xx` here"),
    ("E0201", "let t = sum(§xx[i]) + yy;", "nothing is named `xx` here"),
    ("E0202", "let t = 1; let §t = 2;", "`t` is defined twice in one block"),
    ("E0203", "y[i, 0] = §w[0] + n[i];", "`+` of `f32` and `i32`"),
    ("E0203", "z[0] = n[i] + §1.5;", "a float literal meets a value of type `i32`"),
    ("E0203", "z[0] = n[i] + §1.0;", "a float literal meets a value of type `i32`"),
    ("E0203", "z[0] = §n[i] / 2;", "`/` divides floats, and these are `i32`"),
    ("E0203", "z[0] = §3 / 2;", "`/` divides floats, and these are `i64`"),
    ("E0203", "let t = §u[i] + n[i]; z[0] = 0;", "`+` of `u32` and `i32`"),
    ("E0203", "let t = §n[i] > u[i];", "`>` of `i32` and `u32`"),
    ("E0203", "z[0] = §f[i] + 1;", "`+` is not defined on `bool`"),
    ("E0203", "z[0] = §f[i] + f[i];", "`+` is not defined on `bool`"),
    ("E0203", "let t = §f[i] < true;", "`<` is not defined on `bool`"),
    ("E0203", "let t = §~f[i];", "`~` inverts the bits of integers, and this is `bool`"),
    ("E0203", "let t = §!n[i];", "`!` is for `bool`, and this is `i32`"),
    ("E0203", "let t = §!a;", "`!` is for `bool`, and this is `f32`"),
    ("E0203", "let t = §if b { n[i] } else { a };", "the two arms are of `i32` and `f32`"),
    ("E0203", "var v: f32; v = 1; §v += n[i];", "`+` of `f32` and `i32`"),
    ("E0203", "y[i, 0] = §exp(n[i]);", "`exp` is not defined on `i32`"),
    ("E0203", "y[i, 0] = §sum(f);", "`sum` is not defined on `bool`"),
    ("E0203", "y[i, 0] = §any(x[i]);", "`any` is not defined on `f32`"),
    ("E0203", "y[i, 0] = §reinterpret(a, i64);", "`f32` has 32 bits and `i64` 64"),
    ("E0203", "z[0] = §inf;", "a float literal meets a value of type `i32`"),
    ("E0203", "let t = §1.5 % 2.0;", "`%` is not defined on `f32`"),
    ("E0203", "z[0] = §(n[i] as i8) > (n[i] as u8);", "`>` of `i8` and `u8`"),
    ("E0203", "y[i] = §x[i] + q[0:N];", "`+` of `f32` and `i64`"),
    ("E0204", "y[i, 0] = §n[i];", "an element of `y` is `f32`, and this value is `i32`"),
    ("E0204", "z[0] = §q[i];", "an element of `z` is `i32`, and this value is `i64`"),
    ("E0204", "§var v;", "`v` has neither type nor value"),
    ("E0204", "y[§a, 0] = 1;", "an index is an integer, and this is `f32`"),
    ("E0204", "y[§b, 0] = 1;", "an index is an integer, and this is `bool`"),
    ("E0204", "y[§1.0, 0] = 1;", "an index is an integer, not a float"),
    ("E0204", "let t: f32 = §d[0];", "`t` is `f32`, and this value is `f64`"),
    ("E0204", "y[i, 0] = rand(§a, i);", "an argument of `rand` is `i64`, and this value is `f32`"),
    ("E0205", "z[0] = §3000000000;", "`3000000000` does not fit `i32`, which holds -2147483648 to 2147483647"),
    ("E0205", "z[0] = n[i] + §3000000000;", "`3000000000` does not fit `i32`, which holds -2147483648 to 2147483647"),
    ("E0205", "y[i, 0] = §1e39;", "`1e+39` is beyond the range of `f32`"),
    ("E0205", "y[i, 0] = §16777217;", "the integer `16777217` is not exact in `f32`"),
    ("E0205", "let t = 1 << §70;", "a shift by 70 of a literal"),
    (
        "E0205",
        "let t = §9223372036854775808;",
        "`9223372036854775808` does not fit `i64`, which holds -9223372036854775808 to 9223372036854775807",
    ),
    ("E0205", "let t: i8 = §128;", "`128` does not fit `i8`, which holds -128 to 127"),
    ("E0205", "let t = §(1 << 63) * (1 << 63) * (1 << 63) * (1 << 63) * (1 << 63);", "a literal of more than 256 bits"),
    ("E0206", "if §n[i] { }", "the condition of `if` must be `bool`, not `i32`"),
    ("E0206", "while §n[i] { }", "the condition of `while` must be `bool`, not `i32`"),
    ("E0206", "let t = if §n[i] { 1 } else { 2 };", "the condition of `if` must be `bool`, not `i32`"),
    ("E0206", "y[i, 0] = select(§a, 1, 2);", "the first argument of `select` must be `bool`, not `f32`"),
    ("E0206", 'assert(a > 0, "x"); assert(§a); print("v", a, n[i]); print(a);', "the condition of `assert` must be `bool`, not `f32`"),
    ("E0207", "y[i, 0] = §expp(a);", "there is no function `expp`"),
    ("E0207", "y[i, 0] = §y(3);", "there is no function `y`"),
    ("E0207", "y[i, 0] = §f32(3);", "there is no function `f32`"),
    ("E0207", "§foo(a);", "there is no statement `foo(..)`"),
    ("E0208", "y[i, 0] = §exp(a, a);", "`exp` takes 1 argument, and 2 are given"),
    ("E0208", "y[i, 0] = §max(a, 0, 1);", "`max` takes 2 arguments, and 3 are given"),
    ("E0208", "y[i, 0] = §dot(x[i]);", "`dot` takes 2 arguments, and 1 are given"),
    ("E0209", "y[i, 0] = sum(x[i], §foo = 1);", "`sum` takes no argument named `foo`"),
    ("E0210", "y[i, 0] = a as §f33;", "`f33` is no type"),
    ("E0211", "§x[i, 0] = 1;", "`x` is an `in` parameter and cannot be written"),
    ("E0211", "§a = 1;", "`a` is a parameter passed by value and cannot be assigned"),
    ("E0211", "§i = 1;", "`i` is a loop index and cannot be assigned"),
    ("E0211", "§M = 1;", "`M` is a dimension and cannot be assigned"),
    ("E0211", "let t = 1; §t = 2;", "`t` is bound by `let` and never changes"),
    ("E0211", "let r = x[i] * 2; §r = 3;", "`r` is bound by `let` and never changes"),
    ("E0211", "atomic_add(§x[i, 0], 1);", "`x` is an `in` parameter and cannot be written"),
    ("E0211", "atomic_add(§h[0], 1);", "`h` is an `in` parameter and cannot be written"),
    ("E0212", "let r = x[i] * 2; y[i] = r + §r[0];", "`r` is no array"),
    ("E0212", "§y[i, 0, 0] = 1;", "`y` has 2 dimensions, and 3 indices are given"),
    ("E0212", "y[i, 0] = §a[0];", "`a` is no array"),
    ("E0212", "let t = §(x[i] + 1)[0];", "only arrays have elements"),
    ("E0213", "y[i] = §x;", "a row of rank 2 meets one of rank 1"),
    ("E0213", "y[i] = §w[0:4];", "rows whose shapes may differ: N and 4 elements"),
    ("E0213", "y[i, 0:4] = §w[1:6];", "rows of different shapes: 4 and 5 elements"),
    ("E0213", "y[i, 1:] = §w[:N - 2];", "rows of different shapes: N - 1 and N - 2 elements"),
    ("E0213", "y[i] = §w[:N - 1];", "rows of different shapes: N and N - 1 elements"),
    ("E0213", "y[i] = §n;", "rows whose shapes may differ: N and M elements"),
    ("E0213", "y[i, 0::2] = §w[1::2];", "rows whose shapes may differ: ceildiv(N, 2) and ceildiv(N - 1, 2) elements"),
    ("E0213", "y[i, 0] = dot(x[i], §n);", "rows whose shapes may differ: N and M elements"),
    ("E0213", "y[i] = if §f { 1.0 } else { 0.0 };", "rows whose shapes may differ: N and M elements"),
    ("E0214", "y[i, 0] = §x[i];", "a row stands where one element is needed"),
    ("E0214", "let r = x[i] * 2; z[0] = §r;", "`r` is a row, and one element is needed here"),
    ("E0214", "y[i, 0] = max(§a);", "`max` reduces a row, and this is one value of type `f32`"),
    ("E0214", "let t = §atomic_add(y[i], w);", "a row of atomics has no one value before"),
    ("E0214", "y = §cumsum(x);", "`cumsum` runs along one dimension, and this row has 2"),
    ("E0214", "y[i, 0] = x[§n, i];", "a row stands where one element is needed"),
    ("E0214", "let t: f32 = §x[i];", "`t` is declared as one `f32`, and this is a row"),
    ("E0215", "z[§8] = 0;", "index 8 is outside `z`, whose dimension 0 has 8 elements"),
    ("E0215", "z[§-1] = 0;", "index -1 of `z` is negative"),
    ("E0215", "y[i, §N] = 0;", "index N is outside `y`, whose dimension 1 has N elements"),
    ("E0215", "local l: f32[4]; l = 1; l[§4] = 2;", "index 4 is outside `l`, whose dimension 0 has 4 elements"),
    ("E0216", "z[§6:12] = 7;", "the slice ends at 12, past the end of `z`, whose dimension 0 has 8 elements (6+6 > 8)"),
    ("E0216", "z[§6 :+ 6] = 7;", "the slice ends at 12, past the end of `z`, whose dimension 0 has 8 elements (6+6 > 8)"),
    ("E0216", "z[§5:3] = 7;", "a slice of `z` ends before it starts"),
    ("E0216", "z[§0:8:0] = 7;", "a slice by steps of 0"),
    ("E0217", "z[0] = n[i] // §0;", "division by zero"),
    ("E0217", "z[0] = 5 % §0;", "division by zero"),
    ("E0217", "z[0] = n[i] // §(4 - 2 * 2);", "division by zero"),
    ("E0217", "z[0] = ceildiv(n[i], §0);", "division by zero"),
    ("E0221", "§break;", "`break` directly in `parallel`"),
    ("E0221", "serial k in 8 { parallel j in 8 { §break; } }", "`break` directly in `parallel`"),
    ("E0221", "unroll k in 8 { §continue; }", "`continue` directly in `unroll`"),
    ("E0222", "§return 1;", "`return` stands outside a function"),
    (
        "E0226",
        "let r = y[i] * 2; y[i] = r + 1; y[i] = §r;",
        "`r` is a row, computed where it is used, and `y`, which it reads, is written before",
    ),
    (
        "E0226",
        "let r = y[i] * 2; serial k in 4 { y[i] = §r + 1; }",
        "`r` is a row, computed where it is used, and `y`, which it reads, is written before",
    ),
    ("E0227", "y[i, 0] = §f32;", "`f32` is a type, not a value"),
    ("E0227", 'y[i, 0] = §"a";', "a string has no value here"),
    ("E0230", "unroll §k in N { }", "an `unroll` loop whose length is not known when compiling"),
    ("E0230", "serial k in 0..8 step §0 { }", "a loop by steps of 0 never ends"),
    ("E0231", "var v: §f32[3];", "`v` is declared as an array"),
    ("E0231", "local l: f32[§N];", "`l` needs a constant size"),
    ("E0231", "local l: §f32;", "`l` has no dimensions"),
    ("E0231", "§shared s: f32[4];", "a `shared` array stands outside a `grid`"),
    ("E0232", "z[0] = §atomic_add(z[1], 1);", "`atomic_add` is a statement"),
    ("E0232", "§grid g in 4 { }", "a `grid` stands inside another loop"),
    ("E0232", "§pipelined g in 4 { }", "a `pipelined` loop stands outside a `grid`"),
    ("E0232", "§copy(x, y);", "`copy` stands outside a `grid`"),
    ("E0232", "y[i, 0] = §cumsum(w);", "`cumsum` gives a row, and stands where none is assigned"),
    ("E0232", "y[i, 0] = sum(§cumsum(w));", "`cumsum` gives a row, and stands where none is assigned"),
    ("E0214", "y[i, 0] = max(§x, axis = 0);", "a reduction over one axis of 2 gives a row, and one element is needed here"),
    ("E0214", "y[i] = max(§x, axis = 2);", "there is no axis 2 in a row of rank 2"),
    ("E0214", "y[i] = max(x, axis = §c);", "an axis is an integer of 0 or more, known when compiling"),
    ("E0214", "y = §cumsum(x, axis = 2);", "there is no axis 2 in a row of rank 2"),
    ("E0214", "y = cumsum(x, axis = 1) + §cumsum(x, axis = 0);", "scans along axes 1 and 0 of one row"),
    ("E0213", "y[i] = w + max(§x, axis = 1);", "rows whose shapes may differ: N and M elements"),
    ("E0209", "y[i] = max(x, axis = 0, §axis = 1);", "`axis` is given twice"),
]  # fmt: skip


@pytest.mark.parametrize("code, text, message", STATEMENTS, ids=[f"{row[0]}-{row[1]}" for row in STATEMENTS])
def test_a_statement_is_rejected(code, text, message):
    rejects(HEAD + text + TAIL, code, message)


FILES = [
    ("E0218", "kernel k<§T: dtype>(x: T[N], out y: T[N]) { parallel i in N { y[i] = x[i]; } }", "generic `T` has no value"),
    (
        "E0224",
        "kernel k<T: dtype>(x: T[N], out y: T[N]) { parallel i in N { y[i] = x[i]; } } example k(x = §rand(f16, 3, 4));",
        "`x` has 1 dimension, and the example gives 2",
    ),
    (
        "E0224",
        "kernel k<T: dtype>(x: T[N], out y: T[N]) { parallel i in N { y[i] = x[i]; } } example k(§xx = rand(f16, 3));",
        "`k` has no parameter or generic `xx`",
    ),
    (
        "E0224",
        "kernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i]; } } example k(x = §rand(f16, 3));",
        "`x` has elements of `f32`, and the example gives `f16`",
    ),
    (
        "E0224",
        "kernel k(x: f32[N], z: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i]; } } §example k(x = rand(f32, 3));",
        "the example does not give `z`",
    ),
    (
        "E0224",
        "kernel k(x: f32[N], z: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i]; } } example k(x = rand(f32, 3), "
        "z = §rand(f32, 4));",
        "dimension 0 of `z` is 4, and the other arguments make it 3",
    ),
    (
        "E0203",
        "kernel k(a: i32, x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i]; } } example k(x = rand(f32, 3), a = "
        "§2.5);",
        "a float literal meets a value of type `i32`",
    ),
    (
        "E0224",
        "kernel k(a: bool, x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i]; } } example k(x = rand(f32, 3), a "
        "= §2);",
        "`a` is `bool`",
    ),
    ("E0219", "kernel k(x: f32[§N // 2], out y: f32[8]) { y = 0; }", "no array fixes the dimension `N`"),
    ("E0210", "kernel k<§C: intt = 8>(x: f32[N, C]) { }", "`intt` is no kind of generic"),
    ("E0218", "kernel k<§C: bool = 8>(x: f32[N, C]) { }", "generic `C` is of kind `bool`, and `8` is given"),
    ("E0218", "kernel k<C = §1.5>(x: f32[N]) { }", "the default of a generic is an integer or bool known when compiling"),
    ("E0202", "kernel k(x: f32[N], §x: f32[N]) { }", "`x` is defined twice in one block"),
    ("E0228", "kernel k(x: f32[N]) { } kernel §k(x: f32[N]) { }", "`k` is defined twice"),
    ("E0228", "fn §exp(x: f32) -> f32 { return x; } kernel exp(x: f32[N]) { }", "`exp` is built in, and a function may not shadow it"),
    ("E0222", "§fn f(x: f32) -> f32 { if x > 0 { return 1; } } kernel k(out y: f32[1]) { y[0] = f(1.0); }", "`f` may end without `return`"),
    (
        "E0222",
        "fn f(x: f32) -> f32 { §var t = 1; return 1; } kernel k(out y: f32[1]) { y[0] = 1; }",
        "a function is made of `let`, `if` and `return`",
    ),
    ("E0222", "fn f(§x: f32[N]) -> f32 { return 1; } kernel k(out y: f32[1]) { y[0] = 1; }", "parameter `x` of a function is no scalar"),
    ("E0218", "fn f<§T: dtype>() -> T { return 1; } kernel k(out y: f64[1]) { y[0] = f(); }", "generic `T` has no value"),
    ("E0225", '§import "nowhere.vx"; kernel k(out y: f32[1]) { y[0] = 1; }', "cannot read nowhere.vx: No such file or directory"),
    ("E0231", "kernel k(§out a: f32) { }", "`a` is a scalar and cannot be `out`"),
    ("E0210", "kernel k(x: §f33[N]) { }", "`f33` is no type"),
    ("E0219", "kernel k(x: f32[§-1]) { }", "a dimension of -1 elements"),
    (
        "E0213",
        "kernel k(x: f32[M, N], y: f32[N, M], out z: f32[M, N]) { z = x + §y; }",
        "rows whose shapes may differ: M x N and N x M elements",
    ),
    (
        "E0216",
        "kernel tile6(out o: i32[8]) { grid g in 1 { shared s: i32[8]; s[§6:12] = 7; copy(s, o); } }",
        "the slice ends at 12, past the end of `s`, whose dimension 0 has 8 elements (6+6 > 8)",
    ),
    (
        "E0205",
        "kernel k(out y: f32[N]) { y[0] = §1 + 2.5 * 1e43; y[1] = 99999999999999999999999999999999999999999999999999 as "
        "f32; }",
        "`2.5e+43` is beyond the range of `f32`",
    ),
    ("E0234", "example §zz(x = 1); kernel k(out y: f32[N]) { y = 0; }", "there is no kernel `zz`"),
]  # fmt: skip


@pytest.mark.parametrize("code, text, message", FILES, ids=[f"{row[0]}-{row[1]}" for row in FILES])
def test_a_file_is_rejected(code, text, message):
    rejects(text, code, message)


def test_every_code_of_the_checker_is_tested():
    own = {code for code in CODES if code.startswith("E02")}
    elsewhere = {"E0220", "E0226", "E0209", "E0233", "E0229", "E0223"}  # below, with more than one place or error
    assert own - {row[0] for row in STATEMENTS + FILES} <= elsewhere
