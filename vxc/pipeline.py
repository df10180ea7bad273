"""The passes from lowered IR to explicit threads, in order. `Pipeline` checks that each has what it needs."""

from __future__ import annotations

from vxc.pass_manager import Pass, Pipeline
from vxc.passes.async_copies import ASYNC_COPIES
from vxc.passes.avoid_bank_conflicts import AVOID_BANK_CONFLICTS
from vxc.passes.bound_quotients import BOUND_QUOTIENTS
from vxc.passes.bound_rows import BOUND_ROWS
from vxc.passes.doubt_indices import DOUBT_INDICES
from vxc.passes.elementary_precision import ELEMENTARY_PRECISION
from vxc.passes.expand_tiles import EXPAND_TILES
from vxc.passes.fuse_loops import FUSE_LOOPS
from vxc.passes.fuse_siblings import FUSE_SIBLINGS
from vxc.passes.infer_layouts import INFER_LAYOUTS
from vxc.passes.infer_vector_widths import INFER_VECTOR_WIDTHS
from vxc.passes.keep_rows import KEEP_ROWS
from vxc.passes.limit_unrolling import LIMIT_UNROLLING
from vxc.passes.lower_to_threads import LOWER_TO_THREADS
from vxc.passes.map_loops import MAP_LOOPS
from vxc.passes.narrow_indices import NARROW_INDICES
from vxc.passes.overlap_launches import OVERLAP_LAUNCHES
from vxc.passes.place_barriers import PLACE_BARRIERS
from vxc.passes.plan_shared import PLAN_SHARED
from vxc.passes.prove_parallel import PROVE_PARALLEL
from vxc.passes.share_reciprocals import SHARE_RECIPROCALS
from vxc.passes.simplify import SIMPLIFY, SIMPLIFY_THREADS, SIMPLIFY_WIDENED
from vxc.passes.sink_loads import SINK_LOADS
from vxc.passes.split_launches import SPLIT_LAUNCHES
from vxc.passes.split_lengths import SPLIT_LENGTHS
from vxc.passes.split_reductions import SPLIT_REDUCTIONS
from vxc.passes.tile_transposes import TILE_TRANSPOSES

PIPELINE = Pipeline(
    (
        PROVE_PARALLEL,  # first, while the loops are the author's, so that what is refused is said in the author's terms
        SIMPLIFY,  # before anything is decided, so that decisions see constants
        DOUBT_INDICES,  # while loops and conditions are as the author wrote them; what passes add themselves is in range
        FUSE_SIBLINGS,  # before each nest of the top level is a launch of its own
        SPLIT_LAUNCHES,  # all that follows may count on one parallel nest a kernel
        SPLIT_LENGTHS,  # before parts, of which only the launch for long rows has several
        SPLIT_REDUCTIONS,  # parts of a reduction need a launch before the one that folds them
        EXPAND_TILES,  # what no faster form has taken is loops from here on
        TILE_TRANSPOSES,  # while the loops of a nest are apart; before they are one
        FUSE_LOOPS,  # one index to map, whatever the extents
        BOUND_QUOTIENTS,  # while every loop over a row still computes its elements itself, which shows that they are those of the sum
        BOUND_ROWS,  # once loops over one row stand side by side; before they keep what they are told how long it gets
        KEEP_ROWS,  # while loops over one row stand side by side, each as a whole; who runs them follows from what is kept
        MAP_LOOPS,  # blocks, rows and lanes: the last decision on tiles
        INFER_LAYOUTS,  # where fragments live depends on who runs the loops over them
        PLAN_SHARED,  # all shared arrays are known now; before barriers, which must keep apart what shares bytes
        PLACE_BARRIERS,  # while it is visible which lanes run what; before threads, where it no longer is
        LOWER_TO_THREADS,  # spells out what is decided
        SIMPLIFY_THREADS,  # lowering writes the general case: half of it, which all that follows would go through
        SINK_LOADS,  # while every access is one element; before those that stand beside one another are one
        INFER_VECTOR_WIDTHS,  # as soon as it is known what each thread accesses; before what cleans up and narrows
        ASYNC_COPIES,  # as soon as accesses have their widths; what it leaves of loops is for simplify
        AVOID_BANK_CONFLICTS,  # once it is known which accesses there are, and how wide, which decides how they meet in banks
        SHARE_RECIPROCALS,  # of the loops over the elements of a wide access, which have only just come to be
        SIMPLIFY_WIDENED,  # widening and what follows copy loops with new bounds
        NARROW_INDICES,  # counts on the final arithmetic
        ELEMENTARY_PRECISION,  # after common subexpressions are shared, which unites uses
        LIMIT_UNROLLING,  # divisions are weighed at their final width
        OVERLAP_LAUNCHES,  # last: it changes no kernel, and no pass keeps the mark of a launch that it writes anew
    )
)

PASSES: dict[str, Pass] = {p.name: p for p in PIPELINE.passes}
