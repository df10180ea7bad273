"""Faults in the emitted text and in calls, all noticed without a GPU."""

from __future__ import annotations

from mutants.mutant import Mutant

TEXT = (
    # ---- emitted text ----
    Mutant(
        "text-shift-swapped", "cuda/device/integers.cuh", "emitted code shifts the count by the value",
        "(T)((W)a << (W)n) : T(0)", "(T)((W)n << (W)a) : T(0)",
        ("test_prelude_values.py::test_integer_operations",),
    ),
    Mutant(
        "text-mod-as-in-c", "cuda/device/integers.cuh", "emitted `%` takes the sign of the dividend",
        "r = d - r;", ";",
        ("test_prelude_values.py::test_integer_operations",),
    ),
    Mutant(
        "text-signed-overflow", "semantics/c_text.py", "signed sums are C's, which must not overflow",
        'table = _WIDE_UNSIGNED if dtype.kind == "u" and dtype.bits >= 32 else _INT',
        "table = _WIDE_UNSIGNED if dtype.bits >= 32 else _INT",
        ("test_semantics_cuda.py::test_expressions_read_well",),
    ),
    Mutant(
        "text-c-division", "cuda/emit_body.py", "C's division stands where the dividend may be negative",
        "return a >= 0 and b > 0", "return b > 0",
        ("test_emit.py::test_plain_operators_only_where_nothing_wraps",),
    ),
    Mutant(
        "text-32-bit-offset", "cuda/emit_body.py", "offsets of several dimensions are worked out in 32 bits",
        'f"(long long){self.text(x)}" if x.dtype is I32 else self.text(x)', "self.text(x)",
        ("test_emit.py::test_addresses_are_64_bit_whatever_the_indices",),
    ),
    Mutant(
        "text-shuffle-down", "cuda/emit_ops.py", "lanes take the value of the lane above instead of below",
        '"shfl_up": "__shfl_up_sync"', '"shfl_up": "__shfl_down_sync"',
        ("test_emit.py::test_narrow_values_are_shuffled_as_ints",),
    ),
    Mutant(
        "text-loop-runs-on", "cuda/emit_ops.py", "a loop with a constant step includes its end",
        "'<' if step.value > 0 else '>'", "'<=' if step.value > 0 else '>'",
        ("test_emit.py::test_loops_and_control_read_like_c",),
    ),
    Mutant(
        "text-right-shift-logical", "cuda/device/integers.cuh", "emitted right shifts of negative values bring in zeros",
        "return (T)(a >> n);", "return (T)((W)a >> n);",
        ("test_prelude_values.py::test_integer_operations",),
    ),
    Mutant(
        "text-max-loses-nan", "cuda/device/extremes.cuh", "emitted max gives the operand that is not NaN",
        'asm("max.NaN.f32 ', 'asm("max.f32 ',
        ("test_prelude_values.py::test_what_is_said_of_nan",),
    ),
    Mutant(
        "text-halves-swapped", "cuda/device/memory.cuh", "of two packed elements the high half comes first",
        "return vx_wrap_i4(p[i >> 1] >> (4 * (i & 1)));", "return vx_wrap_i4(p[i >> 1] >> (4 * (~i & 1)));",
        ("test_prelude_values.py::test_packed_elements",),
    ),
    Mutant(
        "text-mask-of-another-group", "cuda/device/threads.cuh", "a warp instruction names lanes beyond its group",
        "& 31u & ~(width - 1u))", "& 31u)",
        ("test_prelude_values.py::test_the_lanes_of_a_group",),
    ),
    Mutant(
        "text-full-mask", "cuda/emit_body.py", "a warp instruction of a group waits for lanes that are elsewhere",
        'return "0xffffffffu" if self._control[at] % WARP == 0 else', 'return "0xffffffffu" if True else',
        ("test_emit.py::test_a_shuffle_names_its_group_where_the_neighbours_may_be_elsewhere",),
    ),
    Mutant(
        "text-shuffle-of-the-warp", "cuda/emit_ops.py", "shuffles of a group take values of other groups",
        "{value}, {lane}, {width})", "{value}, {lane}, 32)",
        ("test_emit.py::test_a_shuffle_names_its_group_where_the_neighbours_may_be_elsewhere",),
    ),
    Mutant(
        "text-barrier-of-the-warp", "cuda/emit_ops.py", "a barrier of the block waits for the warp alone",
        '"__syncthreads();" if inst.attr("scope")', '"__syncwarp();" if inst.attr("scope")',
        ("test_emit.py::test_a_load_is_not_moved_past_a_store_nor_into_a_loop",),
    ),
    Mutant(
        "text-arena-offset-lost", "cuda/emit_ops.py", "all shared arrays lie at the start of the arena",
        "({ARENA} + {inst.attr('offset')})", "({ARENA} + 0)",
        ("test_emit.py::test_shared_arrays_lie_at_their_offsets_in_one_arena",),
    ),
    Mutant(
        "text-load-after-store", "cuda/inline.py", "a load is written out after a store that changes what it reads",
        'insts[i].op == "load" and effects[place[at]] == effects[i]', 'insts[i].op == "load"',
        ("test_emit.py::test_a_load_is_not_moved_past_a_store_nor_into_a_loop",),
    ),
    Mutant(
        "text-bound-read-again", "cuda/inline.py", "a loop's bound is read again after each iteration",
        ' or insts[at].op == "loop":', ":",
        ("test_emit.py::test_a_load_is_not_moved_past_a_store_nor_into_a_loop",),
    ),
    Mutant(
        "text-wrap-unguarded", "cuda/emit_body.py", "plain operators stand where an int may wrap",
        "return self._ranges[inst.result.name] != full(inst.result.dtype)", "return True",
        ("test_emit.py::test_plain_operators_only_where_nothing_wraps",),
    ),
    Mutant(
        "text-stride-ignored", "cuda/emit_body.py", "rows of a strided array are taken to lie side by side",
        'f"{index} * {self.short(stride)}" for index', 'f"{index}" for index',
        ("test_emit.py::test_addresses_are_64_bit_whatever_the_indices",),
    ),
    Mutant(
        "text-restrict-on-aliases", "cuda/emit.py", "a kernel that gets one buffer twice promises distinct memory",
        "{'__restrict__ ' * distinct}", "__restrict__ ",
        ("test_emit.py::test_a_kernel_that_is_passed_one_buffer_twice_makes_no_promise_of_distinct_memory",),
    ),
    Mutant(
        "text-check-off-by-one", "cuda/emit_body.py", "debug builds accept the index after the last",
        "{self.short(index)} < {self.short(extent)}", "{self.short(index)} <= {self.short(extent)}",
        ("test_emit_checks.py::test_debug_builds_check_indices_divisors_and_assertions",),
    ),
    Mutant(
        "text-minus-zero-lost", "semantics/c_literal.py", "-0.0 is written as 0.0",
        "text = repr(number) if dtype == F64 else str(array[()])", "text = repr(number + 0.0) if dtype == F64 else str(array[()] + 0)",
        ("test_semantics_cuda.py::test_literals_read_well",),
    ),
    Mutant(
        "text-cast-rounds-twice", "semantics/c_text.py", "emitted casts of wide values to 16 bits round to f32 first",
        'return f"vx_odd_f32({expr})"', 'return f"(float){expr}"',
        ("test_semantics_cuda.py::test_expressions_read_well",),
    ),
    Mutant(
        "text-contracted", "cuda/nvrtc.py", "NVRTC may make an fma of a product and a sum",
        '"exact": ("--fmad=false",', '"exact": ("--fmad=true",',
        ("test_nvrtc.py::test_fp_modes_reach_the_code",),
    ),
    # ---- calls ----
    Mutant(
        "size-compared-one-way", "binding.py", "an array longer than its dimension is accepted",
        "        if size != got:", "        if size > got:",
        ("test_binding.py::test_two_arrays_disagree_and_both_are_named",),
    ),
    Mutant(
        "overlap-accepted", "runtime/launch.py", "an output may overlap an input",
        'declared[other].mode} != {"in"}', 'declared[other].mode} == {"out"}',
        ("test_launch.py::test_calls_that_are_refused",),
    ),
    Mutant(
        "loaded-again-and-restrict", "cuda/emit.py", "an array that is loaded from after a store to it is `__restrict__`",
        "if first < last or any(", "if False and any(",
        ("test_emit_checks.py::test_what_is_loaded_behind_a_store_to_it_is_not_restrict",),
    ),
    Mutant(
        "requirement-ignored", "schedule.py", "a call whose sizes do not fit together is run",
        "if not value(inst.operands[0]):", "if value(inst.operands[0]) is None:",
        ("test_launch.py::test_a_requirement_that_fails_is_placed_and_says_both_sides",),
    ),
)  # fmt: skip
