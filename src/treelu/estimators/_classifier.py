"""Classifiers: two classes or more from one network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from treelu.estimators._base import NetworkEstimator
from treelu.estimators._failure import unchanged_by_failure
from treelu.estimators._large import fit_outside_memory, is_outside_memory
from treelu.estimators._log_proba import LogProbabilities
from treelu.estimators._targets import check_class_weight, class_targets, encode_classes, weigh_classes
from treelu.training import Callback, Settings
from treelu.training.odd_targets import refuse_odd_targets
from treelu.training.targets import Targets, probabilities

if TYPE_CHECKING:
    from treelu.persistence.values import ArrayReader, ArrayWriter, Fields


class NetworkClassifier(ClassifierMixin, LogProbabilities, NetworkEstimator):
    """A classifier around one network."""

    classes_: Any  # an array; of several labels one for each

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **NetworkEstimator._parameter_constraints,
        "class_weight": [None, dict, StrOptions({"balanced"})],
    }

    def __init__(
        self,
        *,
        depth: int | str = "auto",
        drop_connect: float | str = "auto",
        hidden_layers: Sequence[int] = (),
        epochs: int | str = "auto",
        learning_rate: float = 0.01,
        weight_decay: float | str = "auto",
        standardize: bool | str = "auto",
        early_stopping: bool | int = False,
        cv: Any = None,
        max_tree_features: int | None = None,
        missing: str = "error",
        class_weight: dict[Any, float] | str | None = None,
        warm_start: bool = False,
        device: Any = "cpu",
        n_jobs: int | None = None,
        callbacks: Sequence[Callback] | None = None,
        verbose: bool | int = False,
        random_state: Any = None,
        training: Settings | dict[str, Any] | None = None,
    ) -> None:
        self.depth = depth
        self.drop_connect = drop_connect
        self.hidden_layers = hidden_layers
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.standardize = standardize
        self.early_stopping = early_stopping
        self.cv = cv
        self.max_tree_features = max_tree_features
        self.missing = missing
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.device = device
        self.n_jobs = n_jobs
        self.callbacks = callbacks
        self.verbose = verbose
        self.random_state = random_state
        self.training = training

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, eval_set: Any = None, groups: Any = None) -> Self:
        """Train on rows X with labels y.

        Parameters
        ----------
        X : array, DataFrame or SciPy sparse matrix of shape (n, n_features)
            Or, for tables larger than memory: a `numpy.memmap`; a `treelu.tables.RowStore` or an iterator of pairs
            (X, y), and no y.
        y : array of shape (n,), or (n, labels) of 0, 1 and NaN
            Classes; or several labels, NaN where one was not observed, each of which gets a network of its own.
        sample_weight : array of shape (n,), optional
            Relative weights of the rows; 0 drops a row. The guide "Tuning" has how they differ from repeated rows.
        eval_set : (X_valid, y_valid), optional
            Scored after each epoch (AUC for two classes, log-loss for more); the best epoch's parameters are kept.
        groups : array of shape (n,), optional
            The group of each row, such as a patient: where rows are held out, those of a group stay together.

        Returns
        -------
        self
        """
        self._check_parameters()
        check_class_weight(self.class_weight)
        with unchanged_by_failure(self):
            if is_outside_memory(X):
                return fit_outside_memory(self, X, y, sample_weight, eval_set, groups)
            return self._fit_rows(X, y, sample_weight, eval_set, groups)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from a piece of the data; pieces should come in random order.

        Up to 200,000 rows, and 64 MB, are kept in `stream_`; of more, a random sample. As often as their number has
        grown by a quarter a network is fitted to them as by `fit`; in between the last one is trained on. After a
        `fit`, whose rows are not kept, its network is trained on.

        Parameters
        ----------
        X, y : as for `fit`, a vector y only
        classes : array, optional
            All classes, at the first call if that piece does not show them all.
        sample_weight : array of shape (n,), optional
        """
        self._check_parameters()
        check_class_weight(self.class_weight)
        with unchanged_by_failure(self):
            if classes is not None:
                self._tell_classes(np.unique(classes))
            return self._fit_piece(X, y, sample_weight)

    def _tell_classes(self, classes: NDArray[Any]) -> None:
        """Take the classes of all pieces, at the first; later ones must say the same."""
        import pandas as pd  # loaded when it is needed

        if len(classes) < 2 or pd.isna(classes).any():
            raise ValueError(f"classes must be two labels or more, none of them missing, got {classes.tolist()}")
        if hasattr(self, "scaling_") and isinstance(self.classes_, np.ndarray):  # fitted, and not to several labels
            if not np.array_equal(self.classes_, classes):
                known, told = self.classes_.tolist(), classes.tolist()
                raise ValueError(f"classes must be those of the first piece or fit, {known}, got {told}")
        else:
            self.classes_ = classes

    def _read_targets(self, y: Any, weight: NDArray[Any] | None, *, first: bool) -> Targets:
        refuse_odd_targets(y, are_classes=True)
        check_classification_targets(y)
        by_partial_fit = hasattr(self, "classes_") and not hasattr(self, "scaling_")  # which may be given the classes
        given = getattr(self, "classes_", None) if not first or by_partial_fit else None
        self.classes_, number = encode_classes(y, given)
        if self.class_weight is not None:
            weight = weigh_classes(self.class_weight, self.classes_[number], weight)
        return class_targets(number, len(self.classes_), weight)

    @property
    def _target_scaling(self) -> None:
        return None

    def _state_of_targets(self, arrays: ArrayWriter) -> dict[str, Any]:
        return {"classes": arrays.labels(self.classes_)}

    def _load_targets(self, fields: Fields, arrays: ArrayReader, n_outputs: int) -> None:
        self.classes_ = fields.labels("classes")
        n_classes = len(self.classes_)
        if n_classes < 2 or n_outputs != (1 if n_classes == 2 else n_classes):
            raise fields.error(f"{n_outputs} outputs do not fit {n_classes} classes")

    def _tree_settings(self) -> dict[str, Any]:
        """What a tree of this classifier says."""
        return {"classes": self.classes_, "link": "logistic" if len(self.classes_) == 2 else "softmax"}

    # Predicting

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Raw scores: (n,) for two classes, (n, classes) for more, (n, labels) for several labels."""
        check_is_fitted(self, "classes_")
        scores = self._raw_scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities (n, classes) in the order of `classes_`; (n, labels) of a 1 for several labels."""
        check_is_fitted(self, "classes_")
        return probabilities(self._raw_scores(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row; 0 or 1 for each of several labels."""
        chances = self.predict_proba(X)
        return self.classes_[chances.argmax(axis=1)]
