"""What a user holds: a kernel that is called like a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vxc.api.ahead import Compiled, compiled_ahead, ranked, views_of
from vxc.api.arguments import matched
from vxc.api.calls import Calls
from vxc.api.compiling import Specialiser, signatures
from vxc.api.devices import arch_named, default_arch
from vxc.api.dispatch import Dispatched, bound, bound_away, on_host
from vxc.api.errors import translated
from vxc.api.owned import handed
from vxc.api.signatures import Signature
from vxc.api.specialise import Recipe, fixed
from vxc.diag import Diagnostic, VxcError, there_are
from vxc.target import Target


class Kernel(Dispatched):
    """A kernel or program of a .vx source.

    `kernel(*args, **keywords)` runs it. Positional arguments are all parameters in order, or all that are not `out`; the rest goes by
    name. Arrays are torch tensors, CuPy, PyCUDA and Numba arrays, anything with `__cuda_array_interface__` or `__dlpack__`, all on one
    device, or all NumPy arrays, which are copied there and back; one of shape () is taken where one element is declared, as `f32[1]`. A
    missing `out` array is allocated in the library of the others, or is a `vxc.DeviceArray` where they are of none that allocates; JAX
    takes that over where they are JAX's. The call gives the `out` arrays: None, one, or a tuple. It returns at once; the kernel runs on
    the current stream of the arrays' library. `stream=` names another (an object of that library, or a raw handle); `device="cpu"`
    interprets the kernel on NumPy arrays and tensors in CPU memory, `device=1` says to which GPU NumPy arrays are copied.

    Raises `CompileError` where the source is wrong for such arguments, `LaunchError` where the call is, `NoDeviceError` without a GPU.
    """

    def __init__(self, recipe: Recipe, signature: Signature, target: str | None) -> None:
        super().__init__(signature, Calls(recipe, signature.params, Specialiser(recipe, signature), target))

    @property
    def name(self) -> str:
        """As in the source."""
        return self._calls.recipe.name

    @property
    def signature(self) -> str:
        """The parameters as declared."""
        return f"{self.name}({', '.join(p.text for p in self._calls.params)})"

    @property
    def __name__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[..., Kernel], tuple[Any, ...]]:
        """Copied and pickled as its source: what was compiled of it stays behind."""
        return Kernel, (self._calls.recipe, self._signature, self._calls.target)

    def __repr__(self) -> str:
        return f"<vxc kernel {self.signature}>"

    def _general(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        return handed(super()._general(args, keywords))

    def define(self, /, **values: Any) -> Kernel:
        """The kernel with generics or dimensions fixed: `k.define(BM=64, T="f16")`. Dtypes go by their names, or as NumPy's and torch's.

        Raises `CompileError` for a value of the wrong kind and for a name that the file does not have; of a file that imports
        others, that shows when the kernel is called.
        """
        with translated():
            for name in values:
                self._check_known(name)
            named = {name: fixed(self._signature, name, value) for name, value in values.items()}
        return self._with(self._calls.recipe.defining(named))

    def _with(self, recipe: Recipe) -> Kernel:
        """The same kernel, compiled otherwise."""
        return Kernel(recipe, self._signature, self._calls.target)

    def _definable(self) -> tuple[set[str], bool]:
        """The names of generics and dimensions in the headers of the file, and whether it imports no other."""
        kernels, alone = signatures(self._calls.recipe.source)
        return {name for k in kernels for name in (*k.sizes, *dict(k.generics))}, alone

    def _check_known(self, name: str) -> None:
        """Refuses a name that no header of the file has (E0229). What imported files have shows when the kernel is called."""
        known, alone = self._definable()
        if alone and name not in known:
            message = f"`{name}` is defined, and nothing in the file is a generic or dimension of that name"
            raise VxcError(Diagnostic("E0229", message, help=there_are(sorted(known))))

    def bind(self, /, *args: Any, **keywords: Any) -> Callable[[], Any]:
        """The call with all its arguments, checked once: `b = k.bind(x, y, n)`, then `b()` enqueues it and gives the `out` arrays.

        It holds the arrays, and the memory that they have now: do not resize them. Without `stream=` each call goes to the stream that
        is then current. With `device="cpu"`, and for NumPy arrays, `b()` does what the call does, copies and checks included.
        """
        keywords, options = self._calls.split(keywords)
        with translated(self.name):
            given = matched(self.name, self._calls.params, args, keywords)
            if on_host(given, options):
                found = bound_away(self._calls, given, options)
            else:
                stream = options.get("stream")
                found = bound(self._calls, self._calls.checked(given, stream), fixed=stream is not None)
                found.stream = stream  # type: ignore[attr-defined]  # which may end with its object
        found.__qualname__ = f"{self.name}.bind(..)"  # what it is called where it is printed, and in profiles
        return found

    def as_torch_op(self, name: str, *, out: bool = False) -> Any:
        """Registers the kernel as the operator `name` ("namespace::name") of torch, for `torch.compile` and export; gives the operator.

        It takes the arguments that are not `out` by position, and gives new tensors for those that are. With `out=True` it takes all,
        writes the `out` ones, and gives nothing. Arrays are tensors, all on one GPU, or all in CPU memory, where the kernel is
        interpreted. There is no derivative: give the result's `register_autograd` one. A name registered before is taken over.

        Raises `LaunchError` where torch cannot be imported, for a name that is none, and for a kernel without array arguments.
        """
        from vxc.api.torch_ops import operator

        with translated(self.name):
            return operator(self, self._signature, self._out_shapes(), name, out)

    def _out_shapes(self) -> Callable[..., Any]:
        """What works out `out` arrays, as `torch_ops.Shapes` does."""
        from vxc.api.torch_ops import Shapes

        return Shapes(self._calls.recipe, self._signature)

    def compile(self, /, *shapes: Any, target: str | Target | None = None, **named: Any) -> Compiled:
        """The kernel compiled ahead of time, with no GPU needed, for arrays of these shapes and dtypes.

        Each is a `vxc.ShapeDtype`, anything with `shape` and `dtype`, or a shape alone, with the declared dtype; in the order of the
        array parameters, or of those that are not `out`, or by name. The arrays are to begin at multiples of 16 bytes, as what libraries
        allocate does, unless `ShapeDtype(.., aligned=False)` says otherwise. Without any, sizes stay run-time parameters, arrays begin
        anywhere, and generic dtypes are those of the `example` line. `target` is an arch such as "sm_90a", else that of the kernel, else
        the first device's; where a parameter is called so, it is that parameter. Raises as a call does for arrays that contradict the
        declaration.
        """
        if "target" in self._calls.names and target is not None:
            named, target = {**named, "target": target}, None
        with translated(self.name):
            fit = ranked(self._calls.fitted(views_of(self._signature, shapes, named)))
            return compiled_ahead(fit, arch_named(target) or self._calls.target or default_arch())
