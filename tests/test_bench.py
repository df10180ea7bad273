"""The benchmark's cases, lines, record, freshness, timing and command, with made-up times: nothing here needs a GPU."""

from __future__ import annotations

import gc
import math
import sys
from types import SimpleNamespace

import bench
import numpy as np
import pytest
from bench_rows import RUNTIME, SOFTMAX, SUM, rows_of
from benching import first_call, launches, record, starts, timing
from benching.cases import ALWAYS, CASES, EVERY, FIRST_CALLS, LAUNCH, ROOT, SAMPLES, SUITES, Case, compiled, facts
from benching.ending import Stopped
from benching.record import calls_facts, line, peer_key, recorded, replaced, stale, write
from benching.reference import LAUNCHES, text
from benching.timing import relative_error

import vxc
from vxc.api.ahead import views_of
from vxc.binding import ArrayParam, signature
from vxc.diag import VxcError, read_source
from vxc.source import Source

FACTS = {"sample": "samples/rowsum.vx", "arch": "sm_90a", "flags": "-D N=64", "key": "k"}


# ---- cases -----------------------------------------------------------------------------------------------------------


def test_every_case_has_a_name_of_its_own_in_its_suite():
    assert len({(case.suite, case.name) for case in CASES}) == len(CASES)
    assert SUITES == ("rows", "columns", "elementwise", "transpose", "runtime", "misaligned", "dequant", "launch", "start", "tune")
    assert Case("rows", "softmax", "f16", (8191, 8193)).name == "softmax_f16_8191x8193"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.suite}-{case.name}")
def test_the_arrays_of_a_case_follow_from_its_sample(case):
    """Shapes are known, the dtype is that of the name, and there is one output to check and to poison."""
    params = signature(compiled(case, "sm_90a").plan.params)
    arrays = [p for p in params if isinstance(p, ArrayParam)]
    assert case.dtype in {p.dtype.name for p in arrays}
    sizes = {size for p in arrays for size in p.shape}
    assert all(isinstance(size, int) for size in sizes) if case.static else set(case.dims) <= sizes
    assert [p.mode for p in arrays].count("out") == 1 and not any(p.mode == "inout" for p in arrays)
    assert {p.name for p in params if p not in arrays} == {name for name, _ in SAMPLES[case.sample].scalars}


def test_every_case_has_all_peers_and_a_hand_written_kernel_where_there_is_one():
    assert SUM.peers == ("reference", *ALWAYS) and {"torch", "inductor", "triton", "cupy"} < set(ALWAYS)
    assert all(case.peers[-len(ALWAYS) :] == ALWAYS for case in CASES)
    assert RUNTIME.name in LAUNCHES and "reference" not in RUNTIME.peers
    assert set(LAUNCHES) <= {case.name for case in CASES}


def test_the_line_of_vxc_says_how_to_compile_what_ran():
    fixed, free = (facts(case, compiled(case, "sm_90a")) for case in (SUM, RUNTIME))
    lying = "--aligned x=true --aligned s=true"
    assert fixed["sample"] == "samples/rowsum.vx" and fixed["flags"] == f"-D T=f32 -D M=1048576 -D N=64 {lying}"
    assert free["flags"] == "-D T=f32" and free["key"] != fixed["key"]
    apart = SUM._replace(offset=4)
    found = facts(apart, compiled(apart, "sm_90a"))
    assert found["flags"].endswith("--aligned x=false --aligned s=true") and found["key"] != fixed["key"]


def test_hand_written_kernels_are_compiled_with_their_defines(tmp_path):
    launch = LAUNCHES["softmax_f16_16384x1000"]
    (tmp_path / "softmax_rows.cu").write_text("text")
    assert text(tmp_path, launch) == "#define HALF 1\n#define COLS 1000\n#define ROW_THREADS 32\n#define BLOCK 128\ntext"
    assert launch.grid == (4096,) and launch.block == 128


# ---- lines and the record --------------------------------------------------------------------------------------------


