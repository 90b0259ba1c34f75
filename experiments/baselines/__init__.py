"""The methods the paper compares with that scikit-learn does not have, as scikit-learn estimators."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from experiments.baselines.hhcart import HHCARTClassifier, HHCARTRegressor
from experiments.baselines.tao import TAOClassifier, TAORegressor

if TYPE_CHECKING:
    from experiments.baselines.gcn import GCNClassifier, GCNRegressor

__all__ = [
    "GCNClassifier",
    "GCNRegressor",
    "HHCARTClassifier",
    "HHCARTRegressor",
    "TAOClassifier",
    "TAORegressor",
]


def __getattr__(name: str) -> Any:
    if name not in ("GCNClassifier", "GCNRegressor"):
        raise AttributeError(f"module 'experiments.baselines' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module("experiments.baselines.gcn"), name)
    except ImportError as error:
        raise ImportError(f"{name} needs PyTorch and torch_geometric: pip install -e '.[experiments]'") from error
