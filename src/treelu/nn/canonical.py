"""The canonical locally constant network (§3.3): the activation pattern of any ReLU network, looked up in a table."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from treelu.nn.activations import Activation

MAX_NEURONS = 24  # the full table has a row for each of 2^N patterns


class CanonicalNetwork(nn.Module):
    """g(õ): a densely connected network with N_i neurons in layer i, whose activation pattern indexes a table.

    Parameters
    ----------
    in_features : int
        D.
    layer_sizes : sequence of int
        N_1, …, N_M. Layer i reads the input and all earlier layers.
    out_features : int
        L.
    activation : Activation
        Piece-wise linear.
    patterns : Tensor of shape (K, N), int8, optional
        Rows of a table for networks of many neurons: 1, 0, or −1 for "either". A row of the input takes the value of
        the first row of `patterns` that fits. Without it, `table` has one row for each of the 2^N patterns, the
        first neuron in the lowest bit.

    **Shape**: `layers[i].weight` (N_i, D + N_1 + … + N_{i−1}); `table` (2^N, L), or (K, L) with `patterns`.

    Examples
    --------
    >>> network = CanonicalNetwork(2, [1], 1)
    >>> with torch.no_grad():
    ...     _ = network.layers[0].weight.copy_(torch.tensor([[1.0, -1.0]]))
    ...     _ = network.layers[0].bias.fill_(1.0)
    ...     _ = network.table.copy_(torch.tensor([[10.0], [20.0]]))
    >>> network(torch.tensor([[0.0, 1.0], [0.0, 2.0]]))
    tensor([[20.],
            [10.]], grad_fn=<IndexBackward0>)
    """

    def __init__(
        self,
        in_features: int,
        layer_sizes: Sequence[int],
        out_features: int,
        *,
        activation: Activation | None = None,
        patterns: Tensor | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.layer_sizes, self.out_features = in_features, tuple(layer_sizes), out_features
        if not self.layer_sizes or min(self.layer_sizes) < 1:
            raise ValueError(f"layer_sizes must be at least one layer of at least one neuron, got {layer_sizes!r}")
        self.activation = Activation() if activation is None else activation
        if not self.activation.is_piecewise_linear:
            raise ValueError("activation must be 'relu' or 'leaky_relu': a table needs a discrete pattern")
        n_neurons = sum(self.layer_sizes)
        if patterns is None and n_neurons > MAX_NEURONS:
            raise ValueError(
                f"layer_sizes has {n_neurons} neurons, a table of 2^{n_neurons} rows; give `patterns` for the rows "
                f"you need, or use at most {MAX_NEURONS} neurons"
            )
        if patterns is not None and (patterns.dim() != 2 or patterns.shape[1] != n_neurons):
            raise ValueError(f"patterns must be of shape (K, {n_neurons}), got {tuple(patterns.shape)}")
        self.patterns: Tensor | None
        self.register_buffer("patterns", None if patterns is None else patterns.to(torch.int8))
        self.layers = nn.ModuleList()
        width = in_features
        for size in self.layer_sizes:
            self.layers.append(nn.Linear(width, size, dtype=dtype))
            width += size
        n_rows = 2**n_neurons if patterns is None else len(patterns)
        self.table = nn.Parameter(torch.zeros(n_rows, out_features, dtype=dtype))

    def activation_pattern(self, x: Tensor) -> Tensor:
        """Which neurons are active (z ≥ 0, Eq. 3): bool (B, N), layer by layer."""
        active: list[Tensor] = []
        for layer in self.layers:
            z = layer(x)
            a, _ = self.activation(z)
            active.append(z >= 0)
            x = torch.cat([x, a], dim=1)
        return torch.cat(active, dim=1)

    def table_rows(self, pattern: Tensor) -> Tensor:
        """The row of the table for each pattern, bool (B, N)."""
        if self.patterns is None:
            bits = 2 ** torch.arange(pattern.shape[1], device=pattern.device)
            return (pattern * bits).sum(dim=1)
        found = torch.full((len(pattern),), -1, device=pattern.device)
        for row in range(len(self.patterns) - 1, -1, -1):
            wanted = self.patterns[row]
            found[((pattern == wanted) | (wanted < 0)).all(dim=1)] = row
        if (found < 0).any():
            raise ValueError(f"patterns has no row for {int((found < 0).sum())} of the activation patterns met")
        return found

    def forward(self, x: Tensor) -> Tensor:
        """Outputs (B, L)."""
        return self.table[self.table_rows(self.activation_pattern(x))]
