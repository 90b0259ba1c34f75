"""Builds the sdist and the wheel, checks them, and tries each in an empty environment: `make package`.

Takes some minutes: two environments are made, and the dependencies are downloaded from the package index.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"


def run(*command: object, cwd: Path = ROOT) -> None:
    """Run a command with none of this clone's folders on Python's path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([str(part) for part in command], cwd=cwd, check=True, env=environment)


def try_out(distribution: Path) -> None:
    """Install a distribution into an empty environment, and run the smoke test outside the clone."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(sys.executable, "-m", "venv", folder / "venv")
        python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
        constraints = ROOT / "constraints.txt"
        run(python, "-m", "pip", "install", "--disable-pip-version-check", "-q", "-c", constraints, distribution)
        run(python, ROOT / "release" / "smoke.py", cwd=folder)
    print(f"{distribution.name}: installed and tried in {time.perf_counter() - started:.0f} s", flush=True)


def main() -> None:
    """Build, check, try."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST)
    distributions = sorted(DIST.iterdir())
    run(sys.executable, "-m", "twine", "check", "--strict", *distributions)
    for distribution in distributions:
        try_out(distribution)


if __name__ == "__main__":
    main()
