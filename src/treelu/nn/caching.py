"""Compiled functions kept on disk where that is possible, and without it where not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numba

__all__ = ["njit"]


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit`, but ``cache=True`` only asks: with no folder to write to it warns, once, and compiles anew.

    Such is a package installed read-only, used by someone without a writable home.

    Examples
    --------
    >>> @njit(cache=True)
    ... def double(x):
    ...     return 2 * x
    >>> double(4)
    8
    """

    def decorate(function: Callable[..., Any]) -> Any:
        compiler: Any = numba.njit
        try:
            return compiler(**options)(function)
        except RuntimeError as error:
            if not options.get("cache") or "no locator available" not in str(error):
                raise
            _warn()
            return compiler(**{**options, "cache": False})(function)

    return decorate


@cache
def _warn() -> None:
    warnings.warn(
        "compiled functions cannot be kept on disk, so that every start compiles them again; "
        "set NUMBA_CACHE_DIR to a folder that can be written",
        stacklevel=4,
    )
