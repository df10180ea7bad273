"""The whole path: names, stages, resuming from IR, remarks, resources of what comes out, and what importing costs."""

from __future__ import annotations

import gc
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pytest

import vxc
from vxc.collector import COLLECTOR, _Collector
from vxc.cuda.emit import emit
from vxc.diag import VxcError
from vxc.driver import compile, compile_ir
from vxc.interp.flat_interp import run_flat
from vxc.ir.printer import print_plan
from vxc.pipeline import PASSES, PIPELINE
from vxc.source import Source

SOFTMAX = """kernel softmax<T: dtype>(x: T[M, N], out y: T[M, N]) {
    parallel i in M {
        let m = max(x[i]);
        let z = sum(exp(x[i] - m));
        y[i] = exp(x[i] - m) / z;
    }
}
example softmax(x = rand(f32, 37, 1000));
"""
TRANSPOSE = "kernel transpose(x: f16[M, N], out y: f16[N, M]) { parallel j in N, i in M { y[j, i] = x[i, j]; } }\n"
COUNTS = "kernel counts(x: i32[N], inout n: i32[8]) { parallel i in N { atomic_add(n[x[i] % 8], 1); } }\n"
FAST = """extern fn fast(x: f32) -> f32 = "return __sinf(x);" { return sin(x); }
kernel waves(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = fast(x[i]) + fast(2.0); } }
"""


def source(text: str, name: str = "f.vx") -> Source:
    return Source(name, text)


def refused(code: str, run) -> str:
    with pytest.raises(VxcError) as caught:
        run()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code and diagnostic.help
    return diagnostic.message


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_softmax_compiles_without_spills(arch):
    compiled = compile(source(SOFTMAX), target=arch)
    used = compiled.binary.kernels[compiled.symbol("softmax")]
    assert 0 < used.registers <= 64 and used.spill_stores == used.spill_loads == used.stack == 0
    assert compiled.binary.arch == arch and f".target {arch}" in compiled.ptx
    assert "softmax" in compiled.cuda and '#line 3 "f.vx"' in compiled.cuda


@pytest.mark.parametrize("text", [TRANSPOSE, COUNTS, FAST])
def test_kernels_compile_from_text_to_machine_code(text):
    for debug in (False, True):
        compiled = compile(source(text), debug=debug)
        assert compiled.binary.cubin and all(r.registers for r in compiled.binary.kernels.values())
        assert ("vx_fail" in compiled.cuda) == debug


def test_generics_dims_chunks_and_registers_reach_the_code():
    wide = compile(source(SOFTMAX), defines={"N": 64}, reduce_chunk=2, maxrregcount=24)
    assert "[2]" in wide.cuda and "&x[(i * 64) + " in wide.cuda.replace("(long long)", "")
    assert wide.binary.kernels["softmax"].registers <= 24
    half = compile(source(SOFTMAX), defines={"T": vxc.dtypes.F16})
    assert "const __half* __restrict__ x" in half.cuda


def test_the_plan_after_each_pass_is_kept():
    compiled = compile(source(SOFTMAX))
    assert compiled.tile.kernels[0].stage == "tile" and compiled.tile.kernels[0].done == ()
    assert [compiled.after(name).kernels[0].done[-1] for name in PASSES] == list(PASSES)
    assert compiled.plan == compiled.after(PIPELINE.passes[-1].name) and compiled.plan.kernels[0].stage == "thread"
    assert any(r.kind == "applied" and r.kernel == "softmax" for r in compiled.remarks)
    with pytest.raises(KeyError):
        compiled.after("no-such-pass")


@pytest.mark.parametrize("name", list(PASSES))
def test_compiling_ir_goes_on_after_its_last_pass(name):
    compiled = compile(source(SOFTMAX))
    again = compile_ir(source(print_plan(compiled.after(name)), "f.vxir"))
    assert again.plan == compiled.plan and again.typed is None and again.source.name == "f.vxir"
    assert emit(again.plan, lines=False) == emit(compiled.plan, lines=False)


HAND_WRITTEN = """
kernel @one(@y: f32[4] out) stage=thread {threads=32} {
  store @y, 0, 1.0:f32
}
"""


def test_ir_written_by_hand_below_stage_tile_compiles_from_there():
    compiled = compile_ir(source(HAND_WRITTEN, "one.vxir"))
    assert set(compiled.binary.kernels) == {"one"}
    assert "y[0] = 1.0f;" in compiled.cuda


def test_ir_with_passes_in_another_order_is_refused():
    text = HAND_WRITTEN.replace("stage=thread", "stage=thread done=[simplify]")
    message = refused("E0523", lambda: compile_ir(source(text, "one.vxir")))
    assert message.startswith("kernel one has done [simplify], which is no beginning of [prove-parallel, simplify")


def test_the_only_kernel_needs_no_name_and_others_are_listed():
    two = source(TRANSPOSE + COUNTS)
    assert compile(two, "counts").plan.name == "counts"
    assert refused("E0234", lambda: compile(two)) == "f.vx defines 2 kernels: `transpose`, `counts`"
    assert refused("E0234", lambda: compile(source("fn f(x: f32) -> f32 { return x; }"))) == "f.vx defines no kernel"


