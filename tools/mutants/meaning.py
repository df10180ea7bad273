"""Faults in what programs mean: arithmetic, proofs and facts, tiles and layouts, the frontend."""

from __future__ import annotations

from mutants.mutant import FILES, INDICES, LINES, MATHS, MATRIX, TILES, Mutant

MEANING = (
    # ---- arithmetic and proofs ----
    Mutant(
        "fold-plus-zero", "passes/simplify.py", "x + 0.0 becomes x, -0.0 too",
        '"add": ((1, -0.0, 0), (0, -0.0, 1)),', '"add": ((1, 0.0, 0), (0, 0.0, 1)),',
        (MATHS + "test_signed_zeros",),
    ),
    Mutant(
        "fold-zero-minus", "passes/simplify.py", "0 - x becomes x",
        '"sub": ((1, 0, 0),),\n    "mul"', '"sub": ((1, 0, 0), (0, 0, 1)),\n    "mul"',
        (FILES,),
    ),
    Mutant(
        "fold-operands-swapped", "passes/simplify.py", "constants fold with their operands in reverse",
        "value = semantics.evaluate(inst.op, dtype, *arrays)", "value = semantics.evaluate(inst.op, dtype, *arrays[::-1])",
        (MATHS + "test_division_with_negative_operands_at_compile_time",),
    ),
    Mutant(
        "racy-rows-accepted", "analysis/dependence.py", "rows that overlap by one element count as apart",
        "return high - low < scale", "return high - low <= scale",
        ("test_prove_parallel.py::test_refused",),
    ),
    Mutant(
        "condition-turned-round", "analysis/comparisons.py", "what holds in the else branch is taken from the then branch",
        "yield (u.op if holds else _OPPOSITE[u.op]), *u.args", "yield u.op, *u.args",
        (INDICES + "test_a_store_that_all_iterations_but_one_make_is_refused",),
    ),
    Mutant(
        "shared-across-arms", "passes/simplify.py", "what one arm of a branch has computed counts as computed in the other",
        "            self._forget()\n            self.undo.append([])\n            self.out.append(inst)\n        else:",
        "            self.out.append(inst)\n        else:",
        (FILES,),
    ),
    Mutant(
        "unused-atomic-dropped", "passes/simplify.py", "an atomic whose result nobody uses is dead code",
        'if row.pure or inst.op == "load":', 'if row.pure or inst.op in ("load", "atomic"):',
        (INDICES + "test_guarded_accesses_stay_inside",),
    ),
    Mutant(
        "race-one-way-only", "analysis/dependence.py", "only a later iteration is looked at for what an earlier one touches",
        "orders = ((p1, p2), (p2, p1))", "orders = ((p1, p2),)",
        ("test_prove_parallel.py::test_refused",),
    ),
    Mutant(
        "race-read-beside-atomic", "analysis/dependence.py", "reads beside atomics on one element count as independent",
        'not in ({"read"}, {"atomic"})', 'not in ({"read"}, {"atomic"}, {"read", "atomic"})',
        ("test_prove_parallel.py::test_refused",),
    ),
    Mutant(
        "race-bound-off-by-one", "analysis/comparisons.py", "a condition `<=` is taken to be `<`",
        '"le": lambda a, b: b - a,', '"le": lambda a, b: b - a - 1,',
        (INDICES + "test_a_store_that_two_iterations_make_is_refused",),
    ),
    Mutant(
        "range-of-differences", "ir/ranges.py", "a difference is bounded by the differences of the bounds",
        '"sub": lambda a, b: (a[0] - b[1], a[1] - b[0])', '"sub": lambda a, b: (a[0] - b[0], a[1] - b[1])',
        ("test_ir_facts.py::test_ranges_hold_every_result",),
    ),
    Mutant(
        "range-wraps-unseen", "ir/ranges.py", "arithmetic that may wrap keeps the range it has without",
        "return found if found is not None and low <= found[0] and found[1] <= high else (low, high)",
        "return found if found is not None else (low, high)",
        ("test_ir_facts.py::test_ranges_hold_every_result",),
    ),
    Mutant(
        "range-of-steps", "ir/ranges.py", "a loop by steps is taken to meet multiples of its step, wherever it starts",
        "return last - (last - start[0]) % step[0] if", "return last - last % step[0] if",
        ("test_ir_facts.py::test_ranges_of_loops",),
    ),
    Mutant(
        "break-taken-as-uniform", "ir/uniformity.py", "threads that leave a loop at different times count as together",
        "self.targets[parent].append(left)", "pass",
        ("test_ir_facts.py::test_control",),
    ),
    Mutant(
        "atomic-taken-as-uniform", "ir/uniformity.py", "all threads are taken to get the same from an atomic",
        'self.seed(name, self.once(i, regions))', "pass",
        ("test_ir_facts.py::test_each_thread_has_its_own_result_of_an_atomic",),
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
    Mutant(
        "gemm-not-transposed", "ir/tiles.py", "the second factor of a gemm is read as it lies though it is said to be transposed",
        '*((j, k) if inst.attr("trans_b") else (k, j))', "*(k, j)",
        (TILES + "test_gemm_of_transposed_factors",),
    ),
    Mutant(
        "gemm-depth-short", "ir/tiles.py", "a gemm leaves out the last step of k",
        "with b.loop(0, depth, kind", "with b.loop(1, depth, kind",
        (TILES + "test_gemm_of_transposed_factors",),
    ),
    Mutant(
        "swizzle-or-for-xor", "layout/layout.py", "`^` in a layout, as swizzles have it, is evaluated as or",
        '"^": Operator(1, np.bitwise_xor)', '"^": Operator(1, np.bitwise_or)',
        ("test_layout.py",),
    ),
    Mutant(
        "layout-of-vectors", "layout/layout.py", "the elements of a lane's vector all get its first slot",
        'slot = (name, v * lanes, "//", v, "*", name, v, "%", "+")', 'slot = (name, v * lanes, "//", v, "*")',
        ("test_layout.py",),
    ),
    Mutant(
        "layout-clash-accepted", "layout/layout.py", "a layout may put an element and its replica into one slot",
        "np.flatnonzero(places[order][1:] == places[order][:-1])", "np.flatnonzero(places[order][2:] == places[order][:-2])",
        ("test_layout.py",),
    ),
    Mutant(
        "layout-thread-outside", "layout/layout.py", "a layout may name the thread after a team's last",
        "(thread < threads)", "(thread <= threads)",
        ("test_layout.py",),
    ),
    # ---- semantics ----
    Mutant(
        "mod-as-in-c", "semantics/ints.py", "`%` takes the sign of the dividend",
        "return np.subtract(a, np.multiply(b, _floordiv(a, b))) * (b != 0)",
        "return np.fmod(a, np.where(b == 0, 1, b).astype(a.dtype)) * (b != 0)",
        (MATHS + "test_division_with_negative_operands_at_run_time",),
    ),
    Mutant(
        "max-loses-nan", "semantics/floats.py", "max gives the operand that is not NaN",
        "_order_zeros(np.maximum, _greater_zero)", "_order_zeros(np.fmax, _greater_zero)",
        (MATHS + "test_nan_through_max_min_and_clamp",),
    ),
    Mutant(
        "shift-count-unchecked", "semantics/ints.py", "left shifts count modulo the width",
        "np.where(inside, np.left_shift(a, np.where(inside, count, 0).astype(a.dtype)), 0)",
        "np.left_shift(a, (count & (8 * a.dtype.itemsize - 1)).astype(a.dtype))",
        (MATHS + "test_shift_counts_beyond_the_width",),
    ),
    Mutant(
        "cast-rounds-twice", "semantics/casts.py", "f64 becomes f16 by way of a rounded f32",
        "return _odd_f32(x, src).astype(dst.numpy)", "return x.astype(np.float32).astype(dst.numpy)",
        (MATHS + "test_f64_to_f16_rounds_once",),
    ),
    Mutant(
        "shift-operands-swapped", "semantics/ints.py", "left shifts shift the count by the value",
        "np.left_shift(a, np.where(inside, count, 0).astype(a.dtype))", "np.left_shift(np.where(inside, count, 0).astype(a.dtype), a)",
        (MATHS + "test_narrow_left_shift_drops_bits",),
    ),
    Mutant(
        "row-max-loses-nan", "semantics/reduce.py", "the maximum of a row is that of its numbers, NaN or not",
        "nan_high=(op is np.maximum) != drops_nan", "nan_high=(op is np.maximum) == drops_nan",
        (LINES + "test_nan_in_reductions",),
    ),
    Mutant(
        "fma-rounds-twice", "semantics/floats.py", "an fma of f32 rounds to f64 first",
        "    if i[0].size:\n        r[i] = _to_odd", "    if False:\n        r[i] = _to_odd",
        ("test_semantics_ops.py::test_fma_known_answers",),
    ),
    # ---- frontend ----
    Mutant(
        "order-as-if-unwritten", "frontend/check_reduce.py", "a reduction has the default order whatever its author wrote",
        "order = reduce_order(length, dtype, contiguous, alone=alone, **given)",
        "order = reduce_order(length, dtype, contiguous, alone=alone)",
        (LINES + "test_order_of_additions_is_what_is_written",),
    ),
    Mutant(
        "slice-rounds-down", "frontend/subscripts.py", "a slice with a step leaves out the last element of an odd extent",
        'extent = dims.op("ceildiv",', 'extent = dims.op("floordiv",',
        (INDICES + "test_strided_slices_keep_their_step",),
    ),
    Mutant(
        "constant-index-at-the-end", "frontend/subscripts.py", "the index after the last is accepted",
        "if over is not None and over >= 0:", "if over is not None and over > 0:",
        (TILES + "test_a_constant_index_past_the_end_is_refused",),
    ),
    Mutant(
        "reduced-dimensions-swapped", "frontend/lower_expr.py", "a reduction over several dimensions takes a digit by the wrong extent",
        "symbols[-2::-1], extents[:0:-1])", "symbols[-2::-1], extents[-2::-1])",
        (LINES + "test_a_sum_over_two_dimensions",),
    ),
)  # fmt: skip
