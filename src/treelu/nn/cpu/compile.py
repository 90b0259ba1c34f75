"""How kernels are compiled: once for a machine, kept on disk, and with a word while it happens.

`entry` is for what Python calls; it is cached with all that it calls. `part` is for what only kernels call: it has no
wrapper for Python, no cache and no machine code of its own, each of which would cost as much again; `inline` is for
short ones. Kernels allocate nothing and count no references: what they work on is passed to them.
"""

from __future__ import annotations

import sys
from typing import Any

from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

from treelu.nn.caching import njit


class _PartLibrary(JITCodeLibrary):
    """A part's code as it comes from Numba: it is optimised and turned into machine code within its caller only."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        """Link in what the part calls, and nothing else."""
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """There is no machine code to point to."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        """What Numba gives the function's environment to; parts raise nothing and need none."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Nothing to set."""


class _PartCompiler(Compiler):
    """Numba's compiler, with a `_PartLibrary` to put the code into."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        if self.state.library is None:
            self.state.library = _PartLibrary(self.state.targetctx.codegen(), "part")


# sums may be reordered and contracted, NaN and infinity keep their meaning
_FAST = {"reassoc", "contract", "nsz", "arcp"}
_njit: Any = njit
_ALL = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}
entry = _njit(**_ALL, cache=True)
fast_entry = _njit(**_ALL, cache=True, fastmath=_FAST)
_PART = {**_ALL, "no_cpython_wrapper": True, "pipeline_class": _PartCompiler}
part = _njit(**_PART)
fast_part = _njit(**_PART, fastmath=_FAST)
inline = _njit(nogil=True, inline="always", _nrt=False)


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
