"""How kernels are compiled: once for a machine, kept on disk, and with a word while it happens.

`entry` is for what Python calls; it is cached with all that it calls. `part` is for what only kernels call: it has no
wrapper for Python and no cache of its own, each of which would cost as much again. Numba optimises a part by itself and
once more within its caller, so parts are few, and short ones are `inline`.
"""

from __future__ import annotations

import sys
from typing import Any

from numba.core import event

from treelu.nn.caching import njit

# sums may be reordered and contracted, NaN and infinity keep their meaning
_FAST = {"reassoc", "contract", "nsz", "arcp"}
_njit: Any = njit
_ALL = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
entry = _njit(**_ALL, cache=True)
fast_entry = _njit(**_ALL, cache=True, fastmath=_FAST)
part = _njit(**_ALL, no_cpython_wrapper=True)
fast_part = _njit(**_ALL, no_cpython_wrapper=True, fastmath=_FAST)
inline = _njit(nogil=True, inline="always")


class _Notice(event.Listener):
    """Says once, on a terminal, that kernels are being compiled."""

    def __init__(self) -> None:
        self.said = False

    def on_start(self, event: Any) -> None:
        dispatcher = event.data.get("dispatcher")
        module = getattr(getattr(dispatcher, "py_func", None), "__module__", None) or ""
        if self.said or not module.startswith("treelu.") or not sys.stderr.isatty():
            return
        self.said = True
        print("treelu: compiling its kernels for this machine, once (a few seconds) …", file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        """Nothing more to say."""


event.register("numba:compile", _Notice())
