"""How one network is fitted: a frozen configuration with the names of the estimators' constructors, and how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from treelu.data.dataset import Dataset
from treelu.nn import Activation, LocallyConstantNetwork, LocallyLinearNetwork, NeuronChain
from treelu.nn.activations import ActivationKind
from treelu.training.history import Callback
from treelu.training.hyper_parameters import HyperParameters, candidates_for
from treelu.training.pattern_counts import unseen_features
from treelu.training.settings import Settings
from treelu.training.stepper import KernelStepper, MakeStepper

PATIENCE = 10  # epochs, for early_stopping=True
# Training is planned in updates, not in passes: a small table is gone through many times, a large one seldom, and λ and
# the learning rate still move in EPOCHS steps.
EPOCHS = 60
MIN_BATCH, MAX_BATCH = 32, 512
BATCHES_PER_PASS = 6  # aimed at between these bounds
MIN_UPDATES, PASSES = 2400, 12  # at least so many updates, and at least so many passes


def patience_of(early_stopping: bool | int) -> int | None:
    """Epochs (of an ensemble: members) without a better score after which to stop; None: not at all."""
    if not early_stopping:
        return None
    return PATIENCE if isinstance(early_stopping, bool | np.bool_) else int(early_stopping)


@dataclass(frozen=True)
class NetworkConfig:
    """Configuration of `fit_network`; see `LCNClassifier` for the parameters.

    Attributes
    ----------
    network_class : type
        `LocallyConstantNetwork` or `LocallyLinearNetwork`.
    activation : {"relu", "softplus"}
        Softplus keeps the network smooth (ALCN).
    smoothing : float in [0, 1]
        How far regression targets are moved towards those of a locally linear network.
    interruptible : bool
        Whether Ctrl-C ends the training and keeps the best network so far; otherwise it is raised.
    is_member : bool
        Whether this is a member of an ensemble, in which members differ enough.
    title : str
        What progress bars are called.
    """

    network_class: type[NeuronChain] = LocallyConstantNetwork
    activation: ActivationKind = "relu"
    depth: int | str = "auto"
    drop_connect: float | str = "auto"
    hidden_layers: Sequence[int] = ()
    epochs: int | str = "auto"
    learning_rate: float = 0.01
    weight_decay: float | str = "auto"
    smoothing: float = 0.0
    early_stopping: bool | int = False
    max_tree_features: int | None = None
    device: Any = "cpu"
    n_jobs: int | None = None
    callbacks: Sequence[Callback] | None = None
    verbose: bool | int = False
    training: Settings = field(default_factory=Settings)
    interruptible: bool = True
    is_member: bool = False
    title: str = "network"

    @property
    def quiet(self) -> NetworkConfig:
        """The same without callbacks, progress and handling of Ctrl-C, for trainings within a fit."""
        return replace(self, callbacks=None, verbose=False, interruptible=False)

    def resolve(self, chosen: HyperParameters) -> HyperParameters:
        """Depth, drop rate, decay and the limit of features as given, or else as chosen before."""
        given = (self.depth, self.drop_connect, self.weight_decay)
        depth, rate, decay = (was if isinstance(now, str) else now for now, was in zip(given, chosen[:3], strict=True))
        limit = chosen.max_tree_features if self.max_tree_features is None else int(self.max_tree_features)
        return HyperParameters(int(depth), float(rate), float(decay), limit)

    def candidates(self, n_rows: int, n_features: int) -> list[HyperParameters]:
        """The hyper-parameters to choose among for a table of this shape: one where all are given."""
        linear = issubclass(self.network_class, LocallyLinearNetwork)
        given = self.depth, self.drop_connect, self.weight_decay
        try_few = self.max_tree_features is None and not self.is_member
        return candidates_for(*given, n_rows, n_features, linear=linear, try_few_features=try_few)

    def new_network(self, dataset: Dataset, chosen: HyperParameters, seed: int) -> NeuronChain:
        """A network for some rows, before training.

        Features that are 0 in all rows begin without weight, in the neurons and above. All gradients there are then 0,
        so that they end without weight too, and no part of what was trained rests on them.
        """
        kind, slope = self.activation, float(self.training.negative_slope)
        if slope and kind == "relu":
            kind = "leaky_relu"
        activation = Activation(kind, slope, bool(self.training.straight_through))
        options: dict[str, Any] = {"activation": activation, "drop_connect": chosen.drop_connect, "seed": seed}
        if issubclass(self.network_class, LocallyConstantNetwork):
            options["hidden_layers"] = tuple(self.hidden_layers)
        sizes = dataset.table.shape[1], chosen.depth, dataset.targets.n_outputs
        network = self.network_class(*sizes, dtype=np.float32, **options)
        network.forget_features(unseen_features(dataset.table))
        return network

    def make_stepper(self) -> MakeStepper:
        """The stepper that makes updates: the kernels, or torch where another device is asked for."""
        if not isinstance(self.device, str) and type(self.device).__module__ != "torch":
            raise ValueError(f"device must be a string such as 'cpu' or a torch.device, got {self.device!r}")
        device = str(self.device)
        if device == "cpu":
            return KernelStepper
        from treelu.training.on_device import TorchStepper, check_device  # loads torch

        check_device(device)
        return partial(TorchStepper, device=device)


def draw_seeds(random_state: Any, count: int) -> list[int]:
    """Seeds of single fits, the same for the same number; a `RandomState` is advanced, as scikit-learn does it."""
    from sklearn.utils import check_random_state

    return [int(seed) for seed in check_random_state(random_state).randint(2**31 - 1, size=count)]


class Plan(NamedTuple):
    """Epochs, rows in a batch, and updates in an epoch (None: one pass)."""

    epochs: int
    batch_size: int
    updates_per_epoch: int | None


def rows_in_batch(n_rows: int, batches_per_pass: int = BATCHES_PER_PASS) -> int:
    """A power of two that divides a table into so many batches, up to twice as many, as far as the bounds permit.

    Examples
    --------
    >>> [rows_in_batch(n_rows) for n_rows in (100, 1000, 10_000)]
    [32, 128, 512]
    >>> [rows_in_batch(n_rows, batches_per_pass=64) for n_rows in (1000, 10_000, 100_000)]
    [32, 128, 512]
    """
    size = MIN_BATCH
    while size < MAX_BATCH and n_rows / size > 2 * batches_per_pass:
        size *= 2
    return size


def plan_training(n_rows: int, epochs: int | str, batch_size: int | str) -> Plan:
    """Resolve "auto" for a table of `n_rows` rows.

    Examples
    --------
    >>> plan_training(1000, "auto", "auto")
    Plan(epochs=60, batch_size=128, updates_per_epoch=40)
    >>> plan_training(10_000, "auto", "auto")
    Plan(epochs=60, batch_size=512, updates_per_epoch=80)
    >>> plan_training(1_000_000, "auto", "auto")
    Plan(epochs=60, batch_size=512, updates_per_epoch=391)
    >>> plan_training(1000, 30, 64)
    Plan(epochs=30, batch_size=64, updates_per_epoch=None)
    """
    if isinstance(batch_size, str):
        batch_size = rows_in_batch(n_rows)
    if isinstance(epochs, str):
        # where batches cannot grow with the table, their number does
        at_least = 2 * MIN_UPDATES if n_rows > 2 * BATCHES_PER_PASS * MAX_BATCH else MIN_UPDATES
        updates = max(at_least, PASSES * n_rows / batch_size)
        return Plan(EPOCHS, int(batch_size), -(-int(updates) // EPOCHS))
    return Plan(int(epochs), int(batch_size), None)
