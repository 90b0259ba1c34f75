"""Regressors: one or several real targets from one network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_array

from treelu.estimators._base import NetworkEstimator
from treelu.estimators._failure import unchanged_by_failure
from treelu.estimators._large import fit_outside_memory, is_outside_memory
from treelu.estimators._targets import value_targets
from treelu.nn import LocallyLinearNetwork, NeuronChain
from treelu.training import Callback, Sample, Settings, evaluate
from treelu.training.odd_targets import refuse_odd_targets
from treelu.training.saved import put_scaling, take_scaling
from treelu.training.scaling import Scaling, fit_scaling
from treelu.training.targets import Targets

if TYPE_CHECKING:
    from treelu.persistence.values import ArrayReader, ArrayWriter, Fields


class NetworkRegressor(RegressorMixin, NetworkEstimator):
    """A regressor around one network."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **NetworkEstimator._parameter_constraints,
        "smoothing": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
    }
    _default_smoothing: ClassVar[float] = 0.0  # of smoothing="auto"

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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, eval_set: Any = None, groups: Any = None) -> Self:
        """Train on rows X with real targets y.

        Parameters
        ----------
        X : array, DataFrame or SciPy sparse matrix of shape (n, n_features)
            Or, for tables larger than memory: a `numpy.memmap`; a `treelu.tables.RowStore` or an iterator of pairs
            (X, y), and no y.
        y : array of shape (n,) or (n, outputs)
        sample_weight : array of shape (n,), optional
            Relative weights of the rows; 0 drops a row. The guide "Tuning" has how they differ from repeated rows.
        eval_set : (X_valid, y_valid), optional
            Scored by RMSE after each epoch; the best epoch's parameters are kept.
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
            return self._fit_rows(X, y, sample_weight, eval_set, groups)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from a piece of the data; pieces should come in random order.

        Up to 200,000 rows, and 64 MB, are kept in `stream_`; of more, a random sample. As often as their number has
        grown by a quarter a network is fitted to them as by `fit`; in between the last one is trained on. After a
        `fit`, whose rows are not kept, its network is trained on.
        """
        self._check_parameters()
        with unchanged_by_failure(self):
            return self._fit_piece(X, y, sample_weight)

    def _read_targets(self, y: Any, weight: NDArray[Any] | None, *, first: bool) -> Targets:
        refuse_odd_targets(y, are_classes=False)
        values = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
        columns = values.reshape(len(values), -1)
        if first:
            self.n_outputs_ = None if columns.shape[1] == 1 else columns.shape[1]
            counted = columns if weight is None else columns[weight > 0]
            self.target_scaling_ = fit_scaling(counted, bool(self.standardize), "y")
        elif columns.shape[1] != len(self.target_scaling_.scale):
            raise ValueError(f"y must have {len(self.target_scaling_.scale)} columns, got {columns.shape[1]}")
        return value_targets(columns, self.target_scaling_, weight)

    @property
    def _target_scaling(self) -> Scaling:
        return self.target_scaling_

    def _state_of_targets(self, arrays: ArrayWriter) -> dict[str, Any]:
        put_scaling(self.target_scaling_, arrays.under("target_scaling"))
        return {"several_outputs": self.n_outputs_ is not None}

    def _load_targets(self, fields: Fields, arrays: ArrayReader, n_outputs: int) -> None:
        several = fields.flag("several_outputs")
        if not several and n_outputs != 1:
            raise fields.error(f"a single target does not fit {n_outputs} outputs")
        self.target_scaling_ = take_scaling(arrays.under("target_scaling"), n_outputs)
        self.n_outputs_ = n_outputs if several else None

    def _targets_to_train_on(self, sample: Sample, validation: Sample | None, seed: int) -> Targets:
        """Targets moved towards the outputs of a locally linear network trained first, by the share `smoothing`.

        Constant leaves then follow less of the noise.
        """
        share = self.smoothing
        if isinstance(share, str):
            share = self._default_smoothing
        if not share:
            return sample.targets
        how = self._how
        alike = {name: getattr(how, name) for name in ("batch_size", "optimizer", "schedule", "annealing")}
        alike["straight_through"] = how.straight_through
        smoother = _Smoother(epochs=self.epochs, learning_rate=self.learning_rate, device=self.device, training=alike)
        setting, tempering = smoother._choose_setting(sample, validation, seed, sample.targets)
        network, _ = smoother._train_with(setting, sample, validation, seed, quietly=True)
        smoother._temper(network, sample, validation, tempering)
        y, rows = sample.targets.y.copy(), sample.rows
        y[rows] += np.float32(share) * (evaluate(network, sample.table, sample.index) - y[rows])
        return replace(sample.targets, y=y)

    def _tree_settings(self) -> dict[str, Any]:
        """What a tree of this regressor says."""
        return {"link": "identity"}

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predicted values: (n,) for one target, also where y was a column, (n, outputs) for several."""
        values = self._raw_scores(X)
        return values[:, 0] if self.n_outputs_ is None else values

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class _Smoother(NetworkRegressor):
    """The locally linear network that smooths the targets."""

    _network_class: ClassVar[type[NeuronChain]] = LocallyLinearNetwork
