"""Where kernels come from: files, texts, docstrings, one line."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, NoneType
from typing import Any, NoReturn, overload

from vxc.api.compiling import signatures
from vxc.api.decorated import check_parameters
from vxc.api.devices import arch_named
from vxc.api.errors import WrongTypeError, expect, translated
from vxc.api.functions import gives_none
from vxc.api.kernels import Kernel
from vxc.api.specialise import Recipe
from vxc.binding import brief
from vxc.diag import Diagnostic, VxcError, listed, read_source, suggestion, there_are
from vxc.frontend.selection import only
from vxc.register_cap import register_cap
from vxc.source import Source
from vxc.target import Target


class Module:
    """The kernels and programs of a source, as attributes. `list(module)` gives their names."""

    def __init__(self, source: Source, kernels: dict[str, Kernel]) -> None:
        self.__source, self.__kernels = source, kernels  # by names that Python makes longer, and no kernel has

    def __getattr__(self, name: str) -> Kernel:
        if name not in self.__kernels:
            raise AttributeError(f"{self.__source.name} has no kernel `{name}`: {there_are(self.__kernels)}")
        return self.__kernels[name]

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        """Says what to call."""
        with translated():
            message = f"{self.__source.name} is a module of kernels, and is not called itself"
            hint = f"call a kernel of it: {listed(f'.{name}(..)' for name in self.__kernels)}"
            raise WrongTypeError(Diagnostic("E0709", message, help=hint))

    def __dir__(self) -> list[str]:
        return list(self.__kernels)

    def __iter__(self) -> Iterator[str]:
        return iter(self.__kernels)

    def __reduce__(self) -> tuple[type[Module], tuple[Source, dict[str, Kernel]]]:
        """Copied and pickled as its kernels are."""
        return Module, (self.__source, self.__kernels)

    def __repr__(self) -> str:
        return f"<vxc module {self.__source.name}: {', '.join(self.__kernels)}>"


def load(path: str | Path, *, target: str | Target | None = None, debug: bool = False, maxrregcount: int | None = None) -> Module:
    """The kernels of a file: `vxc.load("norms.vx").softmax(x)`.

    `target` is an arch such as "sm_90a" (default: that of the device of each call); `debug` has kernels check indices, divisors and
    asserts; `maxrregcount` caps the registers of a thread (None: `VXC_MAXRREG` of the environment does). Raises `CompileError` for a file
    that cannot be read or parsed; what else is wrong with a kernel shows when it is first called.
    """
    with translated():
        expect("the `path` of vxc.load", path, (str, Path), "a str or pathlib.Path")
        if "{" in str(path) and not os.path.exists(path):
            message = f"vxc.load reads a file, and {brief(str(path))} is the text of a kernel"
            raise VxcError(Diagnostic("E0709", message, help="pass it to vxc.kernel(text)"))
        return _module(read_source(path), target, debug, maxrregcount)


def kernel(
    text: str,
    name: str | None = None,
    *,
    target: str | Target | None = None,
    debug: bool = False,
    maxrregcount: int | None = None,
) -> Kernel:
    """The kernel or program `name` of a text, or the only program, else the only kernel. Options and errors as for `load`."""
    with translated():
        expect("the `text` of vxc.kernel", text, str, "the source of a kernel, a str")
        expect("the `name` of vxc.kernel", name, (str, NoneType), "the name of a kernel in the text, a str")
        if text.endswith(".vx") and "{" not in text:
            message = f"vxc.kernel takes the text of a kernel, and {brief(text)} is a path"
            raise VxcError(Diagnostic("E0709", message, help="load the file: vxc.load(path).NAME, with the name of the kernel"))
        source = Source("<kernel>", inspect.cleandoc(text) + "\n")
        return _chosen(source, name, target, debug, maxrregcount)


@overload
def jit(
    function: Callable[..., Any], *, target: str | Target | None = None, debug: bool = False, maxrregcount: int | None = None
) -> Kernel: ...
@overload
def jit(
    function: None = None, *, target: str | Target | None = None, debug: bool = False, maxrregcount: int | None = None
) -> Callable[[Callable[..., Any]], Kernel]: ...
def jit(
    function: Callable[..., Any] | None = None,
    *,
    target: str | Target | None = None,
    debug: bool = False,
    maxrregcount: int | None = None,
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Decorator: the function becomes the kernel that its docstring holds; its own body is not used.

        @vxc.jit
        def scale(x, y):
            \"\"\"kernel scale(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = 2.0 * x[i]; } }\"\"\"

    Of a docstring with several kernels, the one of the function's name. The function's parameters are those of the kernel, in their order,
    all or all that are not `out`, without defaults (None for an `out` may stand); or `*args, **kwargs` alone. Annotations are not
    looked at. Options and errors as for `load`, and `LaunchError` for other parameters.
    """

    def made(function: Callable[..., Any]) -> Kernel:
        with translated():
            wanted = "a function with the kernel as its docstring"
            expect("what vxc.jit decorates", function, FunctionType, wanted)
            if gives_none(function):
                raise WrongTypeError(Diagnostic("E0709", f"what vxc.jit decorates is {wanted}, not {gives_none(function)}"))
            text = inspect.getdoc(function)
            if not text:
                named = "a `lambda`" if function.__name__ == "<lambda>" else f"the function `{function.__name__}`"
                hint = 'write the kernel as its docstring: """kernel f(x: f32[N], out y: f32[N]) { .. }"""'
                hint = "Python drops docstrings with -OO: run it without, or use vxc.kernel" if sys.flags.optimize > 1 else hint
                raise VxcError(Diagnostic("E0234", f"{named} has no docstring", help=hint))
            source = Source(f"<{function.__module__}.{function.__qualname__}>", text + "\n")
            name = function.__name__ if function.__name__ in [k.name for k in signatures(source)[0]] else None
            found = _chosen(source, name, target, debug, maxrregcount)
            check_parameters(function, next(k for k in signatures(source)[0] if k.name == found.name))
            return found

    if function is None:
        return made
    with translated():
        return made(function)


def _chosen(source: Source, name: str | None, target: str | Target | None, debug: bool, maxrregcount: int | None) -> Kernel:
    found = _module(source, target, debug, maxrregcount)
    if name is None:
        programs = [kernel.name for kernel in signatures(source)[0] if kernel.program]
        name = only(programs or list(found), source)
    if name not in found:
        raise VxcError(Diagnostic("E0234", f"{source.name} has no kernel `{name}`", help=suggestion(name, found, there_are(found))))
    return getattr(found, name)


def _module(source: Source, target: str | Target | None, debug: bool, maxrregcount: int | None) -> Module:
    arch, maxrregcount = arch_named(target), register_cap(maxrregcount)
    expect("`debug`", debug, bool, "True or False")
    kernels, alone = signatures(source)
    recipes = {kernel.name: Recipe(source, kernel.name, (), debug, maxrregcount, alone=alone) for kernel in kernels}
    return Module(source, {kernel.name: Kernel(recipes[kernel.name], kernel, arch) for kernel in kernels})
