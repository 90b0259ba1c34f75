"""The one training loop: batches, annealing, schedules, early stopping, callbacks → a `History`."""

from __future__ import annotations

import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from treelu.nn import DropConnect, NeuronChain, Rows, Table
from treelu.training.targets import METRICS, Targets

Schedule = Literal["step", "cosine", "constant"] | Callable[[int, int], float]
ONE_THREAD_PARAMETERS = 1_000_000
MOMENTUM, BETAS = 0.9, (0.9, 0.999)  # of SGD, of AMSGrad
UPDATES_AT_ONCE = 64  # updates made by one call of a kernel: bounds the memory, and how long Ctrl-C waits
EVALUATION_ROWS = 8192  # rows evaluated at once: bounds the memory


@dataclass(frozen=True)
class EpochRecord:
    """One epoch: λ, learning rate, mean training loss, score on the validation rows, seconds since the start."""

    epoch: int
    annealing: float
    learning_rate: float
    train_loss: float
    valid_score: float | None
    seconds: float


Callback = Callable[[EpochRecord, NeuronChain], bool | None]


@dataclass(frozen=True)
class Sample:
    """The rows `index` of a table with their targets; all rows where `index` is None."""

    table: Table
    targets: Targets
    index: NDArray[np.int64] | None = None

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row numbers."""
        return np.arange(self.table.shape[0]) if self.index is None else self.index

    def __len__(self) -> int:
        return self.table.shape[0] if self.index is None else len(self.index)

    def blocks(self) -> Iterator[Rows]:
        """The rows, at most `EVALUATION_ROWS` at a time."""
        return row_blocks(self.table, self.index)


def row_blocks(table: Table, index: NDArray[np.int64] | None = None, at_once: int = EVALUATION_ROWS) -> Iterator[Rows]:
    """The rows `index` of a table (or all), at most so many at a time.

    Examples
    --------
    >>> [rows.index for rows in row_blocks(Table(np.eye(3)), at_once=2)]
    [array([0, 1]), array([2])]
    """
    n_rows = table.shape[0] if index is None else len(index)
    for start in range(0, n_rows, at_once):
        stop = min(start + at_once, n_rows)
        yield table.rows(np.arange(start, stop) if index is None else index[start:stop])


@dataclass
class History:
    """What happened during training.

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
    """What multiplies the learning rate in epoch 1 … epochs.

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


def annealing_of(network: NeuronChain, epoch: int, epochs: int, share: float = 1.0) -> float:
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


def make_optimizer(
    network: NeuronChain, name: str, learning_rate: float, weight_decay: float = 0.0
) -> torch.optim.Optimizer:
    """SGD with Nesterov momentum 0.9, or AMSGrad, from torch.optim, in their fused form.

    They work element by element, so all parameters are made views of one vector and updated at one go.
    """
    flat = flatten_parameters(network)
    settings: dict[str, Any] = {"lr": learning_rate, "weight_decay": weight_decay, "fused": True}
    if name == "sgd":
        return torch.optim.SGD([flat], momentum=MOMENTUM, nesterov=True, **settings)
    return torch.optim.AdamW([flat], amsgrad=True, betas=BETAS, **settings)


def flatten_parameters(network: NeuronChain) -> torch.nn.Parameter:
    """One vector that holds all trainable parameters and their gradients; the network's own become views of it."""
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    flat = torch.nn.Parameter(torch.cat([parameter.detach().reshape(-1) for parameter in parameters]))
    flat.grad = torch.zeros_like(flat)
    start = 0
    for parameter in parameters:
        part = slice(start, start + parameter.numel())
        parameter.data = flat.data[part].view_as(parameter)
        parameter.grad = flat.grad[part].view_as(parameter)
        start = part.stop
    return flat


