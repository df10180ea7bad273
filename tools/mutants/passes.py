"""Faults in the passes that map loops to threads: barriers, shared memory, loops, reductions, scans."""

from __future__ import annotations

from mutants.mutant import FILES, INDICES, LINES, MATHS, MATRIX, ROWS, TILES, WIDEST, Mutant

PASSES = (
    # ---- barriers and shared memory ----
    Mutant(
        "barrier-dropped", "passes/place_barriers.py", "no barrier is ever put",
        "            self.out.append(Inst(\"barrier\", (), None, scope, inst.loc))\n", "",
        (ROWS + "test_two_writes_of_one_shared_array_by_different_threads",),
    ),
    Mutant(
        "barrier-war-ignored", "passes/place_barriers.py", "a write does not wait for readers",
        "found = {**(self.readers.get(buffer, {}) if writes else {}), **", "found = {**",
        (MATRIX + "test_pipelined_trips",),
    ),
    Mutant(
        "barrier-loop-carried-ignored", "passes/place_barriers.py", "a loop is taken not to follow itself",
        "        if loops:\n            pending.join(inside)", "        if loops:\n            pass",
        (MATRIX + "test_each_trip_fills_and_reads_one_buffer",),
    ),
    Mutant(
        "barrier-overlap-ignored", "passes/place_barriers.py", "arrays in the same bytes are taken to be apart",
        " or next((x for x in over if x), None)", "",
        (MATRIX + "test_shared_arrays_that_reuse_bytes",),
    ),
    Mutant(
        "barrier-branch-forgotten", "passes/place_barriers.py", "accesses in the first arm of a branch are forgotten after it",
        "                    if branch is not None:\n                        pending.join(branch)", "                    pass",
        (ROWS + "test_what_one_arm_of_a_branch_writes_is_read_after_it",),
    ),
    Mutant(
        "barrier-trips-always-apart", "analysis/trips.py", "trips of a loop are taken to touch different elements",
        "return loop is not None and independent(self.facts, loop, [a for a in self.facts.within[at] if a.buffer.name == buffer])",
        "return loop is not None",
        ("test_trips_apart.py::test_trips_that_meet_wait_for_each_other",),
    ),
    Mutant(
        "barrier-trips-apart-behind", "passes/place_barriers.py", "what follows a loop is taken for a trip of it",
        "at > self.regions.end[other.loop] or not", "not",
        ("test_trips_apart.py::test_what_follows_a_loop_waits_for_the_trip_that_left_it",),
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
    Mutant(
        "barrier-atomics-alike", "passes/place_barriers.py", "atomics of different kinds are taken to need no order",
        'token = _Token(("atomic", inst.attr("op")))', 'token = _Token("atomic")',
        (ROWS + "test_atomics_of_two_kinds_keep_their_order",),
    ),
    Mutant(
        "barrier-teams-forgotten", "passes/place_barriers.py", "accesses of teams count as those of the block's lanes",
        "if at <= teams_until:  # who", "if False:  # who",
        (ROWS + "test_a_store_of_the_block_after_stores_of_its_warps",),
    ),
    Mutant(
        "scratch-read-early", "passes/team.py", "results of warps are read before all have been written",
        'b.emit("floordiv", self.lane, WARP), x)\n        self.barrier()\n', 'b.emit("floordiv", self.lane, WARP), x)\n',
        (LINES + "test_reductions_over_several_warps_one_after_another",),
    ),
    Mutant(
        "scratch-written-early", "passes/team.py", "results of warps are overwritten before all have been read",
        "for at, x in enumerate(state))\n        self.barrier()\n", "for at, x in enumerate(state))\n",
        (LINES + "test_reductions_over_several_warps_one_after_another",),
    ),
    # ---- loops and threads ----
    Mutant(
        "guard-off-by-one", "passes/lower_to_threads.py", "one iteration too many runs",
        'b.emit("lt", index, rewriter(loop.operands[1]))', 'b.emit("le", index, rewriter(loop.operands[1]))',
        (MATHS + "test_a_cast_index_is_stored_in_every_type",),
    ),
    Mutant(
        "slot-tail-unguarded", "passes/own_elements.py", "the last slot of a spread tile has no guard",
        "if held.below or held.owner or type(", "if held.owner or type(",
        (TILES + "test_a_spread_fragment_of_any_length",),
    ),
    Mutant(
        "overwritten-row-kept", "analysis/sweeps.py", "what was loaded of a row stands for what was stored to it since",
        "return {p.name: first.get(p.name, least) for p in params}", "return {p.name: len(insts) for p in params}",
        ("test_kept_rows.py::test_a_row_that_is_overwritten_is_read_again",),
    ),
    Mutant(
        "reciprocal-for-any-quotient", "passes/share_reciprocals.py", "the reciprocal is used for zeros and subnormals too",
        'b.emit("and", b.emit("load", fine), b.emit("ge", size, QUOTIENTS[0]))', 'b.emit("load", fine)',
        ("test_reciprocals.py::test_any_divisor",),
    ),
    Mutant(
        "lanes-start-dropped", "passes/lower_to_threads.py", "a loop over lanes starts at 0 whatever its start",
        'own = b.emit("add", start, b.emit("mul", first, step))', 'own = b.emit("mul", first, step)',
        (TILES + "test_a_loop_over_threads_that_starts_late",),
    ),
    Mutant(
        "atomic-by-every-lane", "passes/lower_to_threads.py", "an effect whose result is used happens once a lane",
        "        with b.if_(team.first):\n            b.emit(\"store\", cell, rewriter.copy(inst))",
        "        if True:\n            b.emit(\"store\", cell, rewriter.copy(inst))",
        (ROWS + "test_an_atomic_of_a_block_happens_once",),
    ),
    Mutant(
        "fuse-wrong-extent", "passes/fuse_loops.py", "a digit is taken by the extent of the loop outside",
        'b.emit("mod", rest, counts[at],', 'b.emit("mod", rest, counts[at - 1],',
        (INDICES + "test_a_table_is_read_by_a_rest_that_does_not_divide_the_row",),
    ),
    Mutant(
        "fuse-digits-swapped", "passes/fuse_loops.py", "of three fused loops the two inner ones swap digits",
        "for at in range(len(loops) - 1, -1, -1):", "for at in (*range(1, len(loops)), 0):",
        (TILES + "test_three_loops_in_one", FILES),
    ),
    Mutant(
        "grid-rounds-down", "passes/map_loops.py", "the last, partly filled block is not launched",
        'b.emit("ceildiv", total, rows)', 'b.emit("floordiv", total, rows)',
        (MATHS + "test_a_cast_index_is_stored_in_every_type",),
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
        (INDICES + "test_a_loop_that_starts_late", FILES),
    ),
    Mutant(
        "ownership-unchecked", "analysis/ownership.py", "a thread reads its own element where another's is meant",
        "mine = where.thread.take(element, axis=0) == thread[..., None]", "mine = where.thread.take(element, axis=0) >= 0",
        (TILES + "test_a_shifted_read_of_a_fragment_is_another_threads_element",),
    ),
    Mutant(
        "order-of-iterations-unchecked", "analysis/ownership.py", "each iteration is taken to access the element of its number",
        " and np.array_equal(number, np.arange(len(number)))", "",
        (TILES + "test_a_shifted_read_of_a_fragment_is_another_threads_element",),
    ),
    Mutant(
        "uniformity-without-what-leaves", "ir/uniformity.py", "what leaves a loop has no say in who stays in it",
        "leave.setdefault(regions.innermost(i, LOOPS), []).append(i)", "pass",
        ("test_ir_facts.py::test_control",),
    ),
    Mutant(
        "launch-value-read-again", "passes/split_launches.py", "a later launch reads a value that an earlier one has overwritten",
        ' and inst.operands[0].name not in written', "",
        (FILES,),
    ),
    Mutant(
        "index-too-narrow", "passes/narrow_indices.py", "results are 32-bit without a look at their range",
        "return inst.op in ARITHMETIC and self.worth(x for x in inst.operands if x.dtype is I64) and self.fits(inst.result)",
        "return inst.op in ARITHMETIC and self.worth(x for x in inst.operands if x.dtype is I64)",
        (INDICES + "test_offsets_beyond_32_bits", FILES),
    ),
    Mutant(
        "fragment-tail-dropped", "passes/own_elements.py", "elements after the last whole slot of a spread tile are left out",
        "rest = outer.radix - whole", "rest = 0",
        (TILES + "test_a_spread_fragment_of_any_length",),
    ),
    Mutant(
        "teams-mixed-up", "passes/lower_to_threads.py", "a lane goes with another team than its own",
        'first = b.emit("floordiv", team.lane, width)', 'first = b.emit("mod", team.lane, width)',
        (MATRIX + "test_sums_over_an_axis",),
    ),
    Mutant(
        "lanes-layout-untrue", "passes/lane_order.py", "the written layout of a loop over lanes is not how it is spread",
        'f"[i] -> [i % {lanes}, i // {lanes}]"', 'f"[i] -> [i // {lanes}, i % {lanes}]"',
        (FILES, MATRIX + "test_shifted_reads_of_a_fragment"),
    ),
    Mutant(
        "lane-order-the-other-way", "passes/lane_order.py", "lanes run what those run whose elements they should have",
        "fit(np.argsort(thread))", "fit(thread)",
        (FILES, "test_ladders.py"),
    ),
    Mutant(
        "lane-order-of-few-elements", "passes/layout_cost.py", "accesses count one at a time, where wide ones meet in a bank",
        "if run > 1:\n        first, exists", "if run > 99:\n        first, exists",
        (FILES, "test_ladders.py"),
    ),
    Mutant(
        "fragment-layout-untrue", "passes/infer_layouts.py", "the written layout of a spread tile is not where its elements are",
        "return inst.with_attrs(layout=str(homes[inst.result.name].layout))", "return inst.with_attrs(layout='[e] -> [0, e]')",
        (FILES,),
    ),
    Mutant(
        "shuffles-mixed-up", "passes/fragment_slots.py", "of two shuffled slots a thread takes the other",
        'b.emit("select", here, held[1], held[0])', 'b.emit("select", here, held[0], held[1])',
        ("test_exchanges.py::test_what_a_warp_holds_comes_by_shuffles",),
    ),
    Mutant(
        "stale-copy-read", "passes/exchange.py", "a copy of a tile is read after the tile has been stored to",
        "for name in stored & valid.keys():", "for name in ():",
        ("test_exchanges.py::test_what_is_stored_to_after_a_copy_is_copied_again",),
    ),
    Mutant(
        "half-the-replicas-stored", "analysis/ownership.py", "storing to some copies of an element passes for storing to all",
        "return Own(slots, pairs == reached * where.replicas)", "return Own(slots, True)",
        ("test_given_layouts.py::test_loops_that_others_bind_do_not_store_to_half_the_replicas",),
    ),
    Mutant(
        "loop-index-too-narrow", "passes/narrow_indices.py", "a loop's index is 32-bit though its last step leaves that range",
        "and _fits(past)", "and _fits(self.range(stop))",
        (INDICES + "test_a_loop_index_steps_past_32_bits",),
    ),
    Mutant(
        "vector-across-rows", "passes/widen_loop.py", "elements behind the end of a row are read instead of the next row's first",
        'b.emit("le", b.emit("add", digits[i].rest, self.loop.count), digits[i].divisor)',
        'b.emit("le", digits[i].rest, digits[i].divisor)',
        (WIDEST + "[bias-f32-run-time]",),
    ),
    Mutant(
        "products-wrap-nowhere", "analysis/wrapping.py", "a product is taken for what it would be in more than 64 bits",
        '"add sub neg mul fma shl"', '"add sub neg fma shl"',
        ("test_wrapping.py",),
    ),
    Mutant(
        "sizes-far-apart", "analysis/wrapping.py", "n * n * n of an array of n elements is taken for a position in one",
        "(len(sizes) <= 1 or any(Counter(sizes) <= shape for shape in self.shapes))", "True",
        ("test_wrapping.py::test_which_sums_may_wrap",),
    ),
    Mutant(
        "wrapped-comparisons-believed", "analysis/dependence.py", "i + s < s is taken for never, where the sum wraps",
        "if side.facts.wrapped.isdisjoint((a, b))", "if True",
        ("test_prove_parallel.py::test_a_comparison_of_what_wraps_says_nothing_of_what_was_added",),
    ),
    Mutant(
        "scalars-far-below-0", "passes/infer_vector_widths.py", "sums with a scalar far below 0 are taken for consecutive",
        'yield self.b.emit("ge", self.parameters[name], -NEAR)', "pass",
        ("test_wrapping.py::test_elements_from_anywhere",),
    ),
    Mutant(
        "first-elements-dropped", "passes/widen_loop.py", "elements before the first multiple of 16 bytes are left out",
        'before = b.emit("select", b.emit("eq", *map(self.rewriter, (loop.shift.base, loop.shift.start))), ahead, 0)', "before = Const(0)",
        (WIDEST + "[map-f16-run-time]",),
    ),
    Mutant(
        "used-value-imprecise", "passes/elementary_precision.py", "a value that is used as f32 too is only as good as what is stored of it",
        "found.add(PRECISIONS.get(use.result.dtype) if rounded else None)",
        "found |= {PRECISIONS.get(use.result.dtype)} if rounded else set()",
        (FILES,),
    ),
    # ---- reductions and scans ----
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
        (LINES + "test_totals_of_few_lanes_are_known_to_all",),
    ),
    Mutant(
        "butterfly-too-short", "passes/team.py", "the widest exchange of a butterfly is left out",
        "distance = width // 2\n", "distance = width // 4\n",
        (MATRIX + "test_sums_over_an_axis",),
    ),
    Mutant(
        "fold-loses-the-middle", "passes/accumulate.py", "of an odd number of partial results the last is lost",
        "half = (count + 1) // 2", "half = count // 2",
        (LINES + "test_long_dot_products_have_one_value", FILES),
    ),
    Mutant(
        "argmax-loses-nan", "passes/accumulate.py", "argmax prefers a number to NaN",
        'better = b.emit("or", better, b.emit("and", y_nan, b.emit("not", x_nan)))', "better = better",
        (LINES + "test_nan_in_reductions",),
    ),
    Mutant(
        "part-stale-order", "passes/split_reductions.py", "the parts of a split reduction forget the vector of its order",
        "whole = (order.v,", "whole = (1,",
        (FILES,),
    ),
    Mutant(
        "part-empty-not-identity", "passes/split_reductions.py", "an empty part joins as the result over nothing",
        'value = b.emit("select", b.emit("eq", extent, 0), self.acc.start()[0], value)', "pass",
        (LINES + "test_empty_parts_leave_the_sign_of_zero",),
    ),
    Mutant(
        "part-not-rounded", "passes/lower_reduce.py", "parts of a run-time length are not whole tiles",
        'return b.emit("mul", tiles, tile)', 'return b.emit("ceildiv", length, max(order.parts, 1))',
        (FILES,),
    ),
    Mutant(
        "row-past-the-last-read", "passes/rows_in_flight.py", "of rows in flight, those past the last are read beyond the array",
        'row_at(r) if even else b.emit("min", row_at(r), b.emit("sub", limit, 1))', "row_at(r)",
        ("test_plain_rows.py",),
    ),
    Mutant(
        "length-in-no-launch", "passes/split_lengths.py", "rows of the least length of a range are in no launch",
        'b.emit("ge", length, part.least)', 'b.emit("gt", length, part.least)',
        ("test_plain_rows.py",),
    ),
    Mutant(
        "kept-beyond-the-slots", "passes/bound_rows.py", "rows of twice the length that lanes have registers for are kept",
        'site.arguments[extent.size], extent.most)', "site.arguments[extent.size], 2 * extent.most)",
        ("test_row_lengths.py::test_a_call_launches_the_kernel_of_its_length",),
    ),
    Mutant(
        "quotient-of-a-negative-summand", "passes/bound_quotients.py", "a summand of either sign is taken to be at most the sum",
        " and made[0].op in UNSIGNED and ", " and ",
        (FILES,),
    ),
    Mutant(
        "power-used-elsewhere", "passes/bound_quotients.py", "powers are only as good as their stored quotients, whatever else they do",
        "return precision if shared and reduced == 1 else None", "return precision",
        (FILES,),
    ),
    Mutant(
        "power-of-any-size", "passes/bound_quotients.py", "powers that may all be tiny are computed for f16",
        "if not parts.powers or precision is None", "if precision is None",
        (FILES,),
    ),
    Mutant(
        "started-early-for-nothing", "passes/overlap_launches.py", "a launch is held to read what the one before it only reads",
        '_workspaces(plan, before, "w")', '_workspaces(plan, before, "r")',
        (FILES,),
    ),
    Mutant(
        "range-wrapped-around", "passes/fuse_loops.py", "a range whose end has wrapped around is not empty",
        'b.emit("select", b.emit("gt" if step == Const(-1) else "lt", start, stop), count, Const(0))', "count",
        (FILES,),
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
)  # fmt: skip
