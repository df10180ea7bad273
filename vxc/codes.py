"""The registry of diagnostic codes: what each says in a few words, by area. `vxc/diag.py` has the diagnostics themselves."""

from __future__ import annotations

from typing import NamedTuple


class Code(NamedTuple):
    severity: str  # "error", "warning" or "note"
    title: str


def _codes(severity: str, rows: dict[str, str]) -> dict[str, Code]:
    return {code: Code(severity, title) for code, title in rows.items()}


_ERRORS = {
    # E01xx: source text and syntax
    "E0101": "a file cannot be read",
    "E0102": "a file is not text",
    "E0103": "a character that the language does not use",
    "E0104": "a string without its closing quote",
    "E0105": "a malformed number",
    "E0106": "an unknown escape in a string",
    "E0107": "a token that does not fit here",
    "E0108": "a missing `;`",
    "E0109": "a bracket without its partner",
    "E0110": "`=` where a comparison is meant",
    "E0111": "a reserved word used as a name",
    "E0112": "`else` without `if`",
    "E0113": "a statement without effect",
    "E0114": "something that cannot be assigned to",
    "E0115": "something that cannot be called",
    "E0116": "a positional argument after a named one",
    # E02xx: names, types, shapes
    "E0201": "an unknown name",
    "E0202": "a name defined twice",
    "E0203": "operands of types that do not go together",
    "E0204": "a value of another type than is needed here",
    "E0205": "a literal that does not fit its type",
    "E0206": "a condition that is no bool",
    "E0207": "an unknown function",
    "E0208": "a wrong number of arguments",
    "E0209": "an unknown named argument",
    "E0210": "an unknown type",
    "E0211": "an assignment to something that never changes",
    "E0212": "indices that do not suit what is indexed",
    "E0213": "rows or tiles of different shapes",
    "E0214": "a row where one value is needed, or the reverse",
    "E0215": "a constant index outside its array",
    "E0216": "a slice outside its array",
    "E0217": "a division by the constant zero",
    "E0218": "a generic without a fitting value",
    "E0219": "a dimension that is not fixed or not possible",
    "E0220": "an attribute that is unknown, misplaced or malformed",
    "E0221": "`break` or `continue` where it cannot stand",
    "E0222": "a function that is more than lets, ifs and returns",
    "E0223": "a function that calls itself, or grows without bound",
    "E0224": "an example that does not fit its kernel",
    "E0225": "an import that cannot be followed",
    "E0226": "a row used after what it reads was written",
    "E0227": "something without a value",
    "E0228": "an item defined twice, or over a built-in",
    "E0229": "a definition (`-D`) of nothing in the file",
    "E0230": "loop bounds that cannot be used",
    "E0231": "a declaration that is not possible",
    "E0232": "a construct that cannot stand here",
    "E0233": "a call of a kernel that does not fit it",
    "E0234": "no such kernel",
    "E0235": "a layout that does not fit its array",
    # E03xx: independence and bounds
    "E0310": "an index outside its array",
    "E0312": "parallel iterations collide",
    "E0313": "parallel iterations cannot be proven independent",
    # E04xx: not yet
    "E0401": "a construct that is not compiled yet",
    "E0402": "a store of packed 4-bit elements",
    "E0403": "a number of blocks that only the device knows",
    "E0404": "roles and rings that are not lowered yet",
    # E05xx: IR, as text or as a compiler step made it
    "E0501": "IR text that does not parse",
    "E0502": "an unknown name in IR",
    "E0503": "a malformed literal in IR",
    "E0510": "a region without its partner",
    "E0511": "a name defined twice",
    "E0512": "a name used where it is not defined",
    "E0513": "operands that do not fit the opcode",
    "E0514": "a result that does not fit the opcode",
    "E0515": "attributes that do not fit the opcode",
    "E0516": "an opcode outside its stages",
    "E0517": "an instruction in the wrong region",
    "E0518": "a constant index out of range",
    "E0519": "a write to an `in` parameter",
    "E0520": "storage that does not fit its space",
    "E0521": "an instruction for all threads under divergent control",
    "E0522": "a launch that does not fit its kernel",
    "E0523": "a malformed signature or header",
    "E0524": "roles or rings that do not fit together",
    # E06xx: the environment lacks what was asked (exit status 4)
    "E0601": "NVRTC cannot be loaded",
    "E0602": "an architecture that this NVRTC does not know",
    "E0603": "no CUDA driver, device or bindings",
    "E0604": "a CUDA call that failed",
    "E0605": "a Python package that is not installed",
    # E07xx: targets, arguments and launches
    "E0701": "an unknown target",
    "E0702": "CUDA text that NVRTC rejects",
    "E0703": "an array where the kernel cannot reach it",
    "E0704": "an array of the wrong dtype",
    "E0705": "an array of the wrong shape",
    "E0706": "an array of the wrong strides",
    "E0707": "a scalar argument that does not fit its type",
    "E0708": "a missing or unknown argument",
    "E0709": "a malformed argument",
    "E0710": "a file of arrays or of tuned kernels that cannot be read",
    "E0711": "a file that cannot be written",
    "E0712": "a launch beyond the limits of the device",
    "E0713": "an output that overlaps another array",
    "E0714": "a dimension that nothing sizes",
    "E0715": "more parameters than a launch can pass",
    "E0716": "a block that needs more shared memory than there is",
    "E0717": "a thread that needs more local memory than there is",
    "E0718": "a first call while a graph is captured",
    "E0719": "a kernel that cannot be tuned",
    # E072x: faults that the interpreters and --debug builds find while a kernel runs
    "E0720": "an index out of range",
    "E0721": "a read of an element that nothing has written",
    "E0722": "iterations called `@independent` that are not",
    "E0723": "an assertion that fails",
    "E0724": "an integer division by zero",
    "E0725": "threads that race",
    "E0726": "a barrier in divergent code",
    "E0727": "warps or roles that wait for each other for ever",
    "E0728": "a shuffle from a lane that does not run",
    "E0729": "a misaligned vector access",
    "E0730": "a layout that does not fit its loop",
    "E0731": "a loop that steps by 0",
    "E0732": "a use of a ring out of turn",
    "E0733": "a ring whose uses are not all done when its roles end",
    "E0734": "loops that run for longer than allowed",
    "E0735": "a slice by steps of less than 1",
}  # fmt: skip

_WARNINGS: dict[str, str] = {}

_NOTES = {
    "N0311": "an index that is not shown to stay in its array",
}

CODES: dict[str, Code] = _codes("error", _ERRORS) | _codes("warning", _WARNINGS) | _codes("note", _NOTES)
