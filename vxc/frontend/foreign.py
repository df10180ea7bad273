"""What people write who come from C, CUDA, Python, NumPy, torch or Triton, and what is written here: a table for each place it has."""

from __future__ import annotations

import re

from vxc.diag import suggestion
from vxc.dtypes import DTYPES

TOKENS = {
    "and": "`&&`", "or": "`||`", "not": "`!`", "elif": "`else if`", "for": "`serial i in n { }`",
    "def": "`kernel`, or `fn` for what kernels call,",
    "//": "`#` before a comment", "==": "`=`", "++": "`+= 1`", "--": "`-= 1`", "?": "`if c { a } else { b }`",
    "'": '`"` around a string', "‘": '`"`', "’": '`"`', "\u00a0": "a space of the keyboard", "−": "`-`", "–": "`-`", "—": "`-`",
    "×": "`*`", "·": "`*`", "÷": "`/`", "≤": "`<=`", "≥": "`>=`", "≠": "`!=`", "“": '`"`', "”": '`"`',
}  # fmt: skip
"""Words and characters that no token of the language is, or none that stands there."""

TYPES = {"float": "f32", "double": "f64", "half": "f16", "int": "i32", "long": "i64", "unsigned": "u32", "uint": "u32", "char": "i8"}
TYPES |= {d.numpy_name: d.name for d in DTYPES.values() if d.bits != 4 and d.numpy_name not in DTYPES}

FUNCTIONS = {
    "relu": "`max(x, 0.0)`", "mean": "`sum(x) / (N as f32)`", "average": "`sum(x) / (N as f32)`", "square": "`x * x`",
    "maximum": "`max(a, b)`", "minimum": "`min(a, b)`", "fmax": "`max(a, b)`", "fmin": "`min(a, b)`", "fmaxf": "`max(a, b)`",
    "fminf": "`min(a, b)`", "fabs": "`abs(x)`", "fabsf": "`abs(x)`", "expf": "`exp(x)`", "logf": "`log(x)`", "sqrtf": "`sqrt(x)`",
    "rsqrtf": "`rsqrt(x)`", "tanhf": "`tanh(x)`", "powf": "`pow(x, y)`", "power": "`pow(x, y)`", "fmaf": "`fma(a, b, c)`",
    "clip": "`clamp(x, a, b)`", "where": "`if c { a } else { b }`", "range": "the number alone, as in `i in N`, or `i in a..b`",
    "arange": "`parallel i in n { }`", "len": "the dimension by its name, as `N` of `x: f32[N]`",
    **{name: f"`x as {dtype}`" for name, dtype in TYPES.items()},
}  # fmt: skip

_NO_BARRIER = "no barrier is written: the compiler puts them where threads of a block meet"
STATEMENTS = {name: _NO_BARRIER for name in ("__syncthreads", "syncthreads", "__syncwarp", "barrier", "debug_barrier", "sync")}
STATEMENTS |= {f"atomic{op}": f"write `atomic_{op.lower()}(y[i], x);`" for op in ("Add", "Max", "Min")}
ARGUMENTS = {"dim": "an axis is named `axis`: `sum(x, axis = 1)`", "keepdim": "a reduction drops its axis: remove it"}
ARGUMENTS["keepdims"] = ARGUMENTS["keepdim"]

