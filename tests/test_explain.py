"""`vxc explain`: every sample, the JSON against the schema that vxc/README.md documents, figures worked out by hand, what is missing."""

from __future__ import annotations

import json
import re
from dataclasses import fields, is_dataclass
from functools import cache

import pytest
from cli_tool import SAMPLES, SCALE, TWO, vxc
from test_readme import table

import vxc as vxc_package
from vxc.cuda import nvrtc
from vxc.diag import Diagnostic, VxcError
from vxc.explain import measure, model
from vxc.ir.narrow import problem
from vxc.target import TARGETS

FILES = sorted(path.stem for path in SAMPLES.glob("*.vx"))
TYPES = {"int": int, "float": (int, float), "str": str, "list": list, "dict": dict}


def explained(*arguments, **more) -> dict:
    got = vxc("explain", *arguments, "--json", **more)
    assert got.status == 0, got.err
    return json.loads(got.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def launch(*arguments, **more) -> dict:
    """The launch of the only kernel that has blocks in this call."""
    (kernel,) = explained(*arguments, **more)["kernels"]
    (found,) = [x for x in kernel["launches"] if x["grid"]]
    return found


# ---- the schema ------------------------------------------------------------------------------------------------------


@cache
def documented() -> dict[str, str]:
    """Field -> type, as the README has them; `..x.y` is documented by its last part that has fields."""
    rows = {}
    for names, kind, _ in table("vxc/README.md", "What explain says"):
        rows |= dict.fromkeys(re.findall(r"`([^`]+)`", names), kind)
    return rows


def described(path: str) -> str | None:
    """The type of the field at a path such as `kernels[].launches[].loops[].line`."""
    owner, _, name = path.rpartition(".")
    return documented().get(path) or documented().get(f"..{owner.rpartition('.')[2]}.{name}")


def check(value, path: str) -> None:
    kind = described(path)
    assert kind is not None, f"{path} is not documented"
    if value is None:
        assert kind.endswith("?"), f"{path} is null"
        return
    assert isinstance(value, TYPES[kind.rstrip("?")]) and not isinstance(value, bool), f"{path} is {value!r}, and {kind} is documented"
    if isinstance(value, dict) and path != "kernels[].arrays":
        for name, part in value.items():
            check(part, f"{path}.{name}")
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict):
            for name, part in item.items():
                check(part, f"{path}[].{name}")
        elif path.endswith(".narrow"):
            assert problem(tuple(item)) is None, path
        else:
            assert type(item) is (int if "layouts" in path else str), path


def validate(document: dict) -> None:
    assert document["schema"] == model.SCHEMA == 4
    for name, value in document.items():
        check(value, name)


def test_the_documented_fields_are_those_of_the_data():
    own = {f.name for cls in vars(model).values() if is_dataclass(cls) for f in fields(cls)}
    assert {name.rpartition(".")[2] for name in documented()} == own


def test_the_validation_notices():
    document = explained("-", stdin=SCALE)
    validate(document)
    for change in ({"schema": None}, {"arch": 3}, {"colour": "red"}, {"kernels": [{"name": 1}]}):
        with pytest.raises(AssertionError):
            validate(document | change)


@pytest.mark.parametrize("name", FILES)
def test_every_sample(name):
    path = SAMPLES / f"{name}.vx"
    document = explained(path)
    validate(document)
    for kernel in document["kernels"]:
        assert kernel["launches"] and kernel["remarks"]
        for one in kernel["launches"]:
            assert one["resources"]["registers"] > 0
            if not one["grid"]:  # a launch for other sizes
                assert one["execution"] is one["traffic"] is None
                continue
            assert one["execution"]["warp_instructions"] > 0
            assert one["traffic"]["moved_bytes"] >= sum(a["moved_bytes"] or 0 for a in one["accesses"]) - len(one["accesses"])
            assert one["traffic"]["moved_bytes"] >= one["traffic"]["minimum_bytes"] > 0
            assert all((a["sectors_per_request"] or 0) >= (a["ideal_sectors_per_request"] or 0) for a in one["accesses"])


@pytest.mark.parametrize("name", ["softmax", "transpose_tile", "flash_splitk", "gemm"])
def test_text(name):
    got, again = (vxc("explain", SAMPLES / f"{name}.vx") for _ in range(2))
    assert (got.status, got.err, got.out) == (0, "", again.out)
    assert "nan" not in got.out and "None" not in got.out
    shown = [int(n) for n in re.findall(r"^ +(\d+) \| ", got.out, re.M)]
    lines = (SAMPLES / f"{name}.vx").read_text().splitlines()
    assert shown and all(f" | {lines[n - 1]}".rstrip() in got.out for n in shown)


