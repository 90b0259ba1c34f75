"""Peak memory of this process since a moment."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class PeakMemory:
    """How far the resident memory has risen above where it stood when this was made.

    On Linux the kernel's own peak is set back first: `getrusage` would still hold the peak of loading the table, and
    a child process inherits its parent's. Elsewhere `getrusage` has to do.

    Examples
    --------
    >>> import numpy as np
    >>> peak = PeakMemory()
    >>> block = np.ones(4_000_000)
    >>> peak.rise() > 20e6
    True
    """

    def __init__(self) -> None:
        self.can_reset = _STATUS.exists()
        if self.can_reset:
            _CLEAR.write_text("5")
        self.baseline = _status("VmRSS") if self.can_reset else _largest_so_far()

    def rise(self) -> int:
        """Bytes."""
        peak = _status("VmHWM") if self.can_reset else _largest_so_far()
        return max(0, peak - self.baseline)


def _status(name: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name + ":"))
    return 1024 * int(line.split()[1])


def _largest_so_far() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
