"""scikit-learn estimators: validate, encode, delegate to the training loop, hand back the tree."""

from treelu.estimators.ensemble import ELCNClassifier, ELCNRegressor
from treelu.estimators.search import LCNClassifierCV, LCNRegressorCV
from treelu.estimators.single import (
    ALCNClassifier,
    ALCNRegressor,
    LCNClassifier,
    LCNRegressor,
    LLNClassifier,
    LLNRegressor,
)
from treelu.estimators.small import ObliqueTreeClassifier, ObliqueTreeRegressor

__all__ = [
    "ALCNClassifier",
    "ALCNRegressor",
    "ELCNClassifier",
    "ELCNRegressor",
    "LCNClassifier",
    "LCNClassifierCV",
    "LCNRegressor",
    "LCNRegressorCV",
    "LLNClassifier",
    "LLNRegressor",
    "ObliqueTreeClassifier",
    "ObliqueTreeRegressor",
]
