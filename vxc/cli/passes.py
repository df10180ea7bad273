"""`vxc passes`: the pipeline, in order."""

from __future__ import annotations

import click

from vxc.cli.common import print_json, print_table
from vxc.pipeline import PIPELINE


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(as_json: bool) -> None:
    """List the passes in the order in which they run."""
    if as_json:
        keys = ("name", "doc", "needs", "gives", "breaks")
        print_json([{key: getattr(p, key) for key in keys} for p in PIPELINE.passes])
        return
    rows = [("PASS", "NEEDS", "GIVES", "BREAKS", "WHAT IT DOES")]
    rows += [(p.name, ", ".join(p.needs), ", ".join(p.gives), ", ".join(p.breaks), p.doc) for p in PIPELINE.passes]
    print_table(rows)
