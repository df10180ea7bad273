"""The smallest texts that give each diagnostic code; `§` stands before the place. Calls from Python are in `code_calls`."""

from __future__ import annotations

import numpy as np


def kernel(body: str, params: str = "x: f32[N], n: i64, inout y: f32[N]") -> str:
    return f"kernel k({params}) {{ {body} }}"


def thread(body: str, params: str = "x: f32[N], n: i64, inout y: f32[N]") -> str:
    return kernel(f"parallel i in N {{ {body} }}", params)


def function(body: str) -> str:
    return f"fn f(a: f32) -> f32 {{ {body} }} {thread('y[i] = f(x[i]);')}"


def block(body: str) -> str:
    return kernel(f"grid b in 1 {{ {body} }}")


# code -> (text, message): what is wrong with a source, or with what the passes, the emitter and NVRTC make of it
SOURCES = {
    "E0103": (thread("y[i] = §€;"), "`€` has no meaning here"),
    "E0104": (thread('print(§"a);'), 'this string has no closing `"`'),
    "E0105": (thread("y[i] = 1§.;"), "`1.` needs a digit after the point"),
    "E0106": (thread('print("§\\q");'), "`\\q` is not an escape"),
    "E0107": (thread("y[i] = §;"), "expected an expression, found `;`"),
    "E0108": (thread("y[i] = 1.0§"), "expected `;` here"),
    "E0109": ("kernel k(x: f32[N]) §{ ", "this `{` is never closed"),
    "E0110": (thread("if n §= 1 { }"), "`=` assigns; a condition compares"),
    "E0111": (thread("let §while = 1;"), "`while` is a reserved word and cannot be a name"),
    "E0112": (thread("§else { }"), "this `else` has no `if`"),
    "E0113": (thread("§n;"), "this statement has no effect"),
    "E0114": (thread("§f(x) = 2;"), "only a name or an element can be assigned to"),
    "E0115": (thread("y[i] = §x[i](1);"), "only a function can be called, by its name"),
    "E0116": (thread("y[i] = sum(a = 1, §x);"), "a positional argument follows `a = `"),
    "E0201": (thread("y[i] = §q;"), "nothing is named `q` here"),
    "E0202": (thread("let t = 1; let §t = 2;"), "`t` is defined twice in one block"),
    "E0203": (thread("y[i] = §x[i] + n;"), "`+` of `f32` and `i64`"),
    "E0204": (thread("y[i] = §n;"), "an element of `y` is `f32`, and this value is `i64`"),
    "E0205": (thread("y[i] = §1e39;"), "`1e+39` is beyond the range of `f32`"),
    "E0206": (thread("if §n { }"), "the condition of `if` must be `bool`, not `i64`"),
    "E0207": (thread("y[i] = §f(1.0);"), "there is no function `f`"),
    "E0208": (thread("y[i] = §exp();"), "`exp` takes 1 argument, and 0 are given"),
    "E0209": (thread("y[i] = sum(x, §pad = 1);"), "`sum` takes no argument named `pad`"),
    "E0210": (thread("y[i] = n as §f31;"), "`f31` is no type"),
    "E0211": (thread("§x[i] = 1.0;"), "`x` is an `in` parameter and cannot be written"),
    "E0212": (thread("y[i] = §n[0];"), "`n` is no array"),
    "E0213": (kernel("y = §x[1:];"), "rows of different shapes: N and N - 1 elements"),
    "E0214": (thread("y[i] = §x;"), "a row stands where one element is needed"),
    "E0215": (thread("y[§-1] = 0.0;"), "index -1 of `y` is negative"),
    "E0216": (thread("y[§3:2] = 0.0;"), "a slice of `y` ends before it starts"),
    "E0217": (thread("y[n // §0] = 0.0;"), "division by zero"),
    "E0218": ("kernel k<§C>(out y: f32[N]) { y = 0.0; }", "generic `C` has no value"),
    "E0219": (kernel("", "out y: f32[§N + 1]"), "no array fixes the dimension `N`"),
    "E0220": (thread("§@lanes(2) y[i] = 0.0;"), "`@lanes` does not belong to a statement of this kind"),
    "E0221": (thread("§break;"), "`break` directly in `parallel`"),
    "E0222": (function("§while true { } return a;"), "a function is made of `let`, `if` and `return`"),
    "E0223": (function("return §f(a);"), "`f` calls itself (f -> f)"),
    "E0224": (thread("y[i] = 0.0;") + " example k(§z = 1);", "`k` has no parameter or generic `z`"),
    "E0225": ('§import "k.vx"; ' + thread("y[i] = 0.0;"), "files import each other: k.vx -> k.vx"),
    "E0226": (
        thread("let r = y * 2.0; y[i] = 1.0; y[i] = sum(§r);"),
        "`r` is a row, computed where it is used, and `y`, which it reads, is written before",
    ),
    "E0227": (thread('y[i] = §"a";'), "a string has no value here"),
    "E0228": ("fn §exp(a: f32) -> f32 { return a; } " + kernel(""), "`exp` is built in, and a function may not shadow it"),
    "E0230": (thread("serial j in 0..8 step §0 { }"), "a loop by steps of 0 never ends"),
    "E0231": (thread("§shared s: f32[4];"), "a `shared` array stands outside a `grid`"),
    "E0232": (thread("§grid b in 4 { }"), "a `grid` stands inside another loop"),
    "E0233": (kernel("") + " program p(x: f32[N], n: i64, inout y: f32[N]) { §k(x, n); }", "`k` takes 3 arguments, and 2 are given"),
    "E0235": (block("@layout(§[i] -> [i % 4, 0]) fragment f: f32[8] = 0.0; y[0] = f[0];"),
              "`@layout` does not fit `f`: i=0 and i=4 both have slot 0 of thread 0"),
    "E0234": (kernel("") + " program p(inout y: f32[N]) { §q(y); }", "there is no kernel `q`"),
    "E0310": (thread("§y[i + 1] = 0.0;"), "index i + 1 of `y` reaches N, past its extent N"),
    "E0312": (thread("§y[0] = x[i];"), "`parallel` iterations collide: i=0 and i=1 both write `y[0]`"),
    "E0313": (
        kernel("parallel i in N { §y[p[i]] = 0.0; }", "p: i64[N], inout y: f32[N]"),
        "cannot prove that `parallel` iterations over `i` touch different elements of `y`",
    ),
    "E0401": ("§@native(f16) " + thread("y[i] = 0.0;"), "`@native` of a kernel is not compiled yet"),
    "E0402": (
        kernel("parallel i in N { §y[i] = 1; }", "out y: i4[N]"),
        "`y` packs two i4 elements in a byte, which two threads cannot write at once",
    ),
    "E0403": (
        kernel("§parallel i in p[0] { y[i] = 0.0; }", "p: i64[1], inout y: f32[N]"),
        "the number of iterations of a top-level `parallel` loop is read from device memory",
    ),
    "E0702": (
        '§extern fn f(a: f32) -> f32 = "return b;" { return a; } ' + thread("y[i] = f(x[i]);"),
        'the generated CUDA text does not compile: identifier "b" is undefined',
    ),
    "E0715": (
        kernel("§y[0] = 0.0;", ", ".join(f"a{k}: f64[N]" for k in range(4096)) + ", inout y: f32[N]"),
        "kernel `k` has 4,098 parameters of 32,784 bytes, a launch passes at most 32,764",
    ),
    "E0716": (
        block("§shared s: f32[99999] = 0.0; y[0] = s[n];"),
        "`k` needs 400,000 bytes of shared memory a block, and sm_90a has 232,448",
    ),
    "E0717": (
        thread("y[i] = @chunk(999999) §sum(x);"),
        "a thread needs 4,000,012 bytes of local memory, and there are 524,288",
    ),
}  # fmt: skip


