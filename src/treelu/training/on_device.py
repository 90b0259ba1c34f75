"""Updates of a network by torch, for devices other than the CPU and for networks that are torch modules themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treelu.data.dataset import Dataset
from treelu.nn import DropConnect, NeuronChain
from treelu.nn.torch import require_torch
from treelu.training.optimizers import BETAS, MOMENTUM

torch = require_torch("device= other than 'cpu'")


def check_device(device: str) -> None:
    """Raise where torch has no such device."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device={device!r} is not there ({error}); use device='cpu'") from error


class TorchStepper:
    """Updates of a network by autograd and torch.optim; the loss and its gradient are those of `Targets`.

    Parameters
    ----------
    network : NeuronChain, or an object with a torch module as its attribute `module`
        A `NeuronChain` is trained as a module on the device, and its arrays follow after each call. Any other module is
        called with rows of the sample's table, in training mode.
    sample : Dataset
    optimizer : {"sgd", "amsgrad"}
    weight_decay : float
    device : str
    """

    def __init__(
        self, network: Any, sample: Dataset, optimizer: str, weight_decay: float = 0.0, *, device: str = "cpu"
    ) -> None:
        from treelu.nn.torch import to_torch

        self.network, self.sample = network, sample
        self.is_chain = isinstance(network, NeuronChain)
        self.module: Any = to_torch(network).to(device) if self.is_chain else network.module
        parameters = list(self.module.parameters())
        if optimizer == "sgd":
            settings: dict[str, Any] = {"momentum": MOMENTUM, "nesterov": True}
            self.optimizer = torch.optim.SGD(parameters, lr=0.1, weight_decay=weight_decay, **settings)
        else:
            self.optimizer = torch.optim.AdamW(parameters, lr=0.1, amsgrad=True, betas=BETAS, weight_decay=weight_decay)
        self.gradients: dict[str, NDArray[Any]] = {}

    def train_steps(
        self, batches: Sequence[NDArray[np.int64]], keys: NDArray[np.int64], annealing: float, rate: float
    ) -> float:
        """One update on each batch of rows, with masks drawn by its key; returns the sum of the rows' losses."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if self.is_chain:
            self._copy_in()
        self.module.train()
        total = 0.0
        for index, key in zip(batches, keys, strict=True):
            self.optimizer.zero_grad()
            output = self._output(index, annealing, int(key))
            loss, gradient = self.sample.targets.loss_and_gradient(output.detach().cpu().numpy().T, index)
            output.backward(torch.from_numpy(np.ascontiguousarray(gradient.T)).to(output))
            self.optimizer.step()
            total += len(index) * loss
        self.module.eval()
        if self.is_chain:
            self._copy_out()
        return total

    def _output(self, index: NDArray[np.int64], annealing: float, key: int) -> Any:
        rows = self.sample.table.rows(index)
        if not self.is_chain:
            return self.module(rows)
        rate = self.network.drop_connect
        return self.module(rows, annealing=annealing, drop=DropConnect(rate, key) if rate > 0 else None)

    def _copy_in(self) -> None:
        """A proximal step may have moved the network's arrays."""
        with torch.no_grad():
            for name, parameter in self.module.named_parameters():
                parameter.copy_(torch.from_numpy(self.network.arrays()[name]))

    def _copy_out(self) -> None:
        arrays = self.network.arrays()
        for name, parameter in self.module.named_parameters():
            arrays[name][...] = parameter.detach().cpu().numpy()
            self.gradients[name] = parameter.grad.cpu().numpy()
