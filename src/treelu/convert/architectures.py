"""Canonical and standard locally constant networks: Theorem 8 of the paper, in both directions."""

from __future__ import annotations

import numpy as np

from treelu.convert._chain import Chain, all_patterns, table_cubes
from treelu.nn import CanonicalNetwork, LocallyConstantNetwork

MAX_NEURONS = 16  # both directions enumerate 2^M activation patterns
_DIRECTIONS = 64  # random projections tried for each neuron


def standard_to_canonical(network: LocallyConstantNetwork) -> CanonicalNetwork:
    """The canonical network g(õ) equal to a standard one, g_φ's table by enumeration (Theorem 8, first half).

    Parameters
    ----------
    network : LocallyConstantNetwork
        With at most 16 neurons and a piece-wise linear activation.

    Returns
    -------
    CanonicalNetwork
        float64, one neuron per layer, the same f_θ.

    Examples
    --------
    >>> network = LocallyConstantNetwork(3, depth=2, out_features=1, seed=0)
    >>> standard_to_canonical(network).table.shape
    (4, 1)
    """
    network = network.copy(np.float64)
    chain = Chain.of(network)
    _check_enumerable(len(chain.bias))
    # The table counts patterns with the first neuron in the lowest bit: lexicographic from the last column on.
    patterns = all_patterns(network.depth)[:, ::-1].copy()
    canonical = chain.canonical(network.out_features, network.activation)
    canonical.table[:] = network.leaf_values(patterns)
    return canonical


def canonical_to_standard(network: CanonicalNetwork, *, random_state: int = 0) -> LocallyConstantNetwork:
    """A standard network g_φ([vec J, offsets]) equal to a canonical one (Theorem 8, second half).

    The paper cites an existence theorem for g_φ; here it is constructed. Within the region of a pattern, the
    affine form (ω, β) of z_i is itself affine in the Jacobian and the offsets of earlier neurons, and
    (∇ₓa_i, offset_i) = o_i·(ω, β). So for any direction v

        d_i = v·(ω_i, β_i) − v·(∇ₓa_i, offset_i) = (1 − o_i) v·(ω_i, β_i)

    is affine in g_φ's input: zero where neuron i is active, and at least m_i in size where it is not, with v drawn
    at random so that m_i, the smallest over all decisions before, is well above rounding. Four hidden layers
    follow: |d_i|; max(0, 3/2 − 2|d_i|/m_i); its complement, which is 1 where neuron i is inactive, else 0; and
    for each row of the table, 1 where all bits fit, else 0. All of these are exact in floating point, and so
    is the row of the table that the last layer picks.

    Parameters
    ----------
    network : CanonicalNetwork
        With at most 16 neurons.
    random_state : int
        Seed of the directions.

    Returns
    -------
    LocallyConstantNetwork
        float64, with hidden layers of 2M, M, M and one neuron for each row of the table.

    Examples
    --------
    >>> canonical = CanonicalNetwork(2, [1, 1], 1, seed=0)
    >>> canonical.table[:] = [[3.0], [1.0], [4.0], [1.5]]
    >>> standard = canonical_to_standard(canonical)
    >>> x = np.random.default_rng(0).normal(size=(100, 2))
    >>> np.array_equal(standard(x), canonical(x))
    True
    """
    chain = Chain.of(network)
    n_neurons = len(chain.bias)
    _check_enumerable(n_neurons)
    if chain.negative_slope == 1:
        raise ValueError("negative_slope must not be 1: the Jacobian then says nothing about the pattern")
    cubes = _cubes(network, chain)
    standard = LocallyConstantNetwork(
        network.in_features,
        n_neurons,
        network.out_features,
        hidden_layers=(2 * n_neurons, n_neurons, n_neurons, len(cubes)),
        activation=network.activation,
    )
    directions, margins = _separating_directions(chain, np.random.default_rng(random_state))
    standard.weight[:], standard.connection[:], standard.bias[:] = chain.weight, chain.connection, chain.bias
    _write_differences(standard, chain, directions)
    _write_bits(standard, margins)
    _write_table(standard, cubes, network)
    return standard


