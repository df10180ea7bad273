"""Machine code that was made before, in this process or another: `Job.binary` is `compile_cuda` with the cache before it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property

from vxc.cache.places import key_of, store
from vxc.cuda import included
from vxc.cuda.nvrtc import Binary, Resources, compile_cuda, compile_options, toolchain
from vxc.record import record
from vxc.source import Source

@record
class Job:
    """A text for NVRTC: the arguments of `compile_cuda`."""

    text: str
    name: str
    arch: str
    fp: str
    max_registers: int | None
    line_info: bool

    @property
    def key(self) -> str:
        """What the machine code is kept under, by the NVRTC in use once one is loaded. Raises `VxcError` E0601 without NVRTC."""
        options = compile_options(self.arch, self.fp, max_registers=self.max_registers, line_info=self.line_info)
        return key_of("code", self.text, options, toolchain())

    @cached_property
    def alone(self) -> bool:
        """Whether all that decides the machine code is part of the key. The text of an `extern fn` may include files of the user's, which
        change without it: such machine code is not kept.
        """
        return included.alone(self.text)

    def binary(self, sources: Sequence[Source] = ()) -> Binary:
        """The machine code. Raises as `compile_cuda`."""
        kept = store() if self.alone else None
        found = recalled(self.key) if kept else None
        if found:
            return found
        options = {"max_registers": self.max_registers, "line_info": self.line_info}
        made = compile_cuda(self.text, self.name, self.arch, self.fp, **options, sources=sources)
        if kept:
            kept.put(self.key, ", ".join(made.kernels), to_bytes(made))
        return made


def recalled(key: str) -> Binary | None:
    """The machine code that is kept under a key."""
    kept = store()
    data = kept.get(key) if kept else None
    return None if data is None else of_bytes(data)


def to_bytes(binary: Binary) -> bytes:
    """A line of JSON, then the machine code."""
    kernels = {name: asdict(used) for name, used in binary.kernels.items()}
    facts = {"arch": binary.arch, "ptx": binary.ptx, "log": binary.log, "kernels": kernels}
    return json.dumps(facts).encode() + b"\n" + binary.cubin


def of_bytes(data: bytes) -> Binary:
    """What `to_bytes` was given."""
    line, _, cubin = data.partition(b"\n")
    facts = json.loads(line)
    return Binary(facts["arch"], cubin, facts["ptx"], facts["log"], {name: Resources(**used) for name, used in facts["kernels"].items()})
