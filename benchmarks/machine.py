"""Facts about the machine that the times depend on: no names, no paths."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "lightgbm")
VECTORS = ("avx2", "fma", "avx512f")
_CPU = Path("/proc/cpuinfo")


def facts() -> dict[str, Any]:
    """Cores, memory, vector instructions, versions, and how busy the machine is now."""
    flags = _flags()
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "cpu_flags": len(flags),
        "vectors": [name for name in VECTORS if name in flags],
        "load_before": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def _flags() -> set[str]:
    if not _CPU.exists():
        return set()
    lines = (line.partition(":") for line in _CPU.read_text().splitlines())
    return next((set(value.split()) for name, _, value in lines if name.strip() == "flags"), set())
