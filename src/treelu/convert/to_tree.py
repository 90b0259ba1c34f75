"""Network to tree: Theorem 3 of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treelu.convert._chain import Chain, all_patterns, pattern_splits, table_cubes
from treelu.nn import CanonicalNetwork, LocallyConstantNetwork, LocallyLinearNetwork, Table
from treelu.nn.patterns import pack_pattern
from treelu.tree import ObliqueTree
from treelu.tree.rows import as_rows, dense

Network = LocallyConstantNetwork | LocallyLinearNetwork | CanonicalNetwork


def network_to_tree(
    network: Network,
    *,
    feature_names: Sequence[str] | None = None,
    classes: Any = None,
    link: str = "identity",
    visited_by: Any = None,
    patterns: np.ndarray | None = None,
    max_depth: int = 16,
) -> ObliqueTree:
    """The oblique tree that a locally constant or locally linear network is (Theorem 3).

    A decision node after the decisions r_1 … r_{i−1} tests ω·x + β >= 0 with ω = ∇ₓz_i and β = z_i − ω·x,
    both fixed by those decisions; the leaves are the network's outputs. A network of M neurons becomes a tree of
    2^M leaves, leaf j that of the j-th activation pattern in lexicographic order (first neuron first).

    Parameters
    ----------
    network : LocallyConstantNetwork, LocallyLinearNetwork or CanonicalNetwork
        Layers of several neurons are read as so many layers of one neuron. A canonical network whose table
        has only some `patterns` gives a tree with no more leaves than it needs for these.
    feature_names, classes, link
        Passed on to the tree.
    visited_by : array, DataFrame or sparse matrix of shape (n_rows, n_features), optional
        Build only the branches that these rows reach. A node of which they reach one side only is left out:
        whoever comes there is sent to that side. The tree then gives the network's output for each row whose
        activation pattern occurs among these rows, and the output of another pattern for any other row (its
        ``notes`` say so). Its size is that of the patterns met, so any depth will do.
    patterns : bool array of shape (n_patterns, n_neurons), optional
        The same for activation patterns that are known already.
    max_depth : int
        Neurons up to which the whole tree is built; beyond, ``visited_by`` is needed.

    Returns
    -------
    ObliqueTree

    Examples
    --------
    >>> network = LocallyConstantNetwork(3, depth=2, out_features=1, seed=0)
    >>> tree = network_to_tree(network, feature_names=["a", "b", "c"])
    >>> tree
    ObliqueTree(4 leaves, depth 2, 3 features, regression)
    >>> x = np.array([[0.5, -1.0, 2.0]])
    >>> bool(np.isclose(tree.predict(x), network(x)[0, 0])[0])
    True
    """
    if not isinstance(network, (LocallyConstantNetwork, LocallyLinearNetwork, CanonicalNetwork)):
        raise TypeError(
            "network must be a LocallyConstantNetwork, LocallyLinearNetwork or CanonicalNetwork, "
            f"got {type(network).__name__}"
        )
    network = network if isinstance(network, CanonicalNetwork) else network.copy(np.float64)
    chain = Chain.of(network)
    notes: tuple[str, ...] = ()
    if patterns is not None:
        notes = ("branches that the given patterns do not visit left out: exact for these",)
        patterns = np.unique(patterns, axis=0)
    elif visited_by is not None:
        notes = ("branches that the given rows do not visit left out: exact for the activation patterns of these",)
        names = None if feature_names is None else tuple(feature_names)
        patterns = _visited_patterns(network, as_rows(visited_by, network.in_features, names))
    elif isinstance(network, CanonicalNetwork) and network.patterns is not None:
        patterns = table_cubes(network, chain) == 1
    elif len(chain.bias) > max_depth:
        raise ValueError(
            f"network has {len(chain.bias)} neurons, a tree of 2^{len(chain.bias)} leaves; build the branches "
            f"that rows X reach with visited_by=X (an estimator's to_tree(visited_by=X)), or raise max_depth, "
            f"now {max_depth}"
        )
    else:
        patterns = all_patterns(len(chain.bias))
    neurons, examples, children = pattern_splits(patterns)
    weights, biases = chain.affine(patterns[examples], neurons)
    values, leaf_weights = (
        _linear_leaves(network, chain, patterns)
        if isinstance(network, LocallyLinearNetwork)
        else (network.leaf_values(patterns), None)
    )
    return ObliqueTree(
        weights, biases, children, values, leaf_weights=leaf_weights,
        link=link, classes=classes, feature_names=None if feature_names is None else tuple(feature_names),
        notes=notes,
    )  # fmt: skip


def _visited_patterns(network: Network, rows: Any) -> np.ndarray:
    """The distinct activation patterns of some rows, bool (K, N), in lexicographic order."""
    if rows.shape[0] == 0:
        raise ValueError("visited_by must have at least one row, got none")
    if isinstance(network, CanonicalNetwork):
        step = 4096
        parts = []
        for start in range(0, rows.shape[0], step):
            parts.append(network.activation_pattern(dense(rows[start : start + step])))
        return np.unique(np.concatenate(parts), axis=0)
    return np.unique(network.activation_pattern(Table(rows, np.float64).rows()), axis=0)


def _linear_leaves(network: LocallyLinearNetwork, chain: Chain, patterns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values (K, L) and weights (K, L, D) of the leaves of patterns.

    out = A x + B a + c with a = C (Wᵀ x + b), the same in all of a leaf: weights A + B C Wᵀ, value B C b + c.
    """
    outputs = network.output_connection.T  # (L, M)
    mixed = np.empty((len(patterns), *outputs.shape))
    for part, coefficients in chain.path_blocks(patterns, np.arange(len(outputs[0]))):
        mixed[part] = outputs @ coefficients
    weights = mixed @ chain.weight.T  # (K, L, D)
    weights += network.output_weight.T
    values = mixed @ chain.bias + network.output_bias
    if network.leaf_corrections is not None:
        values += network.leaf_corrections.lookup(pack_pattern(patterns))
    return values, weights
