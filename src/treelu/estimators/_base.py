"""Base class of estimators around networks: validating, reading rows, calling a fit function, keeping its value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from treelu.data.dataset import Dataset
from treelu.data.reading import ClassEncoding, Reading, ValueEncoding
from treelu.data.rows import (
    check_same_columns,
    check_weight,
    counted_rows,
    finite_scores,
    read_folding,
    rows_that_count,
    tags_of_missing,
    warn_of_few_rows,
)
from treelu.data.scaling import Scaling
from treelu.estimators._hints import ParameterHints
from treelu.estimators._inputs import network_config, read_eval_set, unchanged_by_failure
from treelu.estimators._labels import FittedLabels, fit_labels
from treelu.estimators._large import fit_outside_memory, is_outside_memory
from treelu.estimators._rows import FROM_DTYPE, missing_of_numbers, read_rows
from treelu.estimators._saved import (
    NetworkState,
    describe_fitted_network,
    describe_stream,
    restore_fitted_network,
    restore_stream,
)
from treelu.estimators._tasks import CallbackSupportMixin, as_task, part_tasks
from treelu.nn import LocallyConstantNetwork, NeuronChain, Table
from treelu.nn.activations import ActivationKind
from treelu.tables.unseen import warn_of_far_numbers
from treelu.training import Callback, History, Settings, evaluate
from treelu.training.config import NetworkConfig, draw_seeds
from treelu.training.fit import FittedNetwork, fit_network
from treelu.training.settings import NAMES
from treelu.training.stream import Stream, learn_piece
from treelu.tree.missing import MissingValues

if TYPE_CHECKING:
    from treelu.persistence.values import ArrayReader, ArrayWriter, Fields

MAX_NEURONS = 256  # the work for a row grows with their cube


class NetworkEstimator(ParameterHints, NetworkState, CallbackSupportMixin, BaseEstimator, ABC):
    """An estimator whose fit is a value: `fitted_`, made by `_fit`. Its parameters are the fields of a dataclass."""

    _fit: ClassVar[Callable[..., Any]]  # (dataset, config, reading, seed, validation=, start=) → the value
    _part: ClassVar[str] = "epoch"  # what a fit is made of, for scikit-learn's callbacks
    fitted_: Any
    stream_: Stream  # the rows kept by partial_fit

    @abstractmethod
    def _config(self) -> Any:
        """The parameters as the configuration that `_fit` takes."""

    @abstractmethod
    def _shared(self) -> Any:
        """The estimator whose `standardize` and `missing` count: this one, or the member of an ensemble."""

    @abstractmethod
    def _learn_encoding(self, y: Any, weight: NDArray[Any] | None) -> ClassEncoding | ValueEncoding:
        """The classes, or the scale of the targets."""

    @abstractmethod
    def _check_parameters(self) -> None:
        """Everything that can be wrong before any data is looked at."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags_of_missing(tags, self._shared())

    # Fitting

    @as_task
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, eval_set: Any = None, groups: Any = None) -> Self:
        """Train on rows X with targets y.

        Parameters
        ----------
        X : array, data frame or SciPy sparse matrix of shape (n, n_features)
            A frame of any library may hold numbers, truth values, dates, categories and texts of few kinds, with
            missing values: see the guide "Data frames". Or, for tables larger than memory: a `numpy.memmap`; a
            `treelu.tables.RowStore` or an iterator of pairs (X, y), and no y.
        y : array of shape (n,), or (n, outputs)
            Classes, or real values. A classifier also takes several labels of 0, 1 and NaN where one was not observed;
            each gets a model of its own.
        sample_weight : array of shape (n,), optional
            Relative weights of the rows; 0 drops a row. The guide "Groups and weights" says where they differ from
            repeated rows.
        eval_set : (X_valid, y_valid), optional
            Scored after each epoch (AUC for two classes, log-loss for more, RMSE for values); the best epoch's
            parameters are kept.
        groups : array of shape (n,), optional
            The group of each row, such as a patient: where rows are held out, those of a group stay together.

        Returns
        -------
        self
        """
        self._check_parameters()
        with unchanged_by_failure(self):
            if is_outside_memory(X):
                return fit_outside_memory(self, X, y, sample_weight, eval_set, groups)
            before = self.__dict__.get("fitted_") if getattr(self, "warm_start", False) else None
            start = None if isinstance(before, FittedLabels) else before
            if self._takes_labels(y):
                self.fitted_ = fit_labels(self, X, y, sample_weight, eval_set, groups)
            else:
                names = getattr(self, "feature_names_in_", None)
                dataset, reading = self._read(X, y, sample_weight, groups)
                if start is not None:
                    check_same_columns(start.reading, reading, names, getattr(self, "feature_names_in_", None))
                validation = read_eval_set(self, eval_set, reading)
                (seed,) = draw_seeds(self.random_state, 1)
                config = self._config()
                if parts := part_tasks(self, self._part):
                    config = replace(config, callbacks=[*(config.callbacks or ()), *parts])
                self.fitted_ = self._fit(dataset, config, reading, seed, validation=validation, start=start)
            self.__dict__.pop("stream_", None)  # its rows are not these
        return self

    def _takes_labels(self, y: Any) -> bool:
        """Whether y holds several labels, of which each gets a model of its own."""
        return False

    def _read(self, X: Any, y: Any, sample_weight: Any, groups: Any = None) -> tuple[Dataset, Reading]:
        """The rows that count, scaled, with their targets; and how they were read."""
        shared = self._shared()
        X = read_rows(self, X, first=True, missing=shared.missing, weight=sample_weight)
        check_consistent_length(X, y)
        weight = check_weight(sample_weight, X)
        encoding = self._learn_encoding(y, weight)
        folding = read_folding(self.cv, groups, X, y, counted_rows(weight), are_classes=is_classifier(self))
        X, targets = rows_that_count(X, encoding.targets(y, weight))
        warn_of_few_rows(X.shape[0])
        reading = Reading.learn(X, encoding, shared.standardize, missing_of_numbers(self, shared.missing))
        return Dataset(reading.table(X), replace(targets, folding=folding)), reading

    def _read_piece(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, NDArray[np.float64] | None]:
        """Rows and weights of a piece of the data, for `partial_fit`."""
        fitted = self.__dict__.get("fitted_")
        missing = self._shared().missing if fitted is None else fitted.reading.missing
        X = read_rows(self, X, first=fitted is None, missing=missing, weight=sample_weight)
        check_consistent_length(X, y)
        return X, check_weight(sample_weight, X)

    # What was learned

    @property
    def _value(self) -> Any:
        """`fitted_`; before `fit` a NotFittedError, which is an AttributeError too."""
        fitted = self.__dict__.get("fitted_")
        if fitted is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")
        return fitted

    def _model(self, name: str) -> Any:
        """The fit of one model, which the attribute `name` is read from."""
        if isinstance(self._value, FittedLabels):
            raise AttributeError(f"there is one model per label: use estimators_[label].{name}")
        return self._value

    @property
    def history_(self) -> History:
        """The history of training."""
        return self._model("history_").history

    @property
    def scaling_(self) -> Scaling:
        """How features are scaled for training."""
        return self._value.reading.scaling

    @property
    def spread_(self) -> NDArray[np.float64]:
        """The standard deviation of each feature, and of each indicator of missing values."""
        return self._model("spread_").spread

    @property
    def missing_values_(self) -> MissingValues | None:
        """The fill values of missing values, in a table of numbers; None where there are none."""
        return self._value.reading.missing

    def _rows(self, X: Any) -> Any:
        """Validated rows without missing values, for the fitted model."""
        check_is_fitted(self)
        missing = self._value.reading.missing
        rows = read_rows(self, X, missing=missing)
        if vars(self).get("encoder_") is None:
            warn_of_far_numbers(X, rows, self._value.reading.observed)
        return rows if missing is None else missing.fill(rows)

    @abstractmethod
    def _raw_scores(self, X: Any) -> NDArray[np.float64]:
        """The model's outputs (n, n_outputs) for raw rows."""