def test_of_a_launch_for_other_sizes_there_is_only_what_its_code_takes():
    text = vxc("explain", SAMPLES / "transpose.vx").out
    (idle,) = (part for part in text.split("\n\n") if "not launched in this call" in part)
    assert [line.split()[0] for line in idle.splitlines()] == ["transpose_few:", "registers", "occupancy"]
    assert "0 %" not in idle


def test_the_same_bytes_each_time():
    assert len({vxc("explain", SAMPLES / "layernorm_tile.vx", "--json").raw for _ in range(2)}) == 1


# ---- figures ---------------------------------------------------------------------------------------------------------

COPY = """kernel f(x: f32[N], out y: f32[N]) {
    @vector(1) parallel i in N { y[i] = 2.0 * x[i] + 1.0; }
}
example f(x = rand(f32, 1024));
"""


def test_a_copy_moves_the_least():
    one = launch("-", "--arch", "sm_90a", stdin=COPY)
    assert (one["grid"], one["threads"], one["multiprocessors"]) == (4, 256, 132)
    traffic, done = one["traffic"], one["execution"]
    assert traffic["minimum_bytes"] == traffic["requested_bytes"] == traffic["moved_bytes"] == 8192
    assert (traffic["operations"], traffic["operations_per_byte"]) == (2048, 0.25)
    peak = TARGETS["sm_90a"].peak
    assert traffic["roofline"]["memory_microseconds"] == pytest.approx(8192 / (peak.memory_giga * 1e3), rel=1e-3)
    assert traffic["roofline"]["arithmetic_microseconds"] == pytest.approx(2048 / (peak.f32_tera * 1e6), rel=1e-3)
    assert (traffic["roofline"]["bound"], traffic["roofline"]["device"]) == ("memory", peak.device)
    assert (done["simulated_blocks"], done["active_lanes"], done["divergent_branches"], done["barriers"]) == (4, 32.0, 0, 0)
    assert [(a["buffer"], a["line"], a["kind"], a["space"], a["requests"]) for a in one["accesses"]] == [
        ("x", 2, "load", "global", 32), ("y", 2, "store", "global", 32)
    ]  # fmt: skip
    used = one["resources"]
    assert (used["blocks_per_multiprocessor"], used["warps_per_multiprocessor"], used["limited_by"]) == (8, 64, "threads")
    assert one["waves"] == pytest.approx(4 / (8 * 132), rel=5e-3)


def test_a_shifted_read_touches_one_sector_more():
    text = COPY.replace("i in N { y[i] = 2.0 * x[i] + 1.0", "i in N - 1 { y[i] = x[i + 1]")
    load, store = launch("-", "-a", "x=rand:f32[1025]", stdin=text)["accesses"]
    assert (load["sectors_per_request"], load["ideal_sectors_per_request"]) == (5.0, 4.0)
    assert (store["sectors_per_request"], store["ideal_sectors_per_request"]) == (4.0, 4.0)


PYTHON = "f: compiled with --aligned x=true --aligned y=true, as for a call from Python with these arrays; --dynamic leaves that open"


def test_a_large_grid_is_estimated_and_says_so():
    size = 256 * 10 * measure.MOST_BLOCKS
    (kernel,) = explained("-", "-a", f"x=rand:f32[{size}]", stdin=COPY)["kernels"]
    (one,) = kernel["launches"]
    assert (one["grid"], one["execution"]["simulated_blocks"]) == (10 * measure.MOST_BLOCKS, measure.MOST_BLOCKS)
    assert one["traffic"]["moved_bytes"] == one["traffic"]["minimum_bytes"] == 8 * size
    assert kernel["notes"] == [
        f"f: {measure.MOST_BLOCKS} of its {one['grid']:,} blocks were simulated, some from its start, its end and between; "
        "counts are estimated from them",
        PYTHON,
    ]


def test_what_an_array_costs_in_shared_memory():
    text = (SAMPLES / "transpose.vx").read_text().replace("parallel", "@vector(1) parallel")
    naive, tile = launch("-", stdin=text), launch(SAMPLES / "transpose_tile.vx")
    assert naive["traffic"]["moved_bytes"] > 4 * naive["traffic"]["minimum_bytes"]
    assert tile["traffic"]["moved_bytes"] < 2 * tile["traffic"]["minimum_bytes"]
    column = next(a for a in tile["accesses"] if (a["space"], a["kind"]) == ("shared", "load"))
    assert column["bank_conflicts"] == 1.0  # rows of 64 bytes: in order, two banks for 32 rows
    assert tile["execution"]["barriers"] == tile["grid"] * 8


