"""What `vxc explain` says, as data: frozen dataclasses, from which text and JSON are made.

Their fields are documented with units in vxc/README.md ("What explain says"), which a test compares with them. None stands for what
is not known: sizes and counts without inputs, resources without NVRTC. `SCHEMA` goes up when a field comes, goes or changes its meaning.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from vxc.record import record

SCHEMA = 4


@record
class Resources:
    """What one kernel of the machine code uses, and how much of a multiprocessor that fills."""

    registers: int
    register_cap: int | None
    register_limit: int
    spill_bytes: int
    stack_bytes: int
    shared_bytes: int
    blocks_per_multiprocessor: int
    warps_per_multiprocessor: int
    warp_limit: int
    limited_by: str


@record
class Execution:
    """What the simulated threads did."""

    simulated_blocks: int
    warp_instructions: int
    active_lanes: float
    divergent_branches: int
    barriers: int


@record
class Roofline:
    """The least time that the card could take for a launch, and which of its two limits that is."""

    device: str
    memory_microseconds: float
    arithmetic_microseconds: float
    bound: str
    source: str


@record
class Traffic:
    """Global memory of one launch."""

    minimum_bytes: int
    requested_bytes: int
    moved_bytes: int
    operations: int
    operations_per_byte: float | None
    roofline: Roofline | None


@record
class Fused:
    """Another loop of the source that is part of a loop: one `nest` with it, or a `sibling` that came after it."""

    index: str
    line: int | None
    how: str


@record
class Loop:
    """A loop of the source, or one that a row, tile or reduction became."""

    index: str
    line: int | None
    kind: str
    thread_map: str
    lanes: int
    fused_with: tuple[Fused, ...]
    unroll: int


@record
class Access:
    """The loads, stores or atomics of one width on one array, from one line of the source."""

    buffer: str
    line: int | None
    kind: str
    space: str
    bytes_per_access: int
    why_not_wider: str | None
    narrow: tuple[tuple[str | int, ...], ...]
    requests: int | None
    sectors_per_request: float | None
    ideal_sectors_per_request: float | None
    moved_bytes: int | None
    bank_conflicts: float | None
    same_element: float | None


@record
class Layout:
    """Where elements of a tile, or iterations of a loop that threads share, lie: in threads and their slots, or in shared memory."""

    kind: str
    buffer: str = ""
    index: str = ""
    line: int | None = None
    shape: tuple[int, ...] | None = None
    layout: str | None = None
    threads: int | None = None
    slots: int | None = None
    replicas: int | None = None
    offset: int | None = None
    bytes: int | None = None
    pitch: tuple[int, ...] | None = None
    swizzle: tuple[int, ...] | None = None


@record
class Launch:
    """One kernel that the source kernel became."""

    kernel: str
    threads: int
    grid: int | None
    multiprocessors: int
    waves: float | None
    resources: Resources | None
    execution: Execution | None
    traffic: Traffic | None
    loops: tuple[Loop, ...]
    layouts: tuple[Layout, ...]
    accesses: tuple[Access, ...]


@record
class Decision:
    """A remark of a pass."""

    pass_name: str
    kind: str
    kernel: str
    line: int | None
    column: int | None
    message: str
    superseded_by: str | None = None


@record
class KernelExplanation:
    """One kernel or program of the source, at the sizes of one call."""

    name: str
    arrays: dict[str, str]
    launches: tuple[Launch, ...]
    remarks: tuple[Decision, ...]
    notes: tuple[str, ...]


@record
class Explanation:
    """What is said of one file."""

    schema: int
    file: str
    arch: str
    kernels: tuple[KernelExplanation, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain data; tuples are lists."""
        return _plain(asdict(self))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, tuple) else value
