"""The table of targets and the occupancy rules, against numbers of NVIDIA's own occupancy calculator."""

from __future__ import annotations

import pytest

from vxc.diag import VxcError
from vxc.target import TARGETS, for_capability, max_block_threads, max_registers, occupancy, target


def test_default_target_is_hopper_with_its_own_instructions():
    hopper = target()
    assert (hopper.name, hopper.capability, hopper.sms, hopper.shared_per_block) == ("sm_90a", (9, 0), 132, 232448)
    assert hopper.has("wgmma") and hopper.has("tma") and hopper.has("setmaxnreg")


@pytest.mark.parametrize(
    ("name", "feature", "expected"),
    [
        ("sm_80", "cp_async", True), ("sm_80", "tma", False), ("sm_86", "f8_convert", False), ("sm_89", "f8_convert", True),
        ("sm_90", "tma", True), ("sm_90", "wgmma", False), ("sm_90", "setmaxnreg", False), ("sm_100a", "wgmma", False),
        ("sm_100f", "setmaxnreg", True), ("sm_120", "clusters", True),
    ],
)  # fmt: skip
def test_features(name, feature, expected):
    assert target(name).has(feature) is expected


def test_a_misspelt_feature_is_an_error():
    with pytest.raises(KeyError):
        target().has("wgmmma")


@pytest.mark.parametrize("name", ["sm_61", "sm_75", "sm_999", "compute_90", "", "sm_90f", "sm_80a"])
def test_unknown_targets_say_what_is_known(name):
    with pytest.raises(VxcError) as caught:
        target(name)
    (found,) = caught.value.diagnostics
    assert found.code == "E0701"
    assert f"`{name}`" in found.message and "sm_80 " in found.notes[0] and "--arch" in found.help
    assert ("older than sm_80" in found.message) == (name in ("sm_61", "sm_75"))


def test_where_a_cubin_runs():
    assert target("sm_80").runs_on((8, 9)) and not target("sm_89").runs_on((8, 6)) and not target("sm_80").runs_on((9, 0))
    assert target("sm_90a").runs_on((9, 0)) and not target("sm_100a").runs_on((10, 3)) and target("sm_100f").runs_on((10, 3))


def test_the_target_of_a_device():
    names = [for_capability(c).name for c in ((8, 0), (8, 9), (9, 0), (10, 3), (12, 0))]
    assert names == ["sm_80", "sm_89", "sm_90a", "sm_103a", "sm_120a"]
    with pytest.raises(VxcError, match="older than sm_80"):
        for_capability((7, 5))


# (arch, threads, registers, shared bytes) -> (blocks per SM, limiter), printed by cuda_occupancy.h of CUDA 13.5.
_OCCUPANCY = [
    ("sm_89", 32, 24, 1000, (24, "blocks")),
    ("sm_87", 32, 24, 1, (16, "blocks")),
    ("sm_110", 32, 16, 8192, (24, "blocks")),
    ("sm_121", 256, 128, 101376, (1, "shared")),
    ("sm_110", 128, 72, 49152, (4, "shared")),
    ("sm_121", 96, 96, 100000, (1, "shared")),
    ("sm_86", 64, 24, 232448, (0, "shared")),
    ("sm_80", 96, 24, 232448, (0, "shared")),
    ("sm_121", 256, 8, 166912, (0, "shared")),
    ("sm_89", 32, 96, 1, (20, "registers")),
    ("sm_100", 512, 72, 232448, (1, "registers")),
    ("sm_87", 384, 64, 65536, (2, "registers")),
    ("sm_89", 256, 16, 0, (6, "threads")),
    ("sm_110", 1024, 24, 232448, (1, "threads")),
    ("sm_120", 1024, 64, 1000, (1, "threads")),
    ("sm_121", 1000, 168, 100000, (0, "registers")),
    ("sm_103", 1000, 65, 100000, (0, "registers")),
    ("sm_100", 1000, 128, 8192, (0, "registers")),
]


@pytest.mark.parametrize(("arch", "threads", "registers", "shared", "expected"), _OCCUPANCY)
def test_occupancy(arch, threads, registers, shared, expected):
    assert occupancy(TARGETS[arch], threads, registers, shared) == expected


@pytest.mark.parametrize("registers", [16, 64, 65, 96, 128, 168, 255])
def test_max_block_threads_is_where_occupancy_ends(registers):
    most = max_block_threads(registers)
    assert occupancy(target(), most, registers, 0)[0] > 0
    assert most == 1024 or occupancy(target(), most + 1, registers, 0)[0] == 0


@pytest.mark.parametrize("blocks", [1, 2, 4])
@pytest.mark.parametrize("threads", [32, 96, 128, 256, 384, 512, 544, 1024])
def test_max_registers_is_where_so_many_blocks_no_longer_fit(threads, blocks):
    def fit(registers: int) -> bool:
        return occupancy(target("sm_90"), threads, registers, 0)[0] >= blocks

    most = max_registers(threads, blocks)
    assert fit(most) if threads * blocks <= 2048 else not fit(1)
    assert most == 255 or not fit(most + 1)