def test_loops():
    for options, lanes, unroll in (((), 64, 4), (("--dynamic",), 32, 8)):  # a row of 1000 f32 in vectors of 4
        loops = {(x["line"], x["kind"]): x for x in launch(SAMPLES / "softmax.vx", *options)["loops"]}
        assert (loops[3, "parallel"]["thread_map"], loops[3, "parallel"]["lanes"]) == ("blocks", lanes)
        assert (loops[4, "max"]["thread_map"], loops[4, "max"]["lanes"], loops[4, "max"]["unroll"]) == ("lanes", lanes, unroll)
        assert loops[6, "parallel"]["thread_map"] == "lanes"
    (fused,) = launch(SAMPLES / "bias_gelu.vx")["loops"]
    assert (fused["index"], fused["thread_map"], fused["lanes"]) == ("i", "blocks", 1)
    assert fused["fused_with"] == [{"index": "j", "line": 3, "how": "nest"}]


# ---- what is missing, and what is wrong ------------------------------------------------------------------------------


def test_without_nvrtc_resources_are_missing_and_it_says_so(monkeypatch):
    def absent():
        raise VxcError(Diagnostic("E0601", "NVRTC, which compiles the CUDA text, cannot be loaded", help="install it"))

    monkeypatch.setattr(nvrtc, "supported_archs", absent)
    document = explained("-", stdin=COPY)
    validate(document)
    (kernel,) = document["kernels"]
    assert kernel["launches"][0]["resources"] is None and kernel["launches"][0]["waves"] is None
    assert kernel["launches"][0]["traffic"]["moved_bytes"] == 8192
    assert kernel["notes"] == ["registers and occupancy are not known: NVRTC, which compiles the CUDA text, cannot be loaded", PYTHON]
    got = vxc("explain", "-", stdin=COPY)
    assert got.status == 0 and "registers   " not in got.out and "\nnote: registers and occupancy are not known" in got.out


def test_without_an_example_sizes_are_missing_and_it_says_so():
    text = COPY.partition("example")[0]
    document = explained("-", stdin=text)
    validate(document)
    (kernel,) = document["kernels"]
    assert kernel["launches"][0]["traffic"] is None and kernel["launches"][0]["resources"]["registers"] > 0
    assert "no `example` line" in kernel["notes"][0]
    assert launch("-", "-a", "x=rand:f32[64]", stdin=text)["grid"] == 1


def test_sizes_that_options_give_are_enough_for_floats():
    text = COPY.partition("example")[0]
    (kernel,) = explained("-", "-D", "N=1024", stdin=text)["kernels"]
    assert kernel["launches"][0]["traffic"]["moved_bytes"] == 8192
    assert kernel["notes"][0].endswith("there is no `example` line and no -a: its arrays hold random numbers")
    integers = text.replace("x: f32", "x: i32").replace("x[i]", "(x[i] as f32)")
    for other in (integers, text.replace("out y", "a: f32, out y")):  # what may be an index, or decide how long it takes
        (kernel,) = explained("-", "-D", "N=1024", stdin=other)["kernels"]
        assert kernel["launches"][0]["traffic"] is None and "are not known" in kernel["notes"][0]
    (kernel,) = explained("-", "-D", f"N={2**40}", stdin=text)["kernels"]  # of which no arrays are made
    assert kernel["launches"][0]["traffic"] is None


def test_shared_memory_is_what_the_passes_say():
    (kernel,) = explained(SAMPLES / "topk.vx")["kernels"]
    said = [d["message"] for d in kernel["remarks"] if d["message"].endswith("bytes of shared memory a block")]
    assert {d["pass_name"] for d in kernel["remarks"] if d["message"] in said} == {"plan-shared", "lower-to-threads"}
    counted = [int(re.search(r"([\d,]+) bytes", text)[1].replace(",", "")) for text in said]
    assert sum(counted) == kernel["launches"][0]["resources"]["shared_bytes"]


def test_an_arch_without_peak_figures_has_no_roofline():
    assert TARGETS["sm_121"].peak is None
    one = launch("-", "--arch", "sm_121", stdin=COPY)
    assert one["traffic"]["roofline"] is None and one["traffic"]["operations"] == 2048


def test_no_elements_are_no_problem():
    document = explained("-", "-a", "x=rand:f32[0]", stdin=COPY)
    validate(document)
    assert document["kernels"][0]["launches"][0]["traffic"] is None


@pytest.mark.parametrize("count", [1, 2])
def test_every_kernel_or_the_named_one(count):
    names = [kernel["name"] for kernel in explained("-", *["-k", "inc"] * (count == 1), stdin=TWO)["kernels"]]
    assert names == (["inc"] if count == 1 else ["dbl", "inc"])


