"""Logarithms of probabilities, which scikit-learn's classifiers have too."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray


class LogProbabilities:
    """Adds `predict_log_proba` to a classifier."""

    @abstractmethod
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of the classes."""

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """The natural logarithms of :meth:`predict_proba`; −∞ for a probability of 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))
