"""Oblique decision trees trained by gradient descent, as the derivatives of ReLU networks.

Imports are lazy: `import treelu` costs nothing until a name or a package, such as `treelu.persistence`, is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

_PACKAGES = (
    "chem", "convert", "dask", "data", "estimators", "export", "kernels", "nn",
    "persistence", "report", "tables", "training", "tree", "view",
)  # fmt: skip
_HOMES = {  # all others are in treelu.estimators
    "ObliqueTree": "treelu.tree",
    "explain": "treelu.tree.pipelines",
    "load": "treelu.persistence",
    "read_table": "treelu.tables.noted",
}

if TYPE_CHECKING:
    from treelu.estimators import (
        ALCNClassifier,
        ALCNRegressor,
        ELCNClassifier,
        ELCNRegressor,
        LCNClassifier,
        LCNRegressor,
        LLNClassifier,
        LLNRegressor,
        ObliqueTreeClassifier,
        ObliqueTreeRegressor,
        StackedClassifier,
        StackedRegressor,
    )
    from treelu.persistence import load
    from treelu.tables.noted import read_table
    from treelu.tree import ObliqueTree
    from treelu.tree.pipelines import explain

__all__ = [
    "ALCNClassifier",
    "ALCNRegressor",
    "ELCNClassifier",
    "ELCNRegressor",
    "LCNClassifier",
    "LCNRegressor",
    "LLNClassifier",
    "LLNRegressor",
    "ObliqueTree",
    "ObliqueTreeClassifier",
    "ObliqueTreeRegressor",
    "StackedClassifier",
    "StackedRegressor",
    "explain",
    "load",
    "read_table",
]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"treelu.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'treelu' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES.get(name, "treelu.estimators")), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_PACKAGES])
