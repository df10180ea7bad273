"""Hypothesis strategies over the program generator."""

from __future__ import annotations

from hypothesis import strategies as st

from vxc.fuzz.gen import generate


def programs(most: int = 12) -> st.SearchStrategy:
    """Generated kernels of up to `most` statements; shrinks towards fewer."""
    return st.builds(lambda size, seed: generate(seed, size), st.integers(1, most), st.integers(0, 2**32 - 1))
