"""Faults in what decides how memory is accessed: widths, staging, places in shared memory, launches, strided arrays."""

from __future__ import annotations

from mutants.mutant import FILES, WIDEST, WIDTHS, Mutant

TRANSPOSES, KEPT, BACKWARDS = "test_transposes.py::", "test_kept_rows.py::", "test_api_backwards.py::"

MEMORY = (
    # ---- several elements in one access ----
    Mutant(
        "wide-of-shared-arguments", "analysis/vector_width.py", "loads come before stores although two parameters may be one array",
        "if not distinct and any(", "if False and any(",
        (FILES,),
    ),
    Mutant(
        "wide-quotient-of-a-short-row", "analysis/vector_width.py", "a division goes on from the first where rows are shorter than a run",
        "merge(self.found.least, {by.name: loop.count})", "pass",
        (WIDEST + "[bias-f32-run-time]",),
    ),
    Mutant(
        "wide-shared-by-all", "passes/widen_loop.py", "iterations that share elements of a run read one each",
        'b.emit("floordiv", u, each) if each > 1 else u', "u",
        (FILES, WIDTHS + "test_elements_that_iterations_share"),
    ),
    Mutant(
        "wide-under-a-condition", "analysis/vector_width.py", "an access that only some elements make is made of all",
        "outside = [i for i in group if parent[i] != home or i not in loop.level]", "outside: list[int] = []",
        (FILES, WIDEST + "[row-f32-run-time]"),
    ),
    Mutant(
        "async-copy-of-what-is-written", "passes/async_copies.py", "what the kernel also writes is copied behind its back",
        "return buffer.space in GLOBAL and buffer.name not in self.written", "return buffer.space in GLOBAL",
        (FILES,),
    ),
    Mutant(
        "async-copy-not-awaited", "passes/async_copies.py", "nobody waits for copies",
        "            awaited.add(regions.end[loop])\n", "",
        (FILES, TRANSPOSES + "test_every_shape"),
    ),
    Mutant(
        "load-sunk-past-a-barrier", "passes/sink_loads.py", "shared memory is loaded in a branch behind a barrier or a write",
        " and self.stops[load] == self.stops[start]", "",
        (FILES,),
    ),
    Mutant(
        "load-sunk-from-others", "passes/sink_loads.py", "what two branches use is loaded in one of them",
        "            if len(arms) > 1:\n                return\n", "",
        (FILES,),
    ),
    Mutant(
        "loads-joined-anywhere", "passes/joined_loads.py", "loads are one access wherever the first element lies",
        "if None in run or offsets.divisible(base + first, width, {}) != {}:", "if None in run:",
        (FILES,),
    ),
    # ---- tiles of transposes ----
    Mutant(
        "transpose-last-rows-missing", "passes/transposed_tiles.py", "tiles that begin before their rows do not reach the last ones",
        'b.emit("add", rows, shape.halo - 1) if shape.halo else rows', "rows",
        (TRANSPOSES + "test_every_shape",),
    ),
    Mutant(
        "transpose-before-the-array", "passes/transposed_tiles.py", "the first tile fetches elements before the array",
        'with b.if_(b.emit("and", b.emit("ge", at, 0), b.emit("lt", at, total))):', 'with b.if_(b.emit("lt", at, total)):',
        (TRANSPOSES + "test_every_shape",),
    ),
    Mutant(
        "transpose-row-begins-anywhere", "passes/transposed_tiles.py", "rows of a tile are read as if each began as the first does",
        "self.shape.pieces(x) * size + over", "self.shape.pieces(x) * size",
        (TRANSPOSES + "test_every_shape",),
    ),
    Mutant(
        "transpose-both-launches", "passes/tile_transposes.py", "short loops run in tiles and as they were",
        'b.emit("select", enough, Const(0), 1)', "ONCE",
        (FILES, TRANSPOSES + "test_every_shape"),
    ),
    # ---- places in shared memory ----
    Mutant(
        "arena-keeps-its-sizes", "passes/plan_shared.py", "gaps behind rows reach into the array behind",
        "_rounded(sizes.get(x.buffer.name, x.bytes)), 0", "x.bytes, 0",
        (FILES, "test_staging.py::test_gemm"),
    ),
    Mutant(
        "moved-run-not-split", "passes/avoid_bank_conflicts.py", "elements that lie apart now are moved as if they lay together",
        "        if piece >= width:\n", "        if True:\n",
        (FILES, "test_staging.py::test_gemm"),
    ),
    # ---- launches ----
    Mutant(
        "launch-blocks-replace", "passes/launches.py", "a launch that another pass had made of no block runs",
        'grid = times if blocks == ONCE else blocks if times == ONCE else b.emit("mul", blocks, times)', "grid = times",
        ("test_row_lengths.py", "test_plain_rows.py"),
    ),
    Mutant(
        "launch-names-twice", "passes/launches.py", "two kernels of a plan get one name",
        "            self.taken.add(name)\n", "",
        (FILES, "test_row_lengths.py"),
    ),
    Mutant(
        "fused-over-a-store", "passes/fuse_siblings.py", "a loop moves over a store that stands between",
        "if not (OPS[inst.op].pure or inst.op in DECLARES or", "if False and not (OPS[inst.op].pure or inst.op in DECLARES or",
        (FILES,),
    ),
    # ---- rows that lanes keep ----
    Mutant(
        "kept-over-other-lanes", "passes/kept_rows.py", "lanes keep elements that a later reduction deals to others",
        "return (v, lanes, parts) == (order.v, order.lanes, 1)", "return True",
        (KEPT + "test_a_row_that_is_dealt_otherwise_is_no_part_of_what_lanes_keep",),
    ),
    # ---- arrays that lie otherwise ----
    Mutant(
        "backwards-from-the-end", "api/strided.py", "an array that runs backwards is counted from behind its end",
        'b.emit("sub", buffer.shape[at], 1) if', "buffer.shape[at] if",
        (BACKWARDS + "test_elements_are_read_and_written_where_they_lie",),
    ),
    Mutant(
        "backwards-every-dimension", "api/strided.py", "a dimension that runs forwards is turned with another",
        "if at in turned[buffer.name] and at < len(buffer.shape)", "if at < len(buffer.shape)",
        (BACKWARDS + "test_elements_are_read_and_written_where_they_lie", BACKWARDS + "test_rows_are_summed_in_their_own_order"),
    ),
)
