"""Regressors: one or several real targets from networks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
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
from treelu.training import Callback, Settings


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


class SingleRegressor(SingleNetwork, IncrementalRegressor):
    """A regressor around one network."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SingleNetwork._parameter_constraints,
        "smoothing": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
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
        smoothing: float | str = "auto",
        standardize: bool | str = "auto",
        early_stopping: bool | int = False,
        cv: Any = None,
        max_tree_features: int | None = None,
        missing: str = "error",
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
        self.smoothing = smoothing
        self.standardize = standardize
        self.early_stopping = early_stopping
        self.cv = cv
        self.max_tree_features = max_tree_features
        self.missing = missing
        self.warm_start = warm_start
        self.device = device
        self.n_jobs = n_jobs
        self.callbacks = callbacks
        self.verbose = verbose
        self.random_state = random_state
        self.training = training
