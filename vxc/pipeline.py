"""The passes from lowered IR to explicit threads, in order. `Pipeline` checks that each has what it needs."""

from __future__ import annotations

from vxc.pass_manager import Pass, Pipeline
from vxc.passes.elementary_precision import ELEMENTARY_PRECISION
from vxc.passes.expand_tiles import EXPAND_TILES
from vxc.passes.fuse_loops import FUSE_LOOPS
from vxc.passes.infer_layouts import INFER_LAYOUTS
from vxc.passes.infer_vector_widths import INFER_VECTOR_WIDTHS
from vxc.passes.limit_unrolling import LIMIT_UNROLLING
from vxc.passes.lower_to_threads import LOWER_TO_THREADS
from vxc.passes.map_loops import MAP_LOOPS
from vxc.passes.narrow_indices import NARROW_INDICES
from vxc.passes.place_barriers import PLACE_BARRIERS
from vxc.passes.plan_shared import PLAN_SHARED
from vxc.passes.prove_parallel import PROVE_PARALLEL
from vxc.passes.simplify import SIMPLIFY, SIMPLIFY_THREADS
from vxc.passes.split_launches import SPLIT_LAUNCHES
from vxc.passes.split_reductions import SPLIT_REDUCTIONS

PIPELINE = Pipeline(
    (
        PROVE_PARALLEL,  # first, while the loops are the author's, so that what is refused is said in the author's terms
        SIMPLIFY,  # before anything is decided, so that decisions see constants
        SPLIT_LAUNCHES,  # all that follows may count on one parallel nest a kernel
        SPLIT_REDUCTIONS,  # parts of a reduction need a launch before the one that folds them
        EXPAND_TILES,  # what no faster form has taken is loops from here on
        FUSE_LOOPS,  # one index to map, whatever the extents
        MAP_LOOPS,  # blocks, rows and lanes: the last decision on tiles
        INFER_LAYOUTS,  # where fragments live depends on who runs the loops over them
        PLAN_SHARED,  # all shared arrays are known now; before barriers, which must keep apart what shares bytes
        PLACE_BARRIERS,  # while it is visible which lanes run what; before threads, where it no longer is
        LOWER_TO_THREADS,  # spells out what is decided
        INFER_VECTOR_WIDTHS,  # as soon as it is known what each thread accesses; before what cleans up and narrows
        SIMPLIFY_THREADS,  # lowering writes the general case
        NARROW_INDICES,  # counts on the final arithmetic
        ELEMENTARY_PRECISION,  # after common subexpressions are shared, which unites uses
        LIMIT_UNROLLING,  # last: divisions are weighed at their final width
    )
)

PASSES: dict[str, Pass] = {p.name: p for p in PIPELINE.passes}
