"""The paper's trainable networks with one neuron per layer: locally constant (§3.6) and locally linear (§3.2)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from treelu.nn.activations import Activation, check_annealing
from treelu.nn.coefficients import activate, path_coefficients, path_offsets, project
from treelu.nn.corrections import LeafCorrections
from treelu.nn.drop_connect import DropConnect, check_rate
from treelu.nn.head import Head, uniform
from treelu.nn.patterns import pack_pattern, unpack_codes
from treelu.nn.rows import Rows, Table

try:
    from treelu.nn import fused, passes
except ImportError:  # no Numba: the torch form runs instead
    fused = passes = None  # type: ignore[assignment]

Backend = Literal["numba", "torch"]
TABLE_DEPTH = 12  # up to this depth all leaf values are kept, 2^12 rows


class NeuronChain(nn.Module, ABC):
    """M densely connected neurons, one per layer (Eq. 1): what both networks share.

    Parameters
    ----------
    in_features, depth, out_features : int
        D features, M neurons, L outputs.
    activation : Activation
        ReLU by default.
    drop_connect : float in [0, 1)
        In training mode each call draws fresh masks, one per row, at this rate.
    drop_in_jacobian : bool
        Whether the masks act in the Jacobian too (the paper's text) or on the pre-activations only (its code).
    backend : {"numba", "torch"} or None
        None takes the Numba kernels on a CPU where Numba is installed, the torch form elsewhere.
    """

    weight: nn.Parameter
    connection: nn.Parameter
    bias: nn.Parameter

    def __init__(
        self,
        in_features: int,
        depth: int,
        out_features: int,
        *,
        activation: Activation | None = None,
        drop_connect: float = 0.0,
        drop_in_jacobian: bool = False,
        backend: Backend | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        for name, value in (("in_features", in_features), ("depth", depth), ("out_features", out_features)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value!r}")
        check_rate(drop_connect)
        if backend not in (None, "numba", "torch"):
            raise ValueError(f"backend must be 'numba', 'torch' or None, got {backend!r}")
        self.in_features, self.depth, self.out_features = in_features, depth, out_features
        self.activation = Activation() if activation is None else activation
        self.drop_connect, self.drop_in_jacobian = drop_connect, drop_in_jacobian
        self.requested_backend = backend
        self.leaf_corrections: LeafCorrections | None = None
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        self.weight = nn.Parameter(torch.empty(in_features, depth, **place))
        self.connection = nn.Parameter(torch.empty(depth, depth, **place))
        self.bias = nn.Parameter(torch.empty(depth, **place))

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw each neuron's weights and bias uniformly within ±1/√fan_in, fan_in = D + i − 1 for neuron i."""
        bounds = torch.tensor([1 / math.sqrt(self.in_features + i) for i in range(self.depth)])
        with torch.no_grad():
            for parameter, bound in (
                (self.weight, bounds),
                (self.connection, bounds[:, None]),
                (self.bias, bounds),
            ):
                parameter.copy_(uniform(parameter.shape, generator) * bound)
            self.connection.tril_(-1)
            self._reset_outputs(generator)

    @abstractmethod
    def _reset_outputs(self, generator: torch.Generator | None) -> None:
        """Draw the parameters above the neurons."""

    @property
    def backend(self) -> Backend:
        """Which code runs here: the Numba kernels or the torch form."""
        possible = fused is not None and self.weight.device.type == "cpu"
        possible = possible and self.weight.dtype in (torch.float32, torch.float64)
        if self.requested_backend == "numba" and not possible:
            raise RuntimeError(
                "backend='numba' needs Numba, a CPU and float32 or float64; use backend='torch' or None "
                f"(device {self.weight.device}, {self.weight.dtype})"
            )
        return "numba" if possible and self.requested_backend != "torch" else "torch"

    def activation_pattern(self, x: Tensor | Rows) -> Tensor:
        """Which neurons are active (z ≥ 0, Eq. 3) in the piece-wise linear network: bool (B, M)."""
        return torch.from_numpy(unpack_codes(self.activation_codes(x), self.depth))

    def activation_codes(self, x: Tensor | Rows) -> NDArray[np.int64]:
        """Activation patterns as integers (B, words): 63 neurons a word, the first neuron in the lowest bit."""
        with torch.no_grad():
            rows = self._as_rows(x)
            if rows is None:
                z, _, _ = self._neurons(x, 1.0, None)
                return pack_pattern((z >= 0).cpu().numpy())
            return self._router().codes(rows)

    def _router(self) -> passes.Router:
        weight, connection, bias = (p.detach().numpy() for p in (self.weight, self.connection, self.bias))
        return passes.Router(weight, connection, bias, self.activation.negative_slope)

    def correct_leaves(self, corrections: LeafCorrections | None) -> None:
        """Add constants to the leaves of the piece-wise linear network from now on, in evaluation mode."""
        if corrections is not None and not self.activation.is_piecewise_linear:
            raise ValueError("leaf corrections need a piece-wise linear activation, got softplus")
        self.leaf_corrections = corrections

    def _corrected(self, output: Tensor, x: Tensor | Rows, annealing: float, drop: DropConnect | None) -> Tensor:
        """Outputs with the corrections of the rows' leaves, where the network is a tree."""
        if self.leaf_corrections is None or self.training or annealing != 1.0 or drop is not None:
            return output
        return output + self.leaf_corrections.lookup(self.activation_codes(x)).to(output)

    def gradient_pass(self) -> passes.Pass | None:
        """The kernels on this network's parameters, writing straight into their `.grad`, for training loops.

        It gives what autograd gives without its bookkeeping. None where the kernels are not the whole network.
        """
        parameters = self._kernel_parameters()
        if self.backend != "numba" or self.drop_in_jacobian or len(parameters) < len(list(self.parameters())):
            return None
        if not all(parameter.requires_grad for parameter in parameters):  # some are to stay as they are
            return None
        gradients = []
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            gradients.append(parameter.grad.numpy())
        return self._pass_class()([parameter.detach().numpy() for parameter in parameters], gradients)

    @abstractmethod
    def _kernel_parameters(self) -> tuple[nn.Parameter, ...]:
        """The parameters that the kernels read, in their order."""

    @staticmethod
    @abstractmethod
    def _pass_class() -> type[passes.Pass]:
        """Which pass computes this network."""

    def _layer(self, rows: Rows, annealing: float, drop: DropConnect | None) -> Tensor:
        """The kernels as a differentiable function of the parameters."""
        return fused.layer(self._pass_class(), rows, annealing, self.activation, drop, *self._kernel_parameters())

    def _neurons(
        self, x: Tensor | Rows, annealing: float | None, drop: DropConnect | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """z, a and o by the torch form; masks act on z only."""
        _, kept = project(x, self.weight, drop)
        mask = None if drop is None else self._connection_mask(len(kept), drop)
        return activate(kept, self.connection, self.bias, self.activation, annealing, mask)

    def _connection_mask(self, n_rows: int, drop: DropConnect) -> Tensor:
        keys = drop.row_keys(n_rows, self.weight.device)[:, None]
        sources = torch.arange(self.in_features, self.in_features + self.depth, device=keys.device)
        return drop.mask(keys, sources, self.depth, self.weight.dtype).transpose(1, 2)  # (B, i, k)

    def _draw(self, drop: DropConnect | None) -> DropConnect | None:
        """The masks of this call: those given, or fresh ones in training mode."""
        if drop is None and self.training and self.drop_connect > 0:
            key = int(torch.randint(2**63 - 1, ()))
            drop = DropConnect(self.drop_connect, key, self.drop_in_jacobian)
        return None if drop is not None and drop.rate == 0 else drop

    def _as_rows(self, x: Tensor | Rows) -> Rows | None:
        """What the kernels read, or None where the torch form has to run."""
        if x.shape[1] != self.in_features:
            raise ValueError(f"x must have {self.in_features} features, got {x.shape[1]}")
        if self.backend != "numba":
            return None
        if isinstance(x, Tensor):
            if x.requires_grad:
                return None
            return Table(x.to(self.weight.dtype).numpy()).rows()
        return x

    def extra_repr(self) -> str:
        """The settings, for `repr`."""
        return (
            f"in_features={self.in_features}, depth={self.depth}, out_features={self.out_features}, "
            f"activation={self.activation}, drop_connect={self.drop_connect}"
        )


class LocallyConstantNetwork(NeuronChain):
    """The standard locally constant network (LCN, §3.6), or its approximate form (ALCN) with softplus.

    Takes a dense tensor (B, D) or `Rows` and returns (B, L). With a piece-wise linear activation the output is a
    function of the activation pattern alone: an oblique decision tree of depth M.

    Examples
    --------
    >>> network = LocallyConstantNetwork(5, depth=3, out_features=1).eval()
    >>> network.reset_parameters(torch.Generator().manual_seed(0))
    >>> network(torch.zeros(4, 5)).shape
    torch.Size([4, 1])
    """

    def __init__(
        self,
        in_features: int,
        depth: int,
        out_features: int,
        *,
        hidden_layers: Sequence[int] = (),
        activation: Activation | None = None,
        drop_connect: float = 0.0,
        drop_in_jacobian: bool = False,
        backend: Backend | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            in_features,
            depth,
            out_features,
            activation=activation,
            drop_connect=drop_connect,
            drop_in_jacobian=drop_in_jacobian,
            backend=backend,
            device=device,
            dtype=dtype,
        )
        self.head = Head(in_features, depth, out_features, hidden_layers, device=device, dtype=dtype)
        self._leaves: _Leaves | None = None
        self.reset_parameters()

    def _reset_outputs(self, generator: torch.Generator | None) -> None:
        self.head.reset_parameters(generator)

    def _kernel_parameters(self) -> tuple[nn.Parameter, ...]:
        head = self.head
        return self.weight, self.connection, self.bias, head.weight, head.offset_weight, head.bias

    @staticmethod
    def _pass_class() -> type[passes.Pass]:
        return passes.LocallyConstantPass

    def forward(self, x: Tensor | Rows, *, annealing: float | None = None, drop: DropConnect | None = None) -> Tensor:
        """Outputs (B, L).

        Parameters
        ----------
        x : Tensor (B, D) or Rows
        annealing : float in [0, 1], optional
            λ of Eq. 5; by default 1 for ReLU and leaky ReLU, 0 for softplus.
        drop : DropConnect, optional
            The masks to use; by default fresh ones in training mode, none in evaluation.
        """
        check_annealing(annealing)
        lam = self.activation.default_annealing if annealing is None else annealing
        drop = self._draw(drop)
        rows = self._as_rows(x)
        if rows is not None and drop is None and lam == 1.0 and not torch.is_grad_enabled():
            return self._by_pattern(rows)
        if rows is not None and not (drop and drop.in_jacobian):
            output = self.head.hidden(self._layer(rows, lam, drop))
        else:
            output = self._coefficient_form(x, lam, drop)
        return self._corrected(output, x, lam, drop)

    def _coefficient_form(self, x: Tensor | Rows, annealing: float, drop: DropConnect | None) -> Tensor:
        weight: Tensor = self.weight
        connection: Tensor = self.connection
        s, kept = project(x, weight, drop)
        mask = None if drop is None else self._connection_mask(len(s), drop)
        _, a, o = activate(kept, connection, self.bias, self.activation, annealing, mask)
        if drop is not None and drop.in_jacobian:
            on_weight, on_connection = drop.dense_masks(
                len(s), self.in_features, self.depth, weight.dtype, weight.device
            )
            s, weight, connection = kept, weight * on_weight, connection * on_connection
        coefficients = path_coefficients(o, connection)
        offsets = a - (coefficients @ s[:, :, None])[:, :, 0]
        return self.head.on_coefficients(coefficients, offsets, weight)

    @torch.no_grad()
    def leaf_values(self, patterns: Tensor) -> Tensor:
        """The outputs (K, L) of the piece-wise linear network for patterns, bool (K, M), without gradients."""
        slope = self.activation.negative_slope
        if self.backend == "numba":
            layer = passes.LocallyConstantPass([parameter.numpy() for parameter in self._kernel_parameters()])
            values = self.head.hidden(torch.from_numpy(layer.on_patterns(patterns.numpy(), slope).T))
        else:
            o = patterns.to(self.weight.dtype) * (1 - slope) + slope
            coefficients = path_coefficients(o, self.connection)
            values = self.head.on_coefficients(coefficients, path_offsets(coefficients, self.bias), self.weight)
        if self.leaf_corrections is None or self.training:
            return values
        return values + self.leaf_corrections.lookup(pack_pattern(patterns.cpu().numpy())).to(values)

    def _by_pattern(self, rows: Rows) -> Tensor:
        """Route the rows, then look their leaves' values up."""
        known = self._known_leaves(len(rows.index)) if self.depth <= TABLE_DEPTH else None
        codes = (self._router() if known is None else known.router).codes(rows)
        if known is not None and known.values is not None:
            return torch.from_numpy(known.values.take(codes[:, 0], axis=0))
        axis = None if codes.shape[1] == 1 else 0
        unique, inverse = np.unique(codes if axis == 0 else codes[:, 0], axis=axis, return_inverse=True)
        patterns = torch.from_numpy(unpack_codes(unique.reshape(-1, codes.shape[1]), self.depth))
        return self.leaf_values(patterns)[torch.from_numpy(inverse.reshape(-1))]

    def _known_leaves(self, n_rows: int) -> _Leaves:
        """What is kept until a parameter changes; all 2^M leaf values once so many rows have come that they pay."""
        # compared by value: kernels and edits of `.data` leave no trace in a tensor's version counter
        parameters = *self._kernel_parameters(), *self.head.hidden.parameters()
        now = [parameter.detach().numpy() for parameter in parameters]
        kept = self._leaves
        settings = self.activation.negative_slope, self.leaf_corrections
        if kept is None or kept.settings != settings or not _same(kept.parameters, now):
            kept = self._leaves = _Leaves([parameter.copy() for parameter in now], settings, self._router())
        kept.n_rows += n_rows
        if kept.values is None and kept.n_rows >= 2**self.depth:
            codes = np.arange(2**self.depth)[:, None]
            kept.values = self.leaf_values(torch.from_numpy(unpack_codes(codes, self.depth))).numpy()
        return kept

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_leaves": None}


@dataclass
class _Leaves:
    """A router and leaf values by code, what they were made from, and how many rows have asked for them."""

    parameters: list[NDArray[Any]]
    settings: tuple[float, LeafCorrections | None]
    router: passes.Router
    n_rows: int = 0
    values: NDArray[Any] | None = None


def _same(old: list[NDArray[Any]], new: list[NDArray[Any]]) -> bool:
    # by NumPy: torch would wait for its threads
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(old, new, strict=True))


class LocallyLinearNetwork(NeuronChain):
    """The locally linear network f_θ itself (LLN): an oblique tree with linear leaves.

    out = A x + B a + c on the input and all neurons. `output_weight` (D, L), `output_connection` (M, L),
    `output_bias` (L,). DropConnect acts on the neurons' weights.

    Examples
    --------
    >>> network = LocallyLinearNetwork(5, depth=3, out_features=2).eval()
    >>> network(torch.zeros(4, 5)).shape
    torch.Size([4, 2])
    """

    def __init__(
        self,
        in_features: int,
        depth: int,
        out_features: int,
        *,
        activation: Activation | None = None,
        drop_connect: float = 0.0,
        backend: Backend | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            in_features,
            depth,
            out_features,
            activation=activation,
            drop_connect=drop_connect,
            backend=backend,
            device=device,
            dtype=dtype,
        )
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        self.output_weight = nn.Parameter(torch.empty(in_features, out_features, **place))
        self.output_connection = nn.Parameter(torch.empty(depth, out_features, **place))
        self.output_bias = nn.Parameter(torch.empty(out_features, **place))
        self.reset_parameters()

    def _reset_outputs(self, generator: torch.Generator | None) -> None:
        bound = 1 / math.sqrt(self.in_features + self.depth)
        for parameter in (self.output_weight, self.output_connection, self.output_bias):
            parameter.copy_(uniform(parameter.shape, generator) * bound)

    def _kernel_parameters(self) -> tuple[nn.Parameter, ...]:
        outputs = self.output_weight, self.output_connection, self.output_bias
        return self.weight, self.connection, self.bias, *outputs

    @staticmethod
    def _pass_class() -> type[passes.Pass]:
        return passes.LocallyLinearPass

    def forward(self, x: Tensor | Rows, *, annealing: float | None = None, drop: DropConnect | None = None) -> Tensor:
        """Outputs (B, L); arguments as for `LocallyConstantNetwork`."""
        check_annealing(annealing)
        lam = self.activation.default_annealing if annealing is None else annealing
        drop = self._draw(drop)
        rows = self._as_rows(x)
        if rows is not None:
            return self._corrected(self._layer(rows, lam, drop), x, lam, drop)
        _, a, _ = self._neurons(x, lam, drop)
        linear, _ = project(x, self.output_weight, None)
        return self._corrected(linear + a @ self.output_connection + self.output_bias, x, lam, drop)
