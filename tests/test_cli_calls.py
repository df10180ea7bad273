"""Commands that are given arrays compile what a call from Python with these arrays compiles: the same text, and so the same bits."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from cli_tool import SAMPLES, vxc

import vxc as vxc_package
from vxc.cli.calls import Called, kernel_calls
from vxc.cli.common import Settings, read_module
from vxc.dtypes import BF16

ROW = "kernel f(x: f32[M, N], out y: f32[M]) { parallel i in M { y[i] = sum(x[i]); } }\n"
"""Of 1000 elements: 64 lanes where that is known, else 32, so the sum has another order."""

TILE = "kernel f(x: f32[N], out y: f32[N]) { grid b in 1 { shared s: f32[N]; copy(x[0 :+ N], s); copy(s, y[0 :+ N]); } }"
EXAMPLE = "example f(x = rand(f32, 6, 1000));\n"


def settings(**more) -> Settings:
    nothing = {"defines": {}, "kernel": None, "arch": "sm_90a", "debug": False, "json": False, "maxrregcount": None, "reduce_chunk": None}
    return Settings(**{**nothing, "aligned": {}, **more})


def calls(path, arguments={}, dynamic=False, **more) -> list[Called]:
    source, module = read_module(str(path))
    return kernel_calls(module, source, settings(**more), arguments, 0, dynamic)


def called_from_python(path, given: Called, **more) -> str:
    """The text that Python compiles for the arrays of a call, and for the outputs that the example gives."""
    kernel, example = getattr(vxc_package.load(path, **more), given.kernel.name), given.kernel.example
    outputs = {name: (shape, dtype.numpy_name) for name, _, dtype, shape, _ in (example.arrays if example else ())}
    arrays = {**outputs, **{name: (array.shape, array.dtype) for name, array in given.call.arrays.items()}}
    return kernel.compile(**{name: vxc_package.ShapeDtype(*what) for name, what in arrays.items()}, target="sm_90a").cuda


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder, made the current one, with f.vx in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.vx").write_text(ROW + EXAMPLE)
    return tmp_path


def output(*arguments) -> np.ndarray:
    got = vxc("run", *arguments, "-o", "y=y.npy")
    assert got.status == 0, got.err
    return np.load("y.npy")


# ---- run equals call -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on", ["flat", "flat:thread", "ast"])
def test_a_row_sum_has_the_bits_of_the_call(place, on):
    x = np.random.default_rng(5).standard_normal((6, 1000), np.float32)
    np.save("x.npy", x)
    called = vxc_package.load("f.vx").f(x, device="cpu")
    run = output("f.vx", "--on", on, "-a", "x=x.npy")
    open_ = output("f.vx", "--on", on, "-a", "x=x.npy", "--dynamic")
    assert np.array_equal(run, called)
    assert not np.array_equal(open_, called) and np.allclose(open_, called, rtol=1e-4, atol=1e-4)
    assert np.array_equal(output("f.vx", "--on", on, "-a", "x=x.npy", "--dynamic", "-D", "N=1000"), called)


@pytest.mark.gpu
def test_a_row_sum_has_the_bits_of_the_call_on_the_gpu(place):
    x = np.random.default_rng(5).standard_normal((6, 1000), np.float32)
    np.save("x.npy", x)
    called = vxc_package.load("f.vx").f(x)
    assert np.array_equal(output("f.vx", "--on", "gpu", "-a", "x=x.npy"), called)
    assert np.array_equal(called, vxc_package.load("f.vx").f(x, device="cpu"))


def test_an_example_is_such_a_call_too(place):
    (given,) = calls("f.vx")
    called = vxc_package.load("f.vx").f(given.call.arrays["x"], device="cpu")
    assert np.array_equal(output("f.vx", "--on", "flat"), called)
    assert not np.array_equal(output("f.vx", "--on", "flat", "--dynamic"), called)


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.vx")), ids=lambda path: path.stem)
def test_samples_are_compiled_as_python_compiles_them(path):
    compared = [given.compiled().cuda == called_from_python(path, given) for given in calls(path) if given.call]
    assert compared and all(compared)


ODD = {
    "rows that begin anywhere": (ROW, {"x": "rand:f32[6,999]"}),
    "a generic dtype": (ROW.replace("f(", "f<T: dtype>(").replace("x: f32", "x: T"), {"x": "rand:f16[6,1000]"}),
    "no elements": (ROW, {"x": "rand:f32[4,0]"}),
    "no rows": (ROW, {"x": "rand:f32[0,1000]"}),
    "a pitch": (ROW.replace("N]", "N : ld]"), {"x": "rand:f32[6,1000]"}),
    "a size that follows": (ROW.replace("out y: f32[M]", "out y: f32[M], out z: f32[M, 2 * N]"), {"x": "rand:f32[6,1000]"}),
    "no row": ("kernel f(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i] + 1.0; } }", {"x": "rand:f32[99]"}),
    "shapes of tiles": (TILE, {"x": "rand:f32[96]"}),
}


@pytest.mark.parametrize("text, arguments", ODD.values(), ids=ODD)
def test_so_are_others(tmp_path, text, arguments):
    (tmp_path / "f.vx").write_text(text)
    (given,) = calls(tmp_path / "f.vx", arguments)
    assert given.compiled().cuda == called_from_python(tmp_path / "f.vx", given)


def test_an_output_that_alone_has_a_size_is_passed_from_python(tmp_path):
    text = "kernel f(a: f32, out y: f32[M, N]) { parallel i in M { y[i] = a; y[i] = y[i] / sum(y[i]); } }\n"
    (tmp_path / "f.vx").write_text(text + "example f(a = 2.0, y = rand(f32, 3, 1000));\n")
    (given,) = calls(tmp_path / "f.vx")
    assert given.fixed == ("-D N=1000", "--aligned y=true") and given.call.dims == {"M": 3}
    ahead = vxc_package.load(tmp_path / "f.vx").f.compile((3, 1000), target="sm_90a")
    assert given.compiled().cuda == ahead.cuda


def test_debug_and_caps_go_with_it(place):
    more = {"debug": True, "maxrregcount": 40}
    (given,) = calls("f.vx", **more)
    assert given.compiled().cuda == called_from_python("f.vx", given, **more)
    assert given.compiled().max_registers == 40


# ---- what is left open, and what options say -------------------------------------------------------------------------


def test_dynamic_is_what_compile_prints(place):
    for more in ({}, {"defines": {"N": 1000}}, {"aligned": {"x": True}}):
        (given,) = calls("f.vx", {"x": "rand:f32[6,1000]"}, True, **more)
        options = [f"-D{name}={value}" for name, value in more.get("defines", {}).items()]
        options += [f"--aligned={name}=true" for name in more.get("aligned", {})]
        printed = vxc("compile", "f.vx", "--arch", "sm_90a", *options).out
        assert (given.compiled().cuda.rstrip(), given.fixed) == (printed.rstrip(), ())


def test_options_win_over_what_a_call_fixes(place):
    (given,) = calls("f.vx", aligned={"x": False})
    assert given.fixed == ("-D N=1000", "--aligned y=true") and given.settings.aligned == {"x": False, "y": True}
    (given,) = calls("f.vx", defines={"N": 999})  # the example's arrays follow
    assert given.fixed == ("--aligned x=true", "--aligned y=true") and given.call.arrays["x"].shape == (6, 999)
    (given,) = calls("f.vx", {"x": "rand:f32[6,999]"}, defines={"M": 6})
    assert given.fixed[0] == "-D N=999" and not given.kernel.dims


def test_sizes_of_tiles_are_those_of_given_arrays(place):
    (place / "f.vx").write_text(TILE)
    (given,) = calls("f.vx", {"x": "rand:f32[96]"})
    assert given.fixed == ("-D N=96", "--aligned x=true", "--aligned y=true")
    assert np.array_equal(output("f.vx", "--on", "flat", "-a", "x=rand:f32[96]"), given.call.arrays["x"])
    got = vxc("run", "f.vx", "--dynamic", "-a", "x=rand:f32[96]")
    assert got.status == 1 and got.err.startswith("error[E0231]: `s` needs a constant size\n") and "with `-D`" in got.err


def test_sizes_of_tiles_are_those_of_the_example(place):
    other = TILE.replace(" f(", " g(")
    (place / "f.vx").write_text(f"{TILE}\n{other}\nexample f(x = rand(f32, 96));\nexample g(x = rand(f32, 64));\n")
    assert [given.fixed[0] for given in calls("f.vx")] == ["-D N=96", "-D N=64"]
    (given,) = calls("f.vx", kernel="g")
    assert given.compiled().cuda == called_from_python("f.vx", given)
    assert np.array_equal(output("f.vx", "-k", "g", "--on", "flat"), given.call.arrays["x"])
    assert output("f.vx", "-k", "g", "--on", "flat", "-D", "N=80").shape == (80,)
    assert output("f.vx", "-k", "g", "--on", "flat", "-a", "x=rand:f32[48]").shape == (48,)
    assert vxc("diff", "f.vx").out.count(" agree on 4 sets of inputs\n") == 2
    for command in (("run", "-k", "g", "--dynamic"), ("diff", "--dynamic"), ("explain", "--dynamic"), ("compile",), ("check",)):
        got = vxc(*command, "f.vx")
        assert got.status == 1 and "error[E0231]: `s` needs a constant size\n" in got.err + got.out
    (place / "f.vx").write_text(f"{TILE}\nexample f(x = rand(f32, 96), y = rand(f32, 95));\n")
    assert "error[E0224]: dimension 0 of `y` is 95, and the other arguments make it 96\n" in vxc("run", "f.vx").err


@pytest.mark.parametrize("pitch, lies", [(1000, "true"), (1001, "false"), (1004, "true")])
def test_a_pitch_is_that_of_the_array(place, pitch, lies):
    (place / "f.vx").write_text(ROW.replace("N]", "N : ld]"))
    (given,) = calls("f.vx", {"x": f"rand:f32[6,1000:{pitch}]"})
    assert given.fixed == ("-D N=1000", f"--aligned x={lies}", "--aligned y=true")
    x = given.call.arrays["x"]
    assert x.strides == (4 * pitch, 4)
    called = vxc_package.load("f.vx").f(x, device="cpu")
    assert np.array_equal(output("f.vx", "--on", "flat:thread", "-a", f"x=rand:f32[6,1000:{pitch}]"), called)


def test_elements_that_do_not_say_what_a_generic_is(place):
    (place / "f.vx").write_text(ROW.replace("f(", "f<T: dtype>(").replace("x: f32", "x: T").replace("sum(x[i])", "sum(x[i] as f32)"))
    x = np.arange(12, dtype=BF16.numpy).reshape(2, 6)
    np.save("x.npy", x)
    got = vxc("run", "f.vx", "-a", "x=x.npy")
    assert got.err.startswith("error[E0704]: argument `x` holds elements of void16, which no kernel reads\n") and "-D T=bf16" in got.err
    assert np.array_equal(output("f.vx", "--on", "flat", "-a", "x=x.npy", "-D", "T=bf16"), vxc_package.load("f.vx").f(x, device="cpu"))
    np.save("x.npy", x.astype(np.longdouble))
    got = vxc("run", "f.vx", "-a", "x=x.npy")
    assert got.err.startswith("error[E0704]: ") and "convert it to one of f16, bf16, f32" in got.err


def test_an_array_of_no_dimensions_is_taken_as_python_takes_it(place):
    np.save("x.npy", np.float32(3))
    called = vxc_package.load("f.vx").f(np.array(3, np.float32), device="cpu")
    got = output("f.vx", "--on", "flat", "-a", "x=x.npy")
    assert got.shape == called.shape == (1,) and got == called == 3


@pytest.mark.parametrize("command", ["run", "explain", "bench"])
@pytest.mark.parametrize("more", [(), ("--dynamic",)])
def test_sizes_that_contradict_a_definition_are_refused(place, command, more):
    got = vxc(command, "f.vx", "-D", "N=999", "-a", "x=rand:f32[6,1000]", *more)
    assert got.status == 1 and not got.out
    assert got.err.startswith("error[E0705]: dimension 1 of `x` is 1000, but 999 is declared\n  --> f.vx:1:10\n")
    generic = ROW.replace("f(", "f<T: dtype>(").replace("x: f32", "x: T")
    got = vxc(command, "-", "-D", "T=f16", "-a", "x=rand:f32[6,1000]", *more, stdin=generic)
    assert got.status == 1 and got.err.startswith("error[E0704]: array argument `x` holds float32, but f16 is declared\n")


def test_compile_and_check_are_for_all_arrays(place):
    assert "softmax_kept" in vxc("compile", SAMPLES / "softmax.vx", "--emit", "ir:final").out
    for command in ("compile", "check"):
        got = vxc(command, "f.vx", "--dynamic")
        assert got.status == 2 and "No such option" in got.err


def test_diff_compares_the_kernel_that_python_runs(place, monkeypatch):
    seen = []
    real = Called.compiled
    monkeypatch.setattr(Called, "compiled", lambda given: seen.append((given.fixed, given.kernel.dims)) or real(given))
    for more in ((), ("--dynamic",)):
        got = vxc("diff", "f.vx", *more)
        assert got.status == 0 and " agree on 4 sets of inputs\n" in got.out
    (fixed, dims), (none, open_) = seen
    assert fixed == ("-D N=1000", "--aligned x=true", "--aligned y=true") and [dim.name for dim in dims] == ["M"]
    assert none == () and [dim.name for dim in open_] == ["M", "N"]


# ---- kernels of other files ------------------------------------------------------------------------------------------


def test_a_kernel_that_is_imported(place):
    (place / "g.vx").write_text('\nimport "f.vx";\n\nexample f(x = rand(f32, 3, 1000));\n')
    for arguments in ((), ("-a", "x=rand:f32[3,1000]")):
        got = vxc("run", "g.vx", "-k", "f", "--on", "flat", "--json", *arguments)
        assert (got.status, json.loads(got.out)["outputs"]["y"]["shape"]) == (0, [3]), got.err
        got = vxc("explain", "g.vx", "-k", "f", *arguments)
        assert got.out.startswith("f (f.vx, ") and re.search(r"^  1 \| kernel f\(", got.out, re.M)
        assert "note: f: compiled with -D N=1000 --aligned x=true --aligned y=true, as for" in got.out
    (given,) = calls("g.vx", kernel="f")
    options = ["-DN=1000", "--aligned=x=true", "--aligned=y=true"]
    assert given.compiled().cuda.rstrip() == vxc("compile", "f.vx", "--arch", "sm_90a", *options).out.rstrip()
    assert vxc("run", "g.vx", "-k", "g").err.startswith("error[E0234]: ")


def test_a_program_fixes_the_rows_of_its_kernels(place):
    text = 'import "f.vx";\nprogram p(a: f32[K, L], out y: f32[K]) { f(a, y); }\nexample p(a = rand(f32, 5, 1000));\n'
    (place / "p.vx").write_text(text)
    (given,) = calls("p.vx")
    assert given.fixed[0] == "-D L=1000" and given.compiled().cuda == called_from_python("p.vx", given)
    called = vxc_package.load("p.vx").p(given.call.arrays["a"], device="cpu")
    assert np.array_equal(output("p.vx", "--on", "flat"), called)