_TYPE = "|".join(sorted({*TYPES, *DTYPES, "auto", "const"}, key=len, reverse=True))
_KERNEL = "write `kernel name(x: f32[N], out y: f32[N]) {{ parallel i in N {{ y[i] = x[i]; }} }}`"
_CONSTRUCTS = (
    (r"/", r"\*", "write `#` before each line of a comment"),
    (r"", r"/\*", "write `#` before each line of a comment"),
    (r"^\s*", r"(__\w+__|void|template|static|inline|class|using|from)\b", _KERNEL),
    (r"\bimport\s+", r"\w", "kernels need no packages: remove it; a file of kernels is named as a string, as in `import \"f.vx\";`"),
    (r"\bkernel\b.*\)\s*", r"->", "a kernel returns nothing: write what it gives into a parameter `out y: f32[N]`"),
    (r"\b(?:kernel|program|parallel|serial|grid|if|else|while)\b[^{]*", r":", "a block stands in braces: write `{{` here, `}}` at its end"),
    (r":\s*(\w+)\s*\[\s*", r"[\]*?]", "name each dimension, as in `{0}[N]`"),
    (r":\s*\w*\s*", r"[*&]", "there are no pointers: an array is declared with its dimensions, as in `x: f32[N]`"),
    (r"[(,=]\s*", r"&\s*\w", "what is written to is named as it is: write `atomic_add(y[i], x);`, and no `&`"),
    (r"[\w)\]]\s*", r"@\s+\w|@\w+\[", "write `dot(a, b)` for two rows, or `gemm(a, b, c)` for tiles"),
    (r"\*\s*", r"\*", "write `pow(x, y)`, or `x * x`, for a power"),
    (rf"\(\s*({_TYPE})\s*\)\s*", r"[\w(]", "write `x as {0}` to convert"),
    (rf"(?<![\w(,:])({_TYPE})\s+", r"[A-Za-z_]", "write `let a = ..;`, or `var` if it changes; types follow the name, as in `let a: {0}`"),
    (r"\bfor\s*\([^;]*", r"\w", "write `serial i in 0..n {{ }}`"),
    (r"=[^=;]*[\w)\]]\s*", r"if\b.*\belse\b", "write `if c {{ a }} else {{ b }}`"),
    (r"\b(?:let|var)\s+(\w+\s*:\s*\w+\s*\[[^\];]*\])\s*", r";", "an array is declared with `local`: `local {0};`"),
)  # fmt: skip
"""What stands before the token that fits nowhere, on its line; what begins with the token; and what to write, {0} a group of the first."""

_MODULES = r"\b(?:tl|triton|torch|np|numpy|cp|cupy|jnp|jax|math|cuda|libdevice|F|nn|functional)"
_MEMBERS = (
    (rf"@{_MODULES}", r"\w", _KERNEL),
    (r"\b(?:thread|block)(?:Idx|Dim)|\bgridDim", r"[xyz]", "no thread has a number: write `parallel i in N {{ }}`"),
    (_MODULES, r"constexpr", "a constant of a kernel stands behind its name, as in `kernel k<BLOCK = 128>(..)`"),
    (_MODULES, r"program_id", "no block is numbered: write `parallel i in N {{ }}`, or `grid i in N {{ }}` for blocks"),
    (_MODULES, r"\w+", "write {here}"),
    (r"[\w\])]", r"(?:shape|size|ndim|numel)\b", "write the dimension by its name, as `N` of `x: f32[N]`"),
    (r"[\w\])]", r"(?:to|astype|float|half|int|long)\s*\(", "write `x as f32` to convert"),
    (r"[\w\])]", r"(\w+)\s*\(", "nothing has members: write `{0}(x)`"),
    (r"", r"", "write `x[i]` for an element; nothing has members"),
)
"""What stands before a point, what follows it, and what to write: {0} is a group of the latter, {here} its word as it is written here."""

_HEADS = ("parallel", "serial", "grid", "unroll", "pipelined", "persistent", "shared", "fragment", "local", "while", "return")


def construct(text: str, place: int) -> str:
    """What to write, where the token at a place of a text belongs to a construct of another language or a misspelt keyword; else ""."""
    start, end = text.rfind("\n", 0, place) + 1, text.find("\n", place)
    before, after = text[start:place], text[place : end if end >= 0 else len(text)]
    for found, follows, instead in _CONSTRUCTS:
        match = re.search(rf"(?:{found})$", before[-200:])
        if match and re.match(follows, after[:400]):
            groups = [TYPES.get(group, "f32" if group in ("auto", "const") else group) for group in match.groups()]
            return instead.format(*groups)
    word = re.search(r"([a-z]+)\s+$", before)
    if word and re.match(r"\w+\s*(in\b|:)", after):
        return suggestion(word[1], _HEADS) if word[1] not in _HEADS else ""
    return ""


def member(text: str, place: int) -> str:
    """What to write, where there is a point at this place."""
    before, after = text[max(0, place - 200) : place], text[place + 1 : place + 100]
    found = ((re.search(f"(?:{ahead})$", before), re.match(follows, after), instead) for ahead, follows, instead in _MEMBERS)
    match, instead = next((match, instead) for ahead, match, instead in found if ahead and match)
    return instead.format(*match.groups(), here=_here(match[0]))


def _here(name: str) -> str:
    """A function or type of a module as it is written here."""
    if name in TYPES or name in DTYPES:
        return f"`{TYPES.get(name, name)}`"
    return FUNCTIONS.get(name, f"`{name}(..)`, with no module before it")
