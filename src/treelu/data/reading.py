"""Preprocessing learned from X and y, as one value: missing values, scaling, and the encoding of the targets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array

from treelu.data.dataset import Dataset
from treelu.data.encoding import (
    class_order,
    class_targets,
    encode_classes,
    refuse_invalid_targets,
    value_targets,
    weigh_classes,
)
from treelu.data.scaling import Scaling, check_scaled, fit_scaling
from treelu.data.targets import Targets
from treelu.nn import Table
from treelu.tree.missing import MissingValues
from treelu.tree.observed import Observed

BLOCK = 2**21  # entries that are scaled at once


@dataclass(frozen=True)
class ClassEncoding:
    """y of classes → targets.

    `order` has the numbers of the classes in the order that training has them in, which no name decides: by their
    weight. None for the order of `classes`, as in models of version 0.1.
    """

    classes: NDArray[Any]  # sorted
    class_weight: Any = None  # dict, "balanced" or None
    order: NDArray[np.int64] | None = None
    scaling: None = None  # of targets: none

    @classmethod
    def learn(
        cls, y: Any, class_weight: Any = None, weight: NDArray[Any] | None = None, classes: NDArray[Any] | None = None
    ) -> ClassEncoding:
        """Learn the classes, unless they are given, and their order."""
        classes, number = cls._numbers(y, classes)
        if class_weight is not None:
            weight = weigh_classes(class_weight, classes[number], weight)
        return cls(classes, class_weight, class_order(number, len(classes), weight))

    @property
    def places(self) -> NDArray[np.int64]:
        """The number that each class has in training."""
        return np.arange(len(self.classes)) if self.order is None else np.argsort(self.order)

    def targets(self, y: Any, weight: NDArray[Any] | None = None) -> Targets:
        """Class numbers and weights; a label that is not among the classes is an error."""
        _, number = self._numbers(y, self.classes)
        if self.class_weight is not None:
            weight = weigh_classes(self.class_weight, self.classes[number], weight)
        return class_targets(self.places.astype(number.dtype)[number], len(self.classes), weight)

    @property
    def n_scores(self) -> int:
        """Outputs of a model: one for two classes, and else one for each."""
        return 1 if len(self.classes) == 2 else len(self.classes)

    def plain(self, y: Any) -> NDArray[Any]:
        """Class numbers, as `partial_fit` keeps them."""
        return np.searchsorted(self.classes, np.ravel(y))

    @staticmethod
    def _numbers(y: Any, classes: NDArray[Any] | None) -> tuple[NDArray[Any], NDArray[Any]]:
        refuse_invalid_targets(y, are_classes=True)
        check_classification_targets(y)
        return encode_classes(y, classes)


@dataclass(frozen=True)
class ValueEncoding:
    """Real targets → scaled ones."""

    scaling: Scaling
    n_outputs: int | None = None  # None for a vector

    @classmethod
    def learn(cls, y: Any, standardize: bool, weight: NDArray[Any] | None = None) -> ValueEncoding:
        """Learn the scale of the targets of the rows with a positive weight."""
        columns = cls._columns(y)
        counted = columns if weight is None else columns[weight > 0]
        return cls(fit_scaling(counted, standardize, "y"), None if columns.shape[1] == 1 else columns.shape[1])

    def targets(self, y: Any, weight: NDArray[Any] | None = None) -> Targets:
        """Scaled targets and weights."""
        columns = self._columns(y)
        if columns.shape[1] != len(self.scaling.scale):
            raise ValueError(f"y must have {len(self.scaling.scale)} columns, got {columns.shape[1]}")
        return value_targets(columns, self.scaling, weight)

    @property
    def n_scores(self) -> int:
        """Outputs of a model."""
        return len(self.scaling.scale)

    def plain(self, y: Any) -> NDArray[Any]:
        """Values as `partial_fit` keeps them: a column and a vector are the same."""
        outputs = () if self.n_outputs is None else (self.n_outputs,)
        return np.asarray(y, np.float64).reshape(len(y), *outputs)

    @staticmethod
    def _columns(y: Any) -> NDArray[np.float64]:
        refuse_invalid_targets(y, are_classes=False)
        values = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
        return values.reshape(len(values), -1)


@dataclass(frozen=True)
class Reading:
    """Everything that a fit learns of X and y, with which later rows are read."""

    encoding: ClassEncoding | ValueEncoding
    scaling: Scaling  # of the features and the indicators of missing values
    missing: MissingValues | None = None  # what fills missing values
    observed: Observed | None = None  # of the filled rows: ranges, integers; None in models of version 0.1

    @classmethod
    def learn(
        cls, X: Any, encoding: ClassEncoding | ValueEncoding, standardize: bool | str, missing: Any = "error"
    ) -> Reading:
        """Learn from validated rows that count; `missing` is the parameter, or what was learned before."""
        values = learned_missing(X, missing)
        X = X if values is None else values.fill(X)
        return cls(encoding, fit_scaling(X, standardize), values, Observed.of(X, values))

    def joined(self, X: Any = None, observed: Observed | None = None) -> Reading:
        """The same after more validated rows, or rows of which it is known what they held, were looked at."""
        more = observed if X is None else Observed.of(self.filled(X), self.missing)
        if self.observed is None or more is None or len(more) != len(self.observed):
            return self
        return replace(self, observed=self.observed.joined(more))

    def filled(self, X: Any) -> Any:
        """Validated rows with missing values filled and marked."""
        return X if self.missing is None else self.missing.fill(X)

    def table(self, X: Any) -> Table:
        """Validated rows, filled and scaled."""
        return scaled_table(self.filled(X), self.scaling)

    def dataset(self, X: Any, y: Any, weight: NDArray[Any] | None = None) -> Dataset:
        """Validated rows and targets as training takes them."""
        return Dataset(self.table(X), self.encoding.targets(y, weight))


def learned_missing(X: Any, missing: Any) -> MissingValues | None:
    """How missing values are filled, by the parameter `missing`, or as was learned before.

    Of "auto" a column without missing values has no fill value, and X without any gives None.
    """
    if not isinstance(missing, str) or missing == "error":
        return None if isinstance(missing, str) else missing
    if missing == "indicator":
        return MissingValues.of(X)
    if not np.isnan(X.data if hasattr(X, "tocsr") else X).any():
        return None
    if hasattr(X, "tocsr"):
        raise ValueError("Input X contains NaN, and a sparse X must not: in it an absent value is 0; give a dense X")
    values = MissingValues.of(X)
    fills = np.full(len(values.fills), np.nan)
    fills[values.gaps] = values.fills[values.gaps]
    return MissingValues(fills, values.gaps)


def scaled_table(X: Any, scaling: Scaling) -> Table:
    """The rows as networks are trained on them: where they lie, or scaled in float32."""
    if scaling.is_identity and (hasattr(X, "tocsr") or X.flags.c_contiguous):
        return Table(X)
    if hasattr(X, "tocsr") and not scaling.center.any():
        return Table(scaling.transform(X), np.float32)
    scaled = np.empty(X.shape, np.float32)
    step = max(1, BLOCK // X.shape[1])
    for start in range(0, X.shape[0], step):
        with np.errstate(over="ignore"):  # what overflows is refused
            scaled[start : start + step] = scaling.transform(X[start : start + step])
        check_scaled(scaled[start : start + step], start)
    return Table(scaled)


@dataclass(frozen=True)
class RowWeights:
    """How weights of rows outside memory are scaled, alike in all windows."""

    by_class: NDArray[np.float64] | None  # from their frequencies in the sample where they are balanced
    mean: float  # the sample's mean weight

    @classmethod
    def of(cls, encoding: ClassEncoding | ValueEncoding, y: Any, weight: NDArray[Any] | None) -> RowWeights:
        """The weights of a sample of the rows."""
        total = np.ones(len(y)) if weight is None else weight.astype(np.float64)
        if not isinstance(encoding, ClassEncoding) or encoding.class_weight is None:
            return cls(None, float(total.mean()))
        number = encode_classes(y, encoding.classes)[1]
        by_row = weigh_classes(encoding.class_weight, encoding.classes[number], total)
        counted, by_class = np.flatnonzero(total), np.zeros(len(encoding.classes))
        by_class[number[counted]] = by_row[counted] / total[counted]
        return cls(by_class, float((total * by_class[number]).mean()))

    def dataset(self, reading: Reading, X: Any, y: Any, weight: NDArray[Any] | None) -> Dataset:
        """Validated rows as training takes them, with a mean weight of 1 in the sample."""
        encoding = reading.encoding
        plain = replace(encoding, class_weight=None) if isinstance(encoding, ClassEncoding) else encoding
        dataset = replace(reading, encoding=plain).dataset(X, y)
        if weight is None and self.by_class is None:
            return dataset
        total = np.ones(len(y)) if weight is None else weight.astype(np.float64)
        if self.by_class is not None and isinstance(encoding, ClassEncoding):
            total = total * self.by_class[encode_classes(y, encoding.classes)[1]]
        scaled = (total / self.mean).astype(np.float32)
        return replace(dataset, targets=replace(dataset.targets, weight=scaled))