@dataclass(eq=False, repr=False, kw_only=True)
class SingleNetwork(NetworkEstimator):
    """An estimator around one network."""

    depth: int | str = "auto"
    drop_connect: float | str = "auto"
    hidden_layers: Sequence[int] = ()
    epochs: int | str = "auto"
    learning_rate: float = 0.01
    weight_decay: float | str = "auto"
    standardize: bool | str = "auto"
    early_stopping: bool | int = False
    cv: Any = None
    max_tree_features: int | None = None
    missing: str = "auto"
    categorical_features: Any = FROM_DTYPE
    warm_start: bool = False
    device: Any = "cpu"
    n_jobs: int | None = None
    callbacks: Sequence[Callback] | None = None
    verbose: bool | int = False
    random_state: Any = None
    training: Settings | dict[str, Any] | None = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "depth": [Interval(Integral, 1, MAX_NEURONS, closed="both"), StrOptions({"auto"})],
        "drop_connect": [Interval(Real, 0, 1, closed="left"), StrOptions({"auto"})],
        "hidden_layers": ["array-like"],
        "epochs": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "weight_decay": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "standardize": ["boolean", StrOptions({"auto"})],
        "max_tree_features": [None, Interval(Integral, 1, None, closed="left")],
        "missing": [StrOptions({"auto", "error", "indicator"})],
        "categorical_features": ["array-like", StrOptions({FROM_DTYPE})],
        "early_stopping": ["boolean", Interval(Integral, 1, None, closed="left")],
        "cv": ["cv_object"],
        "warm_start": ["boolean"],
        "device": "no_validation",  # a string, or torch's own kind, which torch checks
        "n_jobs": [None, Integral],
        "callbacks": [None, "array-like"],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "training": [None, dict, Settings],
    }
    _elsewhere: ClassVar[dict[str, str]] = {name: f"training={{{name!r}: …}}" for name in NAMES} | {
        "max_features": "max_tree_features=…"
    }
    _network_class: ClassVar[type[NeuronChain]] = LocallyConstantNetwork
    _activation_kind: ClassVar[ActivationKind] = "relu"
    _default_smoothing: ClassVar[float] = 0.0  # of smoothing="auto"
    _fit = staticmethod(fit_network)

    def _config(self) -> NetworkConfig:
        return network_config(self)

    def _shared(self) -> Self:
        return self

    def _check_parameters(self) -> None:
        self._validate_params()
        config = self._config()
        if not all(isinstance(width, Integral) and int(width) >= 1 for width in self.hidden_layers):
            raise ValueError(f"hidden_layers must be widths of at least 1, got {self.hidden_layers!r}")
        if not issubclass(self._network_class, LocallyConstantNetwork) and len(self.hidden_layers):
            raise ValueError(
                f"hidden_layers must be () for {type(self).__name__}, which has no g_φ; got {self.hidden_layers!r}"
            )
        config.make_stepper()

    def _fit_piece(self, X: Any, y: Any, sample_weight: Any, encoding: ClassEncoding | ValueEncoding) -> Self:
        """Learn from a piece of the rows; see `treelu.training.stream`."""
        fitted, before = self.__dict__.get("fitted_"), self.__dict__.get("stream_")
        X, weight = self._read_piece(X, y, sample_weight)
        (seed,) = draw_seeds(self.random_state, 1)
        encoding.targets(y, weight)  # refuses what is no target
        piece = Stream.of(X, encoding.plain(y), weight, seed, 1 if before is None else before.n_pieces + 1)
        self.fitted_, self.stream_ = learn_piece(
            fitted,
            before,
            piece,
            encoding,
            self._config(),
            seed,
            standardize=self.standardize,
            missing=missing_of_numbers(self, self.missing),
        )
        return self

    # What was learned

    @property
    def network_(self) -> Any:
        """The network on the raw features, in float64."""
        return self._model("network_").network

    @property
    def depth_(self) -> int:
        """The number of neurons, as given or chosen."""
        return self._model("depth_").chosen.depth

    @property
    def drop_connect_(self) -> float:
        """The drop rate, as given or chosen."""
        return self._model("drop_connect_").chosen.drop_connect

    @property
    def weight_decay_(self) -> float:
        """The weight decay, as given or chosen."""
        return self._model("weight_decay_").chosen.weight_decay

    @property
    def max_tree_features_(self) -> int | None:
        """The most features that the tree may read, as given or chosen; None for all."""
        return self._model("max_tree_features_").chosen.max_tree_features

    @property
    def n_passes_(self) -> int:
        """Epochs, or pieces of a stream."""
        return self._model("n_passes_").n_passes

    def _raw_scores(self, X: Any) -> NDArray[np.float64]:
        X = self._rows(X)
        return finite_scores(evaluate(self.network_, Table(X)))

    def _state_of_model(self, arrays: ArrayWriter) -> dict[str, Any]:
        state = describe_fitted_network(self.fitted_, arrays)
        stream = self.__dict__.get("stream_")
        return state if stream is None else {**state, "stream": describe_stream(stream, arrays.under("stream"))}

    def _load_model(self, fields: Fields, arrays: ArrayReader, reading: Reading, *learned: Any) -> FittedNetwork:
        fitted = restore_fitted_network(fields, arrays, reading, *learned, config=self._config())
        if "stream" in fields:
            self.stream_ = restore_stream(fields.inner("stream"), arrays.under("stream"), self, reading.encoding)
        return fitted