def ir(lines: str, stage: str = "tile", params: str = "%n: i64, @x: f32[%n] in, @y: f32[8] out", more: str = "") -> str:
    return f"kernel @k({params}) stage={stage}{more} {{\n{lines}\n}}\n"


def roles(first: str, second: str) -> str:
    inside = f'§role {{name="{first}", warps=1}}\nend\nrole {{name="{second}", warps=1}}\nend'
    lines = f'%b = loop 0, 8 {{kind="parallel", map="blocks"}}\n{inside}\nend %b'
    return ir(lines, "team", "@y: f32[8] out", " {group=64, rows=1, threads=64}")


# code -> (IR text, message)
TEXTS = {
    "E0404": (roles("a", "b").replace("§", ""), "kernel k has several roles, which are not lowered to threads yet"),
    "E0501": (ir("print §^"), "`^` is not used here"),
    "E0502": (ir("§laod"), "there is no opcode `laod`"),
    "E0503": (ir("print §300:i8"), "300 is not a value of i8"),
    "E0510": (ir("§end"), "`end` without an open region"),
    "E0511": (ir("§%n: i64 = neg 1"), "%n is defined already"),
    "E0512": (
        ir('if true\n%a: i64 = neg 1\nend\n§print %a {label=""}'),
        "%a is used, but it is not defined before this, or in a region that has ended",
    ),
    "E0513": (ir("§%a: i64 = add %n"), "`add` takes (value, same), not 1 operand"),
    "E0514": (ir("§%a: f32 = neg %n"), "the result %a of `neg` is f32 where i64 goes"),
    "E0515": (ir("§print"), "`print` needs attribute `label`"),
    "E0516": (ir("§%t: i64 = thread_index"), "`thread_index` is not legal in a kernel at stage tile, only at thread"),
    "E0517": (ir("§break"), "`break` outside a serial loop"),
    "E0518": (ir("§store @y, 8, 0.0:f32", more=" done=[prove-parallel]"), "index 8 is outside dimension 0 of @y, which has 8 elements"),
    "E0519": (ir("§store @x, 0, 0.0:f32"), "`store` to @x, which is an `in` parameter"),
    "E0520": (ir("§cell @c: f32[2]"), "a cell has no shape"),
    "E0521": (
        ir('%t: i64 = thread_index\n%c: bool = lt %t, 8\nif %c\n§barrier {scope="block"}\nend', "thread", more=" {threads=64}"),
        "`barrier` is executed by all threads of the block together, but only groups of 1 are known to reach it together",
    ),
    "E0522": (
        "plan @k(@y: f32[8] out) {\n§launch @k[1](@y, @y)\n}\n" + ir("store @y, 0, 0.0:f32", params="@y: f32[8] out"),
        "@k has 1 parameters, the launch passes 2 arguments",
    ),
    "E0523": ("plan §@k(@y: f32[8] out) {\n}\n" + ir("store @y, 0, 0.0:f32", params="@y: f32[8] out"), "kernel @k is never launched"),
    "E0524": (roles("a", "a"), "two roles have one name"),
}  # fmt: skip