def batches(sample: Sample, batch_size: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Batches of row numbers, shuffled anew for each pass, without end; a pass's last short batch is kept."""
    n_rows, index = len(sample), sample.index
    # the only array of a training that grows with the rows: in as few bytes as will do
    word = np.int32 if n_rows < 2**31 else np.int64
    while True:
        order = np.arange(n_rows, dtype=word)
        rng.shuffle(order)
        for start in range(0, n_rows, batch_size):
            batch = order[start : start + batch_size]
            yield batch.astype(np.int64) if index is None else index[batch]
        del order, batch  # before the next pass makes its own


@contextmanager
def one_torch_thread(network: NeuronChain) -> Iterator[None]:
    """While the kernels do the work, torch only moves the parameters: a second thread costs more than it saves.

    On a busy machine far more: each step would wait for a thread that is not scheduled. Large networks and networks
    that torch itself computes keep their threads.
    """
    n_threads = torch.get_num_threads()
    alone = network.backend == "numba" and sum(p.numel() for p in network.parameters()) < ONE_THREAD_PARAMETERS
    if alone:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if alone:
            torch.set_num_threads(n_threads)


class Stepper:
    """Updates of a network on a sample by an optimiser.

    Where the kernels are the whole network their gradients go straight into the parameters' `.grad`, and a kernel does
    the optimiser's step on its own state: many updates at one go in one thread, or one by one where a batch's rows are
    shared out over threads. Autograd and the optimiser itself do the rest. All give the same.
    """

    def __init__(self, network: NeuronChain, sample: Sample, optimizer: torch.optim.Optimizer) -> None:
        self.network, self.sample, self.optimizer = network, sample, optimizer
        self.gradient_pass = network.gradient_pass()
        self.update: Any = optimizer.step
        if self.gradient_pass is not None:
            from treelu.training.updates import Update  # Numba may be absent where the torch form runs

            self.update = Update(optimizer)
        self.gradients = [(p, p.grad) for p in network.parameters() if p.grad is not None]  # the optimiser's own

    def train_steps(self, batches: Sequence[NDArray[np.int64]], keys: NDArray[np.int64], annealing: float) -> float:
        """One update on each batch of rows, with masks drawn by its key; returns the sum of the rows' losses."""
        network, sample = self.network, self.sample
        if self.gradient_pass is not None:
            largest = sample.table.rows(max(batches, key=len))
            if self.gradient_pass.n_parts_for(largest) == 1:
                from treelu.training.epochs import train_on

                settings = annealing, network.activation, network.drop_connect
                return train_on(self.gradient_pass, self.update, largest, sample.targets, batches, keys, *settings)
        total = 0.0
        for index, key in zip(batches, keys, strict=True):
            drop = None
            if network.drop_connect > 0:
                drop = DropConnect(network.drop_connect, int(key), network.drop_in_jacobian)
            total += len(index) * self.train_step(index, annealing, drop)
        return total

    def train_step(self, index: NDArray[np.int64], annealing: float, drop: DropConnect | None) -> float:
        """One update on the rows `index`; returns their mean loss."""
        network, targets, rows = self.network, self.sample.targets, self.sample.table.rows(index)
        if self.gradient_pass is not None:
            output = self.gradient_pass.forward(rows, annealing, network.activation, drop)
            loss, gradient = targets.loss_and_gradient(output, index)
            self.gradient_pass.backward(gradient)
        else:
            for parameter, own in self.gradients:
                parameter.grad = own.zero_()  # a callback may have put another in its place
            batch_loss = targets.loss(network(rows, annealing=annealing, drop=drop), torch.from_numpy(rows.index))
            batch_loss.backward()
            loss = batch_loss.item()
        self.update()
        return loss


def run_epoch(
    stepper: Stepper,
    stream: Iterator[NDArray[np.int64]],
    n_updates: int,
    annealing: float,
    rng: np.random.Generator,
    after_step: Callable[[NeuronChain, float], None] | None = None,
) -> float:
    """`n_updates` steps; returns the mean loss. `after_step(network, learning_rate)` may move the parameters."""
    network = stepper.network
    network.train()
    keys = rng.integers(2**63, size=n_updates)
    at_once = UPDATES_AT_ONCE if after_step is None else 1
    total, seen = 0.0, 0
    for start in range(0, n_updates, at_once):
        some = keys[start : start + at_once]
        indices = list(itertools.islice(stream, len(some)))
        total += stepper.train_steps(indices, some, annealing)
        seen += sum(map(len, indices))
        if after_step is not None:
            after_step(network, stepper.optimizer.param_groups[0]["lr"])
    network.eval()
    return total / seen


def evaluate(network: NeuronChain, table: Table, index: NDArray[np.int64] | None = None) -> Tensor:
    """The network's outputs for the rows `index` (or all) in evaluation form, a block of rows at a time."""
    network.eval()
    with torch.no_grad():
        parts = [network(rows) for rows in row_blocks(table, index)]
    return torch.cat(parts) if parts else network.weight.new_zeros(0, network.out_features)


def score_of(network: NeuronChain, sample: Sample) -> float:
    """The score (AUC, log-loss or RMSE) of the network on a sample."""
    return sample.targets.score(evaluate(network, sample.table, sample.index), sample.rows)


class _Best:
    """The best parameters so far and how long they have been the best."""

    def __init__(self, network: NeuronChain, targets: Targets) -> None:
        self.metric = METRICS[targets.task]
        self.network, self.epoch = network, 0
        self.score: float | None = None
        self.state: dict[str, Tensor] | None = None

    def offer(self, score: float, epoch: int) -> None:
        if self.metric.improves(score, self.score):
            self.score, self.epoch = score, epoch
            self.state = {name: value.clone() for name, value in self.network.state_dict().items()}

    def restore(self) -> None:
        if self.state is not None:
            self.network.load_state_dict(self.state)


def train(
    network: NeuronChain,
    sample: Sample,
    *,
    epochs: int,
    batch_size: int,
    optimizer: str,
    learning_rate: float,
    schedule: Schedule = "step",
    weight_decay: float = 0.0,
    annealing: float = 1.0,
    updates_per_epoch: int | None = None,
    validation: Sample | None = None,
    patience: int | None = None,
    callbacks: Sequence[Callback] = (),
    after_step: Callable[[NeuronChain, float], None] | None = None,
    progress: AbstractContextManager[Callback] | None = None,
    interruptible: bool = True,
    rng: np.random.Generator,
) -> History:
    """Train `network` in place.

    Parameters
    ----------
    network : NeuronChain
        Its activation stays smooth where it is softplus.
    sample : Sample
        The training rows.
    epochs, batch_size, updates_per_epoch : int
        An epoch is one pass over the rows unless `updates_per_epoch` says otherwise.
    annealing : float in [0, 1]
        Where the activation is piece-wise linear, λ grows to 1 within this share of the epochs (§3.7: within all).
    validation : Sample, optional
        Judged after each epoch; the best epoch's parameters are restored at the end.
    patience : int, optional
        Stop after so many epochs without a better validation score.
    callbacks : sequence of callables
        Called as callback(record, network) after each epoch; a true answer stops the training.
    after_step : callable, optional
        Called as after_step(network, learning_rate) after each update, for proximal steps.
    progress : context manager that yields a callback, optional
        Shows the progress.
    interruptible : bool
        Ctrl-C ends training, keeps the best parameters so far and warns; False lets it through.
    rng : numpy.random.Generator
        Shuffles the rows and draws the masks.
    """
    optimiser = make_optimizer(network, optimizer, learning_rate, weight_decay)
    n_updates = updates_per_epoch or -(-len(sample) // batch_size)
    stream = batches(sample, batch_size, rng)
    history = History(None if validation is None else METRICS[sample.targets.task].name)
    best = _Best(network, sample.targets)
    stepper = Stepper(network, sample, optimiser)
    started = time.perf_counter()
    with progress or nullcontext(_silent) as show, one_torch_thread(network):
        try:
            for epoch in range(1, epochs + 1):
                rate = learning_rate * learning_rate_factor(schedule, epoch, epochs)
                for group in optimiser.param_groups:
                    group["lr"] = rate
                lam = annealing_of(network, epoch, epochs, annealing)
                loss = run_epoch(stepper, stream, n_updates, lam, rng, after_step)
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
    network.eval()
    history.best_epoch = best.epoch or len(history)
    return history


def _silent(record: EpochRecord, network: NeuronChain) -> None:
    return None


def _check_finite(loss: float, epoch: int, learning_rate: float) -> None:
    if not math.isfinite(loss):
        raise FloatingPointError(
            f"the training loss became {loss} in epoch {epoch}: lower learning_rate (now {learning_rate}), "
            "or set standardize=True if features or targets are large"
        )


def best_fit(
    fits: Sequence[tuple[NeuronChain, History]], sample: Sample, validation: Sample | None
) -> tuple[NeuronChain, History]:
    """Of several trained networks the one with the best validation score, or the least training loss."""
    if len(fits) == 1:
        return fits[0]
    if validation is not None:
        sign = -1.0 if METRICS[sample.targets.task].greater_is_better else 1.0
        return min(fits, key=lambda fit: sign * score_of(fit[0], validation))
    rows = torch.from_numpy(sample.rows)
    return min(fits, key=lambda fit: sample.targets.loss(evaluate(fit[0], sample.table, sample.index), rows).item())
