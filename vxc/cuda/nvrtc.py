"""CUDA C++ text to cubin and PTX with NVRTC, in this process, with no driver and no GPU. The only importer of `cuda.bindings.nvrtc`.

NVRTC and the CUDA headers are taken from the wheels `nvidia-cuda-nvrtc` and `nvidia-cuda-runtime`, or from a toolkit.
Registers, spills, stack and shared bytes of every kernel are read from the assembler's report in NVRTC's log; NVRTC's own
cache is turned off, since a cached compile has no report.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from vxc.cuda.toolchain import Library, headers, named, wheel_library
from vxc.diag import Diagnostic, VxcError
from vxc.record import record
from vxc.source import Source, Span
from vxc.target import target

INSTALL = "pip install 'cuda-bindings>=13' 'nvidia-cuda-nvrtc>=13' 'nvidia-cuda-runtime>=13'"

FP_OPTIONS = {
    "exact": ("--fmad=false", "--prec-div=true", "--prec-sqrt=true", "--ftz=false"),
    "contract": ("--fmad=true", "--prec-div=true", "--prec-sqrt=true", "--ftz=false"),
    "fast": ("--use_fast_math",),
}
"""What each floating-point mode asks of NVRTC (NVRTC User Guide, "Supported Compile Options")."""

_ALWAYS = ("--std=c++17", "--ptxas-options=-v", "--no-cache", "--minimal")
"""`--minimal` leaves out declarations that emitted text does not use (textures, the device's runtime): 5 ms less for every text."""


@record
class Resources:
    """What one kernel uses: registers a thread, barriers a block, the rest in bytes; `shared` is the static part, a block's."""

    registers: int
    barriers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int
    constant: int


@record
class Binary:
    """One compiled text: machine code for exactly `arch`, the PTX it came from, and the resources of each kernel by name."""

    arch: str
    cubin: bytes
    ptx: str
    log: str
    kernels: dict[str, Resources]


def compile_options(arch: str, fp: str = "exact", *, max_registers: int | None = None, line_info: bool = False) -> tuple[str, ...]:
    """NVRTC's command line, without include paths: with the text and `toolchain()` all that decides what comes out."""
    return (
        f"--gpu-architecture={arch}",
        *_ALWAYS,
        *FP_OPTIONS[fp],
        *([f"--maxrregcount={max_registers}"] if max_registers is not None else []),
        *(["--generate-line-info"] if line_info else []),
    )


def compile_cuda(
    text: str,
    name: str,
    arch: str,
    fp: str = "exact",
    *,
    max_registers: int | None = None,
    line_info: bool = False,
    sources: Sequence[Source] = (),
) -> Binary:
    """Compiles CUDA C++ `text`, called `name` in messages, for one arch such as `sm_90a`.

    `sources` are the files that `#line` in the text may name: an error there is shown in them. Raises `VxcError`: E0601 (no
    NVRTC), E0602 (NVRTC too old for the arch), E0701 (no such arch), E0702 (the text is rejected; NVRTC's log is a note).
    """
    number = int(target(arch).name.removeprefix("sm_").rstrip("af"))
    if number not in supported_archs():
        raise _unsupported(arch)
    options = list(compile_options(arch, fp, max_registers=max_registers, line_info=line_info))
    options += [f"--include-path={path}" for path in include_paths()]
    nvrtc = _nvrtc()
    program = _call(nvrtc.nvrtcCreateProgram, text.encode(), name.encode(), 0, [], [])
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
        log = _fetch(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).decode(errors="replace").strip("\0 \n")
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise VxcError(_rejected(log or str(status), Source(name, text), sources))
        cubin = _fetch(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
        ptx = _fetch(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program).decode().rstrip("\0")
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return Binary(arch, cubin, ptx, log, _resources(log))


@cache
def nvrtc_version() -> tuple[int, int]:
    """Of the library in use, such as (13, 0). Raises `VxcError` E0601."""
    return tuple(_call(_nvrtc().nvrtcVersion))


@cache
def supported_archs() -> tuple[int, ...]:
    """Compute capabilities NVRTC generates code for: 80 for sm_80, and so on. Raises `VxcError` E0601."""
    return tuple(_call(_nvrtc().nvrtcGetSupportedArchs))


@cache
def include_paths() -> tuple[str, ...]:
    """The folder with the CUDA headers for the library in use, or (). Raises `VxcError` E0601."""
    return headers(nvrtc_version()[0])


def toolchain() -> str:
    """Names what, besides text and options, decides the machine code: the files of NVRTC and of the CUDA headers. Until NVRTC is loaded,
    those that would be used, so that what was compiled before needs no NVRTC. Raises `VxcError` E0601.
    """
    expected = None if _nvrtc.cache_info().currsize else wheel_library()
    if expected:
        return named(expected, headers(expected.version[0]))
    return named(Library(_library(), nvrtc_version()), include_paths())


@cache
def _library() -> str:
    """The path of the library in use, as the bindings found it."""
    _nvrtc()
    from cuda.pathfinder import load_nvidia_dynamic_lib

    return load_nvidia_dynamic_lib("nvrtc").abs_path or ""


# ---- calling NVRTC ----------------------------------------------------------------------------------------------------


@cache
def _nvrtc():
    """The bindings, with the library loaded."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError, OSError) as error:  # no bindings; bindings without the library
        cause = str(error).strip().splitlines()[0]
        raise VxcError(Diagnostic("E0601", "NVRTC, which compiles the CUDA text, cannot be loaded", notes=(cause,), help=INSTALL)) from None
    return nvrtc


def _call(function, *arguments):
    """The results of an NVRTC call, of which only compiling can fail by the user's doing."""
    status, *results = function(*arguments)
    if int(status):
        raise VxcError(Diagnostic("E0601", f"NVRTC failed: {status.name} in {function.__name__}", help=INSTALL))
    return results[0] if len(results) == 1 else results


def _fetch(size, get, program) -> bytes:
    data = bytes(_call(size, program))
    _call(get, program, data)
    return data


def _unsupported(arch: str) -> VxcError:
    archs = supported_archs()
    version = "{}.{}".format(*nvrtc_version())
    return VxcError(
        Diagnostic(
            "E0602",
            f"NVRTC {version} cannot compile for `{arch}`",
            notes=(f"it supports {', '.join(f'sm_{n}' for n in archs if n >= 80)}",),
            help="pip install -U nvidia-cuda-nvrtc, or give another --arch",
        )
    )


# ---- reading its log --------------------------------------------------------------------------------------------------

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_PLACED = re.compile(r"^(?P<file>.+)\((?P<line>\d+)\): (?:catastrophic )?error: (?P<text>.*)$", re.MULTILINE)
_PLAIN = re.compile(r"error *: (?P<text>.*)$", re.MULTILINE)


def _resources(log: str) -> dict[str, Resources]:
    """Reads the report of `ptxas -v`: for every entry function, a line on stack and spills and a line on what it `Used`."""

    def total(report: str, pattern: str) -> int:
        return sum(int(n) for n in re.findall(pattern, report))

    pieces = _ENTRY.split(log)
    return {
        name: Resources(
            registers=total(report, r"Used (\d+) registers"),
            barriers=total(report, r"used (\d+) barriers"),
            stack=total(report, r"(\d+) bytes stack frame"),
            spill_stores=total(report, r"(\d+) bytes spill stores"),
            spill_loads=total(report, r"(\d+) bytes spill loads"),
            shared=total(report, r"(\d+) bytes smem"),
            constant=total(report, r"(\d+) bytes cmem"),
        )
        for name, report in zip(pieces[1::2], pieces[2::2])
    }


def _rejected(log: str, text: Source, sources: Sequence[Source]) -> Diagnostic:
    """A diagnostic for the first error of the log, at the line of the source that `#line` names (or of the CUDA text)."""
    placed = _PLACED.search(log)
    found = placed or _PLAIN.search(log)
    message = "the generated CUDA text does not compile" + (f": {found['text']}" if found else "")
    source = next((s for s in (*sources, text) if placed and s.name == placed["file"]), None)
    span = _line_span(source, int(placed["line"])) if source else None
    hint = "correct the text of the `extern fn`; if it has none, this is a fault of the compiler: please report it with the file"
    return Diagnostic("E0702", message, source, span, notes=(log,), help=hint)


def _line_span(source: Source, number: int) -> Span:
    number = min(max(number, 1), len(source.line_starts))
    line = source.line(number)
    start = source.line_starts[number - 1] + len(line) - len(line.lstrip())
    return Span(start, max(start + len(line.strip()), start))
