"""Faults in layouts: those of loops, those whose inverse is an exclusive or, and in what proves and uses exchanges."""

from __future__ import annotations

from mutants.mutant import FILES, Mutant

GIVEN, PLACES, PROOFS = "test_given_layouts.py::", "test_places.py::", "test_prove_parallel.py::"
BANKS = "test_transposes.py::test_threads_meet_in_no_bank_whatever_sizes_leave_over"

LAYOUTS = (
    Mutant(
        "exchange-summed", "passes/own_elements.py", "digits of an exclusive or are added",
        'join = "xor" if held.exclusive else "add"', 'join = "add"',
        (GIVEN + "test_a_thread_runs_what_it_is_given",),
    ),
    Mutant(
        "exchange-in-any-radix", "layout/digits.py", "digits of an exclusive or need not be whole bits",
        "radix = 1 << radix.bit_length() - 1", "pass",
        (PLACES + "test_every_exchange_of_bits_is_counted",),
    ),
    Mutant(
        "exchange-unseen-by-tests", "layout/places.py", "what an exclusive or of digits gives is tested as their sum",
        'asked |= {"exclusive": True} if join is EXCLUSIVE else {}', "pass",
        (PLACES + "test_every_exchange_of_bits_is_counted",),
    ),
    Mutant(
        "given-loop-in-turn", "passes/fragment_slots.py", "a loop with a layout of the author's is run by threads in turn",
        'if inst.attr("given"):', "if False:",
        (GIVEN + "test_a_thread_runs_what_it_is_given",),
    ),
    Mutant(
        "given-loop-follows-a-tile", "passes/layout_roots.py", "a loop with a layout of the author's follows a tile that it stores to",
        "(self.fixed.loops, mine)", "({}, mine)",
        (GIVEN + "test_loops_go_to_the_threads_that_a_layout_says",),
    ),
    Mutant(
        "replicas-read-back", "passes/layout_choice.py", "a loop that stores to memory alone is run by all threads that hold what it reads",
        "if where.replicas > 1 and not self._repeats(at, choice)]", "if False]",
        (GIVEN + "test_what_memory_gives_back_is_read_by_the_thread_that_stored_it",),
    ),
    Mutant(
        "replica-overtaken", "passes/layout_choice.py", "a thread may read what another has stored for its copy of an element",
        "if name not in choice.shared and (why := self._overtaken(touches[name], choice))}", "if False and (why := None)}",
        (GIVEN + "test_a_replica_does_not_read_what_another_has_written",),
    ),
    Mutant(
        "given-nest-too-deep", "passes/nest.py", "loops that stand in a nest with a layout are part of it",
        " and len(loops) < most", "",
        (FILES,),
    ),
    Mutant(
        "given-loop-counts-from-its-start", "passes/map_loops.py", "a layout is over the index of a loop, not the number of an iteration",
        " or given and not plain", "",
        (GIVEN + "test_iterations_are_counted_from_0_in_every_range", FILES),
    ),
    Mutant(
        "given-layout-of-replicas", "frontend/check_layout.py", "an iteration may have replicas",
        "    if copied is not None:\n        fail(at, \"E0235\", f\"`{copied.name}` counts replicas of an iteration\"",
        "    if False:\n        fail(at, \"E0235\", f\"`{copied.name}` counts replicas of an iteration\"",
        (GIVEN + "test_layouts_of_loops_that_do_not_fit",),
    ),
    Mutant(
        "loop-of-a-shared-tile-laid-out", "passes/infer_layouts.py", "a loop over a tile in shared memory is said to run as that would lie",
        " if at in over}", "}",
        (FILES,),
    ),
    Mutant(
        "exchanged-runs-overlap", "analysis/dependence.py", "runs that are exchanged may be longer than what they are exchanged by",
        "if k < 0 or other != -k or not all(ranges.positive(form(k) + x) for x in (rest, -rest)):", "if k < 0 or other != -k:",
        (PROOFS + "test_refused",),
    ),
    Mutant(
        "digit-of-a-digit-moves", "analysis/offsets.py", "a digit of a digit is taken to change within a run",
        "by, arg = u.by.value, settled(u.arg, index, count)", "by, arg = u.by.value, u.arg",
        ("test_offsets.py::test_runs_in_digits_of_digits",),
    ),
    Mutant(
        "shared-from-the-middle", "analysis/offsets.py", "iterations that share elements are taken to begin at the first of one",
        " or any(c % each for _, c in first.terms)", "",
        ("test_offsets.py::test_runs_of_elements_that_iterations_share",),
    ),
    Mutant(
        "turned-and-left", "passes/turned_rows.py", "elements that were read in another order stay in it",
        "    while bit <= most:\n", "    while bit < most:\n",
        (BANKS,),
    ),
    Mutant(
        "turned-where-none-meet", "passes/turned_rows.py", "which threads meet is told without the rows at which they begin",
        "row - over * column", "row",
        (BANKS,),
    ),
)  # fmt: skip
