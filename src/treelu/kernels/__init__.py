"""The kernels, compiled when the package is built: for x86-64 at its levels v1 (any such processor), v3 (AVX2) and v4
(AVX-512), elsewhere at the compiler's own level.

The best level that the processor has is chosen at import; the environment variable ``TREELU_KERNELS`` names another.
The sources stand beside this file: equations in ``soft_tree.h`` and ``network.h``, losses and optimisers in
``learning.h``, what each kernel takes in ``kernels.h``; rows go through a finished tree in ``exact.c``, whose
arithmetic is the same at every level. Kernels run without Python's lock; no result depends on the number of threads.
"""

from __future__ import annotations

import os
from typing import Any

from treelu.kernels import compiled

__all__ = ["compiled", "level", "levels", "use"]

VARIABLE = "TREELU_KERNELS"


def level() -> str:
    """The level in use: "v1", "v3" or "v4" on x86-64, "own" elsewhere.

    Examples
    --------
    >>> level() in levels()
    True
    """
    return compiled.level()


def levels() -> tuple[str, ...]:
    """The levels that this processor can run, the fastest last.

    Examples
    --------
    >>> "own" in levels() or "v1" in levels()
    True
    """
    return compiled.levels()


def use(name: str) -> None:
    """Run the kernels of this level from now on.

    Examples
    --------
    >>> use("v9")
    Traceback (most recent call last):
        ...
    ValueError: no kernels of level 'v9' for this processor; take one of ...
    """
    if name not in levels():
        raise ValueError(f"no kernels of level {name!r} for this processor; take one of {', '.join(levels())}")
    compiled.use(name)


def _from_environment(environment: Any = os.environ) -> None:
    name = environment.get(VARIABLE)
    if not name:
        return
    try:
        use(name)
    except ValueError as error:
        raise ImportError(f"{VARIABLE}: {error}") from None


_from_environment()
