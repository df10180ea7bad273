"""The record `results/bench.jsonl`: one line for each case and implementation, and whether it is of this code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from pathlib import Path

from benching.cases import CLOCK, EVERY, ROOT, TIMING, Calls, Case, Timed, Tuning, compiled, facts

from vxc.runtime.arrays import write_file

RECORD = ROOT / "tools" / "results" / "bench.jsonl"
HERE = Path(__file__).parent
# What decides what a peer runs, beside its own version.
FILES = {
    "torch": ("peers.py",), "inductor": ("peers.py",), "cupy": ("peers.py", "cupy_kernels.py"), "reference": ("reference.py",),
    **dict.fromkeys(("copy", "triton"), ("peers.py", "triton_kernels.py", "triton_text.py")),
}  # fmt: skip
RAW = "runtime/launches.py", "runtime/library.py"  # the driver's own function, and what it is given
CALLS = {
    "launch": ("launches.py", (*(f"api/{name}.py" for name in ("dispatch", "fronts", "front_text", "libraries", "prepared")), *RAW)),
    "start": ("first_call.py", ("api/compiling.py", "api/building.py", "cache/places.py", "cache/store.py", "cuda/cached.py", "driver.py")),
    "tune": ("tuned.py", ("api/tuned.py", "api/tuning.py", "api/tune_check.py", "api/candidates.py", "api/side_by_side.py")),
}
"""By suite: the file that makes its calls, and those of vxc that they go through."""
CALLED = {
    "launch": ("tools/benching/launches.py", "--aligned x=true --aligned y=true"),
    "start": ("samples/softmax.vx", "-D T=f32 -D N=1024 --aligned x=true --aligned y=true"),
}
"""By suite of calls: where the text of the kernel is, and the options that a call of it stands for."""


def line(case: Case, impl: str, ms: float, nbytes: int, relerr: float, device: str, facts: dict[str, str]) -> dict:
    """One line. `gbps` counts every array once, in 10^9 bytes a second; a case that counts operations has `tflops` instead."""
    rate = {"tflops": round(case.flop / ms / 1e9, 2)} if case.flop else {"gbps": round(nbytes / ms / 1e6, 1)}
    known = {"suite": case.suite, "case": case.name, "impl": impl, "ms": round(ms, 5)}
    return {**known, **rate, "relerr": float(f"{relerr:.3g}"), "device": device, **facts}


def peer_key(case: Case, impl: str) -> str:
    """Hash of the case and of the files that run it."""
    texts = (repr(case).encode(), TIMING.read_bytes(), CLOCK.read_bytes(), *((HERE / name).read_bytes() for name in FILES[impl]))
    return hashlib.sha256(b"".join(texts)).hexdigest()[:32]


def calls_key(suite: str, impl: str) -> str:
    """Hash of what decides what a call does: the file that makes it, and of ours also what it goes through."""
    own, through = CALLS[suite]
    files = [HERE / own, *(ROOT / "vxc" / name for name in through if impl.startswith("vxc"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:32]


def calls_facts(suite: str, impl: str) -> dict[str, str]:
    """The key of a line, and for one of ours what is called, and the options with which `vxc compile` makes what a call makes of it."""
    called, flags = CALLED[suite]
    return {**({"sample": called, "flags": flags} if impl.startswith("vxc") else {}), "key": calls_key(suite, impl)}


def tuning_key(case: Tuning, arch: str) -> str:
    """Hash of what tunes, and of the sample as it is written."""
    both = calls_key(case.suite, "vxc") + facts(case.case, compiled(case.case, arch))["key"]
    return hashlib.sha256(both.encode()).hexdigest()[:32]


def identity(row: dict) -> tuple[str, str, str]:
    return row["suite"], row["case"], row["impl"]


def recorded(path: Path = RECORD) -> list[dict]:
    return [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []


def replaced(old: Iterable[dict], new: Iterable[dict], ran: Collection[Timed], left: Collection[str] = ()) -> list[dict]:
    """The old lines but those of cases that `ran`, of which implementations in `left` stay, and the new ones, in the order of
    `EVERY`; lines of cases that there are no more go."""
    gone = {(case.suite, case.name) for case in ran}
    kept = [row for row in old if (row["suite"], row["case"]) not in gone or row["impl"] in left]
    rows = {identity(row): row for row in (*kept, *new)}
    order = [(case.suite, case.name, impl) for case in EVERY for impl in case.impls]
    return [rows[at] for at in order if at in rows]


def write(rows: Iterable[dict], path: Path = RECORD) -> None:
    """Raises VxcError E0711."""
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.parent.mkdir(exist_ok=True)
    write_file(str(path), lambda file: file.write(text.encode()))


def stale(rows: Iterable[dict], cases: Iterable[Timed]) -> list[tuple[str, Timed, str]]:
    """(`stale` or `missing`, case, implementation) of each line that is not of this code."""
    have, found = {identity(row): row for row in rows}, []
    for case in cases:
        for impl in case.impls:
            row = have.get((case.suite, case.name, impl))
            if row is None or row["key"] != key_now(case, row):
                found.append(("stale" if row else "missing", case, impl))
    return found


def key_now(case: Timed, row: dict) -> str:
    """The key that a line of the case would get from this code, for the arch that it was recorded for."""
    if isinstance(case, Tuning):
        return tuning_key(case, row["arch"])
    if isinstance(case, Calls):
        return calls_key(case.suite, row["impl"])
    if row["impl"] == "vxc":
        return facts(case, compiled(case, row["arch"]))["key"]
    return peer_key(case, row["impl"])
