"""Shared arrays without bank conflicts: placements are one to one, and staged tiles are read and written without conflicts and in whole
sectors, as the simulated threads count them.
"""

from __future__ import annotations

import json
import re
from collections import Counter

import numpy as np
import pytest
from cli_tool import SAMPLES, vxc

from tests.everywhere import outputs
from vxc.cuda.nvrtc import compile_cuda
from vxc.driver import Compiled, compile
from vxc.dtypes import DTYPES
from vxc.interp.flat_counters import Counters
from vxc.interp.flat_interp import run_flat
from vxc.ir.kernel import placement_of
from vxc.layout.placement import IN_ORDER, Placement, places
from vxc.source import Source
from vxc.target import DEFAULT_ARCH

PLACEMENTS = [
    (IN_ORDER, 0),
    (Placement(pitch=(32, 33)), 1),
    (Placement(pitch=(24, 32)), 8),
    (Placement(swizzle=(2, 16, 64)), 2),
    (Placement(swizzle=(8, 4, 32)), 8),
    (Placement(swizzle=(4, 4, 64, 2, 2, 1024)), 2),
]


@pytest.mark.parametrize("count", [1, 31, 64, 1000, 2048])
@pytest.mark.parametrize("placement, run", PLACEMENTS, ids=str)
def test_elements_have_places_of_their_own_and_runs_stay_together(placement, run, count):
    place = placement(np.arange(count))
    assert len(set(place.tolist())) == count and place.min() >= 0 and place.max() < placement.size(count)
    assert placement.run == run and placement.problem() is None
    whole = place[: count - count % (run or 1)].reshape(-1, run or 1)
    assert (whole - whole[:, :1] == np.arange(run or 1)).all() and (whole[:, 0] % (run or 1) == 0).all()


def test_places_of_many_placements_are_those_of_each():
    offset = np.arange(2048).reshape(64, 32)
    each = [placement for placement, _ in PLACEMENTS]
    for chosen in (each, each[:1], each[1:3], each[3:]):
        assert (places(chosen, offset) == [placement(offset) for placement in chosen]).all()


WRONG = [
    Placement((32, 33), (2, 2, 4)),
    Placement((33, 32)),
    Placement((32,)),
    Placement((), (3, 2, 8)),
    Placement((), (4, 4, 8)),
    Placement((), (4,)),
]


@pytest.mark.parametrize("placement", WRONG, ids=str)
def test_what_is_no_placement(placement):
    assert placement.problem()


def totals(made: Compiled, dims: dict[str, int] | None = None, **arrays: np.ndarray) -> tuple[Counter, Counter]:
    """Of a call on the simulated threads: (cycles of shared memory, sectors of global memory), taken and ideal."""
    counters = Counters()
    run_flat(made.plan, arrays, {}, dims=dims, counters=counters)
    shared, sectors = Counter(), Counter()
    for found in counters.accesses.values():
        shared.update(taken=found.cycles, ideal=found.ideal_cycles)
        sectors.update(taken=found.sectors, ideal=found.ideal_sectors)
    return shared, sectors


def is_tight(made: Compiled, dims: dict[str, int] | None = None, **arrays: np.ndarray) -> None:
    shared, sectors = totals(made, dims, **arrays)
    assert shared["ideal"] and shared["taken"] == shared["ideal"]
    assert sectors["ideal"] >= 0.95 * sectors["taken"]


def sample(name: str, **defines) -> Compiled:
    return compile(Source(f"{name}.vx", (SAMPLES / f"{name}.vx").read_text()), defines=defines)


