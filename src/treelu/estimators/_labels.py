"""Several 0/1 labels, of which some may be missing: an estimator for each, none of which knows of the others.

A classifier becomes one for several labels by the mixin `SeveralLabels`: fitted to a table of labels it holds a
`Labels`, which answers in its place. Nothing else in this package asks how many labels there are.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_consistent_length

from treelu.estimators._folding import read_folding
from treelu.estimators._rows import check_continues, check_weight, counted_rows, learned_before
from treelu.estimators._saved import n_columns, put_missing, take_missing
from treelu.estimators._targets import check_label_matrix, class_targets, is_label_matrix, weigh_classes
from treelu.nn import Table
from treelu.training import Sample
from treelu.training.folds import Folding
from treelu.training.saved import put_scaling, take_scaling
from treelu.training.scaling import fit_scaling
from treelu.training.together import together

if TYPE_CHECKING:
    from treelu.estimators._saved import Describe, Restore
    from treelu.persistence.values import ArrayReader, ArrayWriter, Fields


@dataclass(frozen=True)
class Labels:
    """What a classifier answers once it is fitted to several labels.

    Attributes
    ----------
    estimators_ : list of classifiers
        One per label, each fitted to the rows where its label was observed.
    """

    estimators_: list[Any]

    @property
    def classes_(self) -> list[NDArray[Any]]:
        return [member.classes_ for member in self.estimators_]

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        return np.column_stack([member.decision_function(X) for member in self.estimators_])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        return np.column_stack([member.predict_proba(X)[:, 1] for member in self.estimators_])

    def predict(self, X: Any) -> NDArray[np.int64]:
        return (self.predict_proba(X) >= 0.5).astype(np.int64)

    def staged_decision_function(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """A label whose ensemble is complete keeps its scores until all are."""
        latest: Sequence[Any] = ()
        for stage in zip_longest(*(member.staged_decision_function(X) for member in self.estimators_)):
            latest = [before if now is None else now for now, before in zip(stage, latest or stage, strict=True)]
            yield np.column_stack(latest)

    def staged_predict_proba(self, X: Any) -> Iterator[NDArray[np.float64]]:
        return map(expit, self.staged_decision_function(X))

    def staged_predict(self, X: Any) -> Iterator[NDArray[np.int64]]:
        return ((chances >= 0.5).astype(np.int64) for chances in self.staged_predict_proba(X))

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        return np.mean([member.feature_importances_ for member in self.estimators_], axis=0)

    def _tree_to_show(self) -> str | None:
        return "one tree per label: estimators_[label].tree_" if hasattr(self.estimators_[0], "to_tree") else None

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is one model per label: use estimators_[label].{name}")


LEARNED = ("classes_", "estimators_")  # set by `fit`: no class has them
ANSWERED = [name for name in vars(Labels) if not name.startswith("__") and name not in LEARNED]
ONE_EACH = ("tree_", "to_tree", "apply", "decision_path", "trees_", "to_trees", "n_estimators_")  # not answered


class Answer:
    """A method or attribute that is that of the `Labels` where there are several, and else that of the one model."""

    def __init__(self, name: str, single: Any) -> None:
        self.name, self.single = name, single
        self.__doc__ = single.__doc__

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is not None and instance._labels is not None:
            return getattr(instance._labels, self.name)
        if self.single is None:  # learned by fit: an attribute of the instance, which hides this one
            raise AttributeError(f"{owner.__name__!r} object has no attribute {self.name!r}")
        return self.single.__get__(instance, owner)


class SeveralLabels:
    """Lets a classifier take a table of 0/1 labels, with NaN where one was not observed."""

    _labels: Labels | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if SeveralLabels in cls.__bases__:
            for name in (*LEARNED, *ANSWERED, *ONE_EACH):
                single = inspect.getattr_static(cls, name, None)
                if single is not None or name in LEARNED:
                    setattr(cls, name, Answer(name, single))

    def _fit_rows(self, X: Any, y: Any, sample_weight: Any, eval_set: Any, groups: Any) -> Self:
        if not is_label_matrix(y):
            self.__dict__.pop("_labels", None)
            return super()._fit_rows(X, y, sample_weight, eval_set, groups)  # type: ignore[misc]
        before = self._labels if self.warm_start else None
        for name in (*_learned(self), "_labels", "_tree"):
            self.__dict__.pop(name, None)
        self._labels = fit_labels(self, X, check_label_matrix(y), sample_weight, eval_set, groups, before)
        return self

    def _fit_piece(self, X: Any, y: Any, sample_weight: Any) -> Self:
        if is_label_matrix(y):
            raise ValueError("partial_fit takes a vector y; fit several labels with one estimator each")
        if self.__dict__.pop("_labels", None) is not None:
            del self.scaling_
        return super()._fit_piece(X, y, sample_weight)  # type: ignore[misc]

    def _state(self, arrays: ArrayWriter, describe: Describe) -> dict[str, Any]:
        if self._labels is None:
            return super()._state(arrays, describe)  # type: ignore[misc]
        put_scaling(self.scaling_, arrays.under("scaling"))
        put_missing(self, arrays)
        members = enumerate(self._labels.estimators_)
        return {"members": [describe(member, arrays.under(f"member{i}")) for i, member in members]}

    def _load_state(self, fields: Fields, arrays: ArrayReader, restore: Restore) -> None:
        if "members" not in fields:
            super()._load_state(fields, arrays, restore)  # type: ignore[misc]
            return
        take_missing(self, fields, arrays)
        self.scaling_ = take_scaling(arrays.under("scaling"), n_columns(self))
        described = enumerate(fields.inners("members"))
        members = [restore(member, arrays.under(f"member{i}")) for i, member in described]
        for i, member in enumerate(members):
            fits = type(member) is type(self) and member._labels is None
            if not fits or member.n_features_in_ != self.n_features_in_ or member.classes_.tolist() != [0, 1]:
                raise fields.error(f"member {i} does not belong to this estimator")
        if not members:
            raise fields.error("this estimator needs at least one label")
        self._labels = Labels(members)

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.classifier_tags.multi_label = True
        return tags

    if TYPE_CHECKING:  # what the classifier has besides

        def __getattr__(self, name: str) -> Any: ...


def fit_labels(
    estimator: Any,
    X: Any,
    y: NDArray[np.float64],
    sample_weight: Any,
    eval_set: Any,
    groups: Any,
    before: Labels | None,
) -> Labels:
    """An estimator for each label, on the rows where it is observed; all share one table and its scaling."""
    X = estimator._validated_rows(X, first=True)
    check_consistent_length(X, y)
    weight = check_weight(sample_weight, X)
    rows = counted_rows(weight)
    folding = read_folding(estimator.cv, groups, X, y, rows, are_classes=False)
    if rows is not None:  # rows that do not count must not scale the others
        X, y, weight = X[rows], check_label_matrix(y[rows]), None if weight is None else weight[rows]
    X = estimator._filled_rows(X, first=True)
    if before is not None:
        check_continues(learned_before(before.estimators_[0]), learned_before(estimator))
    estimator.scaling_ = fit_scaling(X, estimator.standardize)
    table = estimator._scaled_table(X)
    valid = None
    if eval_set is not None:
        valid = estimator._read_pair(eval_set, partial(_check_labels, n_labels=y.shape[1]))
    members = _members(estimator, y.shape[1], before)
    fits = [
        partial(
            member._fit_sample,
            _label_sample(table, y[:, label], weight, member.class_weight, folding),
            None if valid is None else _label_sample(valid[0], valid[1][:, label], None, member.class_weight),
        )
        for label, member in enumerate(members)
    ]
    fitted = together(fits, estimator.n_jobs, lambda member: member.history_.ended == "interrupted")
    if len(fitted) < len(members):  # labels without a network cannot predict
        raise KeyboardInterrupt("fitting several labels was interrupted; none of them is kept")
    return Labels(fitted)


def _members(estimator: Any, n_labels: int, before: Labels | None) -> list[Any]:
    """An estimator for each label, with what was learned of X: unfitted, or those fitted before."""
    if before is None:
        members = [clone(estimator) for _ in range(n_labels)]
    elif len(before.estimators_) != n_labels:
        raise ValueError(
            f"warm_start=True continues {len(before.estimators_)} labels, but y has {n_labels}; set warm_start=False"
        )
    else:
        members = [copy.copy(member) for member in before.estimators_]
    settings = estimator.get_params(deep=False)
    for member, seed in zip(members, estimator._seeds(n_labels), strict=True):
        member.set_params(**{**settings, "n_jobs": None, "random_state": seed})
        vars(member).update(_learned(estimator), classes_=np.array([0, 1]))
    return members


def _learned(estimator: Any) -> dict[str, Any]:
    """What `fit` has set, as scikit-learn names it."""
    return {name: value for name, value in vars(estimator).items() if name.endswith("_") and not name.startswith("_")}


def _check_labels(y: Any, n_labels: int) -> NDArray[np.float64]:
    y = check_label_matrix(y)
    if y.shape[1] != n_labels:
        raise ValueError(f"y must have {n_labels} columns, got {y.shape[1]}")
    return y


def _label_sample(
    table: Table,
    y: NDArray[np.float64],
    weight: NDArray[Any] | None,
    class_weight: Any,
    folding: Folding | None = None,
) -> Sample:
    """The rows with an observed label."""
    observed = np.flatnonzero(~np.isnan(y))
    if class_weight is not None:
        of_observed = weigh_classes(class_weight, y[observed], None if weight is None else weight[observed])
        weight = np.ones(len(y)) if weight is None else weight.copy()
        weight[observed] = of_observed
    return Sample(table, replace(class_targets(np.nan_to_num(y), 2, weight), folding=folding), observed)
