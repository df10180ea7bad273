"""prove-parallel against enumeration: "proved" is never wrong, and what E0312 claims is always so."""

from __future__ import annotations

import itertools
import re

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from vxc.diag import VxcError
from vxc.frontend.check import check
from vxc.frontend.lower import lower
from vxc.frontend.parse import parse
from vxc.pass_manager import Context, run_pass
from vxc.passes.prove_parallel import PROVE_PARALLEL
from vxc.source import Source


DIVISIONS = {"//": lambda a, b: a // b if b else 0, "%": lambda a, b: a % b if b else 0}
OPERATIONS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "^": lambda a, b: a ^ b,
    **DIVISIONS,
    "<": lambda a, b: a < b,
    "==": lambda a, b: a == b,
}


def value(e, env: dict[str, int]) -> int:
    return OPERATIONS[e[0]](value(e[1], env), value(e[2], env)) if isinstance(e, tuple) else env.get(e, e)


def text(e) -> str:
    return f"({text(e[1])} {e[0]} {text(e[2])})" if isinstance(e, tuple) else str(e)


@st.composite
def kernels(draw):
    """(loops, accesses): loops are (kind, index, start, extent), accesses (index expressions, is a write, guard or None)."""
    names = "ijk"[: draw(st.integers(1, 3))]
    extents = st.sampled_from([1, 2, 3, 4, 6, "N", "M", ("//", "N", 2)])
    loops = [(draw(st.sampled_from(["parallel", "parallel", "serial"])) if n else "parallel", name, draw(st.integers(0, 1)), draw(extents))
             for n, name in enumerate(names)]  # fmt: skip
    leaves = st.sampled_from([*names, *names, "N", "M", 1, 2, 3, 4])
    pieces = st.one_of(
        st.sampled_from(names),
        st.tuples(st.just("*"), st.sampled_from(names), st.sampled_from([2, 3, 4, "N", "M"])),
        st.tuples(st.sampled_from(["//", "%"]), leaves, st.sampled_from([2, 3, 4, "N"])),
        st.tuples(st.sampled_from(["+", "-", "^"]), leaves, leaves),
        st.tuples(st.just("*"), st.tuples(st.just("^"), leaves, leaves), st.sampled_from([1, 2, 4])),
    )
    index = st.one_of(pieces, st.tuples(st.sampled_from(["+", "-"]), pieces, pieces))
    rank = draw(st.integers(1, 2))
    guard = st.one_of(st.none(), st.tuples(st.sampled_from(["<", "=="]), leaves, leaves))
    accesses = [
        ([draw(index) for _ in range(rank)], draw(st.booleans()) if n else True, draw(guard))
        for n in range(draw(st.integers(1, 3)))
    ]
    return loops, accesses


def source_text(loops, accesses) -> str:
    heads = "".join(f"{kind} {name} in {start}..{text(extent)} {{ " for kind, name, start, extent in loops)
    body = ""
    for n, (indices, write, guard) in enumerate(accesses):
        element = f"y[{', '.join(map(text, indices))}]"
        line = f"{element} = 1.0; " if write else f"let r{n} = {element}; "
        body += f"if {text(guard)} {{ {line} }} " if guard else line
    rank = ", ".join(["Y", "X"][: len(accesses[0][0])])
    return f"kernel k(n: f32[N], m: f32[M], inout y: f32[{rank}]) {{ {heads}{body}{'}' * len(loops)} }}"


def conflicts(loops, accesses, sizes: dict[str, int]):
    """(indices, indices, element) of executions that touch one element >= 0, one of them a write, in different parallel iterations."""

    def executions(env, rest):
        if not rest:
            yield env
            return
        _, name, start, extent = rest[0]
        for x in range(start, value(extent, env)):
            yield from executions({**env, name: x}, rest[1:])

    touched: dict[tuple, list] = {}
    for env in executions(dict(sizes), loops):
        for indices, write, guard in accesses:
            if guard is None or value(guard, env):
                touched.setdefault(tuple(value(e, env) for e in indices), []).append((env, write))
    for element, all_ in touched.items():
        if min(element) >= 0:
            for (a, w), (b, v) in itertools.permutations(all_, 2):
                different = next((kind for kind, name, *_ in loops if a[name] != b[name]), "")
                if (w or v) and different == "parallel":
                    yield a, b, element


@settings(max_examples=160, deadline=None, derandomize=True)
@given(kernels())
def test_verdicts_agree_with_enumeration(kernel):
    loops, accesses = kernel
    try:
        source = Source("k.vx", source_text(loops, accesses))
        plan = lower(check(parse(source), source, "k"))
        run_pass(PROVE_PARALLEL, plan, Context(target=None))
    except VxcError as error:
        diagnostics = error.diagnostics
    else:
        for n, m in itertools.product((1, 2, 3, 5), repeat=2):
            assert not list(conflicts(loops, accesses, {"N": n, "M": m}))
        return
    assume({d.code for d in diagnostics} <= {"E0312", "E0313"})
    for d in diagnostics:
        if d.code == "E0312":
            first, second, element = _claim(d.message)
            stated = dict(re.findall(r"(\w) = (\d+)", " ".join(d.notes)))
            tried = [(int(stated.get("N", n)), int(stated.get("M", m))) for n, m in itertools.product((1, 2), repeat=2)]
            found = (c for n, m in tried for c in conflicts(loops, accesses, {"N": n, "M": m}))
            assert any({**a, **first} == a and {**b, **second} == b and element == e for a, b, e in found), d.message


def _claim(message: str) -> tuple[dict[str, int], dict[str, int], tuple[int, ...]]:
    """The two iterations and the element that an E0312 names."""
    one, two = re.findall(r"((?:\w=\d+(?:, )?)+)", message)
    element = re.search(r"`y\[(.*?)\]`", message)
    first, second = ({n: int(x) for n, x in re.findall(r"(\w)=(\d+)", part)} for part in (one, two))
    return first, second, tuple(map(int, element.group(1).split(", ")))
