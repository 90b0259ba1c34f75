"""Tree to network: Theorem 2 of the paper, and the two rewritings that its theorems lean on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from treelu.convert._chain import Chain
from treelu.nn import CanonicalNetwork
from treelu.tree import ObliqueTree
from treelu.tree.rows import dense


def tree_to_network(tree: ObliqueTree) -> CanonicalNetwork:
    """The canonical network with one hidden layer that equals an oblique tree (Theorem 2).

    Each decision node becomes a neuron, each leaf a row of the table that asks for the decisions on its path and
    takes either value elsewhere; so an unbalanced tree needs no more neurons than it has nodes. (The proof
    makes it balanced first, see :func:`balanced`.) The network returns the outputs before ``link``.

    Parameters
    ----------
    tree : ObliqueTree
        With constant leaves.

    Returns
    -------
    CanonicalNetwork
        float64.

    Examples
    --------
    >>> tree = ObliqueTree([[1.0, -1.0]], [1.0], [[1, 2]], [[10.0], [20.0]])
    >>> network = tree_to_network(tree)
    >>> network(np.array([[0.0, 1.0], [0.0, 2.0]]))
    array([[20.],
           [10.]])
    """
    if tree.leaf_weights is not None:
        raise ValueError("tree must have constant leaves; a locally constant network has no linear ones")
    n_neurons = max(1, tree.n_splits)
    network = CanonicalNetwork(
        tree.n_features,
        [n_neurons],
        tree.n_outputs,
        patterns=leaf_decisions(tree, n_neurons),
    )
    weights, biases = np.zeros((n_neurons, tree.n_features)), np.ones(n_neurons)  # a lone leaf's dummy: 0·x >= −1
    if tree.n_splits:
        weights, biases = dense(tree.weights), tree.biases
    network.layers[0].weight[:], network.layers[0].bias[:] = weights, biases
    network.table[:] = tree.values
    return network


def leaf_decisions(tree: ObliqueTree, n_neurons: int) -> np.ndarray:
    """The decision at each split on the way to each leaf: int8 (n_leaves, n_neurons), −1 off the way."""
    decisions = np.full((tree.n_nodes, n_neurons), -1, dtype=np.int8)
    for node, pair in enumerate(tree.children):
        decisions[pair] = decisions[node]
        decisions[pair, node] = (0, 1)
    return decisions[tree.n_splits :]


def balanced(tree: ObliqueTree, *, max_depth: int = 16) -> ObliqueTree:
    """The same tree with all leaves at one depth T, by dummy decisions 0·x >= −1 that all rows pass (§3.4).

    A leaf that lay higher stands below dummy nodes, at the end of their right branches; the left branches,
    where nobody comes, repeat its value. The result has 2^T leaves.

    Parameters
    ----------
    tree : ObliqueTree
    max_depth : int
        Refuse deeper trees, whose balanced form would be too large.

    Examples
    --------
    >>> tree = ObliqueTree([[1.0], [2.0]], [0, 1], [[1, 2], [3, 4]], [[0], [1], [2]])
    >>> balanced(tree).n_leaves
    4
    """
    depth = tree.depth
    if depth > max_depth:
        raise ValueError(f"tree has depth {depth}, 2^{depth} leaves when balanced; max_depth is {max_depth}")
    n_splits = 2**depth - 1
    # The balanced tree numbers its nodes level by level: the children of p are 2p + 1 and 2p + 2.
    children = np.arange(1, 2 * n_splits + 1).reshape(-1, 2)
    source = np.zeros(2 * n_splits + 1, dtype=np.int64)  # the node of `tree` that each node stands for
    for node in range(n_splits):
        here = source[node]
        source[children[node]] = tree.children[here] if here < tree.n_splits else here
    dummy = source[:n_splits] >= tree.n_splits
    kept: Any = sparse.csr_array(
        (np.ones((~dummy).sum()), (np.flatnonzero(~dummy), source[:n_splits][~dummy])),
        shape=(n_splits, tree.n_splits),
    )
    leaves = source[n_splits:] - tree.n_splits
    return replace(
        tree,
        weights=kept @ tree.weights,
        biases=kept @ tree.biases + dummy,
        children=children,
        values=tree.values[leaves],
        leaf_weights=None if tree.leaf_weights is None else tree.leaf_weights[leaves],
        n_samples=None,
        weighted_n_samples=None,
    )


def one_neuron_per_layer(network: CanonicalNetwork) -> CanonicalNetwork:
    """The same canonical network with each layer of several neurons spread over as many layers (Theorem 3).

    Neurons of a former layer follow each other with no connection between them; the table stays as it is.

    Examples
    --------
    >>> wide = CanonicalNetwork(2, [2, 1], 1)
    >>> one_neuron_per_layer(wide).layer_sizes
    (1, 1, 1)
    """
    chain = Chain.of(network)
    narrow = chain.canonical(network.out_features, network.activation, network.patterns)
    narrow.table[:] = network.table
    return narrow
