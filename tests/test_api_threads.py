"""Threads that call kernels for the first time at once, and processes that are forked meanwhile; a cache that is taken away meanwhile."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest
from fake_cuda import CHAIN, SHIFT, Tensor, floats
from tuning_kernels import arguments, timings, tuned

import vxc
from vxc.api import calls as calls_module
from vxc.api import tuning
from vxc.cache.places import store
from vxc.collector import COLLECTOR
from vxc.runtime.arrays import write_file

THREADS = 8


@pytest.fixture(autouse=True)
def often():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def together(work: Callable[[int], object], count: int = THREADS) -> list:
    """What so many threads give that begin at once. Raises what one of them raised."""
    start, found, raised = threading.Barrier(count), [None] * count, []

    def run(at: int) -> None:
        start.wait()
        try:
            found[at] = work(at)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(at,)) for at in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for error in raised:
        raise error
    return found


@pytest.fixture
def compilations(monkeypatch) -> list:
    """One item for each time that a kernel was compiled."""
    made, compiled = [], calls_module.compiled
    monkeypatch.setattr(calls_module, "compiled", lambda *what: made.append(what) or compiled(*what))
    return made


# ---- first calls -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "scalar", "wanted"), [(SHIFT, 3, floats(5) + 3), (CHAIN, 2.0, floats(5) * 2 + 1)])
def test_what_threads_need_at_once_is_compiled_and_loaded_once(torch, cuda, compilations, text, scalar, wanted):
    k, load = vxc.kernel(text), cuda.load
    cuda.load = lambda cubin: (threading.Event().wait(0.05), load(cubin))[1]  # as the real one does, with Python's lock released
    assert all(np.array_equal(y.array, wanted) for y in together(lambda at: k(Tensor(floats(5)), scalar)))
    assert len(compilations) == 1 and cuda.log.count("load") == 1


def test_sizes_and_outputs_of_threads_are_their_own(torch, cuda, compilations):
    k = vxc.kernel(SHIFT)

    def work(at: int) -> bool:
        x, y = Tensor(floats(4 + 16 * at)), Tensor(floats(4 + 16 * at))
        return all(np.array_equal(k(*call).array, x.array + at) for call in ((x, at), (x, y, at)) for _ in range(20))

    assert all(together(work)) and len(compilations) == 1


def test_threads_that_meet_one_line_share_its_kernels(torch, compilations):
    k, x = vxc.elementwise("x: f32, y: f32 -> f32", "x * y + 1"), floats(4, 4)
    others = floats(4, 4), floats(4, 1), floats(4), 3.0
    found = together(lambda at: k(Tensor(x), other if isinstance(other := others[at % 4], float) else Tensor(other)))
    assert all(np.array_equal(y.array, x * others[at % 4] + 1) for at, y in enumerate(found))
    assert len(compilations) == len(others)


def test_what_one_thread_binds_others_call(torch, cuda):
    k, x, y = vxc.kernel(SHIFT), Tensor(floats(4)), Tensor(floats(4))
    b = k.bind(x, y, 3)

    def work(at: int) -> bool:
        for _ in range(50):
            if at % 2:
                assert b() is y and np.array_equal(k(x, at).array, x.array + at)
            else:
                assert np.array_equal(k.bind(x, at)().array, x.array + at)
        return True

    assert all(together(work)) and np.array_equal(y.array, x.array + 3)


def test_an_error_of_one_thread_is_no_other_threads(torch, cuda):
    k = vxc.kernel(SHIFT)

    def work(at: int) -> bool:
        for _ in range(20):
            if at % 2:
                with pytest.raises(vxc.LaunchError, match="holds float64"):
                    k(Tensor(np.zeros(4)), 1)
            assert np.array_equal(k(Tensor(floats(4)), at).array, floats(4) + at)
        return True

    assert all(together(work))


def test_one_thread_tunes_and_all_have_what_it_found(gpu):
    scale = tuned()
    once = tuned()
    once(*arguments())
    wanted = timings(gpu)
    assert all(np.array_equal(y.array, 2 * floats(50)) for y in together(lambda at: scale(*arguments())))
    assert timings(gpu) == wanted and len({id(k) for k in together(lambda at: scale.choose(*arguments()))}) == 1


def test_two_kernels_are_tuned_one_after_the_other(gpu, monkeypatch):
    running, most, timing = [], [], tuning._timed

    def watched(*what):
        running.append(None)
        most.append(len(running))
        threading.Event().wait(0.05)
        try:
            return timing(*what)
        finally:
            running.pop()

    monkeypatch.setattr(tuning, "_timed", watched)
    kernels = [tuned(B=[32, 64]) for _ in range(4)]
    together(lambda at: kernels[at](*arguments()), 4)
    assert most == [1] * 4


# ---- what is taken away meanwhile ------------------------------------------------------------------------------------


def cleared(folder):
    store().clear()


def removed(folder):
    shutil.rmtree(folder, ignore_errors=True)


def closed(folder):
    if folder.exists():
        folder.chmod(0o500)
        folder.chmod(0o700)


def a_file(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.write_text("x")
    folder.unlink()


@pytest.mark.parametrize("meddle", [cleared, removed, closed, a_file])
def test_a_cache_that_changes_while_threads_compile_is_no_trouble(torch, cuda, folder, meddle):
    ended = threading.Event()

    def meddling() -> None:
        while not ended.is_set():
            try:
                meddle(folder / "cache")
            except OSError:
                pass

    def work(at: int) -> bool:
        numbers = [10 * at + each for each in range(2)]
        kernels = [vxc.kernel(SHIFT.replace("as f32", f"as f32) * ({number}.0")) for number in numbers]
        return all(np.array_equal(k(Tensor(floats(5)), 1).array, floats(5) + number) for k, number in zip(kernels, numbers))

    meddler = threading.Thread(target=meddling)
    meddler.start()
    try:
        assert all(together(work, 4))
    finally:
        ended.set()
        meddler.join()


def test_threads_that_write_one_file_leave_one_of_theirs(gpu, tmp_path):
    path = tmp_path / "scale.json"
    scale = tuned()
    scale(*arguments())
    together(lambda at: [scale.export(path) for _ in range(20)])
    assert tuned().load(path) == 1
    together(lambda at: [write_file(str(path), lambda file: file.write(b"%d" % at * 10_000)) for _ in range(20)])
    assert path.read_bytes() in [b"%d" % at * 10_000 for at in range(THREADS)] and list(tmp_path.iterdir()) == [path]


# ---- forks -----------------------------------------------------------------------------------------------------------


def test_a_process_forked_while_another_thread_compiles_compiles_too(torch, cuda, monkeypatch):
    k, within, forked = vxc.kernel(SHIFT), threading.Event(), threading.Event()
    compiled = calls_module.compiled

    def waiting(*what):
        with COLLECTOR.paused():
            within.set()
            assert forked.wait(60)
            return compiled(*what)

    monkeypatch.setattr(calls_module, "compiled", waiting)
    thread = threading.Thread(target=k, args=(Tensor(floats(4)), 1))
    thread.start()
    assert within.wait(60)
    child = os.fork()
    if not child:
        good = gc.isenabled()  # nothing compiles here
        forked.set()
        good = good and k(floats(4), 1, device="cpu").tolist() == [1, 2, 3, 4] and gc.isenabled()
        os._exit(0 if good else 1)
    found = os.waitpid(child, 0)[1]
    forked.set()
    thread.join()
    assert os.waitstatus_to_exitcode(found) == 0 and gc.isenabled()


def test_a_process_forked_by_the_thread_that_compiles_goes_on_with_it():
    with COLLECTOR.paused():
        child = os.fork()
    if not child:
        os._exit(0 if gc.isenabled() and not COLLECTOR.compiling else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 and gc.isenabled()
