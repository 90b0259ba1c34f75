"""Preload of each worker of a local cluster: Ctrl-C is left to the command that started it."""

from __future__ import annotations

import signal
from typing import Any


def dask_setup(worker: Any) -> None:
    """Called by Dask in the worker's main thread."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
