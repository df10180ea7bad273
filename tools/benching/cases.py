"""What is timed: one line of `CASES` for each sample, dtype and shape, and what each sample is compared with.

A case is known by its suite and its name, as in (`rows`, `softmax_f16_8192x8192`). Some are no samples: `LAUNCH`, what a call costs the
host, and `FIRST_CALLS`, what the first one in a process does; `TUNINGS` are what is tuned. Nothing here needs a GPU.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from benching.reference import LAUNCHES
from gpu_case import key

from vxc.cuda.nvrtc import Binary
from vxc.diag import read_source
from vxc.driver import Compiled, compile
from vxc.dtypes import DTYPES, DType
from vxc.frontend import syntax
from vxc.frontend.check import kernel_names, program_names
from vxc.frontend.parse import parse
from vxc.frontend.selection import only
from vxc.ir.plan import Plan
from vxc.source import Source

ROOT = Path(__file__).resolve().parent.parent.parent
TIMING = Path(__file__).parent / "timing.py"
CLOCK = ROOT / "vxc" / "runtime" / "timing.py"
ALWAYS = ("copy", "torch", "inductor", "triton", "cupy")
EPSILON = 1e-5


class Sample(NamedTuple):
    """A sample: the names of its dimensions ("" where its text fixes one), and its scalars.

    `along` is the dimension of its output that goes with the first one of its first input, None where every element needs all.
    """

    dims: tuple[str, ...]
    scalars: tuple[tuple[str, float], ...] = ()
    along: int | None = 0


SAMPLES = {
    "rowdot": Sample(("N", "")),
    "rowsum": Sample(("M", "N")),
    "rowmax": Sample(("M", "N")),
    "colsum": Sample(("M", "N"), along=None),
    "softmax": Sample(("M", "N")),
    "rmsnorm": Sample(("M", "N"), scalars=(("eps", EPSILON),)),
    "layernorm": Sample(("M", "N"), scalars=(("eps", EPSILON),)),
    "sum": Sample(("N",), along=None),
    "copy": Sample(("N",)),
    "add": Sample(("N",)),
    "bias_gelu": Sample(("M", "N")),
    "transpose": Sample(("M", "N"), along=1),
    "dequant_u4_manual": Sample(("N", "K")),
    "dequant_u4_parallel": Sample(("N", "K")),
    "dequant_u4_copy": Sample(("N", "K")),
    "gemm": Sample(("M", "N", "K"), along=None),
}


class Case(NamedTuple):
    """A sample at one dtype and shape. `static`: the shape is known when it is compiled. `flop` is 0 where bytes are what counts.

    Inputs begin `offset` bytes behind a multiple of 16.
    """

    suite: str
    sample: str
    dtype: str
    shape: tuple[int, ...]
    static: bool = True
    flop: int = 0
    offset: int = 0

    @property
    def name(self) -> str:
        return f"{self.sample}_{self.dtype}_{'x'.join(map(str, self.shape))}{f'_offset{self.offset}' * bool(self.offset)}"

    @property
    def peers(self) -> tuple[str, ...]:
        written = ("reference",) if self.static and self.name in LAUNCHES else ()
        return (*written, *ALWAYS)

    @property
    def impls(self) -> tuple[str, ...]:
        return "vxc", *self.peers

    @property
    def dims(self) -> dict[str, int]:
        return {name: size for name, size in zip(SAMPLES[self.sample].dims, self.shape, strict=True) if name}

    @property
    def path(self) -> str:
        return f"samples/{self.sample}.vx"

    def defines(self, source: Source) -> dict[str, int | DType]:
        """What is fixed when the sample is compiled."""
        generic = {"T": DTYPES[self.dtype]} if "<T: dtype" in source.text else {}
        return generic | (self.dims if self.static else {})

    def aligned(self, source: Source) -> dict[str, bool]:
        """Which arrays begin at multiples of 16 bytes, which a call from Python makes part of what is compiled. Rows of a shape that is
        known when it is compiled speak for themselves; a kernel for any shape is one for arrays anywhere.
        """
        module = parse(source)
        name = only(program_names(module) or kernel_names(module), source)
        kernel = next(item for item in module.items if isinstance(item, syntax.Kernel) and item.name == name)
        arrays = {p.name: p.direction for p in kernel.params if p.type.dims} if self.static else {}
        return {name: not (self.offset and direction == "in") for name, direction in arrays.items()}


SHORT, MIDDLE, SQUARE, LONG = (1 << 20, 64), (131072, 1000), (8192, 8192), (64, 1 << 20)
WIDE, ODD, ODD_ROWS, FLAT = (16384, 1000), (8191, 8193), (8192, 8193), (1 << 28,)
NARROW, FEW = (4096, 257), (131072, 8)
NORMS = ("softmax", "rmsnorm", "layernorm")

CASES = (
    Case("rows", "rowdot", "f32", SHORT),
    *(Case("rows", "rowsum", "f32", shape) for shape in (SHORT, MIDDLE, SQUARE, LONG)),
    Case("rows", "rowmax", "f32", SHORT),
    *(Case("rows", sample, dtype, shape) for sample in NORMS for shape in (SQUARE, WIDE) for dtype in ("f16", "f32")),
    Case("rows", "sum", "f32", FLAT),
    *(Case("columns", "colsum", "f32", shape) for shape in (SHORT, SQUARE, LONG, NARROW, FEW)),
    Case("columns", "colsum", "f16", SQUARE),
    *(Case("elementwise", sample, "f32", FLAT) for sample in ("copy", "add")),
    Case("elementwise", "bias_gelu", "f16", ODD),
    *(Case("transpose", "transpose", dtype, ODD) for dtype in ("f16", "f32")),
    *(Case("runtime", sample, "f32", SHORT, static=False) for sample in ("rowsum", "rowdot")),
    Case("runtime", "softmax", "f16", WIDE, static=False),
    *(Case("runtime", "rowsum", "f32", shape, static=False, offset=offset) for shape, offset in ((LONG, 0), (ODD_ROWS, 4))),
    *(Case("misaligned", "rowsum", dtype, shape, offset=4) for dtype in ("f16", "f32") for shape in (SQUARE, ODD_ROWS)),
    Case("misaligned", "rowsum", "f16", ODD_ROWS, offset=2),
    Case("misaligned", "softmax", "f16", SQUARE, offset=2),
    Case("misaligned", "softmax", "f32", SQUARE, offset=4),
    Case("misaligned", "add", "f32", FLAT, offset=4),
    *(Case("dequant", f"dequant_u4_{form}", "f16", SQUARE) for form in ("manual", "parallel", "copy")),
)


class Calls(NamedTuple):
    """What calls cost the host, timed by `launches`, and first ones by `starts`."""

    suite: str
    name: str
    impls: tuple[str, ...]


LAUNCH = Calls(
    "launch",
    "launch_overhead_us",
    ("vxc", "vxc_changing", "vxc_shapes", "vxc_views", "vxc_out", "vxc_bound", "driver", "cupy", "vxc_cupy", "pycuda", "vxc_pycuda",
     "vxc_numba", "torch", "torch_empty", "vxc_graph", "torch_graph", "triton"),
)  # fmt: skip
FIRST_CALLS = tuple(Calls("start", f"first_call_{kind}_s", ("vxc", "triton", "cupy")) for kind in ("cold", "warm"))


class Tuning(NamedTuple):
    """A case for whose arrays `vxc.autotune` is to find a configuration (`benching/tuned.py`)."""

    case: Case

    @property
    def suite(self) -> str:
        return self.case.suite

    @property
    def name(self) -> str:
        return self.case.name

    @property
    def impls(self) -> tuple[str, ...]:
        return ("vxc",)


TUNINGS = (Tuning(Case("tune", "rowdot", "f32", SHORT)), Tuning(Case("tune", "gemm", "f16", (1024, 1024, 1024))))
Timed = Case | Calls | Tuning
EVERY: tuple[Timed, ...] = (*CASES, LAUNCH, *FIRST_CALLS, *TUNINGS)
SUITES = tuple(dict.fromkeys(case.suite for case in EVERY))


class Kernel(NamedTuple):
    """What launching needs of a compiled sample, small enough to send from one process to another; `facts` go to its line."""

    source: Source | None
    plan: Plan
    binary: Binary
    facts: dict[str, str]


def compiled(case: Case, arch: str) -> Compiled:
    source = read_source(ROOT / case.path)
    return compile(source, defines=case.defines(source), target=arch, aligned=case.aligned(source))


def facts(case: Case, made: Compiled) -> dict[str, str]:
    """How the line of `vxc` says what ran: sample, arch, the options of `vxc compile`, and the key of all this."""
    flags = " ".join(f"-D {name}={value}" for name, value in case.defines(made.source).items())
    flags += "".join(f" --aligned {name}={str(lies).lower()}" for name, lies in case.aligned(made.source).items())
    return {"sample": case.path, "arch": made.target.name, "flags": flags, "key": timed_key(made, TIMING)}


def timed_key(made: Compiled, harness: Path) -> str:
    """As of `gpu_check.py`, for what a file runs and `vxc.runtime.timing` times."""
    return hashlib.sha256(key(made, harness).encode() + CLOCK.read_bytes()).hexdigest()[:32]


def kernel(case: Case, arch: str) -> Kernel:
    made = compiled(case, arch)
    return Kernel(made.source, made.plan, made.binary, facts(case, made))
