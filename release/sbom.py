"""Writes dist/sbom.json, the software bill of materials of an installation without extras: `make sbom`."""

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Install the core dependencies into an empty environment, and list what is in it with cyclonedx-py."""
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    target = ROOT / "dist" / "sbom.json"
    target.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", name], check=True)
        python = Path(name) / "bin" / "python"
        install = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "-c", "constraints.txt"]
        subprocess.run([*install, *dependencies], cwd=ROOT, check=True)
        listing = ["cyclonedx_py", "environment", "--pyproject", "pyproject.toml", "--output-reproducible"]
        subprocess.run([sys.executable, "-m", *listing, "-o", str(target), str(python)], cwd=ROOT, check=True)
    print(f"written to {target}")


if __name__ == "__main__":
    main()
