"""The kernels of a file with a call of each, compiled as a call from Python with such arrays is, for the commands that are given arrays.

One rule decides for both (`vxc.api.compiling.Specialiser`): lengths of rows and shapes of tiles are constants, and it is known of each
array whether its rows begin at multiples of 16 bytes, as they do in what libraries allocate wherever the strides between them are such.
So a command runs, times and explains the kernel that Python launches, whose sums have the same order. `--dynamic` leaves that open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import click
import numpy as np

from vxc.api.compiling import Specialiser, signatures
from vxc.api.host import copied_views
from vxc.api.libraries import view
from vxc.api.signatures import Signature
from vxc.api.specialise import Recipe, sizes
from vxc.binding import row_major
from vxc.cli.common import Settings, chosen, typed_kernels
from vxc.cli.compiling import build
from vxc.diag import Diagnostic, VxcError
from vxc.driver import Compiled
from vxc.frontend.check import Typed, check
from vxc.frontend.syntax import Module
from vxc.frontend.typed import Array
from vxc.inputs import Call, complete, example_line, generics_of, made_up, read_arguments, shapes
from vxc.record import record
from vxc.runtime.arrays import CPU, ArrayView
from vxc.source import Source


@record
class Called:
    """A kernel or program, a call of it (None: nothing gives it sizes), and for what it is compiled. `fixed` has the options by which
    `vxc compile` fixes what was fixed for this call; `made_up` says that nobody gave its arrays.
    """

    kernel: Typed
    call: Call | None
    settings: Settings
    fixed: tuple[str, ...] = ()
    made_up: bool = False

    def compiled(self) -> Compiled:
        return build(self.kernel, self.settings)

    @property
    def notes(self) -> list[str]:
        """What is said of it where what was decided is shown."""
        with_ = f"{self.kernel.name}: compiled with {' '.join(self.fixed)}"
        said = [f"{self.kernel.name}: there is no `example` line and no -a: its arrays hold random numbers"] * self.made_up
        return said + [f"{with_}, as for a call from Python with these arrays; --dynamic leaves that open"] * bool(self.fixed)


def dynamic_option(command: Callable) -> Callable:
    """The option of commands that are given arrays."""
    open_ = "Compile for all sizes, and for arrays that may begin anywhere, but for what -D and --aligned say"
    return click.option("--dynamic", is_flag=True, help=f"{open_}; default: as a call from Python with these arrays does.")(command)


def kernel_calls(
    module: Module, source: Source, settings: Settings, arguments: Mapping[str, str], seed: int, dynamic: bool
) -> list[Called]:
    """The kernel called with what -a says; without, the chosen kernels with what their examples say."""
    if arguments:
        return [kernel_call(module, source, settings, arguments, seed, dynamic)]
    kernels = typed_kernels(module, source, settings, sampled=not dynamic)
    return [called(kernel, module, source, settings, seed, dynamic) for kernel in kernels]


def kernel_call(module: Module, source: Source, settings: Settings, arguments: Mapping[str, str], seed: int, dynamic: bool) -> Called:
    """The kernel that -k names, or the only one, called with what -a says, and for the rest its example."""
    item, text = chosen(module, source, settings.kernel)
    values = read_arguments(arguments, item, settings.defines, seed)
    defines = {**_tiles(_signature(text, item.name), values, dynamic), **generics_of(item, values), **settings.defines}
    kernel = check(module, source, item.name, defines, reduce_chunk=settings.reduce_chunk, sampled=not dynamic)
    if not values and without_inputs(kernel) and any(array.mode != "out" for array in kernel.arrays):
        raise no_inputs(kernel, ", or give its arguments, as with -a NAME=rand:f32[8,64]")
    return _specialised(Called(kernel, complete(kernel, values, seed=seed), settings), module, source, dynamic)


def without_inputs(kernel: Typed) -> bool:
    """Whether nothing in the file says with what arrays to call it."""
    return kernel.example is None and any(isinstance(param, Array) for param in kernel.params)


def no_inputs(kernel: Typed, way: str = "") -> VxcError:
    """The error for such a kernel (E0708); `way` is another way out."""
    text = f"`{kernel.name}` has no `example` line, from which its inputs are made"
    return VxcError(Diagnostic("E0708", text, kernel.source, kernel.span, help=f"add `{example_line(kernel)}`{way}"))


def called(kernel: Typed, module: Module, source: Source, settings: Settings, seed: int, dynamic: bool) -> Called:
    """A kernel, called with what its example says; without one, with what can be made up, or not at all."""
    example = made_up(kernel) if without_inputs(kernel) else kernel.example
    if example is None and without_inputs(kernel):
        return Called(kernel, None, settings)
    given = Called(kernel, complete(replace(kernel, example=example), seed=seed), settings)
    return replace(_specialised(given, module, source, dynamic), made_up=example is not kernel.example)


def _specialised(given: Called, module: Module, source: Source, dynamic: bool) -> Called:
    """The same call of the kernel that Python launches for it."""
    kernel, call, settings = given.kernel, given.call, given.settings
    signature = _signature(kernel.source, kernel.name)
    views = _views(kernel, signature, call)
    if dynamic or not views:
        return given
    defines = tuple(sorted(settings.defines.items()))
    recipe = Recipe(source, kernel.name, defines, reduce_chunk=settings.reduce_chunk, alone=signatures(source)[1])
    made = Specialiser(recipe, signature)(views)
    open_ = signature.sizes - {name for name, _ in signature.generics} - settings.defines.keys()
    fixed = {name: size for name, size in made.defines if name in open_}
    lying = {name: lies for name, lies in made.aligned if name not in settings.aligned}
    if fixed:
        kernel = check(module, source, kernel.name, dict(made.defines), reduce_chunk=settings.reduce_chunk)
        call = replace(call, dims={name: size for name, size in call.dims.items() if name not in fixed})
    options = [f"-D {name}={size}" for name, size in fixed.items()]
    options += [f"--aligned {name}={str(lies).lower()}" for name, lies in lying.items()]
    return Called(kernel, call, replace(settings, aligned={**lying, **settings.aligned}), tuple(options))


def _signature(source: Source, name: str) -> Signature:
    return next(signature for signature in signatures(source)[0] if signature.name == name)


def _tiles(kernel: Signature, values: Mapping[str, object], dynamic: bool) -> dict[str, int]:
    """The sizes of given arrays that are sizes of arrays which the kernel declares: without them it cannot be checked."""
    given = sizes(kernel, {name: value.shape for name, value in values.items() if isinstance(value, np.ndarray)})
    return {} if dynamic else {name: size for name, size in given.items() if name in kernel.declared}


def _views(kernel: Typed, signature: Signature, call: Call) -> dict[str, ArrayView]:
    """The arrays with which Python makes this call, as copies of them lie: those that are given, and outputs that alone have a size."""
    found = {name: view(array, name) for name, array in call.arrays.items()}
    alone = {p.name for p in signature.params if p.name not in found and call.dims.keys() & set(p.dims)}
    shaped = shapes(kernel, call.arrays, call.scalars, call.dims, set()) if alone else {}
    for name, dtype in ((array.name, array.dtype) for array in kernel.arrays if array.name in alone):
        found[name] = ArrayView(0, shaped[name], row_major(shaped[name]), dtype, dtype.bytes, False, CPU)
    return copied_views(found, signature.params)
