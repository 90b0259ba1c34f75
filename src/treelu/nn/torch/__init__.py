"""The networks as torch modules (extra `torch`): they compose with torch code, run on a GPU, and are the tests' oracle.

`to_torch` makes a module of a network, `from_torch` the reverse.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treelu.nn.torch.modules import (
        CanonicalModule,
        LocallyConstantModule,
        LocallyLinearModule,
        from_torch,
        to_torch,
    )

__all__ = ["CanonicalModule", "LocallyConstantModule", "LocallyLinearModule", "from_torch", "require_torch", "to_torch"]


def require_torch(what: str) -> Any:
    """The module torch; where it is not installed, one line that says what needs it and how to get it.

    Examples
    --------
    >>> require_torch("this page").__name__
    'torch'
    """
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise ImportError(f"{what} needs PyTorch: pip install 'treelu[torch]'") from error


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'treelu.nn.torch' has no attribute {name!r}")
    require_torch("treelu.nn.torch")
    return getattr(importlib.import_module("treelu.nn.torch.modules"), name)
