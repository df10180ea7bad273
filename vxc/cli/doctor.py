"""`vxc doctor`: what this machine has of what vxc uses, and what to install for the rest."""

from __future__ import annotations

import click

from vxc.cli.common import Status, print_json, print_table
from vxc.runtime.doctor import MISSING, OK, report

COMPILING = ("python", "numpy", "ml_dtypes", "lark", "cuda-bindings", "nvrtc", "headers")
"""The checks without which nothing compiles; a GPU is only needed to run on one."""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(as_json: bool) -> Status:
    """Show the parts that vxc uses, and how to install what is missing. Exit 4 if kernels cannot be compiled here."""
    checks = report()
    able = not any(c.status == MISSING and c.name in COMPILING for c in checks)
    if as_json:
        rows = [{"name": c.name, "status": c.status, "detail": c.detail, "advice": c.advice} for c in checks]
        print_json({"able_to_compile": able, "checks": rows})
    else:
        print_table([(c.name, c.status, c.detail) for c in checks])
        for c in checks:
            if c.status != OK and c.advice:
                print(f"\n{c.name}: {c.advice}")
    return Status.OK if able else Status.ENVIRONMENT
