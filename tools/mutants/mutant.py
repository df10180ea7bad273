"""What a planted fault is, and short names of the files whose tests notice most of them."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """`old`, which occurs once in `file`, becomes `new`. One of `tests` (node ids below tests/) must then fail.

    A fault can change a result, accept what must be refused, or let a fault in a kernel go unseen; and the compiler still loads.
    """

    name: str
    file: str  # below vxc/
    breaks: str
    old: str
    new: str
    tests: tuple[str, ...]


FILES = "test_filetests.py"
INDICES, MATHS, LINES = "test_cases_indices.py::", "test_cases_maths.py::", "test_cases_rows.py::"
WIDTHS, WIDEST = "test_vector_widths.py::", "test_widest_accesses.py::test_every_length_and_place"
TILES, ROWS, MATRIX = "test_cases_tiles.py::", "test_cases_tile_rows.py::", "test_tiles_matrix.py::"
