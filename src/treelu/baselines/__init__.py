"""The methods the paper compares with that scikit-learn does not have, as scikit-learn estimators."""

from treelu.baselines.hhcart import HHCARTClassifier, HHCARTRegressor

__all__ = ["HHCARTClassifier", "HHCARTRegressor"]
