"""Several trainings at once: in threads, or wherever joblib has been told to run them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import joblib
import pytest
from joblib.parallel import ThreadingBackend

from treelu.training.parallel import check_not_stopped, together


def never(result: object) -> bool:
    return False


@pytest.mark.parametrize("n_jobs", [None, 1, 2, -1])
def test_results_come_in_order(n_jobs: int | None) -> None:
    works: list[Callable[[], int]] = [partial(pow, 2, k) for k in range(5)]
    assert together(works, n_jobs, never) == [1, 2, 4, 8, 16]


def test_an_error_of_one_ends_the_others() -> None:
    began, failed = threading.Event(), threading.Event()

    def fails() -> None:
        began.wait(60)
        failed.set()
        raise ValueError("this one")

    def trains() -> None:
        began.set()
        failed.wait(60)
        while True:  # as a training between two updates
            check_not_stopped()

    with pytest.raises(ValueError, match="this one"):
        together([fails, trains], 2, never)


def test_one_that_was_interrupted_ends_the_others() -> None:
    began = threading.Event()

    def interrupted() -> str:
        began.wait(60)
        return "cut short"

    def trains() -> str:
        began.set()
        try:
            while True:
                check_not_stopped()
        except KeyboardInterrupt:
            return "kept what it had"

    assert together([interrupted, trains], 2, lambda result: result == "cut short") == ["cut short", "kept what it had"]


class Cluster(ThreadingBackend):
    """Stands for a backend that joblib does not bring along, such as Dask's."""

    n_tasks = 0

    def submit(self, func, callback=None):  # type: ignore[no-untyped-def]
        Cluster.n_tasks += 1
        return super().submit(func, callback)


def test_a_cluster_given_to_joblib_is_used() -> None:
    joblib.register_parallel_backend("cluster of the test", Cluster)
    try:
        with joblib.parallel_config("cluster of the test", n_jobs=2):
            assert together([partial(pow, 3, k) for k in range(4)], None, never) == [1, 3, 9, 27]
        assert Cluster.n_tasks > 0
    finally:
        joblib.parallel.BACKENDS.pop("cluster of the test")
