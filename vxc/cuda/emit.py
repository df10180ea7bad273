"""A plan at stage=thread as CUDA C++: each kernel with its parameters, and before them the device functions they use.

The text is ASCII and compiles under NVRTC alone. Statements come from `emit_ops.py`, names chosen by `names.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from vxc.cuda.emit_body import Body
from vxc.cuda.emit_ops import ARENA, is_packed, write_statements
from vxc.cuda.names import Names, ascii_text, kernel_symbol
from vxc.cuda.prelude import identifiers, prelude_text
from vxc.cuda.text import c_string
from vxc.cuda.unchecked import unchecked
from vxc.diag import Diagnostic, VxcError
from vxc.ir.kernel import Buffer, Inst, Kernel, Value
from vxc.ir.ops import accesses
from vxc.ir.plan import Plan
from vxc.ir.walk import LOOPS, Regions
from vxc.target import MAX_PARAMETER_BYTES

_WIDEST = 120  # columns of a function head


def emit(plan: Plan, *, lines: bool = True, debug: bool = False, bounds: bool = True) -> str:
    """The text of all kernels of a plan at stage=thread.

    With `lines`, comments and `#line` name the .vx file of each kernel, where it is known. With `debug` the text checks indices,
    divisors and assertions, and stops with the place in the source. With `bounds` the head of a kernel says how many threads a block
    has; NVRTC then ignores `--maxrregcount`. Raises VxcError: E0402 (a store of packed elements), E0715 (too many parameters).
    """
    shared = plan.shares_arguments
    early, allowing = _overlapping(plan)
    externs: dict[tuple[str, str], str] = {}
    kernels = []
    for checked in plan.kernels:
        _check(checked)
        kernel = checked if debug else unchecked(checked)
        names = Names()
        distinct = kernel.name not in shared | early and not _loads_again(kernel)
        params = [_parameter(p, names, distinct) for p in kernel.params]
        name = kernel.source.name if lines and kernel.source else ""
        body = Body(kernel, names, name, debug)
        for function in ("vx_await_launch",) * (kernel.name in early) + ("vx_allow_launch",) * (kernel.name in allowing):
            body.write(f"{function}();")
        write_statements(body)
        externs |= body.externs
        kernels.append("\n".join([_comment(kernel, name), _head(kernel, params, bounds), *body.lines, "}"]))
    placed = any(inst.attr("offset") is not None for kernel in plan.kernels for inst in kernel.insts)  # arrays of no element, too
    arena = [f"extern __shared__ __align__(16) unsigned char {ARENA}[];"] * placed
    text = "\n\n".join([*arena, *externs.values(), *kernels]) + "\n"
    prelude = prelude_text(identifiers(text))
    return f"{prelude}\n{text}" if prelude else text


def _overlapping(plan: Plan) -> tuple[set[str], set[str]]:
    """(kernels that a launch starts early, kernels that such a launch follows). The first have no `__restrict__`: LLVM would take for
    granted that nobody changes what is, and load it before the wait.
    """
    launches = [inst for inst in plan.entries if inst.op == "launch"]
    pairs = [(before.attr("kernel"), after.attr("kernel")) for before, after in pairwise(launches) if after.attr("early")]
    return {after for _, after in pairs}, {before for before, _ in pairs}


def _head(kernel: Kernel, params: list[str], bounds: bool) -> str:
    numbers = ", ".join(str(kernel.attr(name)) for name in ("threads", "min_blocks") if kernel.attr(name))
    start = f'extern "C" __global__ void {f"__launch_bounds__({numbers}) " * bounds}{kernel_symbol(kernel.name)}('
    line = f"{start}{', '.join(params)}) {{"
    return line if len(line) <= _WIDEST else f"{start}\n    " + ",\n    ".join(params) + ") {"


def _loads_again(kernel: Kernel) -> bool:
    """Whether an array may be loaded from after it was stored to, also round a loop. Then no parameter is `__restrict__`: LLVM takes for
    granted that only this thread changes what is, and loads it once for both sides of a barrier; and it makes one load of two that exclude
    one another, of the array and of one that is only read, which it then moves before the store (NVRTC 13.0 to 13.5).
    """
    regions = Regions.of(kernel.insts)
    stored: dict[str, int] = {}
    loaded: dict[str, int] = {}
    for i, inst in enumerate(kernel.insts):
        for access in accesses(inst):
            if "w" in access.mode:
                stored.setdefault(access.buffer.name, i)
            if "r" in access.mode:
                loaded[access.buffer.name] = i
    for name in {p.name for p in kernel.params} & stored.keys() & loaded.keys():
        first, last = stored[name], loaded[name]
        loops = (p for p in regions.parents(first) if kernel.insts[p].op in LOOPS)
        if first < last or any(p < last < regions.end[p] for p in loops):
            return True
    return False


def _parameter(p: Value | Buffer, names: Names, distinct: bool) -> str:
    """`__restrict__` holds since a launch refuses outputs that overlap another argument (E0713), and workspaces are fresh."""
    if isinstance(p, Value):
        return f"{p.dtype.c} {names.of(p.name)}"
    const = "const " if p.mode == "in" else ""
    return f"{const}{p.dtype.c}* {'__restrict__ ' * distinct}{names.of(p.name)}"


def _comment(kernel: Kernel, source_name: str) -> str:
    def shown(p: Value | Buffer) -> str:
        if isinstance(p, Value):
            return f"{p.name}: {p.dtype}"
        shape = ", ".join(str(n).removeprefix("%") for n in p.shape)
        return f"{p.name}: {p.dtype}[{shape}] {p.mode or 'work'}"

    place = f" of {c_string(source_name)}" if source_name else ""
    return ascii_text(f"// kernel {kernel.name}({', '.join(map(shown, kernel.params))}){place}")


def _check(kernel: Kernel) -> None:
    """What the text cannot say. Raises VxcError."""
    size = parameter_bytes(kernel.params)
    if size > MAX_PARAMETER_BYTES:
        has = f"kernel `{kernel.name}` has {len(kernel.params):,} parameters of {size:,} bytes"
        message = f"{has}, a launch passes at most {MAX_PARAMETER_BYTES:,}"
        first = next((inst for inst in kernel.insts if inst.loc), Inst("end"))
        hint = "gather arrays of one shape in one array with a leading dimension"
        raise VxcError(Diagnostic("E0715", message, kernel.source, kernel.span(first), help=hint))
    packed = next((inst for inst in kernel.insts if _writes_packed(inst)), None)
    if packed is not None:
        buffer = packed.operands[0]
        message = f"`{buffer.name}` packs two {buffer.dtype} elements in a byte, which two threads cannot write at once"
        hint = f"declare it {buffer.dtype.compute}, or pack two elements with `|` and `<<` into a u8"
        raise VxcError(Diagnostic("E0402", message, kernel.source, kernel.span(packed), help=hint))


def parameter_bytes(params: Iterable[Value | Buffer]) -> int:
    """Bytes of a kernel's parameter space: pointers of 8 bytes, scalars at multiples of their size."""
    size = 0
    for p in params:
        bytes_ = 8 if isinstance(p, Buffer) else p.dtype.bytes
        size = -(-size // bytes_) * bytes_ + bytes_
    return size


def _writes_packed(inst: Inst) -> bool:
    return any("w" in access.mode and is_packed(access.buffer) for access in accesses(inst))
