"""scikit-learn estimators: validate, encode, delegate to the training loop, hand back the tree.

A class is loaded when it is first used, without the others.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treelu.estimators.ensemble import ELCNClassifier, ELCNRegressor
    from treelu.estimators.single import (
        ALCNClassifier,
        ALCNRegressor,
        LCNClassifier,
        LCNRegressor,
        LLNClassifier,
        LLNRegressor,
    )
    from treelu.estimators.small import ObliqueTreeClassifier, ObliqueTreeRegressor
    from treelu.estimators.stacked import StackedClassifier, StackedRegressor

__all__ = [
    "ALCNClassifier",
    "ALCNRegressor",
    "ELCNClassifier",
    "ELCNRegressor",
    "LCNClassifier",
    "LCNRegressor",
    "LLNClassifier",
    "LLNRegressor",
    "ObliqueTreeClassifier",
    "ObliqueTreeRegressor",
    "StackedClassifier",
    "StackedRegressor",
]
_MODULES = {"ELCN": "ensemble", "ObliqueTree": "small", "Stacked": "stacked"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'treelu.estimators' has no attribute {name!r}")
    family = name.removesuffix("Classifier").removesuffix("Regressor")
    return getattr(importlib.import_module(f"treelu.estimators.{_MODULES.get(family, 'single')}"), name)
