"""Classifiers and regressors around networks: two classes or more, several labels, one or several real targets."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from treelu.data.encoding import check_class_weight, check_classes, is_label_matrix
from treelu.data.reading import ClassEncoding, ValueEncoding
from treelu.data.scaling import Scaling
from treelu.data.targets import probabilities
from treelu.estimators._base import NetworkEstimator, SingleNetwork
from treelu.estimators._inputs import unchanged_by_failure
from treelu.estimators._labels import FittedLabels
from treelu.estimators._output_methods import LogProbabilities


class NetworkClassifier(ClassifierMixin, LogProbabilities, NetworkEstimator):
    """A classifier around networks: two classes, more, or several 0/1 labels with a model for each."""

    def _takes_labels(self, y: Any) -> bool:
        check_class_weight(self._shared().class_weight)
        return is_label_matrix(y)

    def _learn_encoding(self, y: Any, weight: NDArray[Any] | None) -> ClassEncoding:
        return ClassEncoding.learn(y, self._shared().class_weight, weight)

    # What was learned

    @property
    def classes_(self) -> Any:
        """The classes, sorted; a list with those of each of several labels."""
        fitted = self._value
        if isinstance(fitted, FittedLabels):
            return [member.classes_ for member in fitted.estimators]
        return fitted.reading.encoding.classes

    @property
    def class_order_(self) -> NDArray[np.int64]:
        """The numbers of the classes in the order that training has them in: by their weight, not by their names."""
        return np.argsort(self._model("class_order_").reading.encoding.places)

    @property
    def estimators_(self) -> list[Any]:
        """Of several labels, the classifier of each."""
        fitted = self._value
        if not isinstance(fitted, FittedLabels):
            raise AttributeError(f"this {type(self).__name__} is one model; there are estimators_ for several labels")
        return fitted.estimators

    def _tree_settings(self) -> dict[str, Any]:
        """How a tree of this classifier predicts."""
        return {"classes": self.classes_, "link": "logistic" if len(self.classes_) == 2 else "softmax"}

    # Predicting

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Raw scores: (n,) for two classes, (n, classes) for more, (n, labels) for several labels."""
        check_is_fitted(self)
        if isinstance(self.fitted_, FittedLabels):
            return np.column_stack([member.decision_function(X) for member in self.fitted_.estimators])
        scores = self._raw_scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities (n, classes) in the order of `classes_`; (n, labels) of a 1 for several labels."""
        check_is_fitted(self)
        if isinstance(self.fitted_, FittedLabels):
            return np.column_stack([member.predict_proba(X)[:, 1] for member in self.fitted_.estimators])
        return probabilities(self._raw_scores(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row; 0 or 1 for each of several labels."""
        probability = self.predict_proba(X)
        if isinstance(self.fitted_, FittedLabels):
            return (probability >= 0.5).astype(np.int64)
        return self.classes_[probability.argmax(axis=1)]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


class IncrementalClassifier(NetworkClassifier):
    """A classifier that learns from pieces of the data too."""

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from a piece of the data; pieces should come in random order.

        Up to 200,000 rows, and 64 MB, are kept in `stream_`; of more, a random sample. Whenever their number has
        grown by a quarter, a network is fitted to them as by `fit`; in between the last one is continued. After a
        `fit`, whose rows are not kept, its network is continued.

        Parameters
        ----------
        X, y : as for `fit`, a vector y only
        classes : array, optional
            All classes, at the first call if that piece does not show them all.
        sample_weight : array of shape (n,), optional
        """
        self._check_parameters()
        class_weight = self._shared().class_weight
        check_class_weight(class_weight)
        if is_label_matrix(y):
            raise ValueError("partial_fit takes a vector y; fit several labels with one estimator each")
        with unchanged_by_failure(self):
            if isinstance(self.__dict__.get("fitted_"), FittedLabels):
                del self.fitted_
            known = self.classes_ if "fitted_" in self.__dict__ else None
            given = check_classes(classes, known)
            return self._fit_piece(X, y, sample_weight, ClassEncoding.learn(y, class_weight, classes=given))


@dataclass(eq=False, repr=False, kw_only=True)
class SingleClassifier(SingleNetwork, IncrementalClassifier):
    """A classifier around one network."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SingleNetwork._parameter_constraints,
        "class_weight": [None, dict, StrOptions({"balanced"})],
    }

    class_weight: dict[Any, float] | str | None = None


class NetworkRegressor(RegressorMixin, NetworkEstimator):
    """A regressor around networks."""

    def _learn_encoding(self, y: Any, weight: NDArray[Any] | None) -> ValueEncoding:
        return ValueEncoding.learn(y, bool(self._shared().standardize), weight)

    @property
    def n_outputs_(self) -> int | None:
        """The number of targets; None for a vector."""
        return self._value.reading.encoding.n_outputs

    @property
    def target_scaling_(self) -> Scaling:
        """How targets are scaled for training."""
        return self._value.reading.encoding.scaling

    def _tree_settings(self) -> dict[str, Any]:
        """How a tree of this regressor predicts."""
        return {"link": "identity"}

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predicted values: (n,) for one target, also where y was a column, (n, outputs) for several."""
        values = self._raw_scores(X)
        return values[:, 0] if self.n_outputs_ is None else values

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class IncrementalRegressor(NetworkRegressor):
    """A regressor that learns from pieces of the data too."""

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from a piece of the data; pieces should come in random order.

        Up to 200,000 rows, and 64 MB, are kept in `stream_`; of more, a random sample. Whenever their number has
        grown by a quarter, a network is fitted to them as by `fit`; in between the last one is continued. After a
        `fit`, whose rows are not kept, its network is continued.
        """
        self._check_parameters()
        with unchanged_by_failure(self):
            fitted = self.__dict__.get("fitted_")
            encoding = self._learn_encoding(y, None) if fitted is None else fitted.reading.encoding
            return self._fit_piece(X, y, sample_weight, encoding)


@dataclass(eq=False, repr=False, kw_only=True)
class SingleRegressor(SingleNetwork, IncrementalRegressor):
    """A regressor around one network."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SingleNetwork._parameter_constraints,
        "smoothing": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
    }

    smoothing: float | str = "auto"