@pytest.mark.parametrize(
    "arguments, status, words",
    [
        (["-k", "nothing"], 1, "error[E0234]"),
        (["-a", "x=rand:f32[2,3]"], 1, "error[E0705]"),
        (["-a", "q=1"], 1, "error[E0708]: `f` has no parameter `q`"),
        (["-a", "x"], 2, "`x` is not NAME=VALUE"),
        (["--arch", "sm_99"], 1, "error[E0701]"),
        (["--maxrregcount", "3"], 2, "--maxrregcount"),
    ],
)
def test_bad_input(arguments, status, words):
    got = vxc("explain", "-", *arguments, stdin=COPY)
    assert (got.status, got.out) == (status, "") and words in got.err


def test_bad_input_in_the_file():
    got = vxc("explain", "-", "--json", stdin="kernel f(x: f32[N]) { y[0] = 1.0; }")
    assert got.status == 1 and json.loads(got.out)["diagnostics"][0]["code"] == "E0201"
    out_of_range = COPY.replace("x[i] +", "x[i + 1] +").replace("i in N {", "i in N { assert(N > 0);")
    got = vxc("explain", "-", stdin=out_of_range)
    assert got.status == 1 and "error[E0" in got.err
    assert vxc("explain", "-", stdin=vxc("compile", "-", "--emit", "ir", stdin=COPY).out).status == 2
    assert vxc("explain", "missing.vx").status == 1


# ---- the register cap ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads, most", [(128, 255), (512, 128), (1024, 64)])
def test_how_many_registers_a_block_leaves_to_each_thread(tmp_path, threads, most):
    file = tmp_path / "k.vx"
    body = f"@threads({threads}) grid b in 1 {{ parallel i in 64 {{ y[i] = 1.0; }} }}"
    file.write_text(f"kernel k(out y: f32[64]) {{ {body} }}\nexample k();\n")
    assert launch(file)["resources"]["register_limit"] == most
    assert f"a thread (at most {most})" in vxc("explain", file).out


def test_the_register_cap_by_option_and_by_environment(monkeypatch):
    free, capped = (launch(SAMPLES / "attention_naive.vx", *cap)["resources"] for cap in ([], ["--maxrregcount", 24]))
    assert [(x["register_cap"], x["register_limit"]) for x in (free, capped)] == [(None, 255), (24, 24)]
    assert capped["registers"] <= 24 < free["registers"]
    monkeypatch.setenv("VXC_MAXRREG", "24")
    assert launch(SAMPLES / "attention_naive.vx")["resources"] == capped
    assert launch(SAMPLES / "attention_naive.vx", "--maxrregcount", 40)["resources"]["register_cap"] == 40  # the option wins
    assert "24 registers" in vxc("run", SAMPLES / "attention_naive.vx", "--on", "flat").out
    (report,) = json.loads(vxc("compile", SAMPLES / "attention_naive.vx", "--emit", "cubin", "--json").out)
    (used,) = report["resources"].values()
    assert used == launch(SAMPLES / "attention_naive.vx", "--dynamic")["resources"] and used["register_cap"] == 24
    monkeypatch.setenv("VXC_MAXRREG", "many")
    got = vxc("explain", "-", stdin=COPY)
    assert got.status == 2 and "VXC_MAXRREG" in got.err


# ---- what a call from Python fixes -----------------------------------------------------------------------------------

ROWS = "kernel f(x: f16[M, N], out y: f32[M]) { parallel i in M { y[i] = sum(x[i] as f32); } }"


@pytest.mark.parametrize("length", [256, 252, 250])
def test_it_explains_the_kernel_that_python_compiles_and_says_how_to_see_it(length):
    given = ["-a", f"x=rand:f16[64,{length}]"]
    (kernel,) = explained("-", *given, stdin=ROWS)["kernels"]
    said = re.search(r"f: compiled with (.*), as for a call from Python with these arrays; --dynamic leaves", kernel["notes"][-1])
    options = said[1].split()
    ahead = vxc_package.kernel(ROWS).compile(vxc_package.ShapeDtype((64, length), "f16"), target="sm_90a")
    text = vxc("compile", "-", "--emit", "cuda", "--arch", "sm_90a", *options, stdin=ROWS).out
    assert text.replace("<stdin>", "<kernel>").rstrip() == ahead.cuda.rstrip()
    (same,) = explained("-", *given, *options, "--arch", "sm_90a", stdin=ROWS)["kernels"]
    assert same == {**kernel, "notes": []}
    (other,) = explained("-", *given, "--dynamic", stdin=ROWS)["kernels"]
    assert not other["notes"] and other["launches"] != kernel["launches"]


def test_a_reduction_in_an_iteration_of_one_thread():
    got = vxc("explain", "-", stdin="kernel f(x: f32[M, N], out m: f32[N]) { @lanes(1) parallel j in N { m[j] = absmax(x[:, j]); } }").out
    assert "parallel over j: one thread runs each iteration" in got
    assert "absmax: one thread goes through it alone" in got
