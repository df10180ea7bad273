"""`vxc ops`: the opcode table of the flat IR."""

from __future__ import annotations

import click

from vxc.cli.common import print_json
from vxc.diag import suggestion
from vxc.ir.narrow import listed
from vxc.ir.ops import OPS, AttrDef, OpDef


@click.command()
@click.argument("names", metavar="[OPCODE]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(names: tuple[str, ...], as_json: bool) -> None:
    """List the opcodes of the IR: form, attributes, stages, meaning."""
    unknown = [name for name in names if name not in OPS]
    if unknown:
        raise click.UsageError(f"there is no opcode `{unknown[0]}`; {suggestion(unknown[0], OPS, '`vxc ops` lists them')}")
    rows = [OPS[name] for name in names] or list(OPS.values())
    if as_json:
        print_json([_as_dict(row) for row in rows])
        return
    for row in rows:
        print(f"{_form(row)}\n    {', '.join(row.stages)}{_scope(row)}: {row.doc}")
    if any(a.type == "reason" for row in rows for _, a in row.attrs):
        print("\nreasons, of `narrow`: why the access is of fewer than 16 bytes")
        for written, sentence in listed().items():
            print(f"    {written}  {sentence}")


def _form(row: OpDef) -> str:
    """`%r: elem = load buffer, idx* {width: int}`; attributes that may be absent in brackets."""
    result = {"none": "", "index": "%i = ", "buffer": ""}.get(row.result, f"%r: {row.result} = ")
    attrs = [f"{name}: {_values(a)}" for name, a in row.attrs if a.required]
    attrs += [f"[{name}: {_values(a)}]" for name, a in row.attrs if not a.required]
    operands = " " + ", ".join(row.operands) if row.operands else ""
    declared = " @name: dtype[shape]" if row.result == "buffer" else ""
    return f"{result}{row.name}{declared}{operands}" + (f" {{{', '.join(attrs)}}}" if attrs else "")


def _values(attr: AttrDef) -> str:
    """The words that an attribute may be, or its type; reasons are listed by themselves."""
    return attr.type if attr.type == "reason" else "|".join(attr.choices) or attr.type


def _scope(row: OpDef) -> str:
    return "" if row.scope == "thread" else f"; uniform over the {row.scope}"


def _as_dict(row: OpDef) -> dict:
    attrs = {name: {"type": a.type, "required": a.required, "choices": list(a.choices)} for name, a in row.attrs}
    return {
        "name": row.name, "operands": list(row.operands), "result": row.result, "attrs": attrs, "stages": list(row.stages),
        "scope": row.scope, "access": row.access, "opens": row.opens, "doc": row.doc,
    }  # fmt: skip
