"""Regressors: one or several real targets from networks."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions

from treelu.data.reading import ValueEncoding
from treelu.data.scaling import Scaling
from treelu.estimators._base import NetworkEstimator, SingleNetwork
from treelu.estimators._failure import unchanged_by_failure


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

    @abstractmethod
    def _fit_piece(self, X: Any, y: Any, sample_weight: Any, encoding: ValueEncoding) -> Self:
        """Learn from a piece of the rows."""


@dataclass(eq=False, repr=False, kw_only=True)
class SingleRegressor(SingleNetwork, IncrementalRegressor):
    """A regressor around one network."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SingleNetwork._parameter_constraints,
        "smoothing": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
    }

    smoothing: float | str = "auto"
