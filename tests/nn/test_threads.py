"""Threads of the BLAS."""

from __future__ import annotations

from threadpoolctl import ThreadpoolController

from treelu.nn.cpu.threads import one_blas_thread


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in ThreadpoolController().info() if library["user_api"] == "blas"}


def test_blas_has_one_thread_within_and_as_many_as_before_afterwards() -> None:
    before = blas_threads()
    with one_blas_thread():
        assert blas_threads() == {1}
    assert blas_threads() == before
