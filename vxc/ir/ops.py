"""The opcode table: one row for each instruction of the flat IR.

A row gives operands, result, attributes, the stages it is legal in, the scope over which it must be executed uniformly,
how it accesses the memory of each buffer operand (r, w, or rw for atomic), whether it opens a region, and its meaning in one
line. Printer, reader, verifier, `vxc ops` and the documentation are generic over this table; interpreter and emitter keep
handler dicts that are checked total against it.

Operand kinds: `index` an i64, `bool`, `value` any scalar, `same` a scalar of the dtype of the first value operand,
`elem` a scalar of the buffer's dtype, `buffer` memory, `place` memory that is not accessed, `cell` and `ring` a buffer of that space,
`arg` a scalar or buffer.
A trailing `?` marks an optional operand, `*` any number; `idx*` is one index for each dimension of the buffer before it.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from vxc.ir.kernel import Buffer, Inst, Operand
from vxc.ir.narrow import REASONS
from vxc.record import record
from vxc.semantics import REDUCTIONS, SCALAR_OPS, SCANS, STORED

TILE, TEAM, THREAD, PLAN = "tile", "team", "thread", "plan"
ALL = (TILE, TEAM, THREAD)
MATHS = (TILE, TEAM)
ANYWHERE = (*ALL, PLAN)
STILL = "a loop steps by 0 and would never end"
NOT_FILLED = "call the kernel that fills all of it before: the program declares it with nothing in it"
BACKWARDS = "a slice goes by steps of less than 1"
GUARD = "guard the access with an `if`"
# The way out of what a check of a given code finds.
HELP = {"E0720": GUARD, "E0731": "a step is not 0", "E0735": "steps of slices are 1 or more"}


class AttrDef(NamedTuple):
    """An attribute: its type ('int', 'bool', 'str', 'ints', or 'reason': see `vxc.ir.narrow`), whether it must be present, and the words
    that it may be; of a reason, its codes."""

    type: str
    required: bool = False
    choices: tuple[str, ...] = ()


@record
class OpDef:
    """One row of the table. `result` is 'none', 'index' (i64), 'bool', 'same', 'elem', 'any' (as printed) or 'buffer'."""

    name: str
    operands: tuple[str, ...] = ()
    result: str = "none"
    attrs: tuple[tuple[str, AttrDef], ...] = ()
    stages: tuple[str, ...] = ALL
    scope: str = "thread"
    access: str = ""
    opens: bool = False
    doc: str = ""

    @cached_property
    def pure(self) -> bool:
        """True where the instruction may be folded, shared or dropped: its result depends on its operands alone."""
        return self.name in SCALAR_OPS or self.name in ("cast", "sat", "reinterpret", "ahead")


class Access(NamedTuple):
    """One access of an instruction: `box` is the index tuple (empty for a cell, and where an instruction takes a whole buffer or
    counts its elements in memory order), `mode` 'r', 'w' or 'rw' (atomic). It is done when the instruction is; those of `move.async` go
    on until an `await`.
    """

    buffer: Buffer
    box: tuple[Operand, ...]
    mode: str


# What the launch knows of the number of elements; `least` of reductions only, and `usual`, what most parts of a row have at least. Of a
# loop it is the stop, its start being 0.
_LENGTH = (("most", AttrDef("int")), ("multiple", AttrDef("int")))
# stage=thread: so many lanes take the same way, as lowering knows and the SIMT machine checks where they meet
_UNIFORM = ("uniform", AttrDef("int"))
_LOOP_ATTRS = (
    ("kind", AttrDef("str", True, ("parallel", "serial", "unroll"))),
    # Why iterations of a parallel loop may run in any order: "proved" (by prove-parallel), the reason that the author gave, or
    # what a loop that the compiler made is over: "tile" (elements of a tile), "parts" (of a reduction), "row" (its elements),
    # "one iteration".
    ("independent", AttrDef("str")),
    ("lanes", AttrDef("int")),  # of a parallel loop: lanes that share an iteration of it and of the loops right inside it
    ("resident", AttrDef("int")),  # of a kernel's loop: a multiprocessor holds so many threads at least, and no more are worth registers
    ("unroll", AttrDef("int")),
    ("vector", AttrDef("int")),  # @vector: elements accessed at once
    # stage=thread: the lanes of a group share out the range one by one; any other way of sharing it out gives the same, so many in a
    # row too
    ("deal", AttrDef("int")),
    # What it copies from global to shared memory may be under way until its end: no two iterations access one element there.
    ("async", AttrDef("bool")),
    # [number of the iteration] -> [thread, slot] of the team, see vxc/layout; of an author's nest at stage=tile, [numbers in each loop]
    ("layout", AttrDef("str")),
    ("given", AttrDef("bool")),  # stage=team: the layout is the author's, and threads run the iterations that it says
    # stage=team: over blocks, over lanes, over teams of `lanes` lanes, or run by every lane
    ("map", AttrDef("str", False, ("blocks", "lanes", "teams", "all"))),
    ("flight", AttrDef("int")),  # stage=team, over blocks: iterations that a group of lanes runs at once
    ("columns", AttrDef("int")),  # stage=team, over blocks: iterations of neighbouring threads, whose lanes are so many threads apart
    ("ahead", AttrDef("int")),  # with `columns`: loads that a lane of a reduction has under way, where not 16
    ("one_run", AttrDef("bool")),  # with `columns`: those of a block have one quotient of the index, by what its first remainder is by
    ("threads", AttrDef("int")),  # a `grid` loop: each iteration is a block of so many threads
    ("stages", AttrDef("int")),  # a `pipelined` loop: iterations whose copies may be in flight
    *_LENGTH,
    _UNIFORM,
)
# An index may lie outside, for all that is known: who accesses it as a run of elements in memory order, where what lies past the end of a
# row is in the next one, checks its indices before.
_DOUBTED = ("doubted", AttrDef("bool"))
# Why the access, of global or shared memory, is of fewer than 16 bytes, as the pass says that decided it.
_NARROW = ("narrow", AttrDef("reason", False, tuple(REASONS)))
_ORDER = ("order", AttrDef("ints", True))  # V, chunk, lanes, parts
_RING = ("ring", "index")  # the ring, the number of the use
_SHUFFLE = (("distance", AttrDef("int", True)), ("width", AttrDef("int", True)))

_ROWS = [
    # Regions ---------------------------------------------------------------------------------------------------------------
    OpDef("loop", ("index", "index", "index?"), "index", _LOOP_ATTRS, opens=True,
          doc="For each index in start, start+step .. below stop (step 1 if absent, may be negative); closed by `end`."),
    OpDef("while", attrs=(_UNIFORM,), opens=True, doc="Repeat until `break`; closed by `end`."),
    OpDef("if", ("bool",), attrs=(_UNIFORM,), opens=True, doc="Run up to `else` or `end` where the operand is true."),
    OpDef("else", doc="The other arm of the innermost open `if`."),
    OpDef("reduce", ("cell", "index"), "index", (("op", AttrDef("str", True, tuple(REDUCTIONS))), _ORDER,
          ("layout", AttrDef("str")), ("least", AttrDef("int")), ("usual", AttrDef("int")), *_LENGTH), MATHS, opens=True,
          doc="For each element in 0..n, run the body, whose one `contribute` feeds the cell; after `end` the cell holds the reduction."),
    OpDef("scan", ("index",), "index", (_ORDER, ("layout", AttrDef("str"))), MATHS, opens=True,
          doc="For each element in 0..n, run the body; `prefix` in it gives inclusive prefix values along the loop."),
    OpDef("extern", ("cell", "value*"), "none", (("name", AttrDef("str", True)), ("params", AttrDef("str", True)),
          ("cuda", AttrDef("str", True))), opens=True,
          doc="The cell gets what the CUDA text returns; interpreters run the region instead, which stores the same to the cell."),
    OpDef("role", (), "none", (("name", AttrDef("str", True)), ("warps", AttrDef("int", True))), (TEAM,), "block", opens=True,
          doc="The next `warps` warps of the block run this region; layouts inside count threads of this role."),
    OpDef("end", ("index?",), doc="Close the innermost open region; loops name their index."),
    OpDef("break", doc="Leave the innermost loop or while."),
    OpDef("continue", doc="Go on with the next iteration of the innermost loop or while."),
    # Storage ---------------------------------------------------------------------------------------------------------------
    OpDef("cell", (), "buffer", doc="A variable of each thread; before its first store it holds nothing."),
    OpDef("local", (), "buffer", doc="An array of each thread, constant shape."),
    OpDef("shared", (), "buffer", (("layout", AttrDef("str")), ("offset", AttrDef("int")), ("pitch", AttrDef("ints")),
          ("swizzle", AttrDef("ints"))), ALL, "block",
          doc="An array of each block, constant shape; `offset` is its place in the block's arena, in bytes, `pitch` or `swizzle` where "
          "in it an element lies (see vxc/layout/placement.py), `layout` where the author wants it."),
    OpDef("fragment", (), "buffer", (("layout", AttrDef("str")),), MATHS, "block",
          doc="A tile of each block, constant shape; `layout` says which thread holds which element."),
    # Memory ----------------------------------------------------------------------------------------------------------------
    OpDef("load", ("buffer", "idx*"), "elem", (_DOUBTED, _NARROW), access="r", doc="Read one element."),
    OpDef("store", ("buffer", "idx*", "elem"), "none", (_DOUBTED, _NARROW), access="w", doc="Write one element."),
    OpDef("move", ("buffer", "index", "buffer", "index", "index?"), "none",
          (("anywhere", AttrDef("str", False, ("branch", "held", "line", "straight"))), _NARROW, ("width", AttrDef("int", True))),
          (THREAD,), access="w,r",
          doc="Copy `width` elements that follow one another in memory, as one access of 1, 2, 4, 8 or 16 bytes aligned to its size, from "
          "the second buffer to the first, one of which is local; the indices count elements in memory order. With `anywhere`, the place "
          "in global memory need not be aligned so: it takes as many accesses as its address makes necessary, all as wide as that allows, "
          "but a store to a place between two words takes words, and what is less in front of the first and behind the last; "
          "`straight`, a load takes the one or two aligned vectors that hold it, and a shift, which is more registers but no branch; "
          "`line`, it begins at a multiple of its size, and elements in front of the array or behind it among them are anything; `held`, "
          "such elements are anything, too, and it takes those of the aligned vectors that have one of the array's. With a "
          "fifth operand, 1 to `width`, only so many elements are copied, and others of the local array become anything: a load takes what "
          "holds them of its one or two aligned vectors, or as for `branch`, accesses as wide as that number and its address allow."),
    OpDef("move.async", ("buffer", "index", "buffer", "index"), "none", (_NARROW, ("width", AttrDef("int", True))), (THREAD,), access="w,r",
          doc="As `move`, in 4, 8 or 16 bytes, from global memory to shared memory; the elements are there once the thread has passed an "
          "`await`."),
    OpDef("await", (), "none", (), (THREAD,), doc="Wait until what this thread has started by `move.async` is there."),
    OpDef("aligned", ("place",), "bool", (("bytes", AttrDef("int", True)),), (THREAD,),
          doc="Whether the buffer begins at a multiple of so many bytes; the same in the whole launch."),
    OpDef("ahead", ("place", "index"), "index", (("bytes", AttrDef("int", True)),), (THREAD,),
          doc="How many elements after the one at the index, counted in memory order, the first lies that begins at a multiple of so many "
          "bytes."),
    OpDef("atomic", ("buffer", "idx*", "elem"), "elem", (_NARROW, ("op", AttrDef("str", True, ("add", "max", "min")))), access="rw",
          doc="Combine the value into the element in one step; the result is the element's value before."),
    OpDef("copy", ("buffer", "idx*", "buffer", "idx*", "elem"), "none", (("extents", AttrDef("ints", True)),
          ("from", AttrDef("ints", True)), ("to", AttrDef("ints", True)), ("from_steps", AttrDef("ints")),
          ("to_steps", AttrDef("ints"))), (TILE,), "block", access="r,w",
          doc="Move a tile: axis k runs along dimension from[k] of the first buffer and to[k] of the second; outside it reads the last "
          "operand."),
    OpDef("gemm", ("buffer", "buffer", "buffer"), "none", (("trans_a", AttrDef("bool")), ("trans_b", AttrDef("bool"))), (TILE,), "block",
          access="r,r,w", doc="Add the matrix product of the first two tiles to the third, by fma in increasing k."),
    OpDef("contribute", ("value", "same?"), "none", (), MATHS,
          doc="Feed one value (two for dot) to the innermost open `reduce`."),
    OpDef("prefix", ("value",), "any", (("op", AttrDef("str", True, tuple(SCANS))),), MATHS,
          doc="Inclusive prefix of the value along the innermost open `scan`, in that scan's order."),
    # Conversions -----------------------------------------------------------------------------------------------------------
    OpDef("cast", ("value",), "any", stages=ANYWHERE, doc="Convert as semantics.cast does, rounding once."),
    OpDef("sat", ("value",), "any", stages=ANYWHERE, doc="Convert, clamping to the largest finite value."),
    OpDef("reinterpret", ("value",), "any", stages=ANYWHERE, doc="The same bits as another dtype of equal width."),
    # Threads ---------------------------------------------------------------------------------------------------------------
    OpDef("block_index", (), "index", (), (THREAD,), doc="The linear index of this block in the launch."),
    OpDef("thread_index", (), "index", (), (THREAD,), doc="The index of this thread in its role (its block, with one role)."),
    OpDef("shfl_xor", ("value",), "same", _SHUFFLE, (THREAD,), "warp",
          doc="The operand's value in lane `lane ^ distance` of each group of width lanes."),
    OpDef("shfl_up", ("value",), "same", _SHUFFLE, (THREAD,), "warp",
          doc="The operand's value in lane `lane - distance` of the group; own value where there is none."),
    OpDef("shfl_idx", ("value", "index"), "same", (("width", AttrDef("int", True)),), (THREAD,), "warp",
          doc="The operand's value in the given lane of the group."),
    OpDef("barrier", (), "none", (("scope", AttrDef("str", True, ("group", "role", "block"))), ("width", AttrDef("int"))), (TEAM, THREAD),
          "block", doc="Wait for all threads of the block, of the role, or of each group of width lanes in a warp; memory accesses "
          "before it are seen after it."),
    # Rings -----------------------------------------------------------------------------------------------------------------
    OpDef("ring", (), "buffer", (("stages", AttrDef("int", True)),), (TEAM,), "block",
          doc="Slots that one role fills and others empty, in turn: use n = 0, 1 .. (an i64) is of slot n % stages. Says who may go on."),
    OpDef("acquire", _RING, stages=(TEAM,), scope="block",
          doc="The producer waits until every consumer has released use n - stages: the slot of use n may be filled."),
    OpDef("commit", _RING, stages=(TEAM,), scope="block", doc="The producer has filled the slot of use n."),
    OpDef("wait", _RING, stages=(TEAM,), scope="block", doc="A consumer waits until use n is committed: its slot may be read."),
    OpDef("release", _RING, stages=(TEAM,), scope="block", doc="A consumer has read the slot of use n."),
    # Checks ----------------------------------------------------------------------------------------------------------------
    OpDef("assert", ("bool",), "none", (("code", AttrDef("str", False, tuple(HELP))), ("message", AttrDef("str", True))),
          doc="In interpreters and --debug builds, stop with the message where false; `code` is E0723 where it is not given."),
    OpDef("print", ("value*",), "none", (("label", AttrDef("str", True)),), doc="Print the values, once for each time it runs."),
    # Plans -----------------------------------------------------------------------------------------------------------------
    OpDef("require", ("bool",), "none", (("code", AttrDef("str", False, tuple(HELP))), ("what", AttrDef("str", True))), (PLAN,),
          doc="Refuse the call where false; `what` should hold, or, where there is a `code`, is the message of that error."),
    OpDef("workspace", (), "buffer", (), (PLAN,), doc="Device memory that lives for the call; contents unwritten at first."),
    OpDef("launch", ("index", "arg*"), "none", (("kernel", AttrDef("str", True)), ("early", AttrDef("bool"))), (PLAN,),
          doc="Run the kernel over the given number of blocks; the other operands are its arguments in order. Where it is `early`, its "
          "blocks may start before the launch before it has ended; they do nothing until it has."),
]  # fmt: skip

_RESULTS = {"same": "same", "bool": "bool"}
# Of an f32: it is only stored, as that, or divided by the sum of such values and stored then, and what is stored may be 1 ulp of that
# from the right value.
_PRECISION = {op: (("precision", AttrDef("str", False, tuple(p for p in STORED if op in STORED[p]))),) for p in STORED for op in STORED[p]}
# Of a division of floats: the divisor is a sum of which the dividend is a summand, and none negative: the quotient is in [0, 1], or NaN.
_SCALAR_ATTRS = {**_PRECISION, "div": (("part", AttrDef("bool")),)}
_SCALARS = [
    OpDef(o.name, _operands, _RESULTS.get(o.result, "any"), _SCALAR_ATTRS.get(o.name, ()), stages=ANYWHERE, doc=o.doc)
    for o in SCALAR_OPS.values()
    for _operands in [("bool", "value", "same") if o.name == "select" else ("value", *["same"] * (o.arity - 1))]
]

OPS: dict[str, OpDef] = {row.name: row for row in _ROWS + _SCALARS}
assert len(OPS) == len(_ROWS) + len(_SCALARS), "two rows of one name"

TERMINATES = ("break", "continue")
RING_OPS = tuple(name for name, row in OPS.items() if row.operands == _RING)
DECLARES = tuple(name for name, row in OPS.items() if row.result == "buffer")
TOGETHER = frozenset(name for name, row in OPS.items() if row.scope != "thread" and row.result != "buffer")  # done by a block or group


_ACCESSES = {name: (tuple(row.access.split(",")), "idx*" in row.operands) for name, row in OPS.items() if row.access}


def accesses(inst: Inst) -> tuple[Access, ...]:
    """What the instruction reads and writes: each buffer operand at the index operands after it, in the mode the table says."""
    known = _ACCESSES.get(inst.op)
    if known is None:
        return ()
    modes, indexed = known
    if not indexed:
        return tuple(Access(buffer, (), mode) for buffer, mode in zip((x for x in inst.operands if type(x) is Buffer), modes))
    operands = inst.operands
    if len(modes) == 1:
        return (Access(operands[0], operands[1 : 1 + len(operands[0].shape)], modes[0]),)
    found, at = [], 0
    for mode in modes:
        buffer = operands[at]
        after = at + 1 + len(buffer.shape)
        found.append(Access(buffer, operands[at + 1 : after], mode))
        at = after
    return tuple(found)
