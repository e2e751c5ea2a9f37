from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from fullhess.bins import BinnedMatrix
from fullhess.threads import Workers, available_cpus, effective_n_jobs, even_tasks

N_TASKS = [0, 1, 2, 3, 100]
VARIABLES = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS")


@pytest.fixture(autouse=True)
def cpus(monkeypatch):
    """Eight CPUs and no thread variables, whatever this machine has."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)


def within(seconds, function):
    """The result of ``function``; fails instead of hanging when it does not return."""
    future: Future = Future()

    def call():
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    try:
        return future.result(timeout=seconds)
    except TimeoutError:
        pytest.fail(f"did not return within {seconds} s")


# The number of threads


@pytest.mark.parametrize(
    ("n_jobs", "expected"),
    [(None, 8), (0, 8), (-1, 8), (-2, 7), (-8, 1), (-100, 1), (1, 1), (3, 3), (20, 20)],
)
def test_n_jobs_counts_as_in_scikit_learn(n_jobs, expected):
    assert effective_n_jobs(n_jobs) == expected
    assert Workers(n_jobs).n_threads == expected


def test_numpy_integers_are_numbers_of_jobs():
    assert effective_n_jobs(np.int32(3)) == 3
    assert type(effective_n_jobs(np.int64(-2))) is int


@pytest.mark.parametrize("n_jobs", [True, 1.0, "2", np.float64(2), [1]])
def test_other_numbers_of_jobs_are_refused(n_jobs):
    with pytest.raises(TypeError, match="n_jobs must be an integer or None"):
        effective_n_jobs(n_jobs)


@pytest.mark.parametrize("variable", VARIABLES)
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("3", 3),
        ("1", 1),
        ("100", 8),
        ("", 8),
        ("0", 8),
        ("-1", 8),
        ("many", 8),
        ("²", 8),
        ("2,4", 2),
    ],
)
def test_thread_variables_cap_the_cpus(monkeypatch, variable, value, expected):
    monkeypatch.setenv(variable, value)
    assert available_cpus() == effective_n_jobs(-1) == expected


def test_the_smaller_thread_variable_counts(monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "5")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert effective_n_jobs(None) == 2
    assert effective_n_jobs(-2) == 1
    assert effective_n_jobs(6) == 6  # asked for by name


def test_systems_without_affinity_count_their_cpus(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert available_cpus() == 5
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_cpus() == 1


# Tasks


@pytest.mark.parametrize("n_threads", [1, 2, 7])
@pytest.mark.parametrize("n_tasks", N_TASKS)
def test_every_task_runs_once(n_threads, n_tasks):
    with Workers(n_threads) as workers:
        for _ in range(5):  # the pool can be used again
            done: list[int] = []
            workers.run(n_tasks, done.append)
            assert sorted(done) == list(range(n_tasks))


def test_run_returns_after_the_last_task():
    finished: list[int] = []

    def slow(i):
        time.sleep(0.01 * (i % 3))
        finished.append(i)

    with Workers(4) as workers:
        for _ in range(5):
            finished.clear()
            workers.run(9, slow)
            assert len(finished) == 9


def test_tasks_run_at_the_same_time():
    barrier = threading.Barrier(3)
    with Workers(3) as workers:
        within(10, lambda: workers.run(3, lambda i: barrier.wait(5)))


def test_threads_are_started_when_needed_and_ended_by_close():
    before = threading.active_count()
    with Workers(6) as workers:
        workers.run(1, lambda i: None)
        assert threading.active_count() == before
        workers.run(3, lambda i: None)
        assert threading.active_count() == before + 2
        workers.run(50, lambda i: None)
        assert threading.active_count() == before + 5
    assert threading.active_count() == before


def test_a_closed_pool_starts_again():
    done: list[int] = []
    workers = Workers(2)
    workers.run(4, done.append)
    workers.close()
    workers.close()
    workers.run(4, done.append)
    workers.close()
    assert sorted(done) == [0, 0, 1, 1, 2, 2, 3, 3]


# Errors


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("failing", [0, 5, 19])
def test_the_exception_of_a_task_reaches_the_caller(n_threads, failing):
    def task(i):
        if i == failing:
            raise KeyError("task", i)

    with Workers(n_threads) as workers:
        with pytest.raises(KeyError) as caught:
            workers.run(20, task)
        assert caught.value.args == ("task", failing)
        done: list[int] = []
        workers.run(3, done.append)  # the pool has survived
        assert sorted(done) == [0, 1, 2]


def test_the_first_of_several_exceptions_is_raised():
    second_may_fail = threading.Event()

    def task(i):
        if i == 0:
            raise ValueError("first")
        second_may_fail.wait(5)
        time.sleep(0.05)
        raise ValueError("second")

    def release_after(i):
        try:
            task(i)
        finally:
            second_may_fail.set()

    with Workers(2) as workers, pytest.raises(ValueError, match="first"):
        workers.run(2, release_after)


def test_an_exception_keeps_later_tasks_from_starting():
    started: list[int] = []

    def task(i):
        started.append(i)
        time.sleep(0.005)
        raise RuntimeError

    with Workers(2) as workers, pytest.raises(RuntimeError):
        workers.run(1000, task)
    assert len(started) <= 2


# Interrupts


@pytest.mark.parametrize("interrupted", ["caller", "helper"])
def test_an_interrupt_inside_a_task_waits_for_the_running_tasks(interrupted):
    caller = threading.current_thread()
    both_inside = threading.Barrier(2)
    finished: list[int] = []

    def task(i):
        both_inside.wait(5)
        if (threading.current_thread() is caller) == (interrupted == "caller"):
            raise KeyboardInterrupt
        time.sleep(0.2)
        finished.append(i)

    with Workers(2) as workers:
        with pytest.raises(KeyboardInterrupt):
            workers.run(2, task)
        assert len(finished) == 1


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs POSIX signals")
@pytest.mark.parametrize("n_signals", [1, 3])
def test_an_interrupt_while_waiting_waits_on(n_signals):
    caller = threading.current_thread()
    if caller is not threading.main_thread():
        pytest.skip("only the main thread is interrupted")
    helper_inside = threading.Event()
    finished: list[int] = []

    def task(i):
        if threading.current_thread() is caller:
            helper_inside.wait(5)
            return
        helper_inside.set()
        for _ in range(n_signals):
            time.sleep(0.1)  # the caller is waiting by now
            signal.pthread_kill(caller.ident, signal.SIGINT)
        time.sleep(0.2)
        finished.append(i)

    with Workers(2) as workers:
        with pytest.raises(KeyboardInterrupt):
            workers.run(2, task)
        assert len(finished) == 1


# Pools beside and inside each other


def test_one_pool_serves_several_threads():
    def use(start):
        done: list[int] = []
        for _ in range(20):
            workers.run(10, lambda i: done.append(start + i))
        return sorted(done) == sorted(list(range(start, start + 10)) * 20)

    with Workers(3) as workers, ThreadPoolExecutor(4) as executor:
        assert all(within(30, lambda: list(executor.map(use, range(0, 400, 100)))))


def test_several_threads_may_each_have_a_pool():
    def use(size):
        total = np.zeros(size)
        with Workers(3) as workers:
            workers.run(size, lambda i: total.__setitem__(i, i))
        return total.sum()

    with ThreadPoolExecutor(4) as executor:
        assert list(executor.map(use, [10, 20, 30, 40])) == [45, 190, 435, 780]


def test_a_task_may_use_a_pool_of_its_own():
    total = np.zeros((4, 5))

    def inner_loop(i):
        with Workers(2) as inner:
            inner.run(5, lambda j: total.__setitem__((i, j), i * j))

    with Workers(2) as outer:
        within(30, lambda: outer.run(4, inner_loop))
    assert (total == np.outer(range(4), range(5))).all()


def test_a_task_may_use_the_pool_it_runs_in():
    for _ in range(20):
        total = np.zeros((4, 5))
        with Workers(2) as workers:
            within(
                30,
                lambda workers=workers, total=total: workers.run(
                    4,
                    lambda i: workers.run(5, lambda j: total.__setitem__((i, j), i * j)),
                ),
            )
        assert (total == np.outer(range(4), range(5))).all()


# Processes


def run_forked(target, *args):
    """What ``target(answers, *args)`` puts into ``answers`` in a forked child."""
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=target, args=(answers, *args))
    child.start()
    child.join(60)
    if child.is_alive():
        child.kill()
        pytest.fail("the child did not return within 60 s")
    assert child.exitcode == 0
    return answers.get()


def sum_in_child(answers, workers):
    total = np.zeros(100)
    with workers or Workers(3) as pool:
        pool.run(100, lambda i: total.__setitem__(i, i))
    answers.put(total.sum())


def bin_in_child(answers, X, cuts):
    answers.put(BinnedMatrix.from_cuts(X, cuts, n_jobs=3).codes)


forks = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork"
)


@forks
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("inherited", [False, True], ids=["own pool", "the parent's pool"])
def test_a_forked_child_can_work(inherited):
    with Workers(3) as workers:
        workers.run(10, lambda i: None)  # the parent's threads exist, the child has none of them
        assert run_forked(sum_in_child, workers if inherited else None) == 4950
        done: list[int] = []
        workers.run(4, done.append)  # the parent's pool is as it was
        assert sorted(done) == [0, 1, 2, 3]


@forks
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_kernels_run_in_a_forked_child_after_the_parent_ran_them(rng):
    X = rng.normal(size=(6_000, 2))
    cuts = [[-1.0, 0.0, 1.0]] * 2
    in_parent = BinnedMatrix.from_cuts(X, cuts, n_jobs=3).codes
    np.testing.assert_array_equal(run_forked(bin_in_child, X, cuts), in_parent)


# Tasks of uneven size


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("sizes", [[5], [1] * 7, [1000, 1, 1, 1], [1, 1, 1, 1000], [3, 9, 2, 8, 1]])
def test_even_tasks_are_done_once_each_in_runs(n_jobs, sizes):
    done: list[int] = []
    with Workers(n_jobs) as workers:
        workers.run_even(np.array(sizes), done.append, n_tasks=4)
    assert sorted(done) == list(range(len(sizes)))
    bounds = even_tasks(np.array(sizes), 4)
    assert bounds[0] == 0 and bounds[-1] == len(sizes) and (np.diff(bounds) > 0).all()


def test_no_more_threads_work_than_are_allowed():
    seen = set()
    with Workers(4) as workers:
        workers.run(50, lambda i: seen.add(threading.get_ident()), max_threads=1)
        assert seen == {threading.get_ident()} and not workers._threads
