"""NVRTC: resources from the log (also the second time), headers, options, and errors placed where `#line` says."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys

import pytest

from vxc.cuda import nvrtc
from vxc.diag import VxcError
from vxc.source import Source

SAXPY = """
extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
    __shared__ float s[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    s[threadIdx.x] = x[i];
    __syncthreads();
    if (i < n) y[i] = a * s[255 - threadIdx.x] + y[i];
}
extern "C" __global__ void spills(float* y, int n) {
    float v[200];
    for (int i = 0; i < 200; ++i) v[i] = y[i * n];
    for (int k = 0; k < n; ++k) y[v[k] > 0 ? k : 0] = v[(k * 7) % 200];
}
"""


def found(text: str, **more) -> object:
    with pytest.raises(VxcError) as caught:
        nvrtc.compile_cuda(text, "k.cu", "sm_90a", **more)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic


def test_cubin_ptx_and_resources():
    binary = nvrtc.compile_cuda(SAXPY, "saxpy.cu", "sm_90a")
    assert binary.cubin[:4] == b"\x7fELF" and ".target sm_90a" in binary.ptx
    assert sorted(binary.kernels) == ["saxpy", "spills"]
    saxpy, spills = binary.kernels["saxpy"], binary.kernels["spills"]
    assert saxpy.shared == 1024 and saxpy.barriers == 1 and 0 < saxpy.registers <= 32 and saxpy.stack == saxpy.spill_stores == 0
    assert spills.stack >= 800 and spills.shared == 0


def test_a_second_process_gets_the_report_too(tmp_path):
    code = "import sys; from vxc.cuda.nvrtc import compile_cuda; print(compile_cuda(sys.stdin.read(), 'k.cu', 'sm_80').kernels)"
    environment = {**os.environ, "CUDA_CACHE_PATH": str(tmp_path)}
    command = {"args": [sys.executable, "-c", code], "input": SAXPY, "env": environment}
    command |= {"stdout": subprocess.PIPE, "text": True, "check": True}
    first, second = (subprocess.run(**command).stdout for _ in range(2))
    assert first == second and "Resources(registers=" in second


def test_a_register_cap_makes_spills_that_are_reported():
    text = 'extern "C" __global__ void k(float* y) {\n' + "".join(f"float a{i} = y[{i}];\n" for i in range(80))
    text += "__syncthreads();\n" + "".join(f"y[{i}] = a{i} * a{(i * 7) % 80};\n" for i in range(80)) + "}"
    free, capped = (nvrtc.compile_cuda(text, "k.cu", "sm_80", max_registers=cap).kernels["k"] for cap in (None, 24))
    assert free.registers > 24 and free.spill_stores == 0
    assert capped.registers <= 24 and capped.spill_stores > 0 and capped.spill_loads > 0


@pytest.mark.parametrize(("fp", "contracted"), [("exact", False), ("contract", True), ("fast", True)])
def test_fp_modes_reach_the_code(fp, contracted):
    text = 'extern "C" __global__ void k(float* y, float a, float b) { y[0] = y[1] * a + b; }'
    assert ("fma.rn" in nvrtc.compile_cuda(text, "k.cu", "sm_90a", fp).ptx) is contracted


def test_options_differ_wherever_the_code_may():
    options = {
        nvrtc.compile_options(arch, fp, max_registers=cap, line_info=lines)
        for arch in ("sm_80", "sm_90a") for fp in nvrtc.FP_OPTIONS for cap in (None, 64) for lines in (False, True)
    }  # fmt: skip
    assert len(options) == 2 * 3 * 2 * 2


@pytest.mark.parametrize("header", ["cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h"])
def test_headers_are_found(header):
    text = f'#include <{header}>\nextern "C" __global__ void k(float* y) {{ y[0] = 1.0f; }}'
    assert nvrtc.compile_cuda(text, "k.cu", "sm_80").kernels["k"].registers > 0


def test_errors_are_placed_in_the_source_that_line_names():
    source = Source("größe.vx", "kernel f() {\n    y[0] = q;\n}\n")
    at = found('#line 2 "größe.vx"\nextern "C" __global__ void k(float* y) { y[0] = q; }', sources=(source,))
    assert (at.code, at.place, at.source.slice(at.span)) == ("E0702", "größe.vx:2:5", "y[0] = q;")
    assert at.message == 'the generated CUDA text does not compile: identifier "q" is undefined'
    assert 'identifier "q" is undefined' in at.notes[0]


def test_errors_of_a_text_without_line_are_placed_in_it():
    assert found('// one\nextern "C" __global__ void k(float* y) {\n  y[0] = 1 }').place == "k.cu:3:3"


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("__shared__ float s[99999]; s[threadIdx.x] = 1; __syncthreads(); y[0] = s[3];", "too much shared data"),
        ('asm("bogus.x;");', "bogus"),
    ],
)
def test_errors_of_the_assembler(body, cause):
    diagnostic = found(f'extern "C" __global__ void k(float* y) {{ {body} }}')
    assert diagnostic.code == "E0702" and diagnostic.place == "" and cause in diagnostic.notes[0]


def test_an_arch_that_this_nvrtc_does_not_know(monkeypatch):
    monkeypatch.setattr(nvrtc, "supported_archs", lambda: (75, 80, 86))
    diagnostic = found(SAXPY)
    assert diagnostic.code == "E0602" and "cannot compile for `sm_90a`" in diagnostic.message
    assert diagnostic.notes == ("it supports sm_80, sm_86",) and "pip install" in diagnostic.help


def test_no_nvrtc_is_a_diagnostic(monkeypatch):
    def without_bindings(name, *rest, real=builtins.__import__):
        if name.startswith("cuda"):
            raise ImportError("No module named 'cuda'")
        return real(name, *rest)

    nvrtc._nvrtc.cache_clear()
    nvrtc.supported_archs.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without_bindings)
    diagnostic = found(SAXPY)
    assert diagnostic.code == "E0601" and diagnostic.notes == ("No module named 'cuda'",)
    assert "nvidia-cuda-nvrtc" in diagnostic.help
