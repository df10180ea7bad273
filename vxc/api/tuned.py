"""`vxc.autotune`: a kernel that is called like any other, and takes for each class of shapes the configuration that was fastest there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any

from vxc.api import tune_record
from vxc.api.ahead import Compiled, views_of
from vxc.api.arguments import matched
from vxc.api.candidates import Config, Constraint, Options, Value, candidates, untunable
from vxc.api.compiling import dense
from vxc.api.devices import arch_named, cuda, default_arch
from vxc.api.errors import expect, translated
from vxc.api.kernels import Kernel
from vxc.api.problems import Problem, problem_of
from vxc.api.tune_record import About, Entry
from vxc.api.tune_report import table
from vxc.runtime.arrays import CPU, ArrayView
from vxc.runtime.driver import unavailable
from vxc.runtime.timing import ROUNDS

_LIMIT = 4096  # calls alike that are remembered


class Tuned:
    """A kernel with a configuration for each class of shapes; made by `vxc.autotune`.

    A call with shapes of a new class takes what a record or the cache says of it, and else tunes at once, on the arrays of the call, which
    it only reads. `device="cpu"` interprets the kernel as it is written. Arrays are of one class if their dtypes are the same and each
    extent lies below the same power of two and is or is not divisible by 16. Errors as for a kernel, and `LaunchError` E0719.
    """

    def __init__(self, kernel: Kernel, configs: tuple[Config, ...], options: Options) -> None:
        self._kernel, self._configs, self._options = kernel, configs, options
        self._variants: dict[Config, Kernel] = {}
        self._entries: dict[About, Entry] = {}  # what is in use
        self._imported: dict[About, Entry] = {}
        self._alike: dict[tuple, Kernel] = {}  # by calls that look the same
        self._lock = Lock()  # one thread tunes at a time: timings of two at once would be of neither

    name = property(lambda self: self._kernel.name)
    signature = property(lambda self: self._kernel.signature)
    __name__ = property(lambda self: self._kernel.name)

    def __repr__(self) -> str:
        return f"<vxc tuned kernel {self.signature}, {len(self._configs)} configurations>"

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if keywords.get("device") == CPU:
            return self._kernel(*args, **keywords)
        return self.choose(*args, **keywords)(*args, **keywords)

    def choose(self, *args: Any, **keywords: Any) -> Kernel:
        """The kernel for such arguments, its configuration fixed; tunes where nothing is known. Calling that spares looking it up again."""
        alike = (*map(_look, args), *((name, _look(value)) for name, value in keywords.items()))
        if alike not in self._alike:
            if len(self._alike) >= _LIMIT:
                self._alike.clear()
            options = {name: keywords.pop(name) for name in ("stream", "device") if name in keywords}
            with translated(self.name):
                self._alike[alike] = self._variant(self._entry(args, keywords, options.get("device") or 0).chosen)
        return self._alike[alike]

    def bind(self, *args: Any, **keywords: Any) -> Callable[[], Any]:
        """As `bind` of a kernel, in the configuration for these arguments."""
        return self.choose(*args, **keywords).bind(*args, **keywords)

    def compile(self, *shapes: Any, target: Any = None, **named: Any) -> Compiled:
        """As `compile` of a kernel, in the configuration that is known for such shapes: of this process, of a record, of the cache.

        Without the device at hand it is that of any device of the target's arch. Raises `LaunchError` E0719 where none is known.
        """
        with translated(self.name):
            views = views_of(self._kernel._signature, shapes, named)
            arch = arch_named(target) or self._kernel._calls.target or default_arch()
            here = "" if unavailable() else cuda().device_name(0)
            about = self._about(views, here, arch)
            known = [e for a, e in {**self._imported, **self._entries}.items() if (a.shapes, a.arch) == (about.shapes, arch)]
            found = next((e for e in known if e.about.device == here), None) or tune_record.kept(about, self._configs)
            found = found or next(iter(known), None)
            if found is None:
                way_out = "call it with such arrays on the device, or `load` a record of a machine where that was done"
                raise untunable(f"`{self.name}` was not tuned for {about.shapes} on {arch}", way_out)
        return self._variant(found.chosen).compile(*shapes, target=arch, **named)

    def as_torch_op(self, name: str, *, out: bool = False) -> Any:
        """As `as_torch_op` of a kernel; tunes when the operator is first run with such tensors, not when it is traced."""
        from vxc.api.torch_ops import operator

        with translated(self.name):
            return operator(self, self._kernel._calls.recipe, self._kernel._signature, name, out)

    def report(self) -> str:
        """For each class of shapes in use, what was chosen, and of every configuration its time, or why it was not timed."""
        return "\n".join(map(table, self._entries.values())) or f"{self.name}: not called yet"

    def export(self, path: str | Path) -> None:
        """Writes what is in use and what was loaded as JSON. Raises `LaunchError` E0711."""
        with translated():
            tune_record.write(path, list({**self._imported, **self._entries}.values()))

    def load(self, path: str | Path) -> int:
        """Takes the choices that a file of `export` has for this kernel; gives how many. They come before the cache, and before tuning.

        Those of another text, kernel or set of configurations are left out. Raises `LaunchError` E0710 for a file that is no record.
        """
        with translated():
            own = self._about({}, "", "")
            found = [e for e in tune_record.read(path) if replace(e.about, shapes="", device="", arch="") == own]
        fitting = {e.about: e for e in found if e.chosen in self._configs}
        self._imported |= fitting
        self._entries = {about: e for about, e in self._entries.items() if about not in fitting}
        self._alike.clear()
        return len(fitting)

    def _variant(self, config: Config) -> Kernel:
        if config not in self._variants:
            base = self._kernel
            self._variants[config] = Kernel(config.applied(base._calls.recipe, base._signature), base._signature, base._calls.target)
        return self._variants[config]

    def _about(self, views: Mapping[str, ArrayView], device: str, arch: str) -> About:
        recipe = self._kernel._calls.recipe
        strided = [name for name, found in views.items() if not dense(found)]
        shapes = tune_record.shape_class(views, strided)
        return About(self.name, tune_record.digest(recipe), tune_record.fixed_text(recipe), shapes, device, arch)

    def _entry(self, args: Sequence[Any], keywords: Mapping[str, Any], device: int) -> Entry:
        """What is known for a call, or found by tuning for it. Raises `VxcError`."""
        calls = self._kernel._calls
        given = matched(self.name, calls.params, args, keywords)
        problem = problem_of(given, calls.target, device)
        inputs = {p.name: problem.views[p.name] for p in calls.params if p.name in problem.views and p.mode != "out"}
        about = self._about(inputs, problem.cuda.device_name(problem.device), problem.arch)
        with self._lock:
            if about not in self._entries:
                found = self._imported.get(about) or (tune_record.kept(about, self._configs) if calls.recipe.alone else None)
                self._entries[about] = found or self._tune(about, problem)
            return self._entries[about]

    def _tune(self, about: About, problem: Problem) -> Entry:
        from vxc.api.tuning import tuned_for

        calls = self._kernel._calls
        found = tuned_for(about, calls, {config: self._variant(config)._calls for config in self._configs}, problem, self._options)
        if calls.recipe.alone:
            tune_record.keep(found, self._configs)
        return found


def _look(value: Any) -> Any:
    """What a choice can depend on in an argument, without looking at it closely."""
    if not hasattr(value, "dtype"):
        return None
    try:
        return value.shape, value.dtype, value.stride(), value.get_device()  # of torch, in which all of them are quick
    except (AttributeError, TypeError):
        return tuple(value.shape), value.dtype, getattr(value, "strides", None), str(getattr(value, "device", ""))


def autotune(
    kernel: Kernel,
    axes: Mapping[str, Sequence[Value]] = MappingProxyType({}),
    /,
    *,
    where: Constraint | Iterable[Constraint] = (),
    sample: Sequence[Any] | Mapping[str, Any] | None = None,
    reference: Callable[..., Any] | None = None,
    rounds: int = ROUNDS,
    seconds: float = 60.0,
    record: str | Path | None = None,
    **more: Sequence[Value],
) -> Tuned:
    """A kernel that picks its own configuration: `fast = vxc.autotune(gemm, BM=[64, 128], BK=[16, 32], where="BM * BK <= 2048")`.

    Each axis is a generic of the kernel with the values to try, or one of the knobs `maxrregcount` and `reduce_chunk`; axes whose names
    are those of options go into the mapping `axes`. `where` are constraints: Python expressions over the axes, or functions of some of
    them. Calling the result tunes at the first call of each class of shapes (see `Tuned`): what does not compile or is beyond the
    limits of the device is left out before it runs, the rest is timed from a flushed L2 in `rounds` turns, what is 1.5 times as slow
    as the best is dropped early, and after `seconds` no further configuration is tried. A choice that is kept counts whatever those
    two are.

    A configuration is chosen only if it is right on a sample: the `example` line of the kernel, or `sample`, the arguments of a small
    call as NumPy arrays (a tuple, or a mapping by name). The interpreter must find there what the kernel as written gives, or what
    `reference(inputs..)` does, and the device must agree with the interpreter. `record` is a file of `export` to begin with, which may
    be missing.

    Raises `LaunchError` E0719 for axes and constraints that make no sense, E0710 for a record that is none, `CompileError` E0218.
    """
    expect("what vxc.autotune tunes", kernel, Kernel, "a vxc kernel")
    every = {**axes, **more}
    with translated():
        configs = candidates(kernel._signature, every, (where,) if isinstance(where, str) or callable(where) else where)
        args, keywords = ((), sample) if isinstance(sample, Mapping) else (sample or (), {})
        given = None if sample is None else matched(kernel.name, kernel._calls.params, args, keywords)
        options = Options(given, reference, rounds, seconds)
    tuned = Tuned(kernel, configs, options)
    if record is not None and Path(record).exists():
        tuned.load(record)
    return tuned
