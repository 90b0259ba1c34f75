"""scikit-learn estimators: validate, encode, delegate to the training loop, hand back the tree."""

from treelu.estimators.single import (
    ALCNClassifier,
    ALCNRegressor,
    LCNClassifier,
    LCNRegressor,
    LLNClassifier,
    LLNRegressor,
)

__all__ = ["ALCNClassifier", "ALCNRegressor", "LCNClassifier", "LCNRegressor", "LLNClassifier", "LLNRegressor"]
