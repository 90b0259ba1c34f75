"""A package installed read-only, and no writable home: kernels compile without a cache, with one warning."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numba
import pytest
from numba.core.caching import CacheImpl

import treelu
from treelu.nn import caching


def double(x):
    return 2 * x


def test_without_a_folder_to_write_to_it_compiles_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])
    with pytest.raises(RuntimeError, match="no locator available"):
        numba.njit(cache=True)(double)
    caching._warn.cache_clear()
    with pytest.warns(UserWarning, match="set NUMBA_CACHE_DIR to a folder that can be written") as told:
        kernels = [caching.njit(cache=True, nogil=True)(double) for _ in range(3)]
    assert len(told) == 1
    assert [kernel(4) for kernel in kernels] == [8, 8, 8]


def test_other_errors_are_not_hidden() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert caching.njit(cache=True)(double)(2.5) == 5.0
        with pytest.raises(TypeError):
            caching.njit(cache=True)(3)  # type: ignore[arg-type]


def test_no_kernel_insists_on_a_cache() -> None:
    """Every cached function of the package goes through this module."""
    package = Path(str(treelu.__file__)).parent
    for path in package.rglob("*.py"):
        text = path.read_text()
        if path.name != "caching.py" and re.search(r"\bcache=True", text):
            assert not re.search(r"from numba import .*njit|numba\.njit", text), f"{path.name} uses numba.njit"
