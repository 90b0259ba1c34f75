"""A package installed read-only, and no writable home: kernels compile without a cache, with one warning."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path

import numba
import pytest
from numba.core.caching import CacheImpl

import treelu
from tests.read_only import run_read_only
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


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
def test_a_read_only_installation_without_a_home_is_imported(tmp_path: Path) -> None:
    code = (
        "import treelu, treelu.training.epochs, treelu.nn.cpu.evaluation, treelu.cli.app\n"
        "from treelu.nn.cpu.kernels import patterns\n"
        "from treelu.tree import ObliqueTree\n"
        "tree = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[0.0], [1.0]])\n"
        "print(treelu.__file__, tree.predict([[2.0]]))"
    )
    done = run_read_only(code, tmp_path)
    if done is None:
        pytest.skip("this process can write everywhere, and setpriv is missing or not permitted")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("installed/treelu/__init__.py [1.]")
    assert done.stderr.count("cannot be kept on disk") == 1


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
