"""The one training loop: batches, annealing, schedules, early stopping, callbacks → a `History`."""

from __future__ import annotations

import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from treelu.data.dataset import Dataset, row_blocks
from treelu.data.targets import METRICS, Targets
from treelu.nn import Activation, DropConnect, LocallyConstantNetwork, NeuronChain, Table
from treelu.nn.cpu.passes import TrainingPass
from treelu.nn.cpu.threads import one_blas_thread
from treelu.nn.networks import views
from treelu.training.optimizers import Optimizer
from treelu.training.parallel import check_not_stopped

Schedule = Literal["step", "cosine", "constant"] | Callable[[int, int], float]
FUSED_OUTPUTS = 32  # with more outputs BLAS multiplies faster than the kernels, which run without Python
UPDATES_AT_ONCE = 64  # updates made by one call of a kernel: bounds the memory, and how long Ctrl-C waits


@dataclass(frozen=True)
class EpochRecord:
    """One epoch: λ, learning rate, mean training loss, score on the validation rows, seconds since the start.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from treelu import LCNClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> LCNClassifier(depth=2, epochs=2, random_state=0).fit(X, y).history_.records[-1].epoch
    2
    """

    epoch: int
    annealing: float
    learning_rate: float
    train_loss: float
    valid_score: float | None
    seconds: float


Callback = Callable[[EpochRecord, NeuronChain], bool | None]
# after_step(network, gradients, learning_rate), for proximal steps
AfterStep = Callable[[NeuronChain, dict[str, NDArray[Any]], float], None]


class Trainable(Protocol):
    """The protocol of a network that the loop trains."""

    activation: Activation
    out_features: int

    def __call__(self, x: Any) -> Any: ...
    def state(self) -> Any: ...
    def load_state(self, state: Any) -> None: ...


class Stepper(Protocol):
    """Updates of a network on a sample by an optimiser."""

    network: Any
    sample: Dataset
    gradients: dict[str, NDArray[Any]]

    def train_steps(
        self, batches: Sequence[NDArray[np.int64]], keys: NDArray[np.int64], annealing: float, rate: float
    ) -> float:
        """One update on each batch of rows, with masks drawn by its key; returns the sum of the rows' losses."""


MakeStepper = Callable[[Any, Dataset, str, float], Stepper]


@dataclass
class History:
    """The history of a training.

    Attributes
    ----------
    records : list of EpochRecord
    metric : str or None
        Name of the validation score: "auc", "log_loss" or "rmse".
    best_epoch : int
        The epoch whose parameters were kept: the best on validation rows, or the last.
    ended : {"finished", "early", "callback", "interrupted"}

    Examples
    --------
    >>> history = History(metric=None)
    >>> history.records.append(EpochRecord(1, 1.0, 0.1, 0.69, None, 0.2))
    >>> history["train_loss"]
    [0.69]
    """

    metric: str | None = None
    records: list[EpochRecord] = field(default_factory=list)
    best_epoch: int = 0
    ended: str = "finished"

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, column: str) -> list[Any]:
        return [getattr(record, column) for record in self.records]

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> History:
        """The inverse of `to_dict`."""
        return cls(**{**fields, "records": [EpochRecord(**record) for record in fields["records"]]})


def learning_rate_factor(schedule: Schedule, epoch: int, epochs: int) -> float:
    """The factor of the learning rate in epoch 1 … epochs.

    "step" is the paper's: × 0.1 after each third. A callable gets (epoch, epochs).

    Examples
    --------
    >>> [round(learning_rate_factor("step", epoch, 30), 4) for epoch in (1, 9, 10, 20, 30)]
    [1.0, 1.0, 0.1, 0.01, 0.001]
    """
    if callable(schedule):
        return schedule(epoch, epochs)
    if schedule == "step":
        return 0.1 ** (3 * epoch // epochs)
    if schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * (epoch - 1) / epochs))
    return 1.0


