"""How kernels are compiled: once for a machine, kept on disk, and with a word while it happens.

`entry` is for what Python calls; it is cached with all that it calls. `part` is for what only kernels call: it has no
wrapper for Python, no cache and no machine code of its own, each of which would cost as much again; `inline` is for
short ones. Kernels allocate nothing and count no references: what they work on is passed to them. They also call
neither `min` nor `max`, for each of which Numba would compile a function of its own.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, DefaultPassBuilder, PassManager
from numba.core.typed_passes import AnnotateTypes, NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes

from treelu.nn.caching import njit


class _EntryLibrary(JITCodeLibrary):
    """An entry's code: optimised once, together with its parts.

    Numba goes over each function first and then over the whole cheaply, to find references that need not be counted;
    kernels count none.
    """

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        manager, builder = self._codegen._module_pass_manager(opt=2)
        manager.run(self._final_module, builder)


class _PartLibrary(_EntryLibrary):
    """A part's code as it comes from Numba: it is optimised and turned into machine code within its caller only."""

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


# kernels have no closures, no expressions of whole arrays, and nobody reads their listing
_NEEDLESS = {InlineClosureLikes, NopythonRewrites, AnnotateTypes}


class _EntryCompiler(Compiler):
    """Numba's compiler without the passes that kernels do not need, and with a library of ours to put the code into."""

    library: type[_EntryLibrary] = _EntryLibrary

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        if self.state.library is None:
            self.state.library = self.library(self.state.targetctx.codegen(), "kernel")
            self.state.library.enable_object_caching()

    def define_pipelines(self) -> list[PassManager]:
        """Numba's passes, in their order."""
        manager = PassManager("kernel")
        for each, why in DefaultPassBuilder.define_nopython_pipeline(self.state).passes:
            if each not in _NEEDLESS:
                manager.add_pass(each, why)
        manager.finalize()
        return [manager]


class _PartCompiler(_EntryCompiler):
    library = _PartLibrary


# sums may be reordered and contracted, NaN and infinity keep their meaning
_FAST = {"reassoc", "contract", "nsz", "arcp"}
_njit: Any = njit
_ALL = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}
_ENTRY = {**_ALL, "cache": True, "pipeline_class": _EntryCompiler}
entry = _njit(**_ENTRY)
fast_entry = _njit(**_ENTRY, fastmath=_FAST)
_PART = {**_ALL, "no_cpython_wrapper": True, "pipeline_class": _PartCompiler}
part = _njit(**_PART)
fast_part = _njit(**_PART, fastmath=_FAST)
inline = _njit(nogil=True, inline="always", _nrt=False)


class _Compiling(event.Listener):
    """Says once, on a terminal, that kernels are being compiled; keeps Python from collecting garbage meanwhile.

    The compiler makes a great many small objects, each of which every collection would visit.
    """

    def __init__(self) -> None:
        self.said, self.depth, self.collects = False, 0, False

    def on_start(self, event: Any) -> None:
        if not _is_ours(event):
            return
        self.depth += 1
        if self.depth > 1:  # a part, within its entry
            return
        self.collects = gc.isenabled()
        gc.disable()
        if not self.said and sys.stderr.isatty():
            self.said = True
            print("treelu: compiling its kernels for this machine, once (a few seconds) …", file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        if not _is_ours(event):
            return
        self.depth -= 1
        if self.depth == 0 and self.collects:
            gc.enable()


def _is_ours(event: Any) -> bool:
    function = getattr(event.data.get("dispatcher"), "py_func", None)
    return (getattr(function, "__module__", None) or "").startswith("treelu.")


event.register("numba:compile", _Compiling())
