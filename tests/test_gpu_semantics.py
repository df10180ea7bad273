"""Every scalar operation, conversion and atomic on the device against `evaluate`, `cast`, `sat` and `reinterpret`."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from semantics_kernels import ATOMICS, CONVERSIONS, conversions, every_kernel, operand_dtypes, operations, stored, with_prelude

from vxc.cuda.nvrtc import compile_cuda
from vxc.driver import compile
from vxc.dtypes import BF16, BOOL, DTYPES, F8E4M3, F16, F32, I64, DType
from vxc.interp.ast_interp import run_ast
from vxc.runtime.driver import driver
from vxc.runtime.launch import run_numpy
from vxc.runtime.parameters import pack, pointer, scalar
from vxc.semantics import SCALAR_OPS, cast, evaluate, reinterpret, result_dtype, sat
from vxc.source import Source
from vxc.target import for_capability

pytestmark = pytest.mark.gpu
MEANING = {"cast": cast, "sat": sat, "reinterpret": reinterpret}
SPECIAL = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 88.0, 103.5, 464.0, 61440.0, 65520.0, 2.0**31, 2.0**63, 2.0**64]
SPECIAL += [1e-45, 1e-40, 2.0**-126, 3e38, np.inf, np.nan]


@cache
def module():
    binary = compile_cuda(with_prelude(every_kernel()), "semantics.cu", for_capability(driver().capability(0)).name)
    return driver().load(binary.cubin)


def run(name: str, inputs: list[np.ndarray], output: DType) -> np.ndarray:
    """One launch of an elementwise kernel over arrays of one length."""
    device, n = driver(), len(inputs[0])
    with device.active(0):
        arrays = [np.ascontiguousarray(a) for a in inputs] + [np.zeros(n, output.numpy)]
        memory = [device.allocate(a.nbytes) for a in arrays]
        for m, a in zip(memory, arrays, strict=True):
            device.upload(m, a)
        arguments = pack([*(pointer(int(m)) for m in memory), scalar(I64, n)])
        device.launch(device.function(module(), name), (-(-n // 256), 1, 1), (256, 1, 1), 0, 0, arguments)
        device.download(arrays[-1], memory[-1])
        for m in memory:
            device.free(m)
    return arrays[-1]


def values(dtype: DType, seed: int) -> np.ndarray:
    """All values of a small type; for a wide one the f16 and bf16 values, special values, and random bit patterns."""
    if dtype == BOOL:
        return np.array([False, True])
    if dtype.bits == 4:
        return np.arange(dtype.min, dtype.max + 1, dtype=dtype.numpy)
    unsigned = f"u{dtype.bytes}"
    if dtype.bits <= 16:
        return np.arange(2**dtype.bits, dtype=unsigned).view(dtype.numpy)
    rng = np.random.default_rng(seed)
    random = rng.integers(0, 2**dtype.bits, 100_000, unsigned, endpoint=False).view(dtype.numpy)
    if dtype.is_float:
        with np.errstate(all="ignore"):
            near = np.array([v for s in (1, -1) for v in np.array(SPECIAL) * s]).astype(dtype.numpy)
            near = np.concatenate([near, np.nextafter(near, dtype.numpy.type(0)), near * dtype.numpy.type(1 + 2.0**-20)])
        usual = rng.uniform(-20, 20, 100_000).astype(dtype.numpy)
        small = [cast(values(d, 0), d, dtype) for d in (F16, BF16)]
        return np.concatenate([near, random, usual, *small])
    bits = [1 << k for k in range(dtype.bits)]
    ends = [((s * b + d) - dtype.min) % 2**dtype.bits + dtype.min for b in bits for s in (1, -1) for d in (-1, 0, 1)]
    return np.concatenate([np.array(ends, dtype.numpy), random])


def operands(dtypes: list[DType]) -> list[np.ndarray]:
    """All pairs of the first few values, then values side by side in different orders."""
    columns = [values(d, seed) for seed, d in enumerate(dtypes)]
    n = max(map(len, columns))
    heads = np.meshgrid(*(c if len(c) <= 256 and len(columns) < 3 else c[:40] for c in columns), indexing="ij")
    rng = np.random.default_rng(9)
    mixed = [np.resize(c, n) if i == 0 else rng.permutation(np.resize(c, n)) for i, c in enumerate(columns)]
    return [np.concatenate([h.reshape(-1), m]) for h, m in zip(heads, mixed, strict=True)]


def distance(got: np.ndarray, want: np.ndarray, dtype: DType) -> np.ndarray:
    """How many representable values apart; NaN from NaN is 0."""

    def key(x):
        bits = x.view(f"i{dtype.bytes}").astype(object if dtype.bits == 64 else np.int64)
        return np.where(bits < 0, -(bits & ((1 << (dtype.bits - 1)) - 1)), bits)

    nan = np.isnan(got) & np.isnan(want)
    return np.where(nan, 0, np.abs(key(got) - key(want)))


def assert_same_bits(got: np.ndarray, want: np.ndarray, dtype: DType, inputs: list[np.ndarray]) -> None:
    unsigned = f"u{dtype.bytes}"
    equal = got.view(unsigned) == want.view(unsigned)
    if dtype.is_float:
        with np.errstate(invalid="ignore"):
            equal |= np.isnan(got.astype(np.float64)) & np.isnan(want.astype(np.float64))
    bad = np.nonzero(~equal)[0][:3]
    assert not bad.size, [(*(a[i] for a in inputs), "gave", got[i], "not", want[i]) for i in bad]


@pytest.mark.parametrize("name", list(SCALAR_OPS))
def test_operations(name):
    op = SCALAR_OPS[name]
    for dtype in (d for n, d in operations() if n == name):
        inputs = operands(operand_dtypes(name, dtype))
        output = result_dtype(name, dtype)
        got, want = run(f"op_{name}_{dtype}", inputs, output), evaluate(name, dtype, *inputs)
        if op.exact:
            assert_same_bits(got, want, output, inputs)
            continue
        apart = distance(got, want, dtype)
        worst = int(np.argmax(apart))
        bound = op.ulp if dtype == F32 else op.ulp64
        assert apart[worst] <= bound, (dtype, apart[worst], *(a[worst] for a in inputs), got[worst], want[worst])


@pytest.mark.parametrize(("name", "precision", "dtype"), stored(), ids=str)
def test_functions_that_are_only_stored(name, precision, dtype):
    """Within 1 ulp of what is stored, for all f16 and bf16 values, random bits, and a million values around 0."""
    inputs = operands(operand_dtypes(name, F32))
    dense = np.linspace(-140, 140, 1 << 20, dtype=np.float32)
    inputs = [np.concatenate([x, dense if at == 0 else np.full_like(dense, 2.5)]) for at, x in enumerate(inputs)]
    got, want = run(f"stored_{name}_{dtype}", inputs, dtype), cast(evaluate(name, F32, *inputs), F32, dtype)
    apart = distance(got, want, dtype)
    worst = int(np.argmax(apart))
    assert apart[worst] <= 1, (apart[worst], *(a[worst] for a in inputs), got[worst], want[worst])
    assert (np.signbit(got) == np.signbit(want))[want == 0].all()


SOFTMAX = """kernel softmax<T: dtype>(x: f32[M, N], out y: T[M, N]) {
    parallel i in M {
        let m = max(x[i]);
        let z = sum(POWER(x[i] - m));
        y[i] = POWER(x[i] - m) / z;
    }
}
"""


@pytest.mark.parametrize("power", ["exp", "exp2"])
@pytest.mark.parametrize("dtype", [F16, BF16, F8E4M3], ids=str)
def test_quotients_by_their_sum_that_are_only_stored(dtype, power):
    """Within 1 ulp of what is stored: rows near one value and far apart, of one element that counts, masked ones, with inf and NaN."""
    rng = np.random.default_rng(5)
    rows = [rng.standard_normal((8, 1000)) * scale + shift for scale in (0, 1e-3, 1, 10, 40, 1e4) for shift in (0, -87.5, 3e4)]
    rows += [np.sort(rng.uniform(-150, 0, (8, 1000))), np.where(rng.random((8, 1000)) < 0.99, -np.inf, rows[6])]
    rows += [np.full((1, 1000), value) for value in (-np.inf, np.inf, np.nan, 3e38, -3e38)] + [np.where(rows[6] > 3, np.nan, rows[6])]
    x = np.concatenate(rows).astype(np.float32)
    source = Source("softmax.vx", SOFTMAX.replace("POWER", power))
    compiled = compile(source, defines={"T": dtype}, target=for_capability(driver().capability(0)).name)
    assert f"vx_{power}_" in compiled.cuda
    got, want = run_numpy(compiled, {"x": x})["y"], run_ast(compiled.typed, {"x": x}, {})["y"]
    apart = distance(got, want, dtype)
    worst = np.unravel_index(int(np.argmax(apart)), apart.shape)
    assert apart[worst] <= 1, (apart[worst], worst, x[worst], got[worst], want[worst])


@pytest.mark.parametrize("src", list(DTYPES.values()), ids=str)
@pytest.mark.parametrize("how", list(CONVERSIONS))
def test_conversions(how, src):
    x = values(src, 4)
    for dst in (d for h, s, d in conversions() if (h, s) == (how, src)):
        assert_same_bits(run(f"{how}_{src}_{dst}", [x], dst), MEANING[how](x, src, dst), dst, [x])


@pytest.mark.parametrize(("op", "dtype"), ATOMICS)
def test_atomics_combine_and_return_what_was_there(op, dtype):
    device = driver()
    pairs = [(1, 2), (2, 1), (0, 3)] + ([(np.nan, 1), (1, np.nan), (-0.0, 0.0), (0.0, -0.0), (-1.5, np.inf)] if dtype.is_float else [])
    for first, second in pairs:
        a, b = (cast(float(v), DTYPES["f64"], dtype) for v in (first, second))
        with device.active(0):
            memory = [device.allocate(dtype.bytes) for _ in range(2)]
            now, before = a.reshape(1).copy(), np.zeros(1, dtype.numpy)
            device.upload(memory[0], now)
            arguments = pack([pointer(int(memory[0])), scalar(dtype, second), pointer(int(memory[1]))])
            device.launch(device.function(module(), f"atomic_{op}_{dtype}"), (1, 1, 1), (1, 1, 1), 0, 0, arguments)
            device.download(now, memory[0])
            device.download(before, memory[1])
            for m in memory:
                device.free(m)
        wide = dtype.compute
        want = cast(evaluate(op, wide, cast(a, dtype, wide), cast(b, dtype, wide)), wide, dtype)
        assert_same_bits(now, want.reshape(1), dtype, [np.array([first]), np.array([second])])
        assert_same_bits(before, a.reshape(1), dtype, [np.array([first]), np.array([second])])
