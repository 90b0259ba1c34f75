"""A fit that fails or is interrupted leaves the estimator as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def unchanged_by_failure(estimator: Any) -> Iterator[None]:
    """Give the estimator its attributes back if the block raises: no new classes on an old model.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> model = SimpleNamespace(classes_=["a", "b"])
    >>> try:
    ...     with unchanged_by_failure(model):
    ...         model.classes_ = ["c"]
    ...         raise KeyboardInterrupt
    ... except KeyboardInterrupt:
    ...     model.classes_
    ['a', 'b']
    """
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise
