"""What each GPU architecture has: limits, instructions, occupancy. One row per compute capability in `_CHIPS`, one per
instruction family in `_FEATURES`; a `Target` is a row seen through an arch name such as `sm_90a`.

Names as NVRTC takes them: `sm_90` runs on 9.0 and later minors of the same major, `sm_90a` on exactly 9.0 with its
architecture-specific instructions, `sm_100f` on its family (CUDA C++ Programming Guide, "Compute Capabilities").
"""

from __future__ import annotations

from vxc.diag import Diagnostic, VxcError
from vxc.record import record

DEFAULT_ARCH = "sm_90a"

WARP = 32
VECTOR = 16  # bytes of the widest access
WORD = 4  # bytes of a register
MAX_THREADS_PER_BLOCK = 1024
MAX_REGISTERS_PER_THREAD = 255
LEAST_REGISTER_CAP = 24  # below it ptxas takes the least of the ABI, which is this (nvcc manual, --maxrregcount)
REGISTERS_PER_SM = 65_536
REGISTERS_PER_BLOCK = 65_536
MAX_GRID = (2**31 - 1, 65_535, 65_535)
MAX_PARAMETER_BYTES = 32_764
"""Kernel parameter space from CUDA 12.1 on sm_70 and newer."""
MAX_LOCAL_BYTES = 512 * 1024
"""Local memory of a thread (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability")."""
STATIC_SHARED_BYTES = 48 * 1024
"""Above this, shared memory is dynamic and has to be asked for before the launch."""

REGISTER_CAP = "VXC_MAXRREG"
"""The environment variable that caps the registers of a thread where no argument does."""

_RESERVED_SHARED_BYTES = 1024
_SHARED_GRANULARITY = 128
_REGISTER_GRANULARITY = 256
_PARTITIONS = 4

# CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability". SMs are those of one common device.
_CHIPS = [
    # major minor  suffixes  blocks warps  shared KiB  SMs  device
    (8,      0,    "",       32,    64,    164,        108, "A100"),
    (8,      6,    "",       16,    48,    100,         84, "RTX A6000"),
    (8,      7,    "",       16,    48,    164,         16, "Jetson AGX Orin"),
    (8,      9,    "",       24,    48,    100,        142, "L40S"),
    (9,      0,    "a",      32,    64,    228,        132, "H100 SXM, H200"),
    (10,     0,    "af",     32,    64,    228,        148, "B200"),
    (10,     3,    "af",     32,    64,    228,        148, "B300"),
    (11,     0,    "af",     24,    48,    228,         20, "Jetson AGX Thor"),
    (12,     0,    "af",     24,    48,    100,        170, "RTX 5090"),
    (12,     1,    "af",     24,    48,    100,         48, "DGX Spark"),
]  # fmt: skip

# PTX ISA, "Target ISA Notes" of each instruction: first and last capability that has it; the arch suffixes one of which it needs.
_ANY = (99, 9)
_FEATURES = {
    # name        first    last     suffix
    "cp_async":   ((8, 0), _ANY,    ""),
    "ldmatrix":   ((8, 0), _ANY,    ""),
    "mma_sync":   ((8, 0), _ANY,    ""),      # m16n8k16
    "f8_convert": ((8, 9), _ANY,    ""),      # cvt.rn.satfinite.e4m3x2.f32
    "stmatrix":   ((9, 0), _ANY,    ""),
    "mbarrier":   ((9, 0), _ANY,    ""),      # with transaction counts and try_wait
    "tma":        ((9, 0), _ANY,    ""),      # cp.async.bulk.tensor
    "clusters":   ((9, 0), _ANY,    ""),
    "early_launch": ((9, 0), _ANY,  ""),      # griddepcontrol
    "setmaxnreg": ((9, 0), _ANY,    "af"),
    "wgmma":      ((9, 0), (9, 0),  "a"),
}  # fmt: skip



