"""Are the records of this code? Every record that has a key, by the `--fresh` of the tool that wrote it.

    python tools/fresh.py [TOOL ..]     anywhere: says of each what its tool says; exit 1 if one is not

What a record says is another matter: that some of `ncu.json`'s counts differ from what was counted, or that a peer was faster, stales
nothing. Of `gpu.json` it does: a case that failed is no record of code that works, and its tool says so with status 1.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import bench
import flash_splitk_sweep
import gpu_check
import ncu_check
import ncu_rows
import reduce_sweep
from benching.cases import EVERY
from benching.ending import Stopped, end

CHECKS: dict[str, Callable[[], int]] = {
    "gpu_check": gpu_check.fresh,
    "bench": lambda: bench.fresh(list(EVERY)),
    "flash_splitk_sweep": flash_splitk_sweep.fresh,
    "reduce_sweep": lambda: reduce_sweep.fresh(reduce_sweep.RECORD),
    "ncu_check": ncu_check.fresh,
    "ncu_rows": ncu_rows.fresh,
}


def fresh(names: list[str]) -> int:
    """0 if the records of these tools are."""
    stale = []
    for name in names:
        start = time.perf_counter()
        print(f"{name}:", flush=True)
        try:
            status = CHECKS[name]()
        except Stopped as error:  # a record that is not there, or is none
            print(error)
            status = 1
        if status:
            stale.append(name)
        print(f"{'not fresh' if status else 'fresh'}, looked at in {time.perf_counter() - start:.1f} s", flush=True)
    print(f"{len(names) - len(stale)} of {len(names)} records are fresh{': not those of ' * bool(stale)}{', '.join(stale)}")
    return 1 if stale else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tools/fresh.py", description="Are the records of this code? Needs no GPU.")
    parser.add_argument("tools", nargs="*", metavar="TOOL", help=f"of {', '.join(CHECKS)}; default: all")
    given = parser.parse_args().tools
    for unknown in set(given) - set(CHECKS):
        parser.error(f"no tool `{unknown}` keeps a record with keys: {', '.join(CHECKS)}")
    return fresh(given or list(CHECKS))


if __name__ == "__main__":
    end(main)
