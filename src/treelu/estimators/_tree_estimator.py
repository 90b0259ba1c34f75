"""Base classes of estimators whose fitted model is one ObliqueTree."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from treelu.data.spread import Matrix
from treelu.estimators._output_methods import LogProbabilities, SaveMixin
from treelu.tree import ObliqueTree


class TreeEstimator(SaveMixin, BaseEstimator):
    """Prediction, routing and importances from ``tree_``, for dense and sparse rows."""

    tree_: ObliqueTree
    n_features_in_: int

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict a label (classification) or a value (regression) for each row.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        array of shape (n_rows,), or (n_rows, n_outputs) for several regression targets
        """
        rows = self._rows(X)
        return self.tree_.predict(rows)

    def apply(self, X: Any) -> NDArray[np.int64]:
        """The leaf of each row, as a node number of ``tree_``."""
        rows = self._rows(X)
        return self.tree_.apply(rows)

    def decision_path(self, X: Any) -> sparse.csr_array:
        """The nodes each row passes: a CSR matrix of ones of shape (n_rows, n_nodes)."""
        rows = self._rows(X)
        return self.tree_.decision_path(rows)

    def get_depth(self) -> int:
        """Splits on the longest path of ``tree_``."""
        check_is_fitted(self)
        return self.tree_.depth

    def get_n_leaves(self) -> int:
        """Number of leaves of ``tree_``."""
        check_is_fitted(self)
        return self.tree_.n_leaves

    @abstractmethod
    def _rows(self, X: Any) -> Matrix:
        """Validated rows, as the fitted tree takes them."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class TreeClassifier(LogProbabilities, TreeEstimator):
    """Class probabilities from a tree whose leaf values are class frequencies."""

    classes_: NDArray[Any]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class frequencies of each row's leaf.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        array of shape (n_rows, n_classes), columns in the order of ``classes_``
        """
        rows = self._rows(X)
        return self.tree_.predict_proba(rows)
