"""Networks as torch modules, with the parameters' names and shapes of `treelu.nn`, and the conversions both ways."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor, nn

from treelu.nn.activations import Activation, check_annealing
from treelu.nn.canonical import CanonicalNetwork
from treelu.nn.drop_connect import DropConnect
from treelu.nn.networks import LocallyConstantNetwork, LocallyLinearNetwork, NeuronChain
from treelu.nn.rows import Rows
from treelu.nn.torch.functions import activate, mask, path_coefficients, project, row_keys, run_neurons


class ChainModule(nn.Module):
    """M densely connected neurons, one per layer (Eq. 1): what both modules share.

    In training mode each call draws fresh masks at the rate `drop_connect`, one per row, unless some are given.
    """

    def __init__(self, in_features: int, depth: int, out_features: int, activation: Activation, rate: float) -> None:
        super().__init__()
        self.in_features, self.depth, self.out_features = in_features, depth, out_features
        self.activation, self.drop_connect = activation, rate
        self.weight = nn.Parameter(torch.zeros(in_features, depth))
        self.connection = nn.Parameter(torch.zeros(depth, depth))
        self.bias = nn.Parameter(torch.zeros(depth))

    def _neurons(
        self, x: Tensor | Rows, annealing: float | None, drop: DropConnect | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Projections s, activations a and derivatives o; masks act inside the pre-activations only."""
        check_annealing(annealing)
        if x.shape[1] != self.in_features:
            raise ValueError(f"x must have {self.in_features} features, got {x.shape[1]}")
        if drop is None and self.training and self.drop_connect > 0:
            drop = DropConnect(self.drop_connect, int(torch.randint(2**63 - 1, ())))
        s, kept = project(x, self.weight, drop)
        on_connection = None
        if drop is not None:
            keys = row_keys(drop, len(s), s.device)[:, None]
            sources = torch.arange(self.in_features, self.in_features + self.depth, device=s.device)
            on_connection = mask(drop, keys, sources, self.depth, s.dtype).transpose(1, 2)  # (B, i, k)
        _, a, o = run_neurons(kept, self.connection, self.bias, self.activation, annealing, on_connection)
        return s, a, o


class HeadModule(nn.Module):
    """g_φ (§3.6): a fully connected network on the vectorised Jacobian and the offsets.

    **Shape**: `weight` (H, M, D), `offset_weight` (H, M), `bias` (H,), where H is the first width.
    """

    def __init__(self, in_features: int, depth: int, widths: list[int]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(widths[0], depth, in_features))
        self.offset_weight = nn.Parameter(torch.zeros(widths[0], depth))
        self.bias = nn.Parameter(torch.zeros(widths[0]))
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.ReLU(), nn.Linear(before, after)]
        self.hidden = nn.Sequential(*layers)

    def forward(self, jacobian: Tensor, offsets: Tensor) -> Tensor:
        """g_φ on the materialised Jacobian (B, M, D) and the offsets (B, M)."""
        first = jacobian.flatten(1) @ self.weight.flatten(1).T + offsets @ self.offset_weight.T
        return self.hidden(first + self.bias)

    def on_coefficients(self, coefficients: Tensor, offsets: Tensor, weight: Tensor) -> Tensor:
        """The same from the coefficients C (B, M, M), through G_hij = V_hi·w_j."""
        gram = self.weight @ weight  # (H, M, M)
        first = coefficients.flatten(1) @ gram.flatten(1).T
        return self.hidden(first + offsets @ self.offset_weight.T + self.bias)


class LocallyConstantModule(ChainModule):
    """`treelu.nn.LocallyConstantNetwork` as a torch module; made by `to_torch`.

    Examples
    --------
    >>> module = to_torch(LocallyConstantNetwork(5, depth=3, out_features=1, seed=0))
    >>> module(torch.zeros(4, 5, dtype=torch.float64)).shape
    torch.Size([4, 1])
    """

    def __init__(self, network: LocallyConstantNetwork) -> None:
        sizes = network.in_features, network.depth
        super().__init__(*sizes, network.out_features, network.activation, network.drop_connect)
        self.head = HeadModule(*sizes, [*network.hidden_layers, network.out_features])

    def forward(self, x: Tensor | Rows, *, annealing: float | None = None, drop: DropConnect | None = None) -> Tensor:
        """Outputs (B, L) of rows: a tensor (B, D) or `Rows`."""
        s, a, o = self._neurons(x, annealing, drop)
        coefficients = path_coefficients(o, self.connection)
        offsets = a - (coefficients @ s[:, :, None])[:, :, 0]
        return self.head.on_coefficients(coefficients, offsets, self.weight)


