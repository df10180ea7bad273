"""The CUDA driver of this process, as the calls of this package find it, and what they ask about devices."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from vxc.api.errors import expect
from vxc.diag import Diagnostic, VxcError
from vxc.runtime.arrays import ArrayView
from vxc.runtime.driver import Driver, driver, unavailable
from vxc.target import DEFAULT_ARCH, Target, for_capability
from vxc.target import target as target_of


def cuda() -> Driver:
    """The driver. Raises `VxcError` E0603 where there is none, no device, or this process was forked after it was started."""
    found = driver()
    found.check_process()
    if not _count(found):
        raise VxcError(Diagnostic("E0603", "the CUDA driver finds no device", help='`nvidia-smi` should list it; device="cpu" interprets'))
    return found


@cache
def _count(found: Driver) -> int:
    return found.device_count()


def device_count(found: Driver) -> int:
    return _count(found)


@cache
def _arch(found: Driver, device: int) -> str:
    return for_capability(found.capability(device)).name


def arch_named(target: str | Target | None) -> str | None:
    """The arch that a user names, None for none. Raises TypeError for what is no name, `VxcError` E0701 for an unknown one."""
    if target is None:
        return None
    expect("`target`", target, (str, Target), 'an arch such as "sm_90a"')
    return target_of(getattr(target, "name", target)).name


def arch_of(found: Driver, device: int) -> str:
    """The arch to compile for, for a device."""
    return _arch(found, device)


def default_arch() -> str:
    """That of device 0, or sm_90a where there is none."""
    return DEFAULT_ARCH if unavailable() else arch_of(driver(), 0)


def device_of(found: Driver, views: Mapping[str, ArrayView], empty: int) -> int:
    """The one device that all arrays lie on, or `empty` where all are empty. Raises `VxcError` E0703 for several, for memory that
    CUDA does not know, and for that of another context.
    """
    places: dict[int, str] = {}
    for name, view in views.items():
        if not view.size:
            continue
        try:
            device = found.device_of(view.ptr)
        except VxcError as error:
            message = f"argument `{name}` is at address {view.ptr:#x}, and CUDA knows of no memory there"
            raise VxcError(Diagnostic("E0703", message, notes=(error.diagnostics[0].message,), help="was it freed?")) from None
        if found.is_foreign(view.ptr, device):
            message = f"argument `{name}` is memory of another CUDA context than the primary one of device {device}, which kernels run in"
            hint = "make arrays in the primary context: with PyCUDA, import pycuda.autoprimaryctx in place of pycuda.autoinit"
            raise VxcError(Diagnostic("E0703", message, help=hint))
        places.setdefault(device, name)
    if len(places) > 1:
        listed = ", ".join(f"`{name}` on device {device}" for device, name in places.items())
        raise VxcError(Diagnostic("E0703", f"the arguments lie on several devices: {listed}", help="move them to one device"))
    return next(iter(places), empty)
