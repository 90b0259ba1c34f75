"""Base classes of the baselines whose fitted model is one ObliqueTree: reading rows, keeping and saving the tree."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from treelu.data.encoding import refuse_invalid_targets
from treelu.data.rows import missing_value_errors, refuse_text_columns
from treelu.data.spread import Matrix, spread
from treelu.estimators._tree_estimator import TreeClassifier, TreeEstimator
from treelu.tree import ObliqueTree
from treelu.tree.rows import refuse_mask
from treelu.tree.saved import describe_tree, restore_tree

if TYPE_CHECKING:
    from treelu.estimators._saved import Describe, Restore
    from treelu.persistence.values import ArrayReader, ArrayWriter, Fields


class BaselineTree(TreeEstimator):
    """Reads rows, keeps a tree with its importances, and saves it."""

    training_losses_: NDArray[np.float64]  # of TAO

    def _rows(self, X: Any) -> Matrix:
        check_is_fitted(self)
        refuse_text_columns(X)
        with missing_value_errors(type(self).__name__, "impute missing values first"):
            return validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)

    def _training_rows(
        self, X: Any, y: Any, sample_weight: Any, **options: Any
    ) -> tuple[Matrix, NDArray[Any], NDArray[np.float64]]:
        """X, y and weights of the rows to fit: those whose weight is not zero."""
        refuse_text_columns(X)
        refuse_invalid_targets(y, are_classes=is_classifier(self))
        refuse_mask("sample_weight", sample_weight)
        with missing_value_errors(type(self).__name__, "impute missing values first"):
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, **options)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        kept = np.flatnonzero(weights)
        return X[kept], y[kept], weights[kept]

    def _set_tree(self, tree: ObliqueTree, X: Matrix, sample_weight: NDArray[np.float64]) -> None:
        self.tree_ = replace(tree, spreads=spread(X, sample_weight))
        self.feature_importances_ = self.tree_.feature_importances()

    def _state(self, arrays: ArrayWriter, describe: Describe) -> dict[str, Any]:
        """The fitted state as JSON; arrays go into `arrays`."""
        arrays.put("feature_importances", self.feature_importances_)
        if hasattr(self, "training_losses_"):
            arrays.put("training_losses", self.training_losses_)
        return {"tree": describe_tree(self.tree_, arrays.under("tree"))}

    def _load_state(self, fields: Fields, arrays: ArrayReader, restore: Restore) -> None:
        """The inverse of `_state`, for an estimator with its parameters set."""
        self.tree_ = restore_tree(fields.inner("tree"), arrays.under("tree"))
        fits = self.tree_.n_features == self.n_features_in_
        if not fits or is_classifier(self) != self.tree_.is_classifier:
            raise fields.error("the tree does not belong to this estimator")
        self.feature_importances_ = arrays.floats("feature_importances", self.n_features_in_)
        if arrays.has("training_losses"):
            self.training_losses_ = arrays.floats("training_losses", None)
        if self.tree_.classes is not None:
            self.classes_ = self.tree_.classes

    def _feature_names(self) -> tuple[str, ...] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(str(name) for name in names)


class BaselineClassifier(TreeClassifier, BaselineTree):
    """A baseline whose leaf values are class frequencies."""

    def _encode(self, y: Any) -> NDArray[np.int64]:
        """Set ``classes_`` and return each row's class number."""
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        return codes.reshape(-1)
