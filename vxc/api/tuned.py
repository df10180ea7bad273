"""`vxc.autotune`: a kernel that is called like any other, and takes for each class of shapes the configuration that was fastest there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import RLock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from vxc.api import tune_record
from vxc.api.ahead import Compiled, ranked, views_of
from vxc.api.arguments import matched
from vxc.api.candidates import Config, candidates
from vxc.api.compiling import dense
from vxc.api.constraints import Constraint, Value
from vxc.api.devices import arch_named, cuda, default_arch, device_count, named_device
from vxc.api.errors import expect, translated
from vxc.api.families import OneLine
from vxc.api.kernels import Kernel
from vxc.api.libraries import is_array
from vxc.api.problems import Problem, idle, problem_of
from vxc.api.traced import unseen
from vxc.api.tune_arguments import Options, axes_of, file_of, options_of
from vxc.api.tune_record import About, Entry
from vxc.api.tune_refusals import untunable
from vxc.api.tune_report import table
from vxc.runtime.arrays import CPU, ArrayView
from vxc.runtime.driver import unavailable
from vxc.runtime.timing import ROUNDS

if TYPE_CHECKING:
    from vxc.api.tune_check import Question

_LIMIT = 4096  # calls alike that are remembered
_ALONE = RLock()
"""Held by the one thread of the process that tunes: timings of two at once would be of neither."""


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
        self._alike: dict[tuple | None, Kernel] = {}  # by calls that look the same
        self._questions: dict[tuple, Question] = {}  # what to check on, by dtypes of arrays
        self._busy = False  # a thread looks for, or finds, a choice of this kernel

    name = property(lambda self: self._kernel.name)
    signature = property(lambda self: self._kernel.signature)
    __name__ = property(lambda self: self._kernel.name)

    def __repr__(self) -> str:
        return f"<vxc tuned kernel {self.signature}, {len(self._configs)} configurations>"

    def __reduce__(self) -> tuple[Callable[..., Tuned], tuple[Any, ...]]:
        """Copied and pickled with what was found; what was compiled stays behind. A reference must be one that pickle takes."""
        return _again, (self._kernel, self._configs, self._options, tuple({**self._imported, **self._entries}.values()))

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        with translated():
            return unseen(self.choose)(*args, **keywords)(*args, **keywords)

    def choose(self, /, *args: Any, **keywords: Any) -> Kernel:
        """The kernel for such arguments, its configuration fixed; tunes where nothing is known. Calling that spares looking it up again.

        With `device="cpu"` it is the kernel as it is written.
        """
        named, options = self._kernel._calls.split(keywords)
        with translated(self.name):
            device = named_device(options.get("device"))
            if device == CPU:
                return self._kernel
            looks = [*map(_look, args), *map(_look, named.values())]
            alike = None if None in looks else (device, len(args), *named, *looks)
            found = self._alike.get(alike)
            if found is None:
                found = self._variant(self._entry(args, named, device).chosen)
                if len(self._alike) >= _LIMIT:
                    self._alike.clear()
                if alike is not None:
                    self._alike[alike] = found
            return found

    def bind(self, /, *args: Any, **keywords: Any) -> Callable[[], Any]:
        """As `bind` of a kernel, in the configuration for these arguments."""
        with translated():
            return self.choose(*args, **keywords).bind(*args, **keywords)

    def compile(self, /, *shapes: Any, target: Any = None, **named: Any) -> Compiled:
        """As `compile` of a kernel, in the configuration that is known for such shapes: of this process, of a record, of the cache.

        Without the device at hand it is that of any device of the target's arch. Raises `LaunchError` E0719 where none is known.
        """
        if "target" in self._kernel._calls.names and target is not None:
            named, target = {**named, "target": target}, None
        with translated(self.name):
            fit = ranked(self._kernel._calls.fitted(views_of(self._kernel._signature, shapes, named)))
            views = self._inputs(fit.views)
            arch = arch_named(target) or self._kernel._calls.target or default_arch()
            found = self._known(views, "" if unavailable() else cuda().device_name(0), arch)
            if found is None:
                shown = self._about(views, "", arch).shapes or "arrays of any shape"
                way_out = "call it with such arrays on the device, or `load` a record of a machine where that was done"
                raise untunable(f"`{self.name}` was not tuned for {shown} on {arch}", way_out)
            chosen = self._variant(found.chosen)
            return Kernel(chosen._calls.recipe, chosen._signature, arch).compile(*shapes, **named)

    def as_torch_op(self, name: str, *, out: bool = False) -> Any:
        """As `as_torch_op` of a kernel; tunes when the operator is first run with such tensors, not when it is traced."""
        from vxc.api.torch_ops import operator

        with translated(self.name):
            return operator(self, self._kernel._signature, self._kernel._out_shapes(), name, out)

    def report(self) -> str:
        """For each class of shapes in use, what was chosen, and of every configuration its time, or why it was not timed."""
        return "\n".join(map(table, self._entries.values())) or f"{self.name}: not called yet"

    def export(self, path: str | Path) -> None:
        """Writes what is in use and what was loaded as JSON. Raises `LaunchError` E0711."""
        with translated():
            tune_record.write(file_of(path, "E0711"), list({**self._imported, **self._entries}.values()))

    def load(self, path: str | Path) -> int:
        """Takes the choices that a file of `export` has for this kernel; gives how many. They come before the cache, and before tuning.

        Those of another text, kernel or set of configurations are left out. Raises `LaunchError` E0710 for a file that is no record.
        """
        with translated():
            return self._take(tune_record.read(file_of(path, "E0710")))

    def _take(self, entries: Iterable[Entry]) -> int:
        """Takes those that are for this kernel and its configurations; gives how many."""
        own = self._about({}, "", "")
        configs = {config: config for config in self._configs}  # which a file may write otherwise: true for 1
        mine = (e for e in entries if replace(e.about, shapes="", device="", arch="") == own and e.chosen in configs)
        fitting = {e.about: replace(e, chosen=configs[e.chosen]) for e in mine}
        self._imported |= fitting
        self._entries = {about: e for about, e in self._entries.items() if about not in fitting}
        self._alike.clear()
        return len(fitting)

    def _variant(self, config: Config) -> Kernel:
        if config not in self._variants:
            base = self._kernel
            made = Kernel(config.applied(base._calls.recipe, base._signature), base._signature, base._calls.target)
            return self._variants.setdefault(config, made)
        return self._variants[config]

    def _about(self, views: Mapping[str, ArrayView], device: str, arch: str) -> About:
        recipe = self._kernel._calls.recipe
        strided = [name for name, found in views.items() if not dense(found)]
        shapes = tune_record.shape_class(views, strided)
        return About(self.name, tune_record.digest(recipe), tune_record.fixed_text(recipe), shapes, device, arch)

    def _inputs(self, views: Mapping[str, ArrayView]) -> dict[str, ArrayView]:
        """Of arrays, those that are read: what is given of outputs is no part of a class."""
        return {p.name: views[p.name] for p in self._kernel._calls.params if p.name in views and p.mode != "out"}

    def _entry(self, args: Sequence[Any], keywords: Mapping[str, Any], device: int) -> Entry:
        """What is known for a call, or found by tuning for it. Raises `VxcError`."""
        calls = self._kernel._calls
        given = matched(self.name, calls.params, args, keywords)
        problem = problem_of(given, calls, device)
        problem = replace(problem, views=calls.fitted(problem.views).views)
        inputs = self._inputs(problem.views)
        about = self._about(inputs, problem.cuda.device_name(problem.device), problem.arch)
        known = self._entries.get(about)
        if known:
            return known
        with _ALONE:
            if about not in self._entries:
                if self._busy:
                    message = f"the reference of `{self.name}` calls the tuned kernel itself, which is what it is to judge"
                    raise untunable(message, "have it compute with other means, or with the kernel as it is written")
                self._busy = True
                try:
                    imported = self._imported.get(about)
                    found = imported and self._trusted(imported, inputs, problem)
                    self._entries[about] = found or self._kept(about, inputs) or self._tune(about, inputs, problem)
                finally:
                    self._busy = False
            return self._entries[about]

    def _known(self, inputs: Mapping[str, ArrayView], here: str, arch: str) -> Entry | None:
        """What is known for such arrays, best of the device `here`, else of any of this arch."""
        about = self._about(inputs, here, arch)
        known = [e for a, e in {**self._imported, **self._entries}.items() if (a.shapes, a.arch) == (about.shapes, arch)]
        own = [e for e in known if e.about.device == here]
        found = next((sure for e in own if (sure := self._trusted(e, inputs, None))), None) or self._kept(about, inputs)
        return found or next((sure for e in known if (sure := self._trusted(e, inputs, None))), None)

    def _kept(self, about: About, inputs: Mapping[str, ArrayView]) -> Entry | None:
        """What the cache has, checked with what is checked with here."""
        keepable = tune_record.keepable(self._kernel._calls.recipe)
        return tune_record.kept(about, self._checked_with(inputs), self._configs) if keepable else None

    def _trusted(self, entry: Entry, inputs: Mapping[str, ArrayView], problem: Problem | None) -> Entry | None:
        """An entry that was checked with what is checked with here, or now is, and is right: on the device of a problem, or, without one,
        by the interpreter alone.
        """
        own = self._checked_with(inputs)
        if entry.checked == own:
            return entry
        from vxc.api.tune_check import answer

        variant, question = self._variant(entry.chosen)._calls, self._question(inputs)
        if problem is None:
            right, said = answer(self._kernel._calls, variant, question, entry.about.arch, None)
        else:
            with idle(problem):
                right, said = answer(self._kernel._calls, variant, question, problem.arch, problem.device)
        rows = tuple(replace(row, said=said) if row.config == entry.chosen else row for row in entry.rows)
        return replace(entry, checked=own, rows=rows) if right else None

    def _checked_with(self, inputs: Mapping[str, ArrayView]) -> str:
        """With what choices are checked here, in brief. Without a reference that takes no compiler."""
        expected = self._question(inputs).expected if self._options.reference else None
        return tune_record.checked_with(self._options.sample, expected)

    def _question(self, inputs: Mapping[str, ArrayView]) -> Question:
        """The same in full, for arrays of these dtypes."""
        from vxc.api.tune_check import question_of

        key = tuple((name, view.dtype) for name, view in inputs.items())
        if key not in self._questions:
            self._questions[key] = question_of(self._kernel._calls, inputs, self._options)
        return self._questions[key]

    def _tune(self, about: About, inputs: Mapping[str, ArrayView], problem: Problem) -> Entry:
        from vxc.api.tuning import tuned_for

        calls, checked = self._kernel._calls, self._checked_with(inputs)
        variants = {config: self._variant(config)._calls for config in self._configs}
        found = tuned_for(about, checked, calls, variants, problem, self._options, self._question(inputs))
        if tune_record.keepable(calls.recipe) and tune_record.digest(calls.recipe) == about.text:  # no file was changed meanwhile
            tune_record.keep(found, self._configs)
        return found


def _again(kernel: Kernel, configs: tuple[Config, ...], options: Options, entries: Sequence[Entry]) -> Tuned:
    made = Tuned(kernel, configs, options)
    made._take(entries)
    return made


def _look(value: Any) -> tuple | None:
    """What a choice can depend on in an argument, without looking at it closely; None where it does not say all of that itself."""
    if not is_array(value):
        return ()
    try:
        return value.shape, value.dtype, value.stride(), value.get_device()  # of torch, in which all of them are quick
    except (AttributeError, TypeError):
        place = "" if isinstance(value, np.ndarray) else getattr(value, "device", None)
        if not hasattr(value, "dtype") or place is None and device_count(cuda()) > 1:
            return None
        return tuple(value.shape), value.dtype, getattr(value, "strides", None), str(place)


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
    are those of options go into the mapping `axes`. `where` are constraints: Python expressions over the axes (arithmetic, comparisons,
    `and`, `or`, `not`, `in`, `if`; no calls), or functions of some of them. Calling the result tunes at the first call of each class of
    shapes (see `Tuned`): what does not compile or is beyond the limits of the device is left out before it runs, the rest is timed from
    a flushed L2 in `rounds` turns, what is 1.5 times as slow as the best is dropped early, and after `seconds` no further configuration
    is tried. A choice that is kept counts whatever those two are.

    A configuration is chosen only if it is right on a sample: the `example` line of the kernel, or `sample`, the arguments of a small
    call as NumPy arrays (a tuple, or a mapping by name). The interpreter must find there what the kernel as written gives, or what
    `reference(inputs..)` does, and the device must agree with the interpreter. What was found earlier counts if it was checked with the
    same, and is checked again where it was not. `record` is a file of `export` to begin with, which may be missing.

    Raises `LaunchError` E0719 for arguments that make no sense, E0703, E0708 and E0709 for a sample that is no call of the kernel, E0710
    for a record that is none, `CompileError` E0218 for a value of the wrong kind. What a function of the user raises is the cause of E0719.
    """
    with translated():
        expect("what vxc.autotune tunes", kernel, Kernel, "a vxc kernel")
        if isinstance(kernel, OneLine):
            message = f"`{kernel.name}` is of one line, and becomes another kernel for each way in which arrays broadcast"
            raise untunable(message, "write the kernel for the shapes in question, as a vxc.kernel")
        configs = candidates(kernel._signature, axes_of(axes, more), where)
        tuned = Tuned(kernel, configs, options_of(kernel.name, kernel._calls.params, sample, reference, rounds, seconds))
        if record is not None:
            tuned._take(tune_record.read(file_of(record, "E0710"), begun=True))
    return tuned