class LocallyLinearModule(ChainModule):
    """`treelu.nn.LocallyLinearNetwork` as a torch module; made by `to_torch`.

    Examples
    --------
    >>> module = to_torch(LocallyLinearNetwork(5, depth=3, out_features=1, seed=0))
    >>> module(torch.zeros(4, 5, dtype=torch.float64)).shape
    torch.Size([4, 1])
    """

    def __init__(self, network: LocallyLinearNetwork) -> None:
        sizes = network.in_features, network.depth, network.out_features
        super().__init__(*sizes, network.activation, network.drop_connect)
        self.output_weight = nn.Parameter(torch.zeros(network.in_features, network.out_features))
        self.output_connection = nn.Parameter(torch.zeros(network.depth, network.out_features))
        self.output_bias = nn.Parameter(torch.zeros(network.out_features))

    def forward(self, x: Tensor | Rows, *, annealing: float | None = None, drop: DropConnect | None = None) -> Tensor:
        """Outputs (B, L) of rows: a tensor (B, D) or `Rows`."""
        _, a, _ = self._neurons(x, annealing, drop)
        linear, _ = project(x, self.output_weight, None)
        return linear + a @ self.output_connection + self.output_bias


class CanonicalModule(nn.Module):
    """`treelu.nn.CanonicalNetwork` as a torch module; made by `to_torch`. Gradients reach the table.

    Examples
    --------
    >>> network = CanonicalNetwork(2, layer_sizes=(2, 1), out_features=1)
    >>> to_torch(network)(torch.zeros(4, 2, dtype=torch.float64)).shape
    torch.Size([4, 1])
    """

    def __init__(self, network: CanonicalNetwork) -> None:
        super().__init__()
        self.network = network
        self.layers = nn.ModuleList(nn.Linear(*layer.weight.shape[::-1]) for layer in network.layers)
        self.table = nn.Parameter(torch.zeros(network.table.shape))

    def forward(self, x: Tensor) -> Tensor:
        """Outputs (B, L)."""
        active: list[Tensor] = []
        for layer in self.layers:
            z = layer(x)
            active.append(z >= 0)
            x = torch.cat([x, activate(self.network.activation, z)[0]], dim=1)
        rows = self.network.table_rows(torch.cat(active, dim=1).cpu().numpy())
        return self.table[torch.from_numpy(rows).to(self.table.device)]


@overload
def to_torch(network: LocallyConstantNetwork) -> LocallyConstantModule: ...
@overload
def to_torch(network: LocallyLinearNetwork) -> LocallyLinearModule: ...
@overload
def to_torch(network: CanonicalNetwork) -> CanonicalModule: ...
def to_torch(network: NeuronChain | CanonicalNetwork) -> nn.Module:
    """A torch module that computes what a network computes, with copies of its parameters, in evaluation mode.

    Corrections of leaves (`refine_leaves`) are not parameters: a network that has some is refused.

    Examples
    --------
    >>> network = LocallyConstantNetwork(2, depth=2, out_features=1, seed=0)
    >>> x = np.ones((1, 2))
    >>> bool(np.isclose(to_torch(network)(torch.from_numpy(x)).item(), network(x)[0, 0]))
    True
    """
    if isinstance(network, NeuronChain) and network.leaf_corrections is not None:
        raise ValueError("network has corrected leaves, which a torch module has no place for")
    module: nn.Module
    if isinstance(network, LocallyConstantNetwork):
        module = LocallyConstantModule(network)
    elif isinstance(network, LocallyLinearNetwork):
        module = LocallyLinearModule(network)
    elif isinstance(network, CanonicalNetwork):
        module = CanonicalModule(network)
    else:
        raise TypeError(f"network must be one of treelu.nn, got {type(network).__name__}")
    arrays = network.arrays()
    module.to(torch.float64 if network.dtype == np.float64 else torch.float32)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(torch.from_numpy(np.ascontiguousarray(arrays[name])))
    return module.eval()


def from_torch(module: nn.Module) -> Any:
    """The inverse of `to_torch`: a network with copies of the module's parameters.

    Examples
    --------
    >>> network = LocallyLinearNetwork(2, depth=2, out_features=1, seed=0)
    >>> bool((from_torch(to_torch(network)).weight == network.weight).all())
    True
    """
    arrays = {name: parameter.detach().cpu().numpy().copy() for name, parameter in module.named_parameters()}
    if isinstance(module, CanonicalModule):
        old = module.network
        sizes = old.in_features, old.layer_sizes, old.out_features
        canonical = CanonicalNetwork(*sizes, activation=old.activation, patterns=old.patterns)
        for name, array in canonical.arrays().items():
            array[...] = arrays[name]
        return canonical
    if not isinstance(module, ChainModule):
        raise TypeError(f"module must be one that to_torch makes, got {type(module).__name__}")
    settings: dict[str, Any] = {"activation": module.activation, "drop_connect": module.drop_connect}
    settings["dtype"] = arrays["weight"].dtype
    sizes_ = module.in_features, module.depth, module.out_features
    network: NeuronChain
    if isinstance(module, LocallyConstantModule):
        widths = [layer.in_features for layer in module.head.hidden if isinstance(layer, nn.Linear)]
        network = LocallyConstantNetwork(*sizes_, hidden_layers=widths, **settings)
    else:
        network = LocallyLinearNetwork(*sizes_, **settings)
    network.set_arrays(arrays)
    return network
