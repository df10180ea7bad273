"""What tuning finds, and what it costs: `vxc.autotune` of a product of matrices and of a sum along rows.

    python tools/benching/tuned.py     prints one JSON document; `tunings.py` asks for it

Each case runs in two processes forked from one that has imported torch and vxc and nothing on the device, with one folder for their
caches, empty at first: the first tunes (`seconds`), the second takes what that left there (`cached_s`, from the call of `choose` on). The
chosen kernel and the sample as it is written, which leaves everything to the compiler, are then timed in turns, as `timing.py` says, and
checked against float64.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable
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
    """A kernel and what is tried of it: values by name, and what must hold of them; what it is to compute; "" for the sample's own text."""

    axes: dict[str, list[int]]
    exact: Callable[..., Any]
    where: tuple[str, ...] = ()
    text: str = ""


TUNED = {
    "gemm": Tuned({"BM": [32, 64], "BN": [32, 64], "BK": [16, 32]}, lambda a, b: a @ b),
    "rowdot": Tuned(
        {"T": [64, 128, 256], "L": [4, 8, 16, 32], "R": [16, 32, 64, 128]},
        lambda q, k: (q * k).sum(1),
        ("T <= R * L", "R * L <= 4 * T"),
        ROWDOT,
    ),
}


def shapes(case: Any) -> list[tuple[int, ...]]:
    """Of the inputs of a case."""
    sizes = dict(case.sizes)
    return [(sizes["M"], sizes["K"]), (sizes["K"], sizes["N"])] if case.sample == "gemm" else [(sizes["N"], 64)] * 2


def found(case: Any, folder: str, to: Connection) -> None:
    """Sends what `autotune` chose in this process, or what is wrong."""
    os.environ.update({"VXC_CACHE_DIR": folder, "VXC_CACHE": "1"})
    torch, vxc = import_module("torch"), import_module("vxc")
    try:
        what, sample = TUNED[case.sample], getattr(vxc.load(ROOT / case.path), case.sample)
        kernel = vxc.kernel(what.text) if what.text else sample
        torch.manual_seed(1)
        dtype = {"f16": torch.float16, "f32": torch.float32}[case.dtype]
        inputs = [torch.randn(shape, device="cuda").to(dtype) for shape in shapes(case)]
        torch.cuda.synchronize()
        fast = vxc.autotune(kernel, what.axes, where=what.where)
        start = time.perf_counter()
        chosen = fast.choose(*inputs)
        seconds = time.perf_counter() - start
        record = Path(folder) / "record.json"
        fast.export(record)
        (entry,) = json.loads(record.read_text("utf-8"))["entries"]
        cached = "from the cache" in fast.report().splitlines()[0]
        to.send({"seconds": seconds, "entry": entry, "cached": cached, **({} if cached else compared(what, sample, chosen, inputs))})
    except Exception as error:
        to.send(f"{type(error).__name__}: {error}")


def compared(what: Tuned, sample: Any, chosen: Any, inputs: list[Any]) -> dict[str, float]:
    """The times of the sample and of the chosen kernel, and the greater of their errors."""
    torch = import_module("torch")
    from benching.timing import graphed, relative_error

    from vxc.runtime.driver import driver
    from vxc.runtime.timing import race

    runs, errors = {}, []
    for name, kernel in (("plain_ms", sample), ("tuned_ms", chosen)):
        out = kernel(*inputs)
        runs[name], _ = graphed(lambda kernel=kernel, out=out: kernel(*inputs, out))
        out.fill_(float("nan"))
        runs[name]()
        torch.cuda.synchronize()
        errors.append(relative_error(out, lambda *xs: what.exact(*(x.double() for x in xs)), inputs, None))
    return {**race(driver(), 0, runs), "relerr": max(errors)}


def forked(case: Any, folder: str) -> dict[str, Any] | str:
    """What `found` sends from a process of its own."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=found, args=(case, folder, there))
    process.start()
    there.close()
    try:
        return here.recv()
    except EOFError:
        return "the process died"
    finally:
        process.join()


def main() -> None:
    from benching.cases import TUNINGS

    torch = import_module("torch")
    import_module("vxc")
    results, problems = {}, []
    for case in TUNINGS:
        with tempfile.TemporaryDirectory() as folder:
            first = forked(case, folder)
            second = forked(case, folder) if isinstance(first, dict) else first
        if isinstance(first, str) or isinstance(second, str):
            problems.append(f"{case.name}: {second}")
        elif not second["cached"] or second["entry"]["chosen"] != first["entry"]["chosen"]:
            problems.append(f"{case.name}: the second process did not find in the cache what the first had chosen")
        else:
            results[case.name] = {**first, "cached_s": second["seconds"]}
    print(json.dumps({"found": results, "problems": problems, "device": torch.cuda.get_device_name()}))


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tools")]
    main()
