"""The planted faults: one row each. `tools/mutate.py` plants them one at a time in a copy of the repository and looks who notices."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """`old`, which occurs once in `file`, becomes `new`. One of `tests` (node ids below tests/) must then fail."""

    name: str
    file: str  # below vxc/
    breaks: str
    old: str
    new: str
    tests: tuple[str, ...]


TILES, ROWS, MATRIX = "test_cases_tiles.py::", "test_cases_tile_rows.py::", "test_tiles_matrix.py::"

MUTANTS = (
    # ---- passes: barriers and shared memory ----
    Mutant(
        "barrier-dropped", "passes/place_barriers.py", "no barrier is ever put",
        "            self.out.append(Inst(\"barrier\", (), None, scope, inst.loc))\n", "",
        (ROWS + "test_two_writes_of_one_shared_array_by_different_threads",),
    ),
    Mutant(
        "barrier-war-ignored", "passes/place_barriers.py", "a write does not wait for readers",
        "readers = self.readers.get(buffer, set()) if writes else set()", "readers = set()",
        (MATRIX + "test_pipelined_trips",),
    ),
    Mutant(
        "barrier-loop-carried-ignored", "passes/place_barriers.py", "a loop is taken not to follow itself",
        "        if loops:\n            pending.join(inside)", "        if loops:\n            pass",
        (MATRIX + "test_each_trip_fills_and_reads_one_buffer",),
    ),
    Mutant(
        "barrier-overlap-ignored", "passes/place_barriers.py", "arrays in the same bytes are taken to be apart",
        " or any(pending.touched(o, w) for o in self.overlaps.get(b, ()))", "",
        (MATRIX + "test_shared_arrays_that_reuse_bytes",),
    ),
    Mutant(
        "barrier-branch-forgotten", "passes/place_barriers.py", "accesses in the first arm of a branch are forgotten after it",
        "                    if branch is not None:\n                        pending.join(branch)", "                    pass",
        (ROWS + "test_what_one_arm_of_a_branch_writes_is_read_after_it",),
    ),
    Mutant(
        "shared-overlap-of-live-arrays", "passes/plan_shared.py", "of two arrays alive at once, only the one that starts first counts",
        "return self.first <= other.last and other.first <= self.last", "return self.first <= other.first <= self.last",
        (ROWS + "test_a_small_shared_array_outlives_the_start_of_a_large_one",),
    ),
    Mutant(
        "shared-life-ends-in-the-loop", "passes/plan_shared.py", "a loop around accesses does not prolong a life",
        "life.first, life.last = min(life.first, top), max(life.last, regions.end[top])",
        "life.first, life.last = min(life.first, at), max(life.last, at)",
        (ROWS + "test_a_shared_array_that_every_trip_reads_keeps_its_bytes",),
    ),
    # ---- passes: loops and threads ----
    Mutant(
        "guard-off-by-one", "passes/lower_to_threads.py", "one iteration too many runs",
        'b.emit("lt", index, rewriter(loop.operands[1]))', 'b.emit("le", index, rewriter(loop.operands[1]))',
        ("test_cases_maths.py::test_a_cast_index_is_stored_in_every_type",),
    ),
    Mutant(
        "slot-tail-unguarded", "passes/lower_to_threads.py", "the last slot of a spread tile has no guard",
        'with b.if_(b.emit("lt", e, total)) if total % self.team.group else nullcontext():', "with nullcontext():",
        (TILES + "test_a_spread_fragment_of_any_length",),
    ),
    Mutant(
        "lanes-start-dropped", "passes/lower_to_threads.py", "a loop over lanes starts at 0 whatever its start",
        'own = b.emit("add", start, b.emit("mul", first, step))', 'own = b.emit("mul", first, step)',
        (TILES + "test_a_loop_over_threads_that_starts_late",),
    ),
    Mutant(
        "atomic-by-every-lane", "passes/lower_to_threads.py", "an effect whose result is used happens once a lane",
        "        with b.if_(team.first):\n            b.emit(\"store\", cell, rewriter.copy(inst))",
        "        with nullcontext():\n            b.emit(\"store\", cell, rewriter.copy(inst))",
        (ROWS + "test_an_atomic_of_a_block_happens_once",),
    ),
    Mutant(
        "fuse-wrong-extent", "passes/fuse_loops.py", "a digit is taken by the extent of the loop outside",
        'b.emit("mod", rest, counts[at],', 'b.emit("mod", rest, counts[at - 1],',
        ("test_cases_indices.py::test_a_table_is_read_by_a_rest_that_does_not_divide_the_row",),
    ),
    Mutant(
        "fuse-digits-swapped", "passes/fuse_loops.py", "of three fused loops the two inner ones swap digits",
        "for at in range(len(loops) - 1, -1, -1):", "for at in (*range(1, len(loops)), 0):",
        (TILES + "test_three_loops_in_one", "test_filetests.py"),
    ),
    Mutant(
        "grid-rounds-down", "passes/map_loops.py", "the last, partly filled block is not launched",
        'b.emit("ceildiv", total, rows)', 'b.emit("floordiv", total, rows)',
        ("test_cases_maths.py::test_a_cast_index_is_stored_in_every_type",),
    ),
    Mutant(
        "private-storage-over-lanes", "passes/map_loops.py", "a loop that fills a lane's own array is spread over lanes",
        'for x in stored):\n        return "all"', 'for x in stored):\n        return "lanes"',
        (ROWS + "test_every_lane_fills_its_own_array",),
    ),
    Mutant(
        "nest-start-dropped", "passes/map_loops.py", "a top-level loop starts at 0 whatever its start",
        'rewriter.mapping[outer.result] = digit if start == Const(0) else b.emit("add", digit, start)',
        "rewriter.mapping[outer.result] = digit",
        ("test_cases_indices.py::test_a_loop_that_starts_late", "test_filetests.py"),
    ),
    Mutant(
        "ownership-unchecked", "passes/infer_layouts.py", "a thread reads its own element where another's is meant",
        'return None if np.array_equal(flat, np.arange(count)) else "another thread\'s element is accessed"', "return None",
        (TILES + "test_a_shifted_read_of_a_fragment_is_another_threads_element",),
    ),
    Mutant(
        "launch-value-read-again", "passes/split_launches.py", "a later launch reads a value that an earlier one has overwritten",
        ' and inst.operands[0].name not in written', "",
        ("test_filetests.py",),
    ),
    Mutant(
        "index-too-narrow", "passes/narrow_indices.py", "results are 32-bit without a look at their range",
        "return inst.op in ARITHMETIC and self.worth(x for x in inst.operands if x.dtype is I64) and self.fits(inst.result)",
        "return inst.op in ARITHMETIC and self.worth(x for x in inst.operands if x.dtype is I64)",
        ("test_cases_indices.py::test_offsets_beyond_32_bits", "test_filetests.py"),
    ),
    # ---- passes: reductions and scans ----
    Mutant(
        "reduce-tail-dropped", "passes/lower_reduce.py", "elements after the last whole step do not count",
        'with b.if_(b.emit("lt", whole, count)):', 'with b.if_(b.emit("lt", count, whole)):',
        (MATRIX + "test_reductions_over_an_axis",),
    ),
    Mutant(
        "reduce-wrong-stride", "passes/lower_reduce.py", "lanes step past each other's elements",
        "stride = steps * run", "stride = 2 * steps * run",
        (MATRIX + "test_reductions_over_an_axis",),
    ),
    Mutant(
        "replica-counted-twice", "passes/team.py", "lanes that hold copies of a total join it again",
        "distance = width // 2\n", "distance = width // 2 if width == self.group else width\n",
        ("test_cases_rows.py::test_totals_of_few_lanes_are_known_to_all",),
    ),
    Mutant(
        "butterfly-too-short", "passes/team.py", "the widest exchange of a butterfly is left out",
        "distance = width // 2\n", "distance = width // 4\n",
        (MATRIX + "test_sums_over_an_axis",),
    ),
    Mutant(
        "fold-loses-the-middle", "passes/accumulate.py", "of an odd number of partial results the last is lost",
        "half = (count + 1) // 2", "half = count // 2",
        ("test_cases_rows.py::test_long_dot_products_have_one_value", "test_filetests.py"),
    ),
    Mutant(
        "argmax-loses-nan", "passes/accumulate.py", "argmax prefers a number to NaN",
        'better = b.emit("or", better, b.emit("and", y_nan, b.emit("not", x_nan)))', "better = better",
        ("test_cases_rows.py::test_nan_in_reductions",),
    ),
    Mutant(
        "part-stale-order", "passes/split_reductions.py", "the parts of a split reduction forget the vector of its order",
        "whole = (order.v,", "whole = (1,",
        ("test_filetests.py", "test_cases_rows.py"),
    ),
    Mutant(
        "part-empty-not-identity", "passes/split_reductions.py", "an empty part joins as the result over nothing",
        'value = b.emit("select", b.emit("eq", extent, 0), acc.start()[0], value)', "pass",
        ("test_cases_rows.py::test_empty_parts_leave_the_sign_of_zero",),
    ),
    Mutant(
        "part-not-rounded", "passes/split_reductions.py", "parts of a run-time length are not whole tiles",
        'span = b.emit("mul", b.emit("ceildiv", b.emit("ceildiv", length, order.parts), tile), tile)',
        'span = b.emit("ceildiv", length, order.parts)',
        ("test_filetests.py", "test_cases_rows.py"),
    ),
    Mutant(
        "scan-forgets-tiles", "passes/lower_scan.py", "what the tiles before the last one gave is lost",
        'b.emit("select", tiles.present, self._join(b, tiles.value, total), total)', "total",
        (MATRIX + "test_scans_along_an_axis",),
    ),
    Mutant(
        "scan-wrong-distance", "passes/lower_scan.py", "lane totals meet at distances 1, 4, 16",
        "distance *= 2", "distance *= 4",
        (MATRIX + "test_scans_along_an_axis",),
    ),
    # ---- passes: arithmetic and proofs ----
    Mutant(
        "fold-plus-zero", "passes/simplify.py", "x + 0.0 becomes x, -0.0 too",
        '"add": ((1, -0.0, 0), (0, -0.0, 1)),', '"add": ((1, 0.0, 0), (0, 0.0, 1)),',
        ("test_cases_maths.py::test_signed_zeros",),
    ),
    Mutant(
        "fold-zero-minus", "passes/simplify.py", "0 - x becomes x",
        '"sub": ((1, 0, 0),),\n    "mul"', '"sub": ((1, 0, 0), (0, 0, 1)),\n    "mul"',
        ("test_filetests.py", "test_differential.py::test_generated_programs"),
    ),
    Mutant(
        "fold-operands-swapped", "passes/simplify.py", "constants fold with their operands in reverse",
        "value = semantics.evaluate(inst.op, dtype, *arrays)", "value = semantics.evaluate(inst.op, dtype, *arrays[::-1])",
        ("test_cases_maths.py::test_division_with_negative_operands_at_compile_time",),
    ),
    Mutant(
        "racy-rows-accepted", "analysis/dependence.py", "rows that overlap by one element count as apart",
        "return high - low < scale", "return high - low <= scale",
        ("test_filetests.py", "test_prove_parallel.py"),
    ),
    Mutant(
        "condition-turned-round", "analysis/dependence.py", "what holds in the else branch is taken from the then branch",
        "yield (u.op if holds else _OPPOSITE[u.op]), *u.args", "yield u.op, *u.args",
        ("test_cases_indices.py::test_a_store_that_all_iterations_but_one_make_is_refused",),
    ),
    # ---- tiles ----
    Mutant(
        "copy-pad-ignored", "ir/tiles.py", "outside the source a copy reads 0 whatever the pad",
        'b.emit("store", cell, pad)', 'b.emit("store", cell, Const(0.0 if dtype.is_float else 0, dtype))',
        (TILES + "test_a_copy_pads_what_lies_outside",),
    ),
    Mutant(
        "copy-store-unclipped", "ir/tiles.py", "a copy stores outside its target",
        "with _guard(b, writable):", "with _guard(b, None):",
        (MATRIX + "test_copies_with_steps_pads_and_edges",),
    ),
    Mutant(
        "copy-below-zero", "ir/tiles.py", "a start is taken to be no less than 0",
        "from_start = isinstance(start, Const) and 0 <= start.value < FAR", "from_start = True",
        (MATRIX + "test_copies_with_steps_pads_and_edges",),
    ),
    Mutant(
        "copy-step-ignored", "ir/tiles.py", "a copy takes neighbours whatever its step",
        'offset = index if step == 1 else b.emit("mul", index, step)', "offset = index",
        (TILES + "test_the_step_of_a_slice_counts",),
    ),
    Mutant(
        "ast-copy-edge", "interp/ast_tile.py", "the syntax tree's copy leaves out the first element of a dimension",
        "(index >= 0) & (index < extent)", "(index > 0) & (index < extent)",
        (TILES + "test_copies_that_convert",),
    ),
    # ---- semantics ----
    Mutant(
        "mod-as-in-c", "semantics/ints.py", "`%` takes the sign of the dividend",
        "return np.subtract(a, np.multiply(b, _floordiv(a, b))) * (b != 0)",
        "return np.subtract(a, np.multiply(b, _tdiv(a, b))) * (b != 0)",
        ("test_cases_maths.py::test_division_with_negative_operands_at_run_time",),
    ),
    Mutant(
        "max-loses-nan", "semantics/floats.py", "max gives the operand that is not NaN",
        "_order_zeros(np.maximum, _greater_zero)", "_order_zeros(np.fmax, _greater_zero)",
        ("test_cases_maths.py::test_nan_through_max_min_and_clamp",),
    ),
    Mutant(
        "shift-count-unchecked", "semantics/ints.py", "left shifts count modulo the width",
        "np.where(inside, np.left_shift(a, np.where(inside, count, 0).astype(a.dtype)), 0)",
        "np.left_shift(a, (count & (8 * a.dtype.itemsize - 1)).astype(a.dtype))",
        ("test_cases_maths.py::test_shift_counts_beyond_the_width",),
    ),
    Mutant(
        "cast-rounds-twice", "semantics/casts.py", "f64 becomes f16 by way of a rounded f32",
        "return _odd_f32(x, src).astype(dst.numpy)", "return x.astype(np.float32).astype(dst.numpy)",
        ("test_cases_maths.py::test_f64_to_f16_rounds_once",),
    ),
    # ---- emitted text ----
    Mutant(
        "text-shift-swapped", "cuda/device/integers.cuh", "emitted code shifts the count by the value",
        "(T)((W)a << (W)n) : T(0)", "(T)((W)n << (W)a) : T(0)",
        ("test_prelude_values.py",),
    ),
    Mutant(
        "text-mod-as-in-c", "cuda/device/integers.cuh", "emitted `%` takes the sign of the dividend",
        "(T)(r + b) : r;", "(T)r : r;",
        ("test_prelude_values.py",),
    ),
    Mutant(
        "text-signed-overflow", "semantics/c_text.py", "signed sums are C's, which must not overflow",
        'table = _WIDE_UNSIGNED if dtype.kind == "u" and dtype.bits >= 32 else _INT',
        "table = _WIDE_UNSIGNED if dtype.bits >= 32 else _INT",
        ("test_semantics_cuda.py::test_expressions_read_well", "test_filetests.py"),
    ),
    Mutant(
        "text-c-division", "cuda/emit_body.py", "C's division stands where the dividend may be negative",
        "return a >= 0 and b > 0", "return b > 0",
        ("test_emit.py", "test_filetests.py"),
    ),
    Mutant(
        "text-32-bit-offset", "cuda/emit_body.py", "offsets of several dimensions are worked out in 32 bits",
        'f"(long long){self.text(x)}" if x.dtype is I32 else self.text(x)', "self.text(x)",
        ("test_emit.py", "test_filetests.py"),
    ),
    Mutant(
        "text-shuffle-down", "cuda/emit_ops.py", "lanes take the value of the lane above instead of below",
        '"shfl_up": "__shfl_up_sync"', '"shfl_up": "__shfl_down_sync"',
        ("test_emit.py", "test_filetests.py"),
    ),
    Mutant(
        "text-loop-runs-on", "cuda/emit_ops.py", "a loop with a constant step includes its end",
        "'<' if step.value > 0 else '>'", "'<=' if step.value > 0 else '>'",
        ("test_emit.py", "test_filetests.py"),
    ),
)  # fmt: skip
