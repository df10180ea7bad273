"""C identifiers for the names of the IR: ASCII, no word that C++ or CUDA uses, each different from every other.

A kernel's symbol depends on its name alone, so that whoever launches it can work it out; the names inside a kernel are
given out one after another by `Names`.
"""

from __future__ import annotations

import re
from functools import cache

from vxc.cuda.prelude import identifiers
from vxc.dtypes import DTYPES
from vxc.semantics import SCALAR_OPS, STORED, accepts, c_expr

# C++20 keywords, and what NVRTC declares or defines before the first line of a text (found by compiling a kernel of each name).
_WORDS = frozenset(
    """
    alignas alignof and and_eq asm assert auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl concept
    const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do double
    dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept
    not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires return short signed sizeof
    static static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename union
    unsigned using virtual void volatile wchar_t while xor xor_eq
    blockDim blockIdx gridDim threadIdx warpSize dim3 half half2 size_t ptrdiff_t std main malloc free printf vprintf memcpy memset memcmp
    clock clock64 libraryPropertyType classes structural unique linux unix I NULL NAN INFINITY
    """.split()
)
_PREFIXES = ("__", "vx_", "cuda", "CUDA", "nv_", "atomic", "make_")

# The device functions of the CUDA Math API (CUDA Math API Reference, "Single" and "Double Precision Mathematical Functions").
_MATHS = frozenset(
    """
    abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 erf erfc erfcinv erfcx
    erfinv exp exp10 exp2 expm1 fabs fdim fdivide floor fma fmax fmin fmod frexp hypot ilogb isfinite isinf isnan j0 j1 jn labs
    ldexp lgamma llabs llmax llmin llrint llround log log10 log1p log2 logb lrint lround max min modf nan nearbyint nextafter norm norm3d
    norm4d normcdf normcdfinv pow powi rcbrt remainder remquo rhypot rint rnorm rnorm3d rnorm4d round rsqrt scalbln scalbn signbit
    sin sincos sincospi sinh sinpi sqrt tan tanh tanpi tgamma trunc ullmax ullmin umax umin y0 y1 yn
    """.split()
)
# What C++ reserves, and CUDA's vector and integer types.
_FORMS = re.compile(r"_[A-Z].*|(?:u?(?:char|short|int|long|longlong)|float|double)[1-4]|u?int(?:_\w+)?\d*_t")


def kernel_symbol(name: str) -> str:
    """The `extern "C"` name of kernel `name`: the name itself where CUDA and PTX let it be, else one that no other kernel gets.

    `softmax` stays; `exp` becomes `vx_kernel_exp`, `größe` `vx_kernel_gr_u00f6_u00dfe`.
    """
    plain = name.isascii() and name.isidentifier() and not is_reserved(name) and name != "_"  # which is no name in PTX
    return name if plain else f"vx_kernel_{ascii_name(name)}"


def ascii_name(name: str) -> str:
    """The name with what is not ASCII spelled out; different for different names."""
    return re.sub(r"[^0-9A-Za-z_]|_(?![0-9A-TV-Za-tv-z]|$)", lambda found: _escape(found[0]), name)


def ascii_text(text: str) -> str:
    """A text for people, in which each character that is not ASCII is spelled as in names."""
    return re.sub(r"[^\x00-\x7f]", lambda found: _escape(found[0]), text)


def is_reserved(word: str) -> bool:
    """Whether C++, CUDA or emitted text uses the word for something else."""
    maths = word in _MATHS or word[-1] in "fl" and word[:-1] in _MATHS
    return maths or word in _WORDS or word.startswith(_PREFIXES) or _FORMS.fullmatch(word) is not None or word in _called()


@cache
def _called() -> frozenset[str]:
    """The functions that the text of scalar operations calls."""
    texts = [c_expr(op, d, *["0"] * row.arity) for op, row in SCALAR_OPS.items() for d in DTYPES.values() if accepts(op, d)]
    return frozenset(identifiers(" ".join(texts + [text for forms in STORED.values() for text in forms.values()])))


class Names:
    """The identifiers of one text: `of(name)` is the same each time, and different for different names."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def of(self, name: str) -> str:
        """`x` for x, `x_1` for x.1, `t7` for the temporary 7."""
        if name not in self._given:
            self._given[name] = self.fresh(name)
        return self._given[name]

    def fresh(self, hint: str) -> str:
        """An identifier like the hint that is not used yet."""
        base = re.sub(r"[^0-9A-Za-z_]", lambda found: _escape(found[0]), hint.replace(".", "_"))
        base = f"t{base}" if base[0].isdigit() else f"{base}_" if is_reserved(base) else base
        found, count = base, self._next.get(base, 1)
        while found in self._taken:
            count += 1
            found = f"{base}_{count}"
        self._next[base] = count
        self._taken.add(found)
        return found


def _escape(char: str) -> str:
    if char == ".":
        return "__"
    return f"_u{ord(char):04x}" if ord(char) < 1 << 16 else f"_U{ord(char):08x}"
