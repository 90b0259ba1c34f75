"""A read-only installation without a writable home, for a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import treelu


def run_read_only(code: str, folder: Path) -> subprocess.CompletedProcess[str] | None:
    """Run Python code with a copy of the package that cannot be written to; None where such is not to be had."""
    package, home = folder / "installed", folder / "home"
    shutil.copytree(Path(str(treelu.__file__)).parent, package / "treelu", ignore=shutil.ignore_patterns("__pycache__"))
    home.mkdir()
    places = [path for path in (home, package, *package.rglob("*")) if path.is_dir()]
    for place in places:
        place.chmod(0o555)
    prefix = []
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # to whom permissions mean nothing until this is taken away
        prefix = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_", "IPYTHON"))}
    env = kept | {"HOME": str(home), "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        if not _refused(prefix, home, env):
            return None
        return subprocess.run([*prefix, sys.executable, "-c", code], env=env, cwd=home, capture_output=True, text=True)
    finally:
        for place in places:
            place.chmod(0o755)


def _refused(prefix: list[str], home: Path, env: dict[str, str]) -> bool:
    """Whether such a process really cannot write there."""
    write = f"open({str(home / 'x')!r}, 'w')"
    try:
        tried = subprocess.run([*prefix, sys.executable, "-c", write], env=env, capture_output=True, text=True)
    except FileNotFoundError:
        return False
    return "PermissionError" in tried.stderr