def _check_enumerable(n_neurons: int) -> None:
    if n_neurons > MAX_NEURONS:
        raise ValueError(
            f"network has {n_neurons} neurons, 2^{n_neurons} patterns to enumerate; at most {MAX_NEURONS} are possible"
        )


def _cubes(network: CanonicalNetwork, chain: Chain) -> np.ndarray:
    """The sets of activation patterns that have a row of the table of their own, int8 (K, M)."""
    if network.patterns is not None:
        return table_cubes(network, chain)
    return all_patterns(len(chain.bias)).astype(np.int8)


def _separating_directions(chain: Chain, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """For each neuron i a direction v (D + 1) and m_i, the least |(1 − s) v·(ω_i, β_i)| over all decisions.

    Of several random directions the one with the largest m_i, relative to the largest |v·(ω_i, β_i)|, is taken.
    Where (ω_i, β_i) is zero the neuron is always active, and d_i is zero as it should be.
    """
    forms = np.vstack([chain.weight, chain.bias])  # (D + 1, M), a neuron's (w, b) a column
    scale = np.linalg.norm(forms, axis=1)
    scale[scale == 0] = 1
    directions = rng.standard_normal((_DIRECTIONS, len(forms))) / scale  # features on any scale count alike
    chosen, margins = np.empty((len(chain.bias), len(forms))), np.empty(len(chain.bias))
    for neuron in range(len(chain.bias)):
        before = np.zeros((2**neuron, len(chain.bias)), dtype=bool)
        before[:, :neuron] = all_patterns(neuron)
        weights, biases = chain.affine(before, np.full(len(before), neuron))
        sizes = np.abs(weights @ directions[:, :-1].T + np.outer(biases, directions[:, -1]))
        largest = sizes.max(axis=0)
        sizes[sizes <= 1e-12 * largest] = np.inf  # zero up to rounding
        smallest = sizes.min(axis=0)
        relative = np.divide(smallest, largest, out=np.zeros_like(largest), where=np.isfinite(smallest))
        best = int(relative.argmax())
        chosen[neuron] = directions[best]
        margins[neuron] = abs(1 - chain.negative_slope) * smallest[best] if np.isfinite(smallest[best]) else 1.0
    return chosen, margins


def _write_differences(standard: LocallyConstantNetwork, chain: Chain, directions: np.ndarray) -> None:
    """First hidden layer: max(0, d_i) and max(0, −d_i)."""
    head, n_neurons, v = standard.head, standard.depth, directions
    mixing = chain.connection - np.eye(n_neurons)  # u_ik, and −1 for the neuron itself
    own = (v[:, :-1] * chain.weight.T).sum(axis=1) + v[:, -1] * chain.bias  # v·(w_i, b_i)
    for rows, sign in ((slice(0, n_neurons), 1), (slice(n_neurons, None), -1)):
        head.weight[rows] = sign * mixing[:, :, None] * v[:, None, :-1]
        head.offset_weight[rows] = sign * mixing * v[:, -1:]
        head.bias[rows] = sign * own


def _write_bits(standard: LocallyConstantNetwork, margins: np.ndarray) -> None:
    """Second and third hidden layer: 1 where a neuron is inactive (|d_i| ≥ m_i), 0 where it is active (d_i = 0)."""
    ramp, complement = standard.head.hidden[:2]
    unit = np.eye(standard.depth)
    steep = unit * (-2 / margins)
    ramp.weight[:], ramp.bias[:] = np.concatenate([steep, steep], axis=1), 1.5
    complement.weight[:], complement.bias[:] = -unit, 1.0


def _write_table(standard: LocallyConstantNetwork, cubes: np.ndarray, network: CanonicalNetwork) -> None:
    """Fourth hidden layer: 1 − (number of bits that do not fit); output: the table's row."""
    fit, output = standard.head.hidden[2:]
    wants_inactive, wants_active = (cubes == 0).astype(np.float64), (cubes == 1).astype(np.float64)
    fit.weight[:], fit.bias[:] = wants_inactive - wants_active, 1 - wants_inactive.sum(axis=1)
    output.weight[:] = network.leaf_values(cubes == 1).T
    output.bias[:] = 0