def annealing_of(network: Trainable, epoch: int, epochs: int, share: float = 1.0) -> float:
    """λ in epoch 1 … epochs: it grows evenly to 1 within a share of them; 0 for softplus.

    Examples
    --------
    >>> from treelu.nn import LocallyConstantNetwork
    >>> [annealing_of(LocallyConstantNetwork(2, 2, 1), epoch, 4, share=0.5) for epoch in (1, 2, 3, 4)]
    [0.5, 1.0, 1.0, 1.0]
    """
    if not network.activation.is_piecewise_linear:
        return 0.0
    return 1.0 if share == 0 else min(1.0, epoch / (share * epochs))


def batches(sample: Dataset, batch_size: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Batches of row numbers, shuffled anew for each pass, without end; a pass's last short batch is kept.

    Examples
    --------
    >>> import numpy as np
    >>> from treelu.data.targets import Targets
    >>> from treelu.nn import Table
    >>> X = np.random.default_rng(0).normal(size=(20, 3)).astype("float32")
    >>> sample = Dataset(Table(X), Targets("regression", X[:, :1], 1))
    >>> stream = batches(sample, 8, np.random.default_rng(0))
    >>> [len(next(stream)) for _ in range(4)]
    [8, 8, 4, 8]
    """
    n_rows, index = len(sample), sample.index
    # the only array of a training that grows with the rows: in as few bytes as will do
    word = np.int32 if n_rows < 2**31 else np.int64
    while True:
        order = np.arange(n_rows, dtype=word)
        rng.shuffle(order)
        for start in range(0, n_rows, UPDATES_AT_ONCE * batch_size):
            places = order[start : start + UPDATES_AT_ONCE * batch_size]
            rows = places.astype(np.int64) if index is None else index[places]
            for first in range(0, len(rows), batch_size):
                yield rows[first : first + batch_size]
        del order, places  # before the next pass makes its own


class KernelStepper:
    """Updates by the kernels: many in one call; or one by one where g_φ has hidden layers or very many outputs.

    Parameters
    ----------
    network : NeuronChain
        Its arrays become views of one vector, which the optimiser moves.
    sample : Dataset
    optimizer : {"sgd", "amsgrad"}
    weight_decay : float

    Examples
    --------
    >>> import numpy as np
    >>> from treelu.data.targets import Targets
    >>> from treelu.nn import LocallyConstantNetwork, Table
    >>> X = np.random.default_rng(0).normal(size=(20, 3)).astype("float32")
    >>> sample = Dataset(Table(X), Targets("regression", X[:, :1], 1))
    >>> network = LocallyConstantNetwork(3, depth=2, out_features=1, dtype="float32", seed=0)
    >>> stepper = KernelStepper(network, sample, "sgd")
    >>> keys = np.array([1, 2])  # of the masks
    >>> losses = [stepper.train_steps([np.arange(20)] * 2, keys, 0.0, 0.1) for _ in range(50)]
    >>> losses[-1] < losses[0]
    True
    """

    def __init__(self, network: NeuronChain, sample: Dataset, optimizer: str, weight_decay: float = 0.0) -> None:
        self.network, self.sample = network, sample
        flat = network.flatten()
        gradient = np.zeros_like(flat)
        self.gradients = views(gradient, network.arrays())
        self.optimizer = Optimizer(optimizer, flat, gradient, weight_decay)
        self.passes = TrainingPass(network, self.gradients)

    @property
    def in_one_go(self) -> bool:
        """Whether a kernel makes whole updates."""
        network = self.network
        if not isinstance(network, LocallyConstantNetwork):
            return True
        return not network.head.hidden and network.out_features <= FUSED_OUTPUTS

    def train_steps(
        self, batches: Sequence[NDArray[np.int64]], keys: NDArray[np.int64], annealing: float, rate: float
    ) -> float:
        """One update on each batch of rows, with masks drawn by its key; returns the sum of the rows' losses."""
        if not self.in_one_go:
            return self._one_by_one(batches, keys, annealing, rate)
        step, self.optimizer.n_steps = self.optimizer.next_step(rate), self.optimizer.n_steps + len(keys)
        targets = self.sample.targets.arrays()
        return self.passes.updates(self.sample.table, batches, keys, annealing, targets, step)

    def _one_by_one(
        self, batches: Sequence[NDArray[np.int64]], keys: NDArray[np.int64], annealing: float, rate: float
    ) -> float:
        """`train_steps` where a kernel does not make whole updates."""
        total, drop_rate = 0.0, self.network.drop_connect
        with one_blas_thread():
            for index, key in zip(batches, keys, strict=True):
                drop = DropConnect(drop_rate, int(key)) if drop_rate > 0 else None
                total += len(index) * self._gradients_of(index, annealing, drop)
                self.optimizer.take_step(rate)
        return total

    def _gradients_of(self, index: NDArray[np.int64], annealing: float, drop: DropConnect | None) -> float:
        """Back-propagation through g_φ's hidden layers, then by the kernels; returns the mean loss."""
        network = self.network
        assert isinstance(network, LocallyConstantNetwork)
        inputs = [self.passes.forward(self.sample.table.rows(index), annealing, drop)]  # before each ReLU, (·, B)
        for layer in network.head.hidden:
            inputs.append(layer(np.maximum(inputs[-1], 0)))
        loss, grad = self.sample.targets.loss_and_gradient(inputs.pop(), index)
        for number in range(len(network.head.hidden) - 1, -1, -1):
            layer, before, name = network.head.hidden[number], inputs[number], f"head.hidden.{2 * number + 1}"
            np.matmul(grad, np.maximum(before, 0).T, out=self.gradients[f"{name}.weight"])
            grad.sum(axis=1, out=self.gradients[f"{name}.bias"])
            grad = (layer.weight.T @ grad) * (before > 0)
        self.passes.backward(grad)
        return loss


def run_epoch(
    stepper: Stepper,
    stream: Iterator[NDArray[np.int64]],
    n_updates: int,
    annealing: float,
    rate: float,
    rng: np.random.Generator,
    after_step: AfterStep | None = None,
) -> float:
    """`n_updates` steps, some in one call; returns the mean loss. `after_step` may move the parameters.

    Examples
    --------
    >>> import numpy as np
    >>> from treelu.data.targets import Targets
    >>> from treelu.nn import LocallyConstantNetwork, Table
    >>> X = np.random.default_rng(0).normal(size=(20, 3)).astype("float32")
    >>> sample = Dataset(Table(X), Targets("regression", X[:, :1], 1))
    >>> network = LocallyConstantNetwork(3, depth=2, out_features=1, dtype="float32", seed=0)
    >>> rng = np.random.default_rng(0)
    >>> stepper, stream = KernelStepper(network, sample, "sgd"), batches(sample, 10, rng)
    >>> losses = [run_epoch(stepper, stream, n_updates=2, annealing=0.0, rate=0.1, rng=rng) for _ in range(50)]
    >>> losses[-1] < losses[0]
    True
    """
    total, seen, at_once = 0.0, 0, UPDATES_AT_ONCE if after_step is None else 1
    keys = rng.integers(2**63, size=n_updates)  # of the masks
    for start in range(0, n_updates, at_once):
        some = list(itertools.islice(stream, min(at_once, n_updates - start)))
        total += stepper.train_steps(some, keys[start : start + at_once], annealing, rate)
        seen += sum(map(len, some))
        if after_step is not None:
            after_step(stepper.network, stepper.gradients, rate)
    return total / seen


def evaluate(network: Trainable, table: Table, index: NDArray[np.int64] | None = None) -> NDArray[Any]:
    """The network's outputs for the rows `index` (or all), a block of rows at a time.

    Examples
    --------
    >>> import numpy as np
    >>> from treelu.data.targets import Targets
    >>> from treelu.nn import LocallyConstantNetwork, Table
    >>> X = np.random.default_rng(0).normal(size=(20, 3)).astype("float32")
    >>> sample = Dataset(Table(X), Targets("regression", X[:, :1], 1))
    >>> network = LocallyConstantNetwork(3, depth=2, out_features=1, dtype="float32", seed=0)
    >>> evaluate(network, sample.table).shape
    (20, 1)
    """
    parts = [network(rows) for rows in row_blocks(table, index)]
    return np.concatenate(parts) if parts else np.zeros((0, network.out_features))


def score_of(network: Trainable, sample: Dataset) -> float:
    """The score (AUC, log-loss or RMSE) of the network on a sample.

    Examples
    --------
    >>> import numpy as np
    >>> from treelu.data.targets import Targets
    >>> from treelu.nn import LocallyConstantNetwork, Table
    >>> X = np.random.default_rng(0).normal(size=(20, 3)).astype("float32")
    >>> sample = Dataset(Table(X), Targets("regression", X[:, :1], 1))
    >>> network = LocallyConstantNetwork(3, depth=2, out_features=1, dtype="float32", seed=0)
    >>> score_of(network, sample) >= 0  # RMSE
    True
    """
    return sample.targets.score(evaluate(network, sample.table, sample.index), sample.rows)


class _Best:
    """The best parameters so far and how long they have been the best."""

    def __init__(self, network: Trainable, targets: Targets) -> None:
        self.metric = METRICS[targets.task]
        self.network, self.epoch = network, 0
        self.score: float | None = None
        self.state: Any = None

    def offer(self, score: float, epoch: int) -> None:
        if self.metric.improves(score, self.score):
            self.score, self.epoch = score, epoch
            self.state = self.network.state()

    def restore(self) -> None:
        if self.state is not None:
            self.network.load_state(self.state)


def train(
    network: Any,
    sample: Dataset,
    *,
    epochs: int,
    batch_size: int,
    optimizer: str,
    learning_rate: float,
    schedule: Schedule = "step",
    weight_decay: float = 0.0,
    annealing: float = 1.0,
    updates_per_epoch: int | None = None,
    validation: Dataset | None = None,
    patience: int | None = None,
    callbacks: Sequence[Callback] = (),
    after_step: AfterStep | None = None,
    progress: AbstractContextManager[Callback] | None = None,
    interruptible: bool = True,
    make_stepper: MakeStepper = KernelStepper,
    windows: Iterator[Dataset] | None = None,
    rng: np.random.Generator,
) -> History:
    """Train `network` in place.

    Parameters
    ----------
    network : NeuronChain
        Its activation stays smooth where it is softplus.
    sample : Dataset
        The training rows.
    epochs, batch_size, updates_per_epoch : int
        An epoch is one pass over the rows unless `updates_per_epoch` says otherwise.
    annealing : float in [0, 1]
        Where the activation is piece-wise linear, λ grows to 1 within this share of the epochs (§3.7: within all).
    validation : Dataset, optional
        Scored after each epoch; the best epoch's parameters are restored at the end.
    patience : int, optional
        Stop after this many epochs without a better validation score.
    callbacks : sequence of callables
        Called as callback(record, network) after each epoch; training stops where one returns a true value.
    after_step : callable, optional
        Called as after_step(network, gradients, learning_rate) after each update, for proximal steps.
    progress : context manager that yields a callback, optional
        Shows the progress.
    interruptible : bool
        Ctrl-C ends training, keeps the best parameters so far and warns; False lets it through.
    make_stepper : callable
        make_stepper(network, sample, optimizer, weight_decay) → what makes the updates.
    windows : iterator of Dataset, optional
        Where the rows do not fit into memory: the rows of each epoch after the first, whose rows are `sample`.
    rng : numpy.random.Generator
        Shuffles the rows and draws the masks.

    Examples
    --------
    >>> import numpy as np
    >>> from treelu.data.targets import Targets
    >>> from treelu.nn import LocallyConstantNetwork, Table
    >>> X = np.random.default_rng(0).normal(size=(20, 3)).astype("float32")
    >>> sample = Dataset(Table(X), Targets("regression", X[:, :1], 1))
    >>> network = LocallyConstantNetwork(3, depth=2, out_features=1, dtype="float32", seed=0)
    >>> options = dict(epochs=30, batch_size=10, optimizer="amsgrad", learning_rate=0.05)
    >>> history = train(network, sample, **options, rng=np.random.default_rng(0))
    >>> history.records[-1].train_loss < history.records[0].train_loss
    True
    """
    n_updates = updates_per_epoch or -(-len(sample) // batch_size)
    stream = batches(sample, batch_size, rng)
    history = History(None if validation is None else METRICS[sample.targets.task].name)
    best = _Best(network, sample.targets)
    stepper = make_stepper(network, sample, optimizer, weight_decay)
    started = time.perf_counter()
    with progress or nullcontext(silent) as show:
        try:
            for epoch in range(1, epochs + 1):
                check_not_stopped()
                rate = learning_rate * learning_rate_factor(schedule, epoch, epochs)
                lam = annealing_of(network, epoch, epochs, annealing)
                if windows is not None and epoch > 1:
                    stepper.sample = next(windows)
                    stream, n_updates = batches(stepper.sample, batch_size, rng), -(-len(stepper.sample) // batch_size)
                loss = run_epoch(stepper, stream, n_updates, lam, rate, rng, after_step)
                _check_finite(loss, epoch, learning_rate)
                score = None
                if validation is not None:
                    score = score_of(network, validation)
                    best.offer(score, epoch)
                record = EpochRecord(epoch, lam, rate, loss, score, time.perf_counter() - started)
                history.records.append(record)
                show(record, network)
                answers = [callback(record, network) for callback in callbacks]
                if any(answers):
                    history.ended = "callback"
                    break
                if patience is not None and validation is not None and epoch - best.epoch >= patience:
                    history.ended = "early"
                    break
        except KeyboardInterrupt:
            if not interruptible:
                raise
            history.ended = "interrupted"
            kept = f"those of epoch {best.epoch}" if best.state else f"those after {len(history)} finished epochs"
            warnings.warn(f"training interrupted: the parameters kept are {kept} of {epochs}", stacklevel=2)
    best.restore()
    history.best_epoch = best.epoch or len(history)
    return history


def silent(record: EpochRecord, network: NeuronChain) -> None:
    """A callback that shows nothing."""


def _check_finite(loss: float, epoch: int, learning_rate: float) -> None:
    if not math.isfinite(loss):
        raise FloatingPointError(
            f"the training loss became {loss} in epoch {epoch}: lower learning_rate (now {learning_rate}), or scale "
            "features and targets that are very large (standardize=False leaves them as they are)"
        )


def best_fit(
    fits: Sequence[tuple[NeuronChain, History]], sample: Dataset, validation: Dataset | None
) -> tuple[NeuronChain, History]:
    """Of several trained networks the one with the best validation score, or the least training loss.

    Examples
    --------
    >>> import numpy as np
    >>> from treelu.data.targets import Targets
    >>> from treelu.nn import LocallyConstantNetwork, Table
    >>> X = np.random.default_rng(0).normal(size=(20, 3)).astype("float32")
    >>> sample = Dataset(Table(X), Targets("regression", X[:, :1], 1))
    >>> network = LocallyConstantNetwork(3, depth=2, out_features=1, dtype="float32", seed=0)
    >>> other = LocallyConstantNetwork(3, depth=2, out_features=1, dtype="float32", seed=1)
    >>> fits = [(network, History("regression")), (other, History("regression"))]
    >>> best, _ = best_fit(fits, sample, validation=sample)
    >>> score_of(best, sample) == min(score_of(network, sample), score_of(other, sample))
    True
    """
    if len(fits) == 1:
        return fits[0]
    if validation is not None:
        sign = -1.0 if METRICS[sample.targets.task].greater_is_better else 1.0
        return min(fits, key=lambda fit: sign * score_of(fit[0], validation))
    rows = sample.rows
    return min(fits, key=lambda fit: sample.targets.loss(evaluate(fit[0], sample.table, sample.index), rows))