def whole_vectors(nbytes: int) -> int:
    """Bytes to allocate for an array of so many, at least one vector: kernels load the vectors that hold its elements."""
    return max(-(-nbytes // VECTOR), 1) * VECTOR


@record
class Peak:
    """What one card can do at best, without tensor cores: 10^12 operations a second on f32 and on f64, 10^9 bytes of memory a second;
    `source` is the document of NVIDIA's that has them.
    """

    device: str
    f32_tera: float
    f64_tera: float
    memory_giga: float
    source: str


_A100 = "NVIDIA A100 Tensor Core GPU data sheet 1758950-r4"
_A6000 = "NVIDIA RTX A6000 data sheet 1454980-r9; f64, 1/64 of f32: NVIDIA Ampere GA102 GPU Architecture white paper"
_L40S = "NVIDIA L40S data sheet; f64, 1/64 of f32: NVIDIA Ada GPU Architecture white paper"
_H200 = "NVIDIA H200 Tensor Core GPU data sheet"
_5090 = "NVIDIA RTX Blackwell GPU Architecture white paper 1.1, which has f64 at 1/64 of f32"

# Capabilities whose figures NVIDIA leaves open, or that its documents disagree on, have no row.
_PEAKS = {
    (8, 0): Peak("A100 SXM 80 GB", 19.5, 9.7, 2039, _A100),
    (8, 6): Peak("RTX A6000", 38.7, 38.7 / 64, 768, _A6000),
    (8, 9): Peak("L40S", 91.6, 91.6 / 64, 864, _L40S),
    (9, 0): Peak("H200 SXM", 67.0, 34.0, 4800, _H200),
    (12, 0): Peak("RTX 5090", 104.8, 104.8 / 64, 1792, _5090),
}


@record
class Target:
    """One arch name. Shared sizes are bytes; `sms` counts the multiprocessors of `device`, a common card of that capability."""

    name: str
    capability: tuple[int, int]
    blocks_per_sm: int
    warps_per_sm: int
    shared_per_sm: int
    sms: int
    device: str
    features: frozenset[str]

    @property
    def shared_per_block(self) -> int:
        """Most shared bytes (static + dynamic) one block may have; 1 KiB of each block is the system's."""
        return self.shared_per_sm - _RESERVED_SHARED_BYTES

    @property
    def peak(self) -> Peak | None:
        """The peak figures of one card of this capability, where they are known."""
        return _PEAKS.get(self.capability)

    def has(self, feature: str) -> bool:
        """Whether code for this arch may use the instruction family, one of `_FEATURES`."""
        if feature not in _FEATURES:
            raise KeyError(feature)
        return feature in self.features

    def runs_on(self, capability: tuple[int, int]) -> bool:
        """Whether a cubin for this arch loads on a device of that capability ("Binary Compatibility" and "Family-specific")."""
        if self.name.endswith("a"):
            return self.capability == capability
        return self.capability[0] == capability[0] and self.capability[1] <= capability[1]


def target(name: str = DEFAULT_ARCH) -> Target:
    """The target named `sm_XY`, `sm_XYa` or `sm_XYf`. Raises `VxcError` E0701 for a name that is none, or older than sm_80."""
    if not isinstance(name, str):
        message = f"an architecture has a name, and a {type(name).__name__} is given"
        raise VxcError(Diagnostic("E0701", message, help='pass a str such as "sm_90a"'))
    if name in TARGETS:
        return TARGETS[name]
    number = name.removeprefix("sm_").rstrip("af")
    old = number.isdigit() and int(number) < 80
    raise VxcError(
        Diagnostic(
            "E0701",
            f"vxc does not compile for `{name}`" + (", which is older than sm_80" if old else ""),
            notes=(f"known targets: {' '.join(TARGETS)}",),
            help="kernels use instructions that came with sm_80; give --arch sm_80 or newer" if old else "give one of these with --arch",
        )
    )


def for_capability(capability: tuple[int, int]) -> Target:
    """The target with the most instructions that runs on a device: `sm_90a` for (9, 0). Raises `VxcError` E0701 where there is none."""
    fitting = [t for t in TARGETS.values() if t.runs_on(capability)]
    if not fitting:
        return target("sm_{}{}".format(*capability))
    return max(fitting, key=lambda t: (t.capability, t.name.endswith("a")))


def occupancy(target: Target, threads: int, registers: int, shared_bytes: int) -> tuple[int, str]:
    """Blocks resident on one SM, and what limits them: 'threads', 'registers', 'shared' or 'blocks'. 0 blocks: cannot be launched.

    `threads` a block, `registers` a thread, `shared_bytes` static + dynamic a block. The rules of the CUDA occupancy
    calculator (cuda_occupancy.h): a warp's registers are a multiple of 256 and lie in one of four partitions; shared
    bytes are a multiple of 128 after adding the 1 KiB reserved.
    """
    warps = -(-threads // WARP)
    warp_registers = max(_round_up(registers * WARP, _REGISTER_GRANULARITY), _REGISTER_GRANULARITY)
    block_registers = warp_registers * _round_up(warps, _PARTITIONS)
    resident_warps = REGISTERS_PER_SM // _PARTITIONS // warp_registers * _PARTITIONS
    shared = _round_up(shared_bytes + _RESERVED_SHARED_BYTES, _SHARED_GRANULARITY)
    limits = {
        "threads": target.warps_per_sm // warps if threads <= MAX_THREADS_PER_BLOCK else 0,
        "registers": resident_warps // warps if block_registers <= REGISTERS_PER_BLOCK and registers <= MAX_REGISTERS_PER_THREAD else 0,
        "shared": target.shared_per_sm // shared,
        "blocks": target.blocks_per_sm,
    }
    limiter = min(limits, key=limits.__getitem__)
    return limits[limiter], limiter


def max_block_threads(registers: int) -> int:
    """The most threads that a block can have if each uses so many registers; a multiple of 128."""
    warp_registers = _round_up(registers * WARP, _REGISTER_GRANULARITY)
    return min(REGISTERS_PER_BLOCK // warp_registers // _PARTITIONS * _PARTITIONS * WARP, MAX_THREADS_PER_BLOCK)


def max_registers(threads: int, blocks: int = 1) -> int:
    """The most registers that each thread of a block can have where so many such blocks are to be on a multiprocessor at once."""
    warps = -(-threads // WARP)
    most = min(REGISTERS_PER_BLOCK // _round_up(warps, _PARTITIONS), REGISTERS_PER_SM // _round_up(warps * blocks, _PARTITIONS))
    return min(most // _REGISTER_GRANULARITY * _REGISTER_GRANULARITY // WARP, MAX_REGISTERS_PER_THREAD)


def _round_up(value: int, granularity: int) -> int:
    return -(-value // granularity) * granularity


def _row_targets(major: int, minor: int, suffixes: str, blocks: int, warps: int, kib: int, sms: int, device: str) -> list[Target]:
    def has(suffix: str, first: tuple[int, int], last: tuple[int, int], needed: str) -> bool:
        return first <= (major, minor) <= last and (not needed or (suffix != "" and suffix in needed))

    return [
        Target(
            f"sm_{major}{minor}{suffix}", (major, minor), blocks, warps, kib * 1024, sms, device,
            frozenset(name for name, rule in _FEATURES.items() if has(suffix, *rule)),
        )
        for suffix in ["", *suffixes]
    ]  # fmt: skip


TARGETS: dict[str, Target] = {t.name: t for row in _CHIPS for t in _row_targets(*row)}
