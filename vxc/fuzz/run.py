"""A fuzz run: generated programs over worker processes, and for each kind of failure one filetest, shrunk."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from math import inf
from time import monotonic

from vxc.diag import told
from vxc.diff import LOWERING
from vxc.fuzz.case import Case
from vxc.fuzz.edits import parses
from vxc.fuzz.examine import CHECK, UNPROVEN, Executors, Failure, Outcome, Report, examine
from vxc.fuzz.gen import generate
from vxc.fuzz.pool import Lost, Pool, Unfinished, Work
from vxc.fuzz.reduce import reduce
from vxc.pipeline import PASSES
from vxc.record import record
from vxc.runtime.arrays import make_folder, write_file
from vxc.runtime.driver import driver

LIMIT = 60.0  # seconds for one program
GRACE = 3.0  # for the programs under way when no further one is begun
SHRINK = 60.0  # seconds for shrinking one failure, and for one program while shrinking:
SHRINK_LIMIT = 5.0
SHRINK_SHARE = 0.25  # of the time of a run, kept for shrinking once something has failed
MOST_REJECTED = 0.05
FEWEST = 100  # programs from which on such a share is no chance: about 1 % are rejected
KINDS = 5  # of failures that are shrunk
GENERATE = "generate"
CUDA_FAILED = "E0604"


@dataclass
class Run:
    """What became of the programs so far, by seed. `limit` is how many seconds programs and shrinking take together."""

    limit: float = inf
    start: float = field(default_factory=monotonic)
    programs: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    rejected: list[int] = field(default_factory=list)
    faults: dict[int, str] = field(default_factory=dict)
    failures: dict[int, Outcome] = field(default_factory=dict)
    unfinished: dict[int, Unfinished] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, seed: int, outcome: Outcome | Unfinished) -> None:
        if isinstance(outcome, Unfinished):
            self.unfinished[seed] = outcome
            return
        self.programs += 1
        self.counts.update(outcome.counts)
        if outcome.failure:
            self.failures[seed] = outcome
        elif outcome.code == UNPROVEN:
            self.rejected.append(seed)
        elif outcome.code:
            self.faults[seed] = outcome.code

    def last(self) -> float:
        """When the last program begins, on the clock."""
        return self.start + self.limit * (1 - SHRINK_SHARE if self.failures else 1)

    @property
    def left(self) -> float:
        """Seconds that are left for shrinking."""
        return self.start + self.limit + GRACE - monotonic()

    @property
    def per_minute(self) -> float:
        return 60 * self.programs / self.seconds if self.seconds else 0.0

    @property
    def rejects_too_many(self) -> bool:
        return self.programs >= FEWEST and len(self.rejected) >= MOST_REJECTED * self.programs

    def kinds(self) -> list[list[int]]:
        """The seeds that failed in the same way, those of the shortest program first."""
        found: dict[tuple, list[int]] = {}
        for seed, outcome in sorted(self.failures.items()):
            found.setdefault(outcome.failure.signature, []).append(seed)
        return [sorted(seeds, key=lambda seed: self.failures[seed].length) for seeds in found.values()]


def outcomes(
    seeds: Iterable[int],
    executors: Executors = Executors(),
    *,
    jobs: int = 1,
    limit: float = LIMIT,
    last: Callable[[], float] = lambda: inf,
    tick: Callable[[], None] = lambda: None,
) -> Iterator[tuple[int, Outcome | Unfinished]]:
    """What becomes of the program of each seed, in the order in which they end.

    None is begun when the clock is past `last()`, and what then takes longer than `GRACE` is given up. `tick` is called now and then.
    """
    seeds = takewhile(lambda _: monotonic() < last(), seeds)
    with _pool(partial(_of_seed, executors), executors, jobs, limit) as pool:
        for seed, found in pool.results(seeds, lambda: last() + GRACE, tick):
            yield seed, _lost(found, lambda: Case.of(generate(seed))) if isinstance(found, Lost) else found


def _pool(work: Work, executors: Executors, jobs: int, limit: float) -> Pool:
    """Workers that run cases. Those that use a GPU begin with a context of their own, and end with it once CUDA has failed in it."""
    if not executors.gpu:
        return Pool(work, jobs, limit)
    return Pool(work, jobs, limit, fork=False, prepare=_prepare, spoils=_spoils)


def _prepare() -> None:
    with driver().active(0):
        pass


def _spoils(outcome: Outcome) -> bool:
    """Whether CUDA has failed: nothing runs after that in the same context."""
    return outcome.failure is not None and outcome.failure.cause == CUDA_FAILED


def _of_seed(executors: Executors, seed: int, report: Report) -> Outcome:
    report(GENERATE)
    try:
        case = Case.of(generate(seed))
    except Exception as error:
        return Outcome(None, Failure("exception", GENERATE, type(error).__name__, told(error)))
    return examine(case, executors, report=report)


def again(case: Case, executors: Executors, limit: float = LIMIT) -> Outcome:
    """What becomes of a case, in a process of its own."""
    with _pool(partial(_of_case, executors, False), executors, 1, limit) as pool:
        found = pool.one(case)
    return _lost(found, lambda: case) if isinstance(found, Lost) else found


def _of_case(executors: Executors, fit: bool, case: Case, report: Report) -> Outcome:
    return examine(case, executors, fit=fit, report=report)


def _lost(found: Lost, case) -> Outcome:
    """A task that was lost, as a failure of the step that it was in."""
    failure = Failure("does not end" if found.expired else "ends the process", found.step, "", found.why)
    return Outcome(None if found.step in ("", GENERATE) else case(), failure)


# ---- failures ----------------------------------------------------------------------------------------------------------


@record
class Found:
    """One kind of failure: what it is, the seeds that have it, and the file of the one that was shrunk, with its number of lines."""

    failure: Failure
    seeds: list[int]
    path: str = ""
    lines: int = 0


def settle(run: Run, executors: Executors, folder: str) -> Iterator[Found]:
    """Shrinks and saves one failure of each kind, beyond the first `KINDS` as it is. Raises VxcError E0711."""
    kinds = run.kinds()
    for number, (seed, *others) in enumerate(kinds):
        outcome = run.failures[seed]
        if outcome.case is None:
            yield Found(outcome.failure, [seed, *others])
            continue
        if number < KINDS and not run.interrupted:
            try:
                outcome = shrunk(outcome, executors, min(SHRINK, run.left / (min(len(kinds), KINDS) - number)))
            except KeyboardInterrupt:
                run.interrupted = True
        path = save(folder, seed, outcome.case, outcome.failure)
        yield Found(outcome.failure, [seed, *others], path, len(outcome.case.text.splitlines()))


def shrunk(outcome: Outcome, executors: Executors, seconds: float = SHRINK) -> Outcome:
    """The least case found in so many seconds that fails as this one does; the same where it does not fail again or not parse."""
    end = monotonic() + seconds
    if seconds <= 0 or not parses(outcome.case):
        return outcome
    with _pool(partial(_of_case, executors, True), executors, 1, SHRINK_LIMIT) as pool:

        def still(case: Case) -> Outcome | None:
            found = pool.one(case, end)
            if isinstance(found, Unfinished):
                return None
            if isinstance(found, Lost):
                found = _lost(found, lambda: case if found.step == CHECK else _fitted(case))
            alike = found.case and found.failure and found.failure.signature == outcome.failure.signature
            return found if alike else None

        first = still(outcome.case)
        return reduce(first, still, end - monotonic()) if first else outcome


def _fitted(case: Case) -> Case | None:
    try:
        return case.fitted(case.typed()[1])
    except Exception:  # as a case that fails otherwise
        return None


def save(folder: str, seed: int, case: Case, failure: Failure) -> str:
    """Write FOLDER/ACTION/seed-N.vxt, whole or not at all, as a filetest; gives its path. Raises VxcError E0711."""
    where = failure.where
    action = where if where in PASSES else {CHECK: "check", LOWERING: "lower", "ast": "lower"}.get(where, "emit")
    path = os.path.normpath(os.path.join(folder, action, f"seed-{seed}.vxt"))
    make_folder(os.path.dirname(path))
    text = case.file(failure.headline, f"From the program of seed {seed}. To run it again: vxc fuzz --replay {action}/seed-{seed}.vxt")
    write_file(path, lambda file: file.write(text.encode()))
    return path
