"""What the emitted text of integer operations computes, without a device: NVRTC folds it on constants, and the PTX holds the
results. Right are the values of `semantics`.
"""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from semantics_kernels import with_prelude

from vxc.cuda.nvrtc import compile_cuda
from vxc.dtypes import I8, I32, I64, U8, U32, DType
from vxc.semantics import c_expr, c_literal, evaluate

OPS = ("add", "sub", "mul", "floordiv", "mod", "ceildiv", "tdiv", "trem", "shl", "shr", "min", "max", "lt", "ge")


def folded(expressions: list[str]) -> list[int]:
    """The values of constant expressions, as i64."""
    stores = "\n".join(f"  p[{at}] = (long long)({text});" for at, text in enumerate(expressions))
    ptx = compile_cuda(with_prelude([f'extern "C" __global__ void k(long long* p) {{\n{stores}\n}}\n']), "values.cu", "sm_80").ptx
    registers = dict(re.findall(r"mov\.[bu]64\s+(%rd\d+), (-?\d+);", ptx))
    stored = re.findall(r"st\.global\.[bu]64\s+\[%rd\d+(?:\+(\d+))?\], (%rd\d+|-?\d+);", ptx)
    values = {int(offset or 0) // 8: int(registers.get(value, value)) for offset, value in stored}
    return [values[at] for at in range(len(expressions))]


def edges(dtype: DType) -> list[int]:
    negative = [-1, -2, -7, 1 - dtype.max] if dtype.kind == "i" else []
    return sorted({dtype.min, dtype.max, 0, 1, 2, 3, 7, dtype.bits - 1, dtype.bits, *negative})


@pytest.mark.parametrize("dtype", [I8, U8, I32, U32, I64], ids=str)
def test_integer_operations(dtype):
    pairs = list(product(edges(dtype), repeat=2))
    a, b = (np.array(side, dtype.numpy) for side in zip(*pairs))
    expressions = [c_expr(op, dtype, c_literal(x, dtype), c_literal(y, dtype)) for op in OPS for x, y in pairs]
    with np.errstate(all="ignore"):
        want = np.concatenate([np.asarray(evaluate(op, dtype, a, b)).astype(np.int64) for op in OPS])
    got = np.array(folded(expressions))
    wrong = np.flatnonzero(got != want)
    assert not wrong.size, [(expressions[i], int(got[i]), int(want[i])) for i in wrong[:5]]