X = np.zeros(4, np.float32)
# code -> (text, arrays, scalars, message): what a run by the interpreter of the syntax tree finds
RUNS = {
    "E0704": (kernel("", "§x: f32[N]"), {"x": X.astype(np.float64)}, {}, "array argument `x` holds float64, but f32 is declared"),
    "E0705": (kernel("", "x: f32[N], §y: f32[N]"), {"x": X, "y": X[:3]}, {}, "dimension 0 of `y` is 3, but dimension 0 of `x` makes N = 4"),
    "E0706": (kernel("", "§x: f32[M, N : 8]"), {"x": X.reshape(2, 2)}, {}, "stride 0 of `x` (in elements) is 2, but 8 is declared"),
    "E0707": (kernel("", "§n: i64"), {}, {"n": 0.5}, "scalar argument `n` is i64, but 0.5 is not an integer"),
    "E0708": (kernel("", "§x: f32[N]"), {}, {}, "array argument `x` is missing"),
    "E0714": (kernel("", "§out y: f32[N]"), {}, {}, "nothing gives the size of N, so `y` cannot be allocated"),
    "E0720": (thread("y[i] = §x[n];"), {"x": X, "y": X}, {"n": 4}, "index 4 is out of range for dimension 0 of `x`, which has 4 (at i=0)"),
    "E0721": (thread("var v: f32; y[i] = §v;"), {"x": X, "y": X}, {"n": 4}, "`v` is read, but nothing has written it (at i=0)"),
    "E0722": (
        kernel('@independent("?") parallel i in N { §y[n] = 0.0; }'), {"x": X, "y": X}, {"n": 2},
        "`@independent` does not hold: i=0 writes `y[2]`, which i=3 writes",
    ),
    "E0723": (thread('§assert(x[i] > 0.0, "positive");'), {"x": X, "y": X}, {"n": 2}, "assertion failed: positive (at i=0)"),
    "E0724": (thread("y[i] = §(3 // n) as f32;"), {"x": X, "y": X}, {"n": 0}, "integer division by zero (at i=0)"),
    "E0731": (
        thread("§serial j in 0..3 step n { y[i] = 0.0; }"), {"x": X, "y": X}, {"n": 0},
        "a loop steps by 0 and would never end (at i=0)",
    ),
    "E0735": (kernel("y[0:4:§n] = 0.0;"), {"x": X, "y": X}, {"n": 0}, "a slice goes by steps of less than 1"),
}  # fmt: skip

# code: (source, message) of what is noted of a kernel that is sound
NOTES = {
    "N0311": (thread("§y[i + n] = 0.0;"), "index i + n of `y` may be below 0 or pass the extent N"),
}
