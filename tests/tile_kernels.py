"""Helpers of tests of tile kernels: one-block kernels, small integers as data."""

from __future__ import annotations

import numpy as np

from tests.everywhere import output


def small(*shape: int, dtype: str = "f4", seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).integers(-9, 10, shape).astype(dtype)


def run(text: str, **arguments) -> np.ndarray:
    return output(text, binary=False, **arguments)


def block(params: str, body: str, threads: int = 128, grid: str = "b in 1") -> str:
    return f"kernel k({params}) {{ @threads({threads}) grid {grid} {{ {body} }} }}"