def test_a_mistake_in_extern_text_is_shown_at_its_call():
    compiled = compile(source(FAST.replace("__sinf", "no_such")))
    with pytest.raises(VxcError) as caught:
        compiled.binary
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "E0702" and diagnostic.place.startswith("f.vx:2:") and "no_such" in diagnostic.message


def test_the_cycle_collector_is_as_it_was_after_compiling():
    for was_on in (True, False):
        (gc.enable if was_on else gc.disable)()
        try:
            compile(source(COUNTS))
            refused("E0234", lambda: compile(source(TRANSPOSE + COUNTS)))
            assert gc.isenabled() is was_on
        finally:
            gc.enable()


@pytest.mark.parametrize("frozen", [False, True])
def test_what_is_there_when_the_first_thing_has_compiled_counts_as_old(frozen):
    def is_old(thing: list) -> bool:
        return any(thing is other for other in gc.get_objects(generation=2))

    collector, made = _Collector(), []
    if frozen:
        gc.freeze()
    try:
        before = gc.get_freeze_count()
        for _ in range(2):
            with collector.paused():
                made.append([[]])
        assert gc.get_freeze_count() == before  # nobody's objects thaw
        assert [is_old(thing) for thing in made] == [not frozen, False]
    finally:
        gc.unfreeze()


def test_the_cycle_collector_is_off_until_the_last_thread_has_compiled():
    seen = []
    with ExitStack() as first, ExitStack() as second:
        try:
            first.enter_context(COLLECTOR.paused())
            second.enter_context(COLLECTOR.paused())
            first.close()  # whoever came first may end first
            seen.append(gc.isenabled())
            second.close()
            seen.append(gc.isenabled())
        finally:
            gc.enable()
    assert seen == [False, True]
    with ThreadPoolExecutor(4) as pool:
        assert len({compiled.cuda for compiled in pool.map(lambda _: compile(source(COUNTS)), range(8))}) == 1
    assert gc.isenabled()


LIGHT = "['vxc.codes', 'vxc.record', 'vxc.source', 'vxc.diag', 'vxc.target']\n"  # `vxc.target` is a function of the package, too


def test_importing_vxc_loads_nothing_else():
    code = "import sys, vxc; print([m for m in sys.modules if m.startswith('vxc.') or m in ('numpy', 'lark', 'click')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == LIGHT
    code = "import sys, vxc; vxc.compile, vxc.Source, vxc.VxcError; print([m for m in sys.modules if m in ('cuda', 'pycuda', 'click')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
    with pytest.raises(AttributeError, match="no attribute 'no_such'"):
        vxc.no_such


# ---- files that are imported -----------------------------------------------------------------------------------------

LIBRARY = "\n" * 8 + """kernel sums(x: f32[N], out y: f32[N]) { parallel i in N { y[0] = x[i]; } }
kernel parts(x: i64[N], n: i64, out y: i64[N // 2]) { parallel i in N // 2 { y[i] = x[i] // n; } }
"""


def imported(tmp_path, text: str):
    (tmp_path / "lib.vx").write_text(LIBRARY)
    return Source(str(tmp_path / "main.vx"), f'import "lib.vx"; {text}')


def test_places_of_an_imported_kernel_are_in_its_file(tmp_path):
    with pytest.raises(VxcError) as caught:
        compile(imported(tmp_path, "program p(x: f32[N], out y: f32[N]) { sums(x, y); }"))
    assert [(d.code, d.place) for d in caught.value.diagnostics] == [("E0312", f"{tmp_path / 'lib.vx'}:9:59")]
    column = LIBRARY.split("\n")[9].index("x[i] //") + 1
    made = compile(imported(tmp_path, "program p(x: i64[N], n: i64, out y: i64[N // 2]) { parts(x, n, y); }"), debug=True)
    assert f'#line 10 "{tmp_path / "lib.vx"}"' in made.cuda and f"{tmp_path / 'lib.vx'}:10:{column}: error[E0724]" in made.cuda
    with pytest.raises(VxcError) as caught:
        run_flat(made.plan, {"x": np.ones(4, np.int64)}, {"n": 0}, trap_div=True)
    assert caught.value.diagnostics[0].place == f"{tmp_path / 'lib.vx'}:10:{column}"


def test_what_a_call_requires_is_placed_at_the_call(tmp_path):
    source = imported(tmp_path, "program p(x: i64[N], n: i64, out y: i64[M]) { parts(x, n, y); }")
    with pytest.raises(VxcError) as caught:
        run_flat(compile(source).plan, {"x": np.ones(4, np.int64), "y": np.ones(3, np.int64)}, {"n": 1}, source=source)
    found = caught.value.diagnostics[0]
    assert (found.code, found.place) == ("E0705", f"{tmp_path / 'main.vx'}:1:{source.text.index('parts(') + 1}")
