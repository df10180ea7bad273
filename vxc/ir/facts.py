"""What is known of a kernel's values without running it: `ranges` of integers and `uniformity` over threads."""

from vxc.ir.ranges import MAX_DIM, Range, full, ranges, trip_count
from vxc.ir.uniformity import BLOCK, Uniformity, uniformity

__all__ = ["BLOCK", "MAX_DIM", "Range", "Uniformity", "full", "ranges", "trip_count", "uniformity"]