def numbers(*shape: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(shape).integers(0, 100, shape).astype(DTYPES[dtype].numpy)


@pytest.mark.parametrize("tile", [16, 32, 64])
@pytest.mark.parametrize("dtype", ["u8", "f16", "f32"])
def test_the_sample_transpose(dtype, tile):
    """A tile of 16 bytes a row has half a sector to a row, so that there only banks are asked about."""
    made = sample("transpose_tile", T=DTYPES[dtype], B=tile)
    x = numbers(2 * tile, 3 * tile, dtype=dtype)
    if tile * x.itemsize >= 32:
        is_tight(made, x=x)
    assert (run_flat(made.plan, {"x": x}, {})["y"] == x.T).all()


TRANSPOSE = """kernel k(x: {dtype}[M, N], out y: {dtype}[N, M]) {{
    @threads({threads}) grid bx in ceildiv(N, {columns}), by in ceildiv(M, {rows}) {{
        shared s: {dtype}[{rows}, {columns}];
        copy(x[by*{rows} :+ {rows}, bx*{columns} :+ {columns}], s);
        parallel j in {columns}, i in {rows} {{ y[bx*{columns} + j, by*{rows} + i] = s[i, j]; }}
    }}
}}"""


WIDE = [("f16", 64, 64, 256), ("f16", 32, 128, 128), ("f32", 64, 32, 64), ("u8", 64, 64, 128)]


@pytest.mark.parametrize("dtype, rows, columns, threads", WIDE)
def test_wide_on_both_sides(dtype, rows, columns, threads):
    """Every lane moves 16 bytes of x and of y, and the tile is placed so that neither way has conflicts."""
    text = TRANSPOSE.format(dtype=dtype, rows=rows, columns=columns, threads=threads)
    x = numbers(2 * rows, 2 * columns, dtype=dtype)
    assert (outputs(text, binary=False, x=x)["y"] == x.T).all()
    made = compile(Source("k.vx", text))
    is_tight(made, x=x)
    moves = [(i.operands[0], i.operands[2], i.attr("width")) for i in made.plan.kernels[0].insts if i.op == "move"]
    wide = {b.name for to, source, width in moves for b in (to, source) if b.space == "param" and width * b.dtype.bytes == 16}
    assert wide == {"x", "y"}
    assert all(placement_of(i) is not IN_ORDER for i in made.plan.kernels[0].insts if i.op == "shared")


def test_the_staging_of_the_sample_gemm():
    made = sample("gemm", BM=32, BN=64, BK=32)
    is_tight(made, a=numbers(64, 64, dtype="f16"), b=numbers(64, 64, dtype="f16"))


DEQUANT = ("manual", "parallel", "copy")


@pytest.mark.parametrize("how", DEQUANT)
def test_the_staging_of_packed_weights(how):
    is_tight(sample(f"dequant_u4_{how}"), {"N": 256, "K": 128}, b=numbers(16, 8, 16, 8, dtype="u8"))


def test_three_ways_to_stage_packed_weights_load_alike():
    """Two loads of 16 bytes a thread, then eight of 4, each of eight elements, as `vxc explain` counts and, of those from global memory, as
    the PTX has it of what runs where arrays are aligned. Where they are not, the loop by hand goes by addresses, since each thread has
    neighbouring elements, and the others by elements.
    """
    seen = {how: (*_explained(f"dequant_u4_{how}"), *_emitted(f"dequant_u4_{how}")) for how in DEQUANT}
    assert seen["manual"] == seen["parallel"] == seen["copy"]
    blocks, warps = 9, 4
    assert seen["copy"][:3] == ({16: 2 * warps * blocks}, {16: 2 * warps * blocks}, {4: 8 * warps * blocks})
    assert seen["copy"][3] == {"ld.global.nc.v4.u32": 2}


def _explained(name: str) -> list[dict[int, int]]:
    """Requests by width, of the loads of b, and of the stores and the loads of sb."""
    got = vxc("explain", SAMPLES / f"{name}.vx", "--json", "-D", "N=384", "-D", "K=192")
    (launch,) = json.loads(got.out)["kernels"][0]["launches"]
    return [
        {a["bytes_per_access"]: a["requests"] for a in launch["accesses"] if (a["kind"], a["buffer"]) == what and a["requests"]}
        for what in (("load", "b"), ("store", "sb"), ("load", "sb"))
    ]


def _emitted(name: str) -> list[Counter[str]]:
    """Loads from and stores to global memory in the PTX, the form for other than aligned arrays left out."""
    text = vxc("compile", SAMPLES / f"{name}.vx", "--emit", "cuda").out
    text, count = re.subn(r"= vx_aligned<16>\(\w+\);", "= true;", text)
    text, tests = re.subn(r"\(\(\(int\)K & \d+\) == 0\)", "true", text)
    assert count == 2 and tests
    ptx = compile_cuda(text, f"{name}.cu", DEFAULT_ARCH).ptx
    return [Counter(re.findall(rf"{op}\.global[.\w]*", ptx)) for op in ("ld", "st")]


def test_the_form_with_a_copy_is_short():
    lines = (SAMPLES / "dequant_u4_copy.vx").read_text().splitlines()
    assert len([line for line in lines if line and not line.startswith(("#", "example"))]) <= 8


@pytest.mark.parametrize("beside, attr, value", [(1000, "pitch", (32, 33)), (57080, "swizzle", (1, 32, 32))])
def test_rows_are_exchanged_where_there_is_no_room_for_gaps(beside, attr, value):
    """A tile that is read across, beside an array that leaves 32 bytes of what a block may have."""
    text = f"""kernel k(x: f32[33, 33], out y: f32[33, 33]) {{ @threads(128) grid b in 1 {{
        shared s: f32[32, 32]; shared big: f32[{beside}];
        parallel i in 32, j in 32 {{ s[i, j] = x[i, j]; }}
        parallel i in {beside} {{ big[i] = 0.0; }}
        parallel j in 32, i in 32 {{ y[j, i] = s[i, j] + big[j]; }}
    }} }}"""
    (kernel,) = compile(Source("k.vx", text)).plan.kernels
    assert next(inst for inst in kernel.insts if inst.op == "shared" and inst.result.name == "s").attr(attr) == value
