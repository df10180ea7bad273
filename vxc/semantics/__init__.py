"""What scalar arithmetic, conversions, reductions and scans mean, once: folder, interpreters and emitter all ask here.

`table` names the operations, `evaluate` computes them, `casts` converts, `order`, `reductions`, `reduce` and `scan` define
reductions and scans, and `c_text` spells all of it in CUDA C++.
"""

from vxc.semantics.c_literal import c_literal
from vxc.semantics.c_text import ATOMIC_OPS, c_atomic, c_cast, c_expr, c_reinterpret, c_sat
from vxc.semantics.casts import FLOAT_MAX, cast, reinterpret, sat
from vxc.semantics.evaluate import evaluate, numpy_function
from vxc.semantics.order import FRAGMENT_ORDER, PARTS, Order, check_order, parse_order, reduce_order
from vxc.semantics.printed import print_format, printed
from vxc.semantics.reduce import dot, reduce
from vxc.semantics.reductions import REDUCTIONS, SCANS, Reduction, accumulator, empty, identity
from vxc.semantics.scan import scan
from vxc.semantics.stored import PRECISIONS, STORED
from vxc.semantics.table import DIVISIONS, SCALAR_OPS, ScalarOp, accepts, result_dtype
from vxc.semantics.trips import trip_counts

__all__ = [
    "ATOMIC_OPS", "DIVISIONS", "FLOAT_MAX", "FRAGMENT_ORDER", "PARTS", "PRECISIONS", "REDUCTIONS", "SCALAR_OPS", "SCANS", "STORED", "Order",
    "Reduction", "ScalarOp", "accepts", "accumulator", "c_atomic", "c_cast", "c_expr", "c_literal", "c_reinterpret", "c_sat", "cast",
    "check_order", "dot", "empty", "evaluate", "identity", "numpy_function", "parse_order", "print_format", "printed", "reduce",
    "reduce_order", "reinterpret", "result_dtype", "sat", "scan", "trip_counts",
]  # fmt: skip
