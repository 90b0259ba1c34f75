"""What each worker of a cluster of this machine does first: it leaves Ctrl-C to the command that started it."""

from __future__ import annotations

import signal
from typing import Any


def dask_setup(worker: Any) -> None:
    """Called by Dask in the worker's main thread."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
