"""Faults in what finds faults: the interpreters' checks, roles and rings, the comparison of results."""

from __future__ import annotations

from mutants.mutant import Mutant

MACHINES = (
    # ---- races, bounds and barriers as the interpreters see them ----
    Mutant(
        "race-between-blocks-unseen", "interp/flat_races.py", "a barrier of the block orders accesses of other blocks too",
        "return np.where((seen < 0) | (level < GRID) & passed, THREAD, level)", "return np.where((seen < 0) | passed, THREAD, level)",
        ("test_flat_interp_simt.py::test_a_barrier_does_not_order_blocks",),
    ),
    Mutant(
        "write-after-read-unseen", "interp/flat_races.py", "a write beside an unordered read is no race",
        '"w": ("w", "r", "rw")', '"w": ("w", "rw")',
        ("test_flat_interp_simt.py::test_global_races_within_and_between_blocks",),
    ),
    Mutant(
        "index-check-off-by-one", "interp/flat_memory.py", "the index after the last is not out of range",
        "index.view(np.uint64) >= extent)", "index.view(np.uint64) > extent)",
        ("test_flat_interp_simt.py::test_the_index_after_the_last_is_out_of_bounds_though_the_next_row_is_there",),
    ),
    Mutant(
        "unwritten-unseen", "interp/flat_memory.py", "reads of unwritten memory go unseen",
        "missing = minus(m.mask, lanes(np.asarray(memory.written.take(flat))))", "missing = False",
        ("test_flat_interp_simt.py::test_reads_of_what_was_never_written",),
    ),
    Mutant(
        "divergent-barrier-unseen", "interp/flat_simt.py", "a barrier that only some threads of a block reach goes unseen",
        "if absent.any():", "if absent.all():",
        ("test_flat_interp_simt.py::test_barrier_in_divergent_code",),
    ),
    # ---- roles and rings ----
    Mutant(
        "ring-acquired-early", "interp/flat_roles.py", "a slot is filled again one use before it has been released",
        'return use - self.inst.attr("stages") if op', 'return use - self.inst.attr("stages") - 1 if op',
        ("test_rings.py::test_a_producer_and_two_consumers",),
    ),
    Mutant(
        "ring-one-consumer", "interp/flat_roles.py", "a slot counts as released when the first of its consumers is through",
        "return [q for q in self.users[_AFTER[op]] if", "return [q for q in self.users[_AFTER[op]][:1] if",
        ("test_rings.py::test_a_producer_and_two_consumers",),
    ),
    Mutant(
        "ring-early-commit-unseen", "interp/flat_roles.py", "what a role does after a commit counts as done before it",
        "left[self.number] = self.epoch\n", "left[self.number] = self.epoch + 1\n",
        ("test_rings.py::test_every_slip_is_caught",),
    ),
    Mutant(
        "ring-turn-unchecked", "interp/flat_roles.py", "a role may skip uses of a ring",
        "if use != following:", "if use < following:",
        ("test_rings.py::test_every_slip_is_caught",),
    ),
    Mutant(
        "ring-release-without-wait", "interp/flat_roles.py", "a use may be released that was never waited for",
        "if use >= ring.done[before][m.number]:", "if use > ring.done[before][m.number]:",
        ("test_rings.py::test_every_slip_is_caught",),
    ),
    Mutant(
        "ring-left-over-unseen", "interp/flat_roles.py", "uses that a role has not done with at the end go unseen",
        "if len(set(counts.values())) > 1:", "if len(set(counts.values())) > 2:",
        ("test_rings.py::test_every_slip_is_caught",),
    ),
    Mutant(
        "ring-uses-taken-as-alike", "interp/flat_roles.py", "blocks that differ in the uses of a ring run as if they were alike",
        "own.add(inst.result.name)\n                continue", "continue",
        ("test_rings.py::test_blocks_run_together_only_where_they_use_rings_alike",),
    ),
    Mutant(
        "ring-two-fillers", "ir/role_rules.py", "two roles may fill one ring",
        "if len(fill) != 1:", "if len(fill) < 1:",
        ("test_rings.py::test_roles_that_do_not_fit_together",),
    ),
    Mutant(
        "roles-share-threads", "interp/flat_roles.py", "all roles count as the same threads",
        "        offset += team.agents[-1].width\n", "",
        ("test_rings.py::test_every_slip_is_caught",),
    ),
    # ---- comparing results ----
    Mutant(
        "diff-forgives-signs-of-zero", "diff.py", "0 and -0 count as the same result",
        "same = np.ascontiguousarray(expected).view(bits) == np.ascontiguousarray(got).view(bits)",
        "same = np.ascontiguousarray(expected) == np.ascontiguousarray(got)",
        ("test_cli_diff.py::test_compare",),
    ),
    Mutant(
        "diff-forgives-nan", "diff.py", "NaN counts as the same as any result",
        "return same | (np.isnan(expected) & np.isnan(got))", "return same | np.isnan(expected) | np.isnan(got)",
        ("test_cli_diff.py::test_compare",),
    ),
)  # fmt: skip
