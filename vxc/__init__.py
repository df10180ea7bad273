"""vxc: a compiler from a small kernel language to CUDA C++.

    import vxc
    softmax = vxc.load("softmax.vx").softmax
    y = softmax(x)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vxc.target import target  # at once, and not when first used: the module of this name would take its place

if TYPE_CHECKING:
    from vxc.api.ahead import Compiled, ShapeDtype
    from vxc.api.authoring import Module, jit, kernel, load
    from vxc.api.errors import CompileError, LaunchError, NoDeviceError, UnwrittenWarning
    from vxc.api.kernels import Kernel
    from vxc.api.one_line import elementwise, reduction
    from vxc.api.owned import DeviceArray
    from vxc.api.tuned import Tuned, autotune
    from vxc.diag import VxcError
    from vxc.driver import compile
    from vxc.source import Source

__version__ = "0.1.0"

_HOMES = {
    "compile": "vxc.driver", "Source": "vxc.source", "VxcError": "vxc.diag",
    "load": "vxc.api.authoring", "kernel": "vxc.api.authoring", "jit": "vxc.api.authoring", "Module": "vxc.api.authoring",
    "elementwise": "vxc.api.one_line", "reduction": "vxc.api.one_line", "Kernel": "vxc.api.kernels",
    "autotune": "vxc.api.tuned", "Tuned": "vxc.api.tuned",
    "DeviceArray": "vxc.api.owned", "Compiled": "vxc.api.ahead", "ShapeDtype": "vxc.api.ahead",
    "CompileError": "vxc.api.errors", "LaunchError": "vxc.api.errors", "NoDeviceError": "vxc.api.errors",
    "UnwrittenWarning": "vxc.api.errors",
}  # fmt: skip

__all__ = [
    "__version__", "target", "compile", "Source", "VxcError", "load", "kernel", "jit", "Module", "elementwise", "reduction", "Kernel",
    "autotune", "Tuned", "DeviceArray", "Compiled", "ShapeDtype", "CompileError", "LaunchError", "NoDeviceError",
    "UnwrittenWarning",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """What the package offers, imported when it is first used (PEP 562): `import vxc` by itself costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
