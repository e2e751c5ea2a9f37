"""Threads for the kernels.

Every kernel is compiled with ``nogil=True`` and works on one task (a block of
features, of rows, a leaf). Plain Python threads hand out the tasks; while a tree grows
they stay inside one kernel and take them there (``kernels.growing``). This is
deliberate: Numba's own parallel layers either kill a forked child (OpenMP) or
abort when two Python threads enter them (workqueue), and they compile slowly.
A pool here belongs to one call, so training is safe after ``fork``, inside
joblib workers and from several threads at once, and no global thread count is
touched.

Tasks never share an output, and the order of every sum is fixed inside a task,
so the number of threads cannot change a single bit of a result.
"""

from __future__ import annotations

import itertools
import numbers
import os
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from .memory import Buffers

__all__ = ["Job", "Workers", "effective_n_jobs", "even_tasks"]


def available_cpus() -> int:
    """CPUs this process may use: affinity, capped by the usual thread variables.

    joblib's loky workers set these variables so that nested parallelism does
    not oversubscribe the machine.
    """
    cpus = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        cpus = len(os.sched_getaffinity(0))
    for variable in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        value = os.environ.get(variable, "").split(",")[0].strip()  # OpenMP: one per level
        if value.isdecimal() and int(value) > 0:
            cpus = min(cpus, int(value))
    return cpus


def effective_n_jobs(n_jobs: int | None) -> int:
    """Number of threads for ``n_jobs``: None, 0 and -1 mean all, -2 all but one."""
    if n_jobs is None:
        return available_cpus()
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral):
        raise TypeError(f"n_jobs must be an integer or None, got {n_jobs!r}")
    if n_jobs == 0:
        return available_cpus()
    if n_jobs < 0:
        return max(1, available_cpus() + 1 + int(n_jobs))
    return int(n_jobs)


def even_tasks(sizes: NDArray[np.int64], n_tasks: int) -> NDArray[np.int64]:
    """Bounds of slices of about the same total size."""
    total = np.cumsum(sizes)
    wanted = np.linspace(0, total[-1], n_tasks + 1)[1:-1]
    inner = np.searchsorted(total, wanted) + 1
    return np.unique(np.concatenate([[0], inner.clip(max=len(sizes)), [len(sizes)]]))


class Job:
    """Something to do that threads may join at any time.

    Its owner works too and in the end waits for the threads that are *inside*, not for
    those that have yet to hear of it. So it does not matter how many ever come: none,
    when they all wait in jobs of their own.

    Parameters
    ----------
    work : what a thread does, until nothing is left to do.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self.error: BaseException | None = None  # the first one, of any thread
        self.lock = threading.Lock()
        self.invited = 0  # threads that are inside, or have yet to hear of it
        self._helpers_inside = 0
        self._closed = False  # no helper may enter any more
        self._left = threading.Event()  # closed, and the last helper is gone

    def work(self) -> None:
        try:
            self._work()
        except BaseException as error:
            with self.lock:
                if self.error is None:
                    self.error = error

    def help(self) -> None:
        with self.lock:
            if self._closed:
                return
            self._helpers_inside += 1
        self.work()
        with self.lock:
            self.invited -= 1
            self._helpers_inside -= 1
            if self._closed and self._helpers_inside == 0:
                self._left.set()

    def finish(self) -> None:
        """Wait for the helpers. An interrupt may come anywhere, so every step repeats safely."""
        while True:
            try:
                with self.lock:
                    self._closed = True
                    if self._helpers_inside == 0:
                        self._left.set()
                self._left.wait()
                return
            except KeyboardInterrupt as error:
                self.error = error  # no further task is begun


class _Loop(Job):
    """A parallel loop: a shared counter hands out task numbers."""

    def __init__(self, n_tasks: int, task: Callable[[int], None]) -> None:
        super().__init__(self._take_tasks)
        self.n_tasks = n_tasks
        self.task = task
        self.counter = itertools.count()

    def _take_tasks(self) -> None:
        for i in self.counter:
            if i >= self.n_tasks or self.error is not None:
                return
            self.task(i)


class Workers:
    """A pool of threads, used as a context manager.

    Parameters
    ----------
    n_jobs : number of threads as scikit-learn counts them (None, 0, -1: all).
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_threads = effective_n_jobs(n_jobs)
        self.buffers = Buffers()  # of the thread that hands out the work
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._starting = threading.Lock()

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the threads; the pool can be used again."""
        self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        self._jobs = SimpleQueue()

    def run(
        self, n_tasks: int, task: Callable[[int], None], max_threads: int | None = None
    ) -> None:
        """Call ``task(0) ... task(n_tasks - 1)``; return when all are done.

        max_threads : use no more than so many of the threads.

        The first exception of a task is raised here. An interrupt waits for the
        running tasks, so that no kernel still writes when the caller cleans up.
        """
        n_helpers = min(self.n_threads, n_tasks, max_threads or n_tasks) - 1
        if n_helpers <= 0:
            for i in range(n_tasks):
                task(i)
            return
        job = _Loop(n_tasks, task)
        try:
            self.invite(job, n_helpers)
            job.work()
        except KeyboardInterrupt as error:  # between two tasks
            job.error = error
        job.finish()
        if job.error is not None:
            raise job.error

    def run_even(
        self, sizes: NDArray[np.int64], task: Callable[[int], None], n_tasks: int | None = None
    ) -> None:
        """Call ``task(i)`` for every size, many small ones in a row by one thread.

        Between small tasks of their own, threads would only wait for each other.
        """
        bounds = even_tasks(sizes, n_tasks or 2 * self.n_threads)

        def group(number: int) -> None:
            for i in range(bounds[number], bounds[number + 1]):
                task(i)

        self.run(len(bounds) - 1, group)

    def lead(
        self, enter: Callable[[bool], bool], n_helpers: int, close: Callable[[], None]
    ) -> None:
        """Work on something as its leader, together with helpers.

        Parameters
        ----------
        enter : do what there is to do, as the leader or as a helper, and again for as long
            as the answer is False.
        close : send the helpers away; when this returns none is inside.
        """
        job = Job(lambda: _help_until_closed(enter))
        try:
            if n_helpers > 0:
                self.invite(job, n_helpers)
            while not enter(True):  # others are at work
                if job.error is not None:
                    raise job.error
                time.sleep(0)
        finally:
            close()
            job.finish()

    def invite(self, job: Job, n_helpers: int) -> None:
        """Let as many threads help with a job, with those that are invited already."""
        with job.lock:
            n_more = min(n_helpers, self.n_threads - 1) - job.invited
            job.invited += max(n_more, 0)
        if n_more > 0:
            self._start(n_helpers)
            for _ in range(n_more):
                self._jobs.put(job)

    def _start(self, n_helpers: int) -> None:
        with self._starting:
            while len(self._threads) < n_helpers:
                thread = threading.Thread(
                    target=_serve, args=(self._jobs,), name="fullhess-worker", daemon=True
                )
                thread.start()
                self._threads.append(thread)


def _help_until_closed(enter: Callable[[bool], bool]) -> None:
    while not enter(False):
        time.sleep(0)


def _serve(jobs: SimpleQueue[Job | None]) -> None:
    while (job := jobs.get()) is not None:
        job.help()
    jobs.put(None)  # for the next thread; an interrupted start may have left one uncounted
