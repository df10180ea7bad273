"""What this machine has of what vxc uses, and what to install for the rest. Nothing missing makes it fail."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from vxc.cache.places import folder, limit, misread, no_folder, turned_off
from vxc.cache.store import Entry, Store
from vxc.cuda import nvrtc
from vxc.diag import VxcError
from vxc.record import record
from vxc.runtime.driver import Driver, driver
from vxc.target import TARGETS, for_capability

OK, MISSING, OPTIONAL = "ok", "missing", "optional"


@record
class Check:
    """One line of the report: `status` is 'ok', 'missing' or 'optional' (vxc does without); for the latter two `advice` is a way out,
    with the cause behind it where a library gave one.
    """

    name: str
    status: str
    detail: str
    advice: str = ""


def report() -> list[Check]:
    """All checks, in the order in which one thing needs another."""
    return [check for checks in (_python, _packages, _nvrtc, _headers, _cache, _pycuda, _driver) for check in _guarded(checks)]


def _guarded(checks: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    """A finding of the check becomes its line."""
    try:
        yield from checks()
    except VxcError as error:
        (found, *_) = error.diagnostics
        advice = "".join([found.help, *(f"\n    (the cause: {note})" for note in found.notes)])
        yield Check(checks.__name__.strip("_"), MISSING, found.message, advice)


def _python() -> Iterator[Check]:
    yield Check("python", OK, f"{platform.python_version()} at {sys.executable}")


def _packages() -> Iterator[Check]:
    for name in ("numpy", "ml_dtypes", "lark", "platformdirs", "cuda-bindings"):
        try:
            yield Check(name, OK, version(name))
        except PackageNotFoundError:
            yield Check(name, MISSING, "not installed", f"pip install {name}")


def _nvrtc() -> Iterator[Check]:
    archs = [name for n in nvrtc.supported_archs() if (name := f"sm_{n}") in TARGETS]
    yield Check("nvrtc", OK, "{}.{}, with which vxc compiles for ".format(*nvrtc.nvrtc_version()) + " ".join(archs))


def _headers() -> Iterator[Check]:
    folders = nvrtc.include_paths()
    if folders:
        yield Check("headers", OK, folders[0])
    else:
        detail = "no cuda_fp16.h found, so kernels with f16, bf16 or f8 do not compile"
        yield Check("headers", MISSING, detail, "pip install 'nvidia-cuda-runtime>=13'")


def _cache() -> Iterator[Check]:
    if turned_off():
        advice = "unset VXC_CACHE, so that what was compiled before need not be compiled again"
        yield Check("cache", OPTIONAL, "turned off, by VXC_CACHE", advice)
        return
    try:
        kept = Store(folder(), limit())
        found = _entries(kept)
    except VxcError as error:
        yield Check("cache", OPTIONAL, error.diagnostics[0].message, error.diagnostics[0].help)
        return
    used = sum(entry.nbytes for entry in found) / (1 << 20)
    detail = f"{kept.folder}, {len(found):,} entries, {used:.1f} of {kept.limit >> 20:,} MiB"
    yield Check("cache", OPTIONAL, f"{detail}; {misread()}", "set it to a number") if misread() else Check("cache", OK, detail)


def _entries(kept: Store) -> list[Entry]:
    """Those of a folder that can be written to. Raises `VxcError` E0711."""
    try:
        kept.check_writable()
        return kept.entries()
    except OSError as error:
        raise no_folder(kept.folder, error) from None


def _pycuda() -> Iterator[Check]:
    try:
        import_module("pycuda.driver")  # fails without a CUDA driver, too
        yield Check("pycuda", OK, import_module("pycuda").VERSION_TEXT)
    except ImportError as error:
        advice = "pip install 'vxc[pycuda]' (needs a CUDA toolkit to build)"
        yield Check("pycuda", OPTIONAL, f"not importable ({error}); cuda-bindings serve alone", advice)


def _driver() -> Iterator[Check]:
    cuda = driver()
    yield Check("driver", OK, "supports CUDA {}.{}, used through {}".format(*cuda.driver_version(), cuda.name))
    for device in range(cuda.device_count()):
        yield _device(cuda, device)


def _device(cuda: Driver, device: int) -> Check:
    capability = cuda.capability(device)
    detail = "{}, compute capability {}.{}".format(cuda.device_name(device), *capability)
    try:
        return Check(f"device {device}", OK, f"{detail}, --arch {for_capability(capability).name}")
    except VxcError as error:
        return Check(f"device {device}", MISSING, f"{detail}: {error.diagnostics[0].message}", error.diagnostics[0].help)
