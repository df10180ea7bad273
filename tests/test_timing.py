"""Timing on a driver with a clock of its own: how often runs are taken, what is flushed, what is given back."""

from __future__ import annotations

import pytest
from timed_cuda import FILL, TimedCuda

from vxc.diag import Diagnostic, VxcError
from vxc.runtime.graphs import WARM, graphed
from vxc.runtime.timing import FLUSH, in_turns, race, stopwatch


def clock(cuda: TimedCuda, *costs: float):
    """A run that takes these times, one after the other, the last for ever."""
    left = list(costs)

    def run():
        cuda.clock += left.pop(0) if len(left) > 1 else left[0]

    return run


def test_rivals_take_turns_and_the_median_of_the_rounds_counts():
    order, times = [], iter([1.0, 10.0, 5.0, 30.0, 2.0, 20.0])

    def timer(run) -> float:
        run()
        return next(times)

    runs = {name: (lambda name=name: order.append(name)) for name in ("a", "b")}
    assert in_turns(runs, timer, rounds=3) == {"a": 2.0, "b": 20.0}
    assert order == ["a", "b"] * 3


def test_a_time_is_the_median_without_the_flush():
    cuda = TimedCuda()
    with stopwatch(cuda) as watch:
        assert watch.milliseconds(clock(cuda, 0.25)) == pytest.approx(0.25)
        assert cuda.memory and sum(map(len, cuda.memory.values())) == FLUSH
    assert not cuda.memory and not cuda.live


def test_runs_last_as_long_as_asked_flushes_included():
    cuda = TimedCuda()
    with stopwatch(cuda) as watch:
        before = cuda.clock
        watch.milliseconds(clock(cuda, 1.0), warmup=10, rep=40)
    passed = cuda.clock - before
    first = 6.0 + 5 * FILL  # what says how long one takes
    assert 50 - 2 * (1 + FILL) <= passed - first <= 50


def test_runs_that_follow_one_another_end_one_after_the_other():
    """The first of them is now fast, now slow; the second begins when it has ended, and no median is less than the one before."""
    cuda = TimedCuda()
    with stopwatch(cuda) as watch:
        assert watch.ends((clock(cuda, 0.25), clock(cuda, 0.5))) == [pytest.approx(0.25), pytest.approx(0.75)]
        first, second = watch.ends((clock(cuda, *[1.0, 3.0] * 100), clock(cuda, *[0.001] * 200)), warmup=1, rep=40)
        assert first <= second <= first + 0.01


def test_a_slow_run_is_taken_once_after_one_to_warm_up():
    cuda, seen = TimedCuda(), []

    def slow():
        seen.append(cuda.clock)
        cuda.clock += 1000.0

    with stopwatch(cuda) as watch:
        assert watch.milliseconds(slow) == 1000.0
    assert len(seen) == 6 + 1 + 1


def test_a_run_that_takes_no_time_does_not_divide_by_it(monkeypatch):
    cuda = TimedCuda()
    monkeypatch.setattr(cuda, "fill_async", lambda *_: None)
    with stopwatch(cuda) as watch:
        assert watch.milliseconds(lambda: None, warmup=0.01, rep=0.01) == 0.0


def test_outliers_do_not_count():
    cuda = TimedCuda()
    with stopwatch(cuda) as watch:
        assert watch.milliseconds(clock(cuda, *[0.25] * 40, 9.0, 9.0, 0.25)) == pytest.approx(0.25)


def test_a_graph_has_run_before_it_is_captured_and_is_given_back():
    cuda, streams = TimedCuda(), []
    with graphed(cuda, streams.append) as replay:
        assert streams == [7] * (WARM + 1)
        replay()
        assert cuda.replays == 1
    assert not cuda.live


def test_what_fails_while_captured_leaves_nothing_behind():
    cuda = TimedCuda()

    def enqueue(stream):
        if cuda.capturing(stream):
            raise VxcError(Diagnostic("E0604", "no", help="look"))

    with pytest.raises(VxcError), graphed(cuda, enqueue):
        pass
    assert not cuda.live and not cuda.capturing(7)


def test_a_race_has_a_figure_for_each():
    cuda = TimedCuda()
    times = race(cuda, 0, {"a": clock(cuda, 0.5), "b": clock(cuda, 0.25)})
    assert times == {"a": pytest.approx(0.5), "b": pytest.approx(0.25)} and not cuda.live
