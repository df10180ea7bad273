"""What tuning finds, and what it costs: `vxc.autotune` of a product of matrices and of the dot products of rows.

    python tools/benching/tuned.py ARCH     prints one JSON document; `tunings.py` asks for it

Each case runs in two processes forked from one that has imported torch and vxc and nothing on the device, with one folder for their
caches, empty at first: the first tunes (`seconds`), the second takes what that left there (`cached_s`), both from the call of `choose` on.
The chosen kernel and the sample as it is written, which leaves everything to the compiler, are then checked and timed in turns, as
`timing.py` says. The machine code of the sample is made meanwhile in a process of its own, for that of `gemm` takes 16 seconds.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
import time
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
ROWDOT = """
kernel rowdot<T: int = 128, L: int = 16, R: int = 16>(q: f32[N, 64], k: f32[N, 64], out s: f32[N]) {
    @threads(T) grid b in ceildiv(N, R) {
        parallel i in R { if b * R + i < N { s[b * R + i] = @lanes(L) dot(q[b * R + i], k[b * R + i]); } }
    }
}
example rowdot(q = rand(f32, 70, 64), k = rand(f32, 70, 64));
"""


class Tuned(NamedTuple):
    """What is tried of a kernel: values by name, and what must hold of them; "" for the sample's own text."""

    axes: dict[str, list[int]]
    where: tuple[str, ...] = ()
    text: str = ""


TUNED = {
    "rowdot": Tuned({"T": [64, 128, 256], "L": [4, 8, 16], "R": [16, 32, 64]}, ("T <= R * L", "R * L <= 4 * T"), ROWDOT),
    "gemm": Tuned({"BM": [32, 64], "BN": [32, 64], "BK": [16, 32]}),
}


def machine_code(case: Any, arch: str, to: Connection) -> None:
    """Sends that of the sample as it is written."""
    from benching.cases import compiled

    to.send(compiled(case, arch).binary)


def found(case: Any, arch: str, folder: str, code: Connection, to: Connection) -> None:
    """Sends what `autotune` chose in this process, or what is wrong. What it tuned is compared with the sample, whose `code` comes."""
    os.environ.update({"VXC_CACHE_DIR": folder, "VXC_CACHE": "1"})
    torch, vxc = import_module("torch"), import_module("vxc")
    from benching.cases import Kernel, compiled
    from benching.timing import arrays

    try:
        what, plain = TUNED[case.sample], compiled(case, arch)
        kernel = vxc.kernel(what.text) if what.text else getattr(vxc.load(ROOT / case.path), case.sample)
        data, fast = arrays(case, plain), vxc.autotune(kernel, what.axes, where=what.where)
        torch.cuda.synchronize()
        start = time.perf_counter()
        chosen = fast.choose(*data.inputs.values())
        seconds = time.perf_counter() - start
        record = Path(folder) / "record.json"
        fast.export(record)
        (entry,) = json.loads(record.read_text("utf-8"))["entries"]
        cached = "from the cache" in fast.report().splitlines()[0]
        figures = {} if cached else compared(case, Kernel(plain.source, plain.plan, code.recv(), {}), chosen, data)
        to.send({"seconds": seconds, "entry": entry, "cached": cached, **figures})
    except Exception as error:
        to.send(f"{type(error).__name__}: {error}")


def compared(case: Any, plain: Any, chosen: Any, data: Any) -> dict[str, float]:
    """The times of the sample and of the chosen kernel, and the greater of their errors. Raises `Problem` for a wrong result."""
    from benching.timing import caller, error, graphed

    from vxc.runtime.driver import driver
    from vxc.runtime.timing import race

    inputs, (out,) = list(data.inputs.values()), data.out.values()
    calls = {"plain_ms": caller("vxc", case, plain, data, None)[0], "tuned_ms": lambda: chosen(*inputs, out)}
    runs, errors = {}, []
    for name, call in calls.items():
        runs[name], written = graphed(call)
        errors.append(error("vxc", case, runs[name], written, inputs))
    return {**race(driver(), 0, runs), "relerr": max(errors)}


def started(context: Any, what: Any, *arguments: Any) -> Connection:
    """From where comes what a function of a process of its own sends."""
    here, there = context.Pipe(duplex=False)
    context.Process(target=what, args=(*arguments, there)).start()
    there.close()
    return here


def received(connection: Connection) -> Any:
    try:
        return connection.recv()
    except EOFError:
        return "the process died"


def main() -> None:
    from benching.cases import TUNINGS

    (arch,) = sys.argv[1:]
    fork, spawn = map(multiprocessing.get_context, ("fork", "spawn"))
    codes = {case: started(spawn, machine_code, case, arch) for (case,) in TUNINGS}
    torch = import_module("torch")
    import_module("vxc")
    results, problems = {}, []
    for case, code in codes.items():
        with tempfile.TemporaryDirectory() as folder:
            first, second = (received(started(fork, found, case, arch, folder, code)) for _ in range(2))
        wrong = next((said for said in (first, second) if isinstance(said, str)), "")
        if not wrong and (first["cached"] or not second["cached"] or second["entry"]["chosen"] != first["entry"]["chosen"]):
            wrong = "the second process did not take from the cache what the first had chosen"
        if wrong:
            problems.append(f"{case.name}: {wrong}")
        else:
            results[case.name] = {**first, "cached_s": second["seconds"]}
    print(json.dumps({"found": results, "problems": problems, "device": torch.cuda.get_device_name()}))


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tools")]
    main()
