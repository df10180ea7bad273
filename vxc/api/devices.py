"""The CUDA driver of this process, as the calls of this package find it, and what they ask about devices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from vxc.api.errors import expect
from vxc.diag import Diagnostic, VxcError
from vxc.runtime.arrays import CPU, ArrayView
from vxc.runtime.driver import Driver, driver, unavailable
from vxc.target import DEFAULT_ARCH, Target, for_capability
from vxc.target import target as target_of


def cuda() -> Driver:
    """The driver. Raises `VxcError` E0603 where there is none, no device, or this process was forked after it was started."""
    found = driver()
    found.check_process()
    if not _count(found):
        raise VxcError(Diagnostic("E0603", "the CUDA driver finds no device", help="`nvidia-smi` should list it"))
    return found


@cache
def _count(found: Driver) -> int:
    return found.device_count()


def device_count(found: Driver) -> int:
    return _count(found)


def named_device(device: Any) -> str | int:
    """What `device=` of a call says: CPU, or the number of a GPU, 0 for None. Raises `VxcError` E0709 for what is neither, E0703 for a
    GPU that is not there.
    """
    if device is None or device == CPU:
        return device or 0
    written = re.fullmatch(r"cuda(?::(\d+))?", str(device))
    number = int(written[1] or 0) if written else device
    if isinstance(number, bool) or not isinstance(number, int):
        message = f'`device` is {device!r}, and runs are on "cpu" or on the GPU of a number'
        raise VxcError(Diagnostic("E0709", message, help='pass device="cpu", which interprets, or device=0'))
    count = device_count(cuda())
    if not 0 <= number < count:
        raise VxcError(Diagnostic("E0703", f"there is no device {number}", help=f"there are {count}, counted from 0"))
    return number


@cache
def _arch(found: Driver, device: int) -> str:
    return for_capability(found.capability(device)).name


def arch_named(target: str | Target | None) -> str | None:
    """The arch that a user names, None for none. Raises `WrongTypeError` for what is no name, `VxcError` E0701
    for an unknown one.
    """
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


def device_of(found: Driver, views: Mapping[str, ArrayView], said: Mapping[str, int], empty: int) -> int:
    """The one device that all arrays lie on, or `empty` where all are empty; `said` has that of arrays that tell theirs.

    Raises `VxcError` E0703 for several, for memory that CUDA does not know, and for that of another context.
    """
    places: dict[int, str] = {}
    for name, view in views.items():
        if not view.size:
            continue
        try:
            device = found.device_of(view.ptr)
            foreign = found.is_foreign(view.ptr)
        except VxcError as error:
            message = f"argument `{name}` is at address {view.ptr:#x}, and CUDA knows of no memory there"
            raise VxcError(Diagnostic("E0703", message, notes=(error.diagnostics[0].message,), help="was it freed?")) from None
        if foreign:
            message = f"argument `{name}` is memory of a CUDA context that is not the primary one of its device, in which kernels run"
            hint = "make arrays in the primary context: with PyCUDA, import pycuda.autoprimaryctx in place of pycuda.autoinit"
            raise VxcError(Diagnostic("E0703", message, help=hint))
        places.setdefault(said.get(name, device), name)
    if len(places) > 1:
        listed = ", ".join(f"`{name}` on device {device}" for device, name in places.items())
        raise VxcError(Diagnostic("E0703", f"the arguments lie on several devices: {listed}", help="move them to one device"))
    return next(iter(places), empty)
