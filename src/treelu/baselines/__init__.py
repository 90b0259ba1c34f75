"""The methods the paper compares with that scikit-learn does not have, as scikit-learn estimators."""

from treelu.baselines.gcn import GCNClassifier, GCNRegressor
from treelu.baselines.hhcart import HHCARTClassifier, HHCARTRegressor
from treelu.baselines.tao import TAOClassifier, TAORegressor

__all__ = [
    "GCNClassifier",
    "GCNRegressor",
    "HHCARTClassifier",
    "HHCARTRegressor",
    "TAOClassifier",
    "TAORegressor",
]