def test_a_line():
    assert line(SUM, "vxc", 0.1234567, 268435456, 1.23456e-7, "H", FACTS) == {
        "suite": "rows", "case": "rowsum_f32_1048576x64", "impl": "vxc", "ms": 0.12346, "gbps": 2174.3, "relerr": 1.23e-7,
        "device": "H", **FACTS,
    }  # fmt: skip
    counted = line(SUM._replace(flop=2 * 10**9), "torch", 0.5, 100, 0.0, "H", {"key": "k"})
    assert counted["tflops"] == 4.0 and "gbps" not in counted


def test_a_run_replaces_the_lines_of_its_cases_and_keeps_others():
    old = [*rows_of(SUM, vxc=1, reference=1, torch=1, gone=1), *rows_of(SOFTMAX, vxc=1)]
    new = rows_of(SUM, torch=2, vxc=2)
    rows = replaced(old, new, [SUM])
    assert [(row["case"], row["impl"], row["ms"]) for row in rows] == [
        (SUM.name, "vxc", 2), (SUM.name, "torch", 2), (SOFTMAX.name, "vxc", 1),
    ]  # fmt: skip
    left = replaced(old, new, [SUM], ("reference",))
    assert [(row["impl"], row["ms"]) for row in left] == [("vxc", 2), ("reference", 1), ("torch", 2), ("vxc", 1)]


def test_lines_of_cases_that_are_no_more_go():
    gone = rows_of(SUM._replace(shape=(1, 1)), vxc=1)
    assert replaced([*gone, *rows_of(SUM, vxc=1)], [], []) == rows_of(SUM, vxc=1)


def test_the_record_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "results" / "bench.jsonl"
    assert recorded(path) == []
    write(rows_of(SUM, vxc=1, torch=2), path)
    assert recorded(path) == rows_of(SUM, vxc=1, torch=2) and len(path.read_text().splitlines()) == 2
    before = path.read_text()

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr("vxc.runtime.arrays.os.replace", full)
    with pytest.raises(VxcError, match="no space left"):
        write(rows_of(SUM, vxc=3), path)
    assert path.read_text() == before and [p.name for p in path.parent.iterdir()] == ["bench.jsonl"]


# ---- freshness -------------------------------------------------------------------------------------------------------


@pytest.fixture
def current(tmp_path, monkeypatch):
    """A record that is of this code, of one case."""
    own = {**FACTS, **facts(SUM, compiled(SUM, "sm_90a"))}
    rows = [line(SUM, i, 1.0, 1, 0.0, "H", own if i == "vxc" else {"key": peer_key(SUM, i)}) for i in ("vxc", *SUM.peers)]
    monkeypatch.setattr(record, "RECORD", tmp_path / "bench.jsonl")
    monkeypatch.setattr(bench, "recorded", lambda: rows)
    return rows


def test_a_record_of_this_code_is_fresh(current, capsys):
    assert bench.fresh([SUM]) == 0
    assert capsys.readouterr().out == "7 of 7 lines are current; recorded on H\n"


