"""Classifiers: two classes, several classes, or several 0/1 labels of which some are missing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import Tags
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from treelu.estimators._base import NetworkEstimator
from treelu.estimators._checks import has_labels
from treelu.estimators._failure import unchanged_by_failure
from treelu.estimators._large import fit_outside_memory, is_outside_memory
from treelu.estimators._rows import check_weight, hold_out
from treelu.estimators._targets import (
    as_weight,
    check_class_weight,
    check_label_matrix,
    class_targets,
    encode_classes,
    is_label_matrix,
)
from treelu.nn import Table
from treelu.training import Callback, Sample, Settings
from treelu.training.scaling import fit_scaling
from treelu.training.targets import Targets, probabilities
from treelu.training.together import together

if TYPE_CHECKING:
    from treelu.estimators._saved import Restore
    from treelu.persistence.values import ArrayReader, ArrayWriter, Fields


class NetworkClassifier(ClassifierMixin, NetworkEstimator):
    """A classifier around one network, or one network per label."""

    classes_: Any  # an array, or one per label
    estimators_: list[Self]

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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, eval_set: Any = None) -> Self:
        """Train on rows X with labels y.

        Parameters
        ----------
        X : array, DataFrame or SciPy sparse matrix of shape (n, n_features)
            Or, for tables larger than memory: a `numpy.memmap`; a `treelu.tables.RowStore` or an iterator of pairs
            (X, y), and no y.
        y : array of shape (n,), or (n, labels) of 0, 1 and NaN
            Classes; or several labels, NaN where one was not observed, each of which gets a network of its own.
        sample_weight : array of shape (n,), optional
        eval_set : (X_valid, y_valid), optional
            Scored after each epoch (AUC for two classes, log-loss for more); the best epoch's parameters are kept.

        Returns
        -------
        self
        """
        self._check_parameters()
        check_class_weight(self.class_weight)
        with unchanged_by_failure(self):
            if is_outside_memory(X):
                return fit_outside_memory(self, X, y, sample_weight, eval_set)
            if is_label_matrix(y):
                return self._fit_labels(X, check_label_matrix(y), sample_weight, eval_set)
            self._forget_labels()
            return self._fit_single(X, y, sample_weight, eval_set)

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
        if is_label_matrix(y):
            raise ValueError("partial_fit takes a vector y; fit several labels with one estimator each")
        if has_labels(self):  # an earlier fit of several labels
            self._forget_labels()
            del self.scaling_, self.classes_
        if classes is not None and not hasattr(self, "network_"):
            self.classes_ = np.unique(classes)
        return self._partial_fit_single(X, y, sample_weight)

    def _read_targets(self, y: Any, weight: NDArray[Any] | None, *, first: bool) -> Targets:
        check_classification_targets(y)
        given = getattr(self, "classes_", None) if not first or self._has_given_classes() else None
        self.classes_, number = encode_classes(y, given)
        if self.class_weight is not None:
            by_class = compute_sample_weight(self.class_weight, self.classes_[number])
            weight = by_class if weight is None else weight * by_class
        return class_targets(number, len(self.classes_), weight)

    def _has_given_classes(self) -> bool:
        """Whether partial_fit was told the classes before the first piece."""
        return hasattr(self, "classes_") and not hasattr(self, "scaling_")

    def _state_of_targets(self, arrays: ArrayWriter) -> dict[str, Any]:
        return {"classes": arrays.labels(self.classes_)}

    def _load_targets(self, fields: Fields, arrays: ArrayReader, n_outputs: int) -> None:
        self.classes_ = fields.labels("classes")
        n_classes = len(self.classes_)
        if n_classes < 2 or n_outputs != (1 if n_classes == 2 else n_classes):
            raise fields.error(f"{n_outputs} outputs do not fit {n_classes} classes")

    # Several labels

    def _load_labels(self, fields: Fields, arrays: ArrayReader, restore: Restore) -> None:
        described = enumerate(fields.inners("members"))
        members = [restore(member, arrays.under(f"member{i}")) for i, member in described]
        for i, member in enumerate(members):
            fits = type(member) is type(self) and not has_labels(member)
            if not fits or member.n_features_in_ != self.n_features_in_ or member.classes_.tolist() != [0, 1]:
                raise fields.error(f"member {i} does not belong to this estimator")
        if not members:
            raise fields.error("this estimator needs at least one label")
        self.estimators_ = members
        self.classes_ = [member.classes_ for member in members]

    def _forget_labels(self) -> None:
        self.__dict__.pop("estimators_", None)

    def _fit_labels(self, X: Any, y: NDArray[np.float64], sample_weight: Any, eval_set: Any) -> Self:
        """One network per label on the rows where it is observed; all share one table."""
        X, _ = self._read_rows(X, y, first=True)
        weight = check_weight(sample_weight, X)
        self.scaling_ = fit_scaling(X, self.standardize)
        table = self._scaled_table(X)
        valid = self._read_label_eval_set(eval_set, y.shape[1])
        members = self._label_members(y.shape[1])
        for member in members:
            member.scaling_, member.n_features_in_ = self.scaling_, self.n_features_in_
            member.classes_ = np.array([0, 1])
            for learnt in ("feature_names_in_", "missing_values_"):
                if hasattr(self, learnt):
                    setattr(member, learnt, getattr(self, learnt))
        fits = [
            partial(
                _fit_label,
                member,
                member._label_sample(table, y[:, label], weight),
                None if valid is None else member._label_sample(valid[0], valid[1][:, label], None),
            )
            for label, member in enumerate(members)
        ]
        fitted = together(fits, self.n_jobs, lambda member: member.history_.ended == "interrupted")
        if len(fitted) < len(members):  # labels without a network cannot predict
            raise KeyboardInterrupt("fitting several labels was interrupted; none of them is kept")
        self.estimators_ = fitted
        self.classes_ = [member.classes_ for member in fitted]
        for single in ("network_", "ensemble_", "stack_", "history_", "visits_"):
            self.__dict__.pop(single, None)
        return self

    def _read_label_eval_set(self, eval_set: Any, n_labels: int) -> tuple[Table, NDArray[np.float64]] | None:
        if eval_set is None:
            return None
        if not isinstance(eval_set, tuple | list) or len(eval_set) != 2:
            raise ValueError("eval_set must be a pair (X_valid, y_valid)")
        try:
            X, y = self._read_rows(*eval_set, first=False)
            y = check_label_matrix(y)
            if y.shape[1] != n_labels:
                raise ValueError(f"y must have {n_labels} columns, got {y.shape[1]}")
        except ValueError as error:
            raise ValueError(f"eval_set: {error}") from error
        return self._scaled_table(X), y

    def _label_members(self, n_labels: int) -> list[Self]:
        """An estimator for each label: unfitted, or with warm_start those fitted before."""
        settings = self.get_params(deep=False)
        seeds = self._seeds(n_labels)
        if self.warm_start and has_labels(self):
            if len(self.estimators_) != n_labels:
                raise ValueError(
                    f"warm_start=True continues {len(self.estimators_)} labels, but y has {n_labels}; "
                    "set warm_start=False"
                )
            members = self.estimators_
        else:
            members = [clone(self) for _ in seeds]
        return [
            member.set_params(**{**settings, "n_jobs": None, "random_state": seed})
            for member, seed in zip(members, seeds, strict=True)
        ]

    def _label_sample(self, table: Any, y: NDArray[np.float64], weight: NDArray[Any] | None) -> Sample:
        """The rows with an observed label."""
        observed = np.flatnonzero(~np.isnan(y))
        label = np.nan_to_num(y).astype(np.float32)
        if self.class_weight is not None:
            by_class = np.ones(len(y))
            by_class[observed] = compute_sample_weight(self.class_weight, y[observed])
            weight = by_class if weight is None else weight * by_class
        return Sample(table, Targets("binary", label[:, None], 1, as_weight(weight)), observed)

    # Predicting

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Raw scores: (n,) for two classes, (n, classes) for more, (n, labels) for several labels."""
        check_is_fitted(self, "classes_")
        if has_labels(self):
            return np.column_stack([member.decision_function(X) for member in self.estimators_])
        scores = self._raw_scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities (n, classes) in the order of `classes_`; (n, labels) of a 1 for several labels."""
        check_is_fitted(self, "classes_")
        if has_labels(self):
            return np.column_stack([member.predict_proba(X)[:, 1] for member in self.estimators_])
        return probabilities(self._raw_scores(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row; 0 or 1 for each of several labels."""
        chances = self.predict_proba(X)
        if has_labels(self):
            return (chances >= 0.5).astype(np.int64)
        return self.classes_[chances.argmax(axis=1)]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags


def _fit_label(member: NetworkClassifier, sample: Sample, validation: Sample | None) -> NetworkClassifier:
    """One label's network."""
    seed = member._seeds(1)[0]
    if validation is None and member.early_stopping:
        sample, validation = hold_out(sample, seed)
    member._fit_network(sample, validation, seed)
    return member
