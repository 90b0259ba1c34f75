"""Updates of a network on batches of rows, by the kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from treelu.data.dataset import Dataset
from treelu.nn import DropConnect, LocallyConstantNetwork, NeuronChain
from treelu.nn.cpu.passes import TrainingPass
from treelu.nn.cpu.threads import one_blas_thread
from treelu.nn.networks import views
from treelu.training.optimizers import Optimizer

FUSED_OUTPUTS = 32  # with more outputs BLAS multiplies faster than the kernels, which run without Python
UPDATES_AT_ONCE = 64  # updates made by one call of a kernel: bounds the memory, and how long Ctrl-C waits


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
