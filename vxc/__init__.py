"""vxc: a compiler from a small kernel language to CUDA C++.

    import vxc
    compiled = vxc.compile(vxc.Source("saxpy.vx", text))
"""

from importlib import import_module

__version__ = "0.1.0"

_HOMES = {"compile": "vxc.driver", "Source": "vxc.source", "VxcError": "vxc.diag"}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str):
    """What the package offers, imported when it is first used (PEP 562): `import vxc` by itself costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
