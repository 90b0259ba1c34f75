"""Graph convolutional networks on SMILES: the paper's last row of comparisons."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, _fit_context
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d
from torch import Tensor, nn
from torch.nn import functional as F

from experiments.baselines._graphs import GraphBatch, GraphTable
from experiments.baselines._saved_graphs import describe_graph_model, restore_graph_model
from treelu.data.encoding import (
    as_weight,
    check_label_matrix,
    class_targets,
    encode_classes,
    is_label_matrix,
    value_targets,
)
from treelu.data.rows import check_weight
from treelu.data.scaling import Scaling
from treelu.data.targets import Targets, probabilities
from treelu.estimators._output_methods import SaveMixin
from treelu.nn import Activation
from treelu.training import Dataset, evaluate, train
from treelu.training.on_device import TorchStepper
from treelu.training.progress import epoch_bar
from treelu.training.saved import put_scaling, take_scaling

_MAX_DEGREE = 6  # atoms with more neighbours share the weights of this degree
_MAX_LABELS = 1_000_000  # of a saved model


class GraphNetwork(nn.Module):
    """The graph convolution of MoleculeNet, after Duvenaud et al. (2015).

    In each layer an atom's state is a function of its own and of the sum of its neighbours' states, with weights
    for each number of neighbours (``MFConv``); ReLU, batch normalisation, and the maximum over the atom and its
    neighbours follow. A dense layer for each atom, then tanh of the sum and of the maximum over the molecule's
    atoms, then a linear layer.

    Parameters
    ----------
    in_features, out_features : int
        Features of an atom; raw scores of a molecule.
    filters : sequence of int
        Width of each convolution.
    dense : int
        Width of the dense layer.
    dropout : float
        After each layer.
    """

    def __init__(self, in_features: int, out_features: int, filters: Sequence[int], dense: int, dropout: float) -> None:
        super().__init__()
        widths = [in_features, *filters]
        convolution = _graph_extra().MFConv
        self.convolutions = nn.ModuleList(
            convolution(width, wider, max_degree=_MAX_DEGREE) for width, wider in pairwise(widths)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for width in [*filters, dense])
        self.dense = nn.Linear(widths[-1], dense)
        self.output = nn.Linear(2 * dense, out_features)
        self.out_features, self.dropout = out_features, dropout

    def forward(self, batch: GraphBatch) -> Tensor:
        """Raw scores (n_molecules, out_features)."""
        state = batch.atoms  # (A, F)
        own = torch.arange(len(state))
        sources, ends = torch.cat([batch.bonds, torch.stack([own, own])], dim=1)
        ends, order = torch.sort(ends)
        sources = sources[order]
        for convolution, norm in zip(self.convolutions, self.norms, strict=False):
            state = self._layer(convolution(state, batch.bonds), norm)
            state = group_max(state.index_select(0, sources), ends)
        state = self._layer(self.dense(state), self.norms[-1])
        molecule = torch.cat(
            [group_sum(state, batch.molecule), group_max(state, batch.molecule)], dim=1
        )  # (B, 2 dense)
        return self.output(torch.tanh(molecule))

    def _layer(self, state: Tensor, norm: nn.Module) -> Tensor:
        state = F.relu(state)
        if len(state) > 1 or not self.training:  # one atom alone has no variance to normalise by
            state = norm(state)
        return F.dropout(state, self.dropout, self.training)


class _Trained:
    """A graph network as the training loop takes it: arrays out, states kept, nothing to anneal."""

    activation = Activation("softplus")

    def __init__(self, module: GraphNetwork) -> None:
        self.module, self.out_features = module, module.out_features

    def __call__(self, batch: GraphBatch) -> NDArray[Any]:
        self.module.eval()
        with torch.no_grad():
            return self.module(batch).numpy()

    def state(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self.module.state_dict().items()}

    def load_state(self, state: dict[str, Tensor]) -> None:
        self.module.load_state_dict(state)


def _graph_extra() -> Any:
    try:
        import torch_geometric.nn
    except ImportError as error:
        raise ImportError("graph networks need torch_geometric: pip install -e '.[experiments]'") from error
    return torch_geometric.nn


def group_sum(values: Tensor, group: Tensor) -> Tensor:
    """The sum of the rows of each group; groups are numbered 0, 1, … in ascending order and none is empty."""
    return values.new_zeros(int(group[-1]) + 1, values.shape[1]).index_add(0, group, values)


def group_max(values: Tensor, group: Tensor) -> Tensor:
    """The maximum of the rows of each group, whose gradient is shared by rows that tie.

    torch.segment_reduce finds the maxima fastest, but its gradient is wrong for ties in several columns (torch 2.13),
    and behind a ReLU ties are the rule. The sum over the rows that attain the maximum has the right one.

    Examples
    --------
    >>> values = torch.tensor([[1.0, 5.0], [3.0, 5.0], [2.0, 0.0]], requires_grad=True)
    >>> maxima = group_max(values, torch.tensor([0, 0, 1]))
    >>> maxima.detach()
    tensor([[3., 5.],
            [2., 0.]])
    >>> torch.autograd.grad(maxima.sum(), values)[0]
    tensor([[0.0000, 0.5000],
            [1.0000, 0.5000],
            [1.0000, 1.0000]])
    """
    with torch.no_grad():
        maxima = torch.segment_reduce(values, "max", lengths=torch.bincount(group), axis=0)
        attains = (values == maxima.index_select(0, group)).to(values.dtype)
        share = attains / group_sum(attains, group).index_select(0, group)
    return group_sum(values * share, group)


def read_molecules(X: Any) -> GraphTable:
    """The graphs of a sequence of SMILES; an error names the rows that cannot be read.

    Parameters
    ----------
    X : list, array, Series or one-column table of SMILES

    Returns
    -------
    GraphTable

    Examples
    --------
    >>> read_molecules(["CCO", "c1ccccc1"]).shape
    (2, 57)
    """
    from treelu.chem._molecules import as_smiles, check_refused, parse

    smiles = as_smiles(X)
    molecules = parse(smiles)
    refused = [row for row, molecule in enumerate(molecules) if molecule is None or molecule.GetNumAtoms() == 0]
    check_refused(np.array(refused, dtype=np.int64), smiles, "error", "", "only those that it reads")
    if not molecules:
        raise ValueError("X must hold at least one SMILES, got none")
    return GraphTable(molecules)


class _GraphEstimator(SaveMixin, BaseEstimator, ABC):
    """What the classifier and the regressor share.

    scikit-learn's ``check_estimator`` feeds tables of numbers, which this estimator must refuse: it takes SMILES,
    and its tags say so. What does not depend on the kind of input (clone, parameters, searches, pickle) holds.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "filters": ["array-like"],
        "dense": [Interval(Integral, 1, None, closed="left")],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "epochs": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 2, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "patience": [Interval(Integral, 1, None, closed="left"), None],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        filters: Sequence[int] = (64, 64),
        dense: int = 128,
        dropout: float = 0.0,
        epochs: int = 40,
        batch_size: int = 64,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        patience: int | None = None,
        verbose: int = 0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.filters = filters
        self.dense = dense
        self.dropout = dropout
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.patience = patience
        self.verbose = verbose
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, eval_set: tuple[Any, Any] | None = None) -> Self:
        """Train the network.

        Parameters
        ----------
        X : list, array, Series or one-column table of SMILES
        y : array of shape (n_molecules,); for a classifier also (n_molecules, n_labels) of 0, 1 and NaN
            Classes or values; or several labels of one network, NaN where one was not observed.
        sample_weight : array of shape (n_molecules,), optional
        eval_set : pair (X_valid, y_valid), optional
            Molecules judged after each epoch; the best epoch's network is kept.

        Returns
        -------
        self
        """
        sample = self._sample(X, y, sample_weight, first=True)
        validation = None if eval_set is None else self._sample(*_pair(eval_set), None, first=False)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = GraphNetwork(
                sample.table.shape[1], sample.targets.n_outputs, self._filters(), self.dense, self.dropout
            )
            self.history_ = train(
                _Trained(network),
                sample,
                epochs=self.epochs,
                batch_size=self.batch_size,
                optimizer="amsgrad",
                learning_rate=self.learning_rate,
                schedule="constant",
                weight_decay=self.weight_decay,
                validation=validation,
                patience=self.patience,
                progress=epoch_bar(type(self).__name__, self.epochs) if self.verbose else None,
                make_stepper=TorchStepper,
                rng=np.random.default_rng(seed),
            )
        self.network_ = network.eval()
        return self

    def _sample(self, X: Any, y: Any, sample_weight: Any, *, first: bool) -> Dataset:
        table = read_molecules(X)
        check_consistent_length(table.atoms, y)
        weight = check_weight(sample_weight, table.atoms)
        # The loop needs of a table its shape and batches by row number; molecules give graphs for rows.
        return Dataset(table, self._targets(y, weight, first=first))  # type: ignore[arg-type]

    @abstractmethod
    def _targets(self, y: Any, weight: NDArray[np.float64] | None, *, first: bool) -> Targets:
        """y as targets; ``first`` learns the classes or the scale, otherwise they are given."""

    @abstractmethod
    def _state_of_targets(self, arrays: Any) -> dict[str, Any]:
        """What was learned of y, for saving."""

    @abstractmethod
    def _load_targets(self, fields: Any, arrays: Any) -> int:
        """The inverse of `_state_of_targets`; returns the number of outputs."""

    def _filters(self) -> list[int]:
        filters = [int(width) for width in self.filters]
        if not filters or min(filters) < 1:
            raise ValueError(f"filters must hold at least one positive width, got {self.filters!r}")
        return filters

    def _scores(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        return evaluate(_Trained(self.network_), read_molecules(X)).astype(np.float64)  # type: ignore[arg-type]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        return tags

    def _state(self, arrays: Any, describe: Any) -> dict[str, Any]:
        """What was learned, as JSON; arrays go into `arrays`."""
        return describe_graph_model(self, arrays)

    def _load_state(self, fields: Any, arrays: Any, restore: Any) -> None:
        """The inverse of `_state`, for an estimator with its parameters set."""
        restore_graph_model(self, fields, arrays)


def _pair(eval_set: Any) -> tuple[Any, Any]:
    if not isinstance(eval_set, tuple | list) or len(eval_set) != 2:
        raise ValueError(f"eval_set must be a pair (smiles, y), got {type(eval_set).__name__}")
    return eval_set[0], eval_set[1]


class GCNClassifier(ClassifierMixin, _GraphEstimator):
    """Graph convolutional network on SMILES, for classes.

    The architecture is that of MoleculeNet's graph convolution, after Duvenaud et al. (2015); see
    :class:`GraphNetwork`. It is trained on cross entropy with AMSGrad. Several labels are outputs of one network.

    Parameters
    ----------
    filters : sequence of int
        Width of each convolution.
    dense : int
        Width of the dense layer on each atom.
    dropout : float in [0, 1)
        Dropout after each layer.
    epochs : int
    batch_size : int
        Molecules in a batch.
    learning_rate : float
    weight_decay : float
    patience : int or None
        With an ``eval_set``: stop after this many epochs without a better score (AUC for two classes, log-loss for
        more; for several labels the mean of their AUC).
    verbose : int
        1 shows a progress bar.
    random_state : int, RandomState or None

    Attributes
    ----------
    network_ : GraphNetwork
    history_ : History
        Loss, score on ``eval_set`` and time of each epoch.
    classes_ : array of shape (n_classes,), or a list of one for each label

    References
    ----------
    Duvenaud et al., "Convolutional networks on graphs for learning molecular fingerprints", NeurIPS 2015. Wu et al.,
    "MoleculeNet: a benchmark for molecular machine learning", Chemical Science 9, 2018.

    Examples
    --------
    >>> from experiments.baselines import GCNClassifier
    >>> smiles = ["CCO", "CCN", "CCCO", "CCCN", "CCCCO", "CCCCN"]
    >>> model = GCNClassifier(epochs=30, random_state=0).fit(smiles, ["alcohol", "amine"] * 3)
    >>> model.predict(["CCCCCO", "CCCCCN"])
    array(['alcohol', 'amine'], dtype='<U7')
    """

    classes_: Any  # an array, or one per label

    @property
    def _has_labels(self) -> bool:
        """Whether it was fitted to a table of labels."""
        return isinstance(self.classes_, list)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities.

        Parameters
        ----------
        X : list, array, Series or one-column table of SMILES

        Returns
        -------
        array of shape (n_molecules, n_classes), columns in the order of ``classes_``; of several labels
        (n_molecules, n_labels), the probability that a label is 1
        """
        scores = self._scores(X)
        return expit(scores) if self._has_labels else probabilities(scores)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each molecule.

        Parameters
        ----------
        X : list, array, Series or one-column table of SMILES

        Returns
        -------
        array of shape (n_molecules,), or (n_molecules, n_labels)
        """
        probability = self.predict_proba(X)
        if self._has_labels:
            return (probability >= 0.5).astype(np.int64)
        return self.classes_[probability.argmax(axis=1)]

    def _targets(self, y: Any, weight: NDArray[np.float64] | None, *, first: bool) -> Targets:
        if is_label_matrix(y):
            return self._label_targets(y, weight, first=first)
        if first:
            check_classification_targets(y)
        elif self._has_labels:
            raise ValueError(f"eval_set: y must have {len(self.classes_)} columns, got a vector")
        self.classes_, number = encode_classes(y, None if first else self.classes_)
        return class_targets(number, len(self.classes_), weight)

    def _label_targets(self, y: Any, weight: NDArray[np.float64] | None, *, first: bool) -> Targets:
        labels = check_label_matrix(y) if first else np.asarray(y, dtype=np.float64)
        if first:
            self.classes_ = [np.array([0, 1])] * labels.shape[1]
        elif not self._has_labels or labels.shape[1] != len(self.classes_):
            wanted = f"{len(self.classes_)} columns" if self._has_labels else "one"
            raise ValueError(f"eval_set: y must have {wanted}, got {labels.shape[1]} columns")
        return Targets("binary", labels.astype(np.float32), labels.shape[1], as_weight(weight))

    def _state_of_targets(self, arrays: Any) -> dict[str, Any]:
        if self._has_labels:
            return {"n_labels": len(self.classes_)}
        return {"classes": arrays.labels(self.classes_)}

    def _load_targets(self, fields: Any, arrays: Any) -> int:
        if "n_labels" in fields:
            n_labels: int = fields.whole("n_labels", low=1, high=_MAX_LABELS)
            self.classes_ = [np.array([0, 1])] * n_labels
            return n_labels
        self.classes_ = fields.labels("classes")
        if len(self.classes_) < 2:
            raise fields.error("a classifier needs two classes or more")
        return 1 if len(self.classes_) == 2 else len(self.classes_)


class GCNRegressor(RegressorMixin, _GraphEstimator):
    """Graph convolutional network on SMILES, for a real-valued property.

    As :class:`GCNClassifier`, trained on the squared error of the standardised target; ``patience`` counts epochs
    without a lower root mean squared error.

    Parameters
    ----------
    filters, dense, dropout, epochs, batch_size, learning_rate, weight_decay, patience, verbose, random_state
        As in :class:`GCNClassifier`.

    Attributes
    ----------
    network_ : GraphNetwork
        Its output is the standardised target.
    history_ : History
        Loss, score on ``eval_set`` and time of each epoch.
    target_scaling_ : Scaling
        Mean and deviation of the target.

    Examples
    --------
    >>> from experiments.baselines import GCNRegressor
    >>> smiles = ["C" * n + "O" for n in range(1, 9)]
    >>> model = GCNRegressor(epochs=20, random_state=0).fit(smiles, range(1, 9))
    >>> model.predict(["CCCO"]).shape
    (1,)
    """

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The property of each molecule.

        Parameters
        ----------
        X : list, array, Series or one-column table of SMILES

        Returns
        -------
        array of shape (n_molecules,)
        """
        scores = self._scores(X)
        return self.target_scaling_.inverse().transform(scores)[:, 0]

    def _targets(self, y: Any, weight: NDArray[np.float64] | None, *, first: bool) -> Targets:
        values = check_array(column_or_1d(y, warn=True)[:, None], dtype=np.float64, input_name="y")
        if first:
            self.target_scaling_ = Scaling(values.mean(axis=0), np.array([values.std() or 1.0]))
        return value_targets(values, self.target_scaling_, weight)

    def _state_of_targets(self, arrays: Any) -> dict[str, Any]:
        put_scaling(self.target_scaling_, arrays.under("target_scaling"))
        return {}

    def _load_targets(self, fields: Any, arrays: Any) -> int:
        self.target_scaling_ = take_scaling(arrays.under("target_scaling"), 1)
        return 1
