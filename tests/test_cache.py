"""What is kept of compiled kernels: that a later process gets the same without compiling, and never what was made of something else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_cuda import SHIFT, Device, floats

import vxc
from vxc.api import authoring, building, compiling
from vxc.api.compiling import remembered, signatures
from vxc.api.signatures import of_plain, plain
from vxc.cache import places
from vxc.cuda import cached
from vxc.cuda.nvrtc import Binary, compile_cuda
from vxc.diag import read_source
from vxc.driver import Compiled, compile
from vxc.dtypes import F32
from vxc.frontend.check import kernel_names
from vxc.frontend.parse import parse
from vxc.ir import heads
from vxc.runtime.arrays import ArrayView
from vxc.source import Source

ROOT = Path(__file__).parent.parent
BINARY = Compiled.__dict__["binary"]  # the fixture `cuda` has its own
TWICE = "kernel twice(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = 2.0 * x[i]; } }"
SUMS = "kernel sums<T: dtype>(x: T[M, N], out y: f32[M]) { parallel i in M { y[i] = sum(x[i]); } }"
VECTOR, MATRIX = vxc.ShapeDtype((8,), "f32"), vxc.ShapeDtype((4, 64), "f32")


@pytest.fixture
def folder(monkeypatch, tmp_path) -> Path:
    """The cache, on and empty."""
    monkeypatch.setenv("VXC_CACHE", "1")
    monkeypatch.setenv("VXC_CACHE_DIR", str(tmp_path / "cache"))
    signatures.cache_clear()
    return tmp_path / "cache"


@pytest.fixture
def work(folder, monkeypatch) -> Counter:
    """How often what is counted was done: texts read, sizes found out, passes run, NVRTC called (which makes up machine code)."""
    count: Counter = Counter()

    def counting(name, real):
        return lambda *a, **k: (count.update([name]), real(*a, **k))[1]

    for name in ("signatures", "row_dims", "compiled"):
        monkeypatch.setattr(building, name, counting(name, getattr(building, name)))
    fake = counting("nvrtc", lambda text, name, arch, *_, **__: Binary(arch, text.encode(), "", "", {}))
    monkeypatch.setattr(cached, "compile_cuda", fake)
    return count


def lying(*strides: int) -> dict[str, ArrayView]:
    """An argument `x` of shape [4, 64]."""
    return {"x": ArrayView(0, (4, 64), strides, F32, 4, False, "cuda")}


def kept(folder: Path) -> list[str]:
    return sorted(path.name.partition("-")[0] for path in folder.iterdir())


ALL = ["code", "plan", "rows", "source"]
ONCE = {"signatures": 1, "row_dims": 1, "compiled": 1, "nvrtc": 1}


# ---- nothing is done twice ---------------------------------------------------------------------------------------------


def test_the_second_time_nothing_is_done(work, folder):
    first = vxc.kernel(SUMS).compile(MATRIX)
    assert first.cubin and work == ONCE and kept(folder) == ALL
    signatures.cache_clear()
    second = vxc.kernel(SUMS).compile(MATRIX)
    assert (second.cubin, second.resources, second.ptx) == (first.cubin, first.resources, first.ptx) and work == ONCE
    assert second.ir("final") == first.ir("final") and "__global__" in second.cuda  # which is not kept


def test_what_is_kept_is_what_was_made(folder):
    k = vxc.kernel(SUMS)
    made = k.compile(MATRIX)
    binary = made.made.binary
    spec = k._calls.specialise(lying(64, 1))
    assert k._calls.built(spec, "sm_90a").binary == binary and binary.kernels and binary.log
    again = remembered(k._calls.recipe, spec, "sm_90a")
    assert again.binary == binary and again.plan == headless(made.made.plan) and again.source is k._calls.recipe.source


@pytest.mark.parametrize("path", sorted((ROOT / "samples").glob("*.vx")), ids=lambda path: path.stem)
def test_heads_of_plans_and_signatures_survive_json(path):
    source = read_source(str(path))
    for name in kernel_names(parse(source)):
        plan = compile(source, name).plan
        assert heads.of_plain(json.loads(json.dumps(heads.plain(plan)))) == headless(plan)
    found, _ = building.signatures(source)
    assert found and tuple(of_plain(json.loads(json.dumps(plain(k)))) for k in found) == found


def headless(plan):
    return plan.with_kernels(replace(kernel, insts=(), done=()) for kernel in plan.kernels)


WARM = """
import sys, vxc
made = vxc.load("samples/softmax.vx").softmax.compile(vxc.ShapeDtype((64, 1000), "f16"), target="sm_90a")
print(len(made.cubin), *sorted({"lark", "vxc.driver", "vxc.frontend.parse", "vxc.pipeline", "vxc.interp.flat_interp"} & set(sys.modules)))
"""


def python(code: str, folder: Path, **more: str) -> subprocess.Popen:
    environment = {**os.environ, "VXC_CACHE": "1", "VXC_CACHE_DIR": str(folder), **more}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", code], **pipes, text=True, cwd=ROOT, env=environment)


def test_a_later_process_does_not_even_import_the_compiler(tmp_path):
    cold, warm = (python(WARM, tmp_path).communicate(timeout=120) for _ in range(2))
    size, *modules = cold[0].split()
    assert cold[1] == warm[1] == "" and "vxc.driver" in modules and warm[0].split() == [size]


def test_calls_go_through_the_cache(work, cuda, monkeypatch, folder):
    monkeypatch.setattr(Compiled, "binary", BINARY)
    compile_real, kernels = building.compiled, {}  # the machine code is real, and the driver interprets what it was made of

    def compiled(*arguments):
        made = compile_real(*arguments)
        kernels.update( {made.symbol(kernel.name): kernel for kernel in made.plan.kernels})
        return made

    monkeypatch.setattr(building, "compiled", compiled)
    monkeypatch.setattr(cuda, "function", lambda module, name: kernels[name])
    for _ in range(2):
        y = np.zeros(6, np.float32)
        vxc.kernel(SHIFT)(Device(floats(6)), Device(y), 3)
        assert np.array_equal(y, floats(6) + 3) and work == ONCE and kept(folder) == ALL
        signatures.cache_clear()


# ---- what a name stands for --------------------------------------------------------------------------------------------


def compiles(work: Counter, text: str, *shapes, name: str = "k.vx", **options) -> bool:
    """Whether the machine code of this is newly made."""
    signatures.cache_clear()
    before = work["nvrtc"], work["compiled"]
    define, target = options.pop("define", {}), options.pop("target", "sm_90a")
    module = authoring._module(Source(name, text), None, options.pop("debug", False), options.pop("maxrregcount", None))
    (kernel,) = (getattr(module, name) for name in module)
    kernel.define(**define).compile(*shapes, target=target).cubin
    return (work["nvrtc"], work["compiled"]) != before


def test_another_meaning_is_another_entry(work):
    assert compiles(work, SUMS, MATRIX)
    for text, shape, options in [
        (SUMS.replace("sum(", "max("), MATRIX, {}),
        (SUMS, vxc.ShapeDtype((4, 65), "f32"), {}),
        (SUMS, vxc.ShapeDtype((4, 64), "f16"), {}),
        (SUMS, MATRIX, {"target": "sm_80"}),
        (SUMS, MATRIX, {"debug": True}),
        (SUMS, MATRIX, {"maxrregcount": 32}),
        (SUMS, MATRIX, {"define": {"M": 4}}),
    ]:
        assert compiles(work, text, shape, **options) and not compiles(work, text, shape, **options), (text, shape, options)
    assert not compiles(work, SUMS, MATRIX) and not compiles(work, SUMS, vxc.ShapeDtype((9, 64), "f32"))


def test_the_name_of_a_file_matters_where_it_is_printed_only(work):
    assert compiles(work, SUMS, MATRIX, name="one.vx") and not compiles(work, SUMS, MATRIX, name="two.vx")
    assert compiles(work, SUMS, MATRIX, name="one.vx", debug=True) and compiles(work, SUMS, MATRIX, name="two.vx", debug=True)


def test_arrays_with_strides_are_told_apart(folder, work):
    k = vxc.kernel("kernel copied(x: f32[M, N], out y: f32[M, N]) { parallel i in M, j in N { y[i, j] = x[i, j]; } }")
    sizes = {len(k._calls.built(k._calls.specialise(lying(*steps)), "sm_90a").plan.params) for steps in ((64, 1), (1, 4), (128, 2))}
    assert len(sizes) == 3 and work["nvrtc"] == 3
    again = k.define()
    for steps in ((64, 1), (1, 4), (128, 2), (999, 3)):
        assert again._calls.remembered(again._calls.specialise(lying(*steps)), "sm_90a")


@pytest.mark.parametrize("changed", ["compiler", "NVRTC or headers"])
def test_with_another_version_all_is_made_anew(work, monkeypatch, changed):
    assert compiles(work, TWICE, VECTOR) and not compiles(work, TWICE, VECTOR)
    if changed == "compiler":
        monkeypatch.setattr(places, "code_digest", lambda: "other")
    else:
        for module in (cached, compiling):
            monkeypatch.setattr(module, "toolchain", lambda: "nvrtc 99.0")
    assert compiles(work, TWICE, VECTOR) and not compiles(work, TWICE, VECTOR)


def test_what_a_file_imports_is_part_of_it(work, tmp_path):
    (tmp_path / "k.vx").write_text('import "f.vx";\nkernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = f(x[i]); } }\n')
    texts = []
    for factor in ("2.0", "3.0", "2.0"):
        (tmp_path / "f.vx").write_text(f"fn f(x: f32) -> f32 {{ return {factor} * x; }}\n")
        texts.append(vxc.load(tmp_path / "k.vx").k.compile(VECTOR).cubin)
        signatures.cache_clear()
    assert texts[0] == texts[2] != texts[1] and work["compiled"] == 3 and work["nvrtc"] == 2


EXTERN = """extern fn h(x: f32) -> f32 = "TEXT return FACTOR * x;" { return x; }
kernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = h(x[i]); } }
"""


def test_a_text_that_includes_files_gives_what_they_hold_now(folder, tmp_path):
    header, codes = tmp_path / "factor.cuh", []
    text = EXTERN.replace("TEXT", f'\\n#include \\"{header}\\"\\n')
    for factor in ("2.0f", "3.0f", "2.0f"):
        header.write_text(f"#define FACTOR {factor}\n")
        codes.append(vxc.kernel(text).compile(VECTOR).cubin)
    assert codes[0] == codes[2] != codes[1] and kept(folder) == ["rows", "source"]


@pytest.mark.parametrize(
    "more",
    [
        r"\n#include <f.h>\n", r"\n # \t include_next <f.h>\n", r"\n#/* */include <f.h>\n", r"\n#inc\\\nlude <f.h>\n",
        r"\n%:include <f.h>\n", r"\n#import <f.h>\n", r"\n#define F <f.h>\n#include F\n", r"\n#if __has_include(<f.h>)\n#endif\n",
        "int line = __LINE__ + sizeof(__FILE__);", "const char* now = __TIME__;",
    ],
)  # fmt: skip
def test_what_depends_on_more_than_its_text_is_not_kept(work, more):
    text = EXTERN.replace("TEXT", more)
    assert compiles(work, text, VECTOR) and compiles(work, text, VECTOR) and work["nvrtc"] == 2


@pytest.mark.parametrize("more", [r"\n#include <cuda_fp16.h>\n", r"\n#define include 1\n", "// includes nothing\\n", "int import = 1;"])
def test_what_depends_on_its_text_alone_is_kept(work, more):
    text = EXTERN.replace("TEXT", more)
    assert compiles(work, text, VECTOR) and not compiles(work, text, VECTOR)


# ---- trouble -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
def test_a_damaged_or_missing_entry_is_made_again(work, folder, kind):
    for spoil in (lambda path: path.write_bytes(path.read_bytes()[:-1]), lambda path: path.unlink()):
        compiles(work, TWICE, VECTOR)
        (path,) = folder.glob(f"{kind}-*")
        whole = path.read_bytes()
        spoil(path)
        compiles(work, TWICE, VECTOR)
        assert path.read_bytes() == whole and kept(folder) == ALL and not compiles(work, TWICE, VECTOR)


def test_without_a_cache_all_works_and_nothing_is_kept(work, monkeypatch, folder):
    monkeypatch.setenv("VXC_CACHE", "0")
    assert compiles(work, TWICE, VECTOR) and compiles(work, TWICE, VECTOR) and not folder.exists()


def test_a_folder_that_cannot_be_is_no_trouble(work, monkeypatch, tmp_path, caplog):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("VXC_CACHE_DIR", str(tmp_path / "file"))
    assert compiles(work, TWICE, VECTOR) and compiles(work, TWICE, VECTOR) and len(caplog.records) == 1


def test_what_is_wrong_is_said_each_time(work, folder):
    for _ in range(2):
        signatures.cache_clear()
        with pytest.raises(vxc.CompileError, match="z"):
            vxc.kernel("kernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = z; } }").compile(VECTOR)
        with pytest.raises(vxc.CompileError):
            vxc.kernel("kernel k(")
    assert not folder.exists() or kept(folder) == ["source"]


NO_NVRTC = """
import sys
sys.modules["cuda.bindings.nvrtc"] = None
import vxc
made = vxc.load("samples/softmax.vx").softmax.compile(vxc.ShapeDtype((64, 1000), "f16"), target="sm_90a")
print("stage=thread" in made.ir("final"), "__global__" in made.cuda)
try:
    made.cubin