def test_stale_and_missing_lines_are_named(current, capsys):
    current[0]["key"] = "another"
    del current[3]
    assert stale(current, [SUM]) == [("stale", SUM, "vxc"), ("missing", SUM, "torch")]
    assert bench.fresh([SUM, RUNTIME]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[1:3] == ["stale: rows rowsum_f32_1048576x64: vxc", "missing: rows rowsum_f32_1048576x64: torch"]
    assert said[3].startswith("missing: runtime rowsum_f32_1048576x64: vxc, copy, torch, ") and said[0].startswith("5 of 13 lines")


def test_a_kernel_that_changed_and_a_comment_that_did_not(current, monkeypatch):
    source = read_source(record.ROOT / SUM.path)

    def edited(old: str, new: str) -> list:
        changed = Source(source.name, source.text.replace(old, new))
        assert changed.text != source.text
        monkeypatch.setattr("benching.cases.read_source", lambda path: changed)
        return stale(current, [SUM])

    assert edited("# The sum", "# A sum") == []
    assert edited("sum(x[i])", "max(x[i])") == [("stale", SUM, "vxc")]


@pytest.mark.parametrize("case", [LAUNCH, *FIRST_CALLS], ids=lambda case: case.name)
def test_the_lines_of_calls_say_what_is_called(case):
    """Those of vxc, for others call no text of vxc's. The options are those that such a call chooses by itself."""
    figures = (6.0, 5.0) if case is LAUNCH else (0.5,)
    for impl in case.impls:
        row = (launches if case is LAUNCH else starts).line(case, impl, *figures, "H")
        ours = {"sample", "flags"} if impl.startswith("vxc") else set()
        assert set(row) == {"suite", "case", "impl", "device", "key", *({"us", "over"} if case is LAUNCH else {"s"}), *ours}
    kernel = vxc.kernel(launches.KERNEL) if case is LAUNCH else vxc.load(ROOT / "samples" / "softmax.vx").softmax
    shapes = [vxc.ShapeDtype(first_call.SHAPE if case in FIRST_CALLS else (128,), "f32")] * 2
    chosen = kernel._calls.specialise(views_of(kernel._signature, shapes, {}))
    flags = [f"-D {name}={value}" for name, value in chosen.defines]
    flags += [f"--aligned {name}={str(lies).lower()}" for name, lies in chosen.aligned]
    assert sorted(calls_facts(case.suite, "vxc")["flags"].replace(" -", "\n-").split("\n")) == sorted(flags)
    assert (ROOT / calls_facts(case.suite, "vxc")["sample"]).is_file()


def test_a_line_of_a_call_is_of_the_fast_path(monkeypatch, tmp_path):
    rows = [launches.line(LAUNCH, impl, 6.0, 5.0, "H") for impl in LAUNCH.impls]
    assert stale(rows, [LAUNCH]) == [] and set(launches.SAID) == set(LAUNCH.impls)
    rows[0]["key"] = "another"
    assert stale(rows[:-1], [LAUNCH]) == [("stale", LAUNCH, "vxc"), ("missing", LAUNCH, "triton")]
    assert replaced([], rows, []) == rows and record.calls_key("launch", "vxc") != record.calls_key("launch", "driver")


# ---- timing ----------------------------------------------------------------------------------------------------------


def test_calls_are_timed_where_nothing_disturbs_the_host():
    """Which is at half its speed two thirds of the time, in stretches longer than a round: medians are of that."""
    order: list[str] = []

    def timer(way: tuple[str, float]) -> float:
        order.append(way[0])
        return way[1] * (1.0 if len(order) // 70 % 3 == 0 else 2.0)

    ways = {name: (name, us) for name, us in (("driver", 4.0), ("vxc", 4.75), ("again", 4.75))}
    assert launches.undisturbed(ways, timer) == {"driver": 4.0, "vxc": 4.75, "again": 4.75}
    assert len(order) == 3 * launches.ROUNDS and order[:7] == ["driver", "vxc", "again", "vxc", "again", "driver", "again"]


def test_the_collector_is_off_only_while_calls_are_timed():
    with pytest.raises(KeyError), launches.uncollected():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()


@pytest.mark.parametrize("chunk", [1, 12, 1000])
def test_the_error_is_that_of_the_whole_whatever_the_chunk(chunk):
    x = np.arange(28.0).reshape(7, 4)
    y, wrong = 2 * x, 2 * x
    wrong[5, 2] += 13.5
    assert relative_error(y, lambda x: 2 * x, [x], 0, chunk) == 0.0
    assert relative_error(wrong, lambda x: 2 * x, [x], 0, chunk) == 13.5 / 54
    assert relative_error(wrong.T, lambda x: (2 * x).T, [x], 1, chunk) == 13.5 / 54
    assert relative_error(np.repeat(wrong, 3, 0), lambda x: np.repeat(2 * x, 3, 0), [x], 0, chunk) == 13.5 / 54
    assert relative_error(np.array([x.sum()]), lambda x: x.sum().reshape(1), [x], None, chunk) == 0.0
    row = np.ones(4)
    assert relative_error(x + row, lambda x, row: x + row, [x, row], 0, chunk) == 0.0


def test_what_is_not_written_is_no_result():
    x = np.ones((4, 4))
    out = x.copy()
    out[2, 1] = math.nan
    assert math.isnan(relative_error(out, lambda x: x, [x], 0, 4))


def test_what_fails_is_said_and_the_others_are_timed(monkeypatch):
    """A peer that fails, and a result that is wrong, cost the run its success but not the rest of the case."""
    kernel = SimpleNamespace(facts=FACTS)

    def ready(impl, *_):
        if impl == "triton":
            raise RuntimeError("no such thing")
        return impl, None, []

    def error(impl, *_):
        if impl == "cupy":
            raise timing.Problem("the result is wrong")
        return 0.5

    world = {
        "arrays": lambda *_: SimpleNamespace(nbytes=8), "ready": ready, "error": error,
        "race": lambda cuda, device, runs: {name: len(name) for name in runs}, "driver": object,
        "import_module": lambda name: SimpleNamespace(__version__="1"),
    }  # fmt: skip
    for name, value in world.items():
        monkeypatch.setattr(timing, name, value)
    cuda = SimpleNamespace(get_device_name=lambda: "H", empty_cache=list, current_device=int)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    lines, problems = timing.measured(SUM, kernel, None)
    assert [(row["impl"], row["ms"], row["relerr"]) for row in lines] == [
        ("vxc", 3, 0.5), ("copy", 4, 0.5), ("torch", 5, 0.5), ("inductor", 8, 0.5),
    ]  # fmt: skip
    where = "rows rowsum_f32_1048576x64"
    assert problems == [f"{where} triton: RuntimeError: no such thing", f"{where} cupy: Problem: the result is wrong"]


# ---- the command -----------------------------------------------------------------------------------------------------


def test_suites_and_names_choose():
    assert bench.chosen([], []) == list(EVERY) and bench.chosen(["launch"], []) == [LAUNCH]
    assert bench.chosen(["runtime"], [SUM.name]) == [RUNTIME]
    assert {case.suite for case in bench.chosen([], [SUM.name])} == {"rows", "runtime"}


@pytest.mark.parametrize(
    "arguments, said",
    [(["row"], "no suite `row`: rows, "), (["rows", "--case", "x"], "no case `x`: rowdot_"), (["--reference", "/x"], "/x is no folder")],
)
def test_what_is_not_there_is_refused(arguments, said, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["bench.py", *arguments])
    with pytest.raises(SystemExit) as stopped:
        bench.main()
    assert stopped.value.code == 2 and said in capsys.readouterr().err


def test_a_record_without_a_case_is_not_drawn(monkeypatch):
    monkeypatch.setattr("sys.argv", ["bench.py", "--plot"])
    monkeypatch.setattr(bench, "needed", lambda *packages: None)
    monkeypatch.setattr(bench, "recorded", lambda: rows_of(SUM, torch=1.0))
    with pytest.raises(Stopped, match="no case to draw"):
        bench.main()


def test_a_run_writes_what_it_has_and_fails_where_something_did(tmp_path, monkeypatch, capsys):
    path = tmp_path / "bench.jsonl"
    write(rows_of(SUM, vxc=9, reference=8, torch=7), path)
    monkeypatch.setattr(bench, "recorded", lambda: recorded(path))
    monkeypatch.setattr(bench, "write", lambda rows: write(rows, path))
    problems = []

    def measure(case, made, reference):
        return rows_of(case, vxc=1.0, **({"reference": 2.0} if reference else {})), problems

    assert bench.timed([SUM], [None], measure, None) == 0
    assert [(row["impl"], row["ms"]) for row in recorded(path)] == [("vxc", 1.0), ("reference", 8)]
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "rows rowsum_f32_1048576x64: vxc 1.0000" and said[1].startswith("no --reference: ")
    problems.append("torch: no")
    assert bench.timed([SUM], [None], measure, tmp_path) == 3
    assert [(row["impl"], row["ms"]) for row in recorded(path)] == [("vxc", 1.0), ("reference", 2.0)]
    assert capsys.readouterr().err == "failed: torch: no\n"


def test_the_record_of_this_repository_is_in_order():
    rows, dtypes = recorded(), {(case.suite, case.name): case.dtype for case in CASES}
    assert rows and replaced(rows, [], []) == rows
    kernels = [row for row in rows if "ms" in row]
    assert [row for row in kernels if not row["relerr"] <= timing.TOLERANCE[dtypes[row["suite"], row["case"]]]] == []
