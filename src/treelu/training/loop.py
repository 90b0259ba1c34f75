"""The one training loop: batches, annealing, schedules, early stopping, callbacks → a `History`."""

from __future__ import annotations

import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from treelu.data.dataset import Dataset, row_blocks
from treelu.data.targets import METRICS, Targets
from treelu.nn import Activation, NeuronChain, Table
from treelu.training.history import Callback, EpochRecord, History, silent
from treelu.training.parallel import check_not_stopped
from treelu.training.stepper import UPDATES_AT_ONCE, KernelStepper, MakeStepper, Stepper, batches

Schedule = Literal["step", "cosine", "constant"] | Callable[[int, int], float]
# after_step(network, gradients, learning_rate), for proximal steps
AfterStep = Callable[[NeuronChain, dict[str, NDArray[Any]], float], None]


class Trainable(Protocol):
    """The protocol of a network that the loop trains."""

    activation: Activation
    out_features: int

    def __call__(self, x: Any) -> Any: ...
    def state(self) -> Any: ...
    def load_state(self, state: Any) -> None: ...


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