except vxc.CompileError as error:
    print(error.diagnostics[0].code)
"""


def test_without_nvrtc_what_needs_none_works(tmp_path):
    assert python(NO_NVRTC, tmp_path).communicate(timeout=120) == ("True True\nE0601\n", "")


SAME = """
import vxc
made = vxc.load("samples/softmax.vx").softmax.compile(vxc.ShapeDtype((64, 1000), "f16"), target="sm_90a")
import hashlib; print(hashlib.sha256(made.cubin).hexdigest())
"""


def test_sixteen_processes_that_compile_one_kernel_leave_what_one_leaves(tmp_path):
    crowd = [python(SAME, tmp_path) for _ in range(16)]
    outputs = [process.communicate(timeout=300) for process in crowd]
    assert len({out for out, _ in outputs}) == 1 and outputs[0][0] and {err for _, err in outputs} == {""}
    assert kept(tmp_path) == ALL and python(WARM, tmp_path).communicate(timeout=60)[0].split()[1:] == []


# ---- machine code of commands ------------------------------------------------------------------------------------------


def test_commands_take_machine_code_from_the_cache(folder, monkeypatch, capfdbinary):
    from vxc.cli.main import main

    arguments = ["compile", "samples/softmax.vx", "--emit", "ptx", "--json"]
    assert main(arguments) == 0
    first = capfdbinary.readouterr().out
    monkeypatch.setattr(cached, "compile_cuda", None)
    assert main(arguments) == 0 and capfdbinary.readouterr().out == first and kept(folder) == ["code"]


def test_the_options_of_nvrtc_are_part_of_the_name(folder):
    text = 'extern "C" __global__ void f(float* x) { x[0] = x[1] * x[2] + x[3]; }'
    jobs = [cached.Job(text, "f.cu", "sm_90a", *rest) for rest in [("exact", None, False), ("contract", None, False), ("exact", 32, False)]]
    assert len({job.key for job in jobs} | {replace(jobs[0], line_info=True).key, replace(jobs[0], arch="sm_80").key}) == 5
    for job in jobs:
        made = job.binary()
        again = compile_cuda(text, "f.cu", "sm_90a", job.fp, max_registers=job.max_registers)
        assert made == job.binary() == replace(again, log=made.log)  # which says how long it took
    assert jobs[0].key == replace(jobs[0], name="g.cu").key
