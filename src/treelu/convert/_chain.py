"""A network as a chain of single neurons, its affine pieces, and the tree that activation patterns form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from treelu.nn import Activation, CanonicalNetwork, NeuronChain
from treelu.nn.coefficients import path_coefficients


@dataclass(frozen=True)
class Chain:
    """N neurons, one a layer: z_i = w_i·x + Σ_{k<i} u_ik a_k + b_i, a = σ(z) with a slope below zero.

    **Shape**: `weight` (D, N), `connection` (N, N) strictly lower triangular, `bias` (N,), all float64.
    """

    weight: np.ndarray
    connection: np.ndarray
    bias: np.ndarray
    negative_slope: float

    @classmethod
    def of(cls, network: NeuronChain | CanonicalNetwork) -> Chain:
        """The neurons of a network."""
        if not network.activation.is_piecewise_linear:
            raise ValueError(
                "network must have a piece-wise linear activation ('relu' or 'leaky_relu') to be a tree, "
                f"got {network.activation.kind!r}"
            )
        return cls(*network.neurons(), network.activation.negative_slope)

    def canonical(
        self, out_features: int, activation: Activation, patterns: np.ndarray | None = None
    ) -> CanonicalNetwork:
        """The canonical network of these neurons, one a layer, with a table of zeros."""
        n_features, n_neurons = self.weight.shape
        network = CanonicalNetwork(n_features, [1] * n_neurons, out_features, activation=activation, patterns=patterns)
        for neuron, layer in enumerate(network.layers):
            layer.weight[0] = np.concatenate([self.weight[:, neuron], self.connection[neuron, :neuron]])
            layer.bias[0] = self.bias[neuron]
        return network

    @property
    def sources(self) -> np.ndarray:
        """The neurons that some later neuron reads; no node needs the path coefficients of the others."""
        return np.flatnonzero((self.connection != 0).any(axis=0))

    def path_blocks(self, patterns: np.ndarray, kept: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Path coefficients C (B, S, S) of activation patterns (K, N), a block of these at a time.

        Only the S neurons ``kept`` take part; they must read no other.
        """
        inner = self.connection[kept][:, kept]
        step = block_length(len(kept))
        for start in range(0, len(patterns) if len(kept) else 0, step):
            part = slice(start, start + step)
            active = patterns[part][:, kept].astype(np.float64)
            yield part, path_coefficients(active * (1 - self.negative_slope) + self.negative_slope, inner)

    def affine(self, patterns: np.ndarray, neurons: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """∇ₓz_i and z_i − ∇ₓz_i·x of neuron ``neurons[k]`` after the decisions ``patterns[k]`` (Theorem 3).

        Both are combinations of the neurons' own weights: ∇ₓz_i = w_i + Σ_{k<i} u_ik C_k W. ``neurons`` must
        ascend. Returns weights (K, D) and biases (K,).
        """
        sources = self.sources
        mixed = np.empty((len(neurons), len(sources)))
        for part, coefficients in self.path_blocks(patterns, sources):
            reads = self.connection[neurons[part]][:, sources]  # (B, S)
            mixed[part] = (reads[:, None, :] @ coefficients)[:, 0]
        own, bias = self.weight.T, self.bias
        weights = mixed @ own[sources]
        for neuron in np.unique(neurons):
            start, stop = np.searchsorted(neurons, [neuron, neuron + 1])
            weights[start:stop] += own[neuron]
        return weights, bias[neurons] + mixed @ bias[sources]


def block_length(n_neurons: int) -> int:
    """How many patterns to take at a time, so that their path coefficients (N × N each) fill about 2 MB."""
    return max(16, (1 << 18) // max(1, n_neurons**2))


def all_patterns(n_neurons: int) -> np.ndarray:
    """All 2^N activation patterns in lexicographic order, bool (2^N, N)."""
    codes = np.arange(2**n_neurons)[:, None]
    return (codes >> np.arange(n_neurons - 1, -1, -1)) & 1 == 1


def pattern_splits(patterns: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The tree that K distinct patterns in lexicographic order form when each differing neuron is a decision.

    Where all patterns that agree so far agree on the next neuron too, there is no decision on it.

    Returns
    -------
    neurons : (K - 1,) the neuron each split decides on, ascending
    examples : (K - 1,) the number of a pattern that takes the split's left branch
    children : (K - 1, 2) node numbers; leaf k, node K - 1 + k, belongs to pattern k

    Examples
    --------
    >>> neurons, _, children = pattern_splits(np.array([[0, 0, 1], [0, 1, 0], [1, 1, 0]]) == 1)
    >>> neurons, children.tolist()
    (array([0, 1]), [[1, 4], [2, 3]])
    """
    n_splits = len(patterns) - 1
    # Neighbours k and k + 1 part at the first neuron on which they differ: one split between each two leaves.
    # Of a range of leaves the split with the lowest neuron comes first, which makes this a Cartesian tree.
    parts_at = (patterns[:-1] != patterns[1:]).argmax(axis=1)
    left, right = np.full(n_splits, -1), np.full(n_splits, -1)
    stack: list[tuple[int, int]] = []
    for split, neuron in enumerate(parts_at.tolist()):
        while stack and stack[-1][0] > neuron:
            left[split] = stack.pop()[1]
        if stack:
            right[stack[-1][1]] = split
        stack.append((neuron, split))
    order = np.argsort(parts_at, kind="stable")
    number = np.zeros(n_splits, dtype=np.int64)
    number[order] = np.arange(n_splits)
    leaf = n_splits + np.arange(n_splits)
    children = np.column_stack([np.where(left < 0, leaf, number[left]), np.where(right < 0, leaf + 1, number[right])])
    return parts_at[order], order, children[order]


def table_cubes(network: CanonicalNetwork, chain: Chain) -> np.ndarray:
    """Disjoint sets of activation patterns with one row of the table each, as int8 (K, N) of 1, 0 and −1 (either).

    For a network whose `patterns` say "either" for most neurons, this takes one neuron after the other and
    follows only the decisions that lead to different rows, instead of all 2^N. A pattern that the table has no
    row for belongs to no set. Sets come in lexicographic order.
    """
    assert network.patterns is not None
    wanted = network.patterns
    read = np.zeros(wanted.shape[1], dtype=bool)
    read[chain.sources] = True  # a neuron that later ones read shapes their decisions, whatever the table says
    cubes: list[np.ndarray] = []
    stack = [(np.full(wanted.shape[1], -1, dtype=np.int8), np.arange(len(wanted)))]
    while stack:
        cube, rows = stack.pop()
        rest = np.flatnonzero(cube < 0)
        if (wanted[rows[0], rest] < 0).all():  # the first row fits, whatever follows
            cubes.append(cube)
            continue
        tested = (wanted[rows][:, rest] >= 0).any(axis=0)
        last = np.flatnonzero(tested)[-1]
        neuron = rest[np.flatnonzero(tested | (read[rest] & (np.arange(len(rest)) < last)))[0]]
        for side in (1, 0):  # left on top of the stack
            fits = rows[(wanted[rows, neuron] < 0) | (wanted[rows, neuron] == side)]
            if len(fits):
                branch = cube.copy()
                branch[neuron] = side
                stack.append((branch, fits))
    return np.array(cubes)
