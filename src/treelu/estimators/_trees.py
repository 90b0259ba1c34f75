"""From a fitted network to its tree: conversion on first access, row counts, importances."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from treelu.convert import network_to_tree
from treelu.estimators._showing import MOST_LEAVES
from treelu.nn import NeuronChain, Table
from treelu.nn.patterns import n_words, pack_pattern, unpack_codes
from treelu.training import Sample
from treelu.tree import ObliqueTree
from treelu.tree.missing import MissingValues
from treelu.tree.rows import node_totals

MAX_DEPTH = 16  # 2^16 leaves; a deeper tree is built for given rows only
ENTRIES = 2**18  # of a sparse table, summed at once
MAX_PATTERNS = 100_000  # the most frequent patterns of the training rows are remembered


@dataclass(frozen=True)
class Visits:
    """How many training rows have each activation pattern.

    Attributes
    ----------
    codes : int64 array of shape (K, words)
        Patterns as `treelu.nn` packs them.
    counts : int64 array of shape (K,)
    """

    codes: NDArray[np.int64]
    counts: NDArray[np.int64]


def count_visits(network: NeuronChain, sample: Sample) -> Visits:
    """Route the rows of a sample and count them by pattern."""
    codes = np.zeros((0, n_words(network.depth)), np.int64)
    counts = np.zeros(0, np.int64)
    for rows in sample.blocks():
        block = network.activation_codes(rows)
        codes, inverse = np.unique(np.concatenate([codes, block]), axis=0, return_inverse=True)
        ones = np.ones(len(block), np.int64)
        counts = np.bincount(inverse.reshape(-1), np.concatenate([counts, ones])).astype(np.int64)
        if len(counts) > MAX_PATTERNS:
            kept = np.sort(np.argsort(-counts, kind="stable")[:MAX_PATTERNS])
            codes, counts = codes[kept], counts[kept]
    return Visits(codes, counts)


class TreeMixin:
    """`tree_` and what follows from it, for estimators whose network is piece-wise linear."""

    network_: Any
    visits_: Visits
    spread_: NDArray[np.float64]

    if TYPE_CHECKING:  # defined by the class this is mixed into: a body here would hide it

        def _read_rows(self, X: Any, y: Any = None, *, first: bool) -> tuple[Any, Any]: ...
        def _tree_settings(self) -> dict[str, Any]: ...

    @property
    def tree_(self) -> ObliqueTree:
        """The exact oblique tree on the raw features, built on first access, with training rows counted."""
        check_is_fitted(self)
        if self.network_.depth > MAX_DEPTH:
            raise AttributeError(
                f"tree_ would have 2^{self.network_.depth} leaves; to_tree(visited_by=X) builds the branches that "
                "rows X reach"
            )
        built = getattr(self, "_tree", None)
        if built is None or built[0] is not self.network_:
            tree = self.to_tree()
            counts = node_counts(tree, self.visits_, self.network_.depth)
            built = self._tree = self.network_, replace(tree, n_samples=counts)
        return built[1]

    def _tree_to_show(self) -> ObliqueTree | str | None:
        if not hasattr(self, "network_"):
            return None
        depth = self.network_.depth
        if 2**depth > MOST_LEAVES:
            return f"a tree of up to 2^{depth} leaves: to_tree(visited_by=X) is the part that rows X reach"
        return self.tree_

    def to_tree(self, *, visited_by: Any = None) -> ObliqueTree:
        """The network as an `ObliqueTree` on the raw features.

        Parameters
        ----------
        visited_by : array, DataFrame or sparse matrix, optional
            Build only the branches that these rows reach, at any depth. The tree is then exact for rows whose
            activation pattern occurs among these.
        """
        check_is_fitted(self)
        return tree_of(self, self.network_, visited_by)

    def apply(self, X: Any) -> NDArray[np.int64]:
        """The leaf of `tree_` that each row reaches, as a node number."""
        X, _ = self._read_rows(X, first=False)
        return self.tree_.apply(X)

    def decision_path(self, X: Any) -> sparse.csr_array:
        """The nodes of `tree_` that each row passes: a CSR matrix (n, n_nodes)."""
        X, _ = self._read_rows(X, first=False)
        return self.tree_.decision_path(X)

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Each feature's |weight| × spread, summed over the nodes by the rows that reach them; they sum to 1."""
        check_is_fitted(self)
        if self.network_.depth <= MAX_DEPTH:
            return column_importances(self.tree_, self.spread_)
        patterns, order = np.unique(unpack_codes(self.visits_.codes, self.network_.depth), axis=0, return_index=True)
        tree = network_to_tree(self.network_, patterns=patterns, **self._tree_settings())
        counts = node_totals(tree.children, self.visits_.counts[order].astype(np.float64))
        return column_importances(replace(tree, n_samples=counts, missing=missing_of(self)), self.spread_)


def tree_of(estimator: Any, network: Any, visited_by: Any = None) -> ObliqueTree:
    """A fitted network of an estimator as a tree; of a deep one the branches that some rows reach."""
    tree = network_to_tree(
        network,
        feature_names=tree_features(estimator),
        visited_by=None if visited_by is None else estimator._read_rows(visited_by, first=False)[0],
        max_depth=MAX_DEPTH,
        **estimator._tree_settings(),
    )
    return replace(tree, spreads=estimator.spread_, missing=missing_of(estimator))


def tree_features(estimator: Any) -> list[str] | None:
    """Names of the features that a tree reads: the raw ones, and indicators of missing values."""
    names = getattr(estimator, "feature_names_in_", None)
    names = None if names is None else [str(name) for name in names]
    missing = missing_of(estimator)
    return names if missing is None else missing.names(names)


def missing_of(estimator: Any) -> MissingValues | None:
    """How a fitted estimator fills missing values; None where it does not."""
    return getattr(estimator, "missing_values_", None)


def column_importances(tree: ObliqueTree, scale: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Importances of the columns that an estimator is given; that of an indicator counts for its column."""
    shares = tree.feature_importances(scale)
    return shares if tree.missing is None else tree.missing.per_column(shares)


def node_counts(tree: ObliqueTree, visits: Visits, depth: int) -> NDArray[np.float64]:
    """Rows at each node of the full tree of a network, whose leaves stand in lexicographic order of patterns."""
    leaf = pack_pattern(unpack_codes(visits.codes, depth)[:, ::-1])[:, 0]  # the first neuron decides first
    leaves = np.zeros(tree.n_leaves)
    leaves[leaf] = visits.counts
    return node_totals(tree.children, leaves)


def unseen_features(table: Table) -> NDArray[np.bool_]:
    """Which features are 0 in every row, as constant ones are once they are scaled: training can say nothing of them.

    Examples
    --------
    >>> unseen_features(Table(np.array([[0.0, 1.0], [0.0, 0.0]], np.float32)))
    array([ True, False])
    """
    n, d = table.shape
    seen = np.zeros(d, bool)
    if table.is_sparse:
        for start in range(0, len(table.values), ENTRIES):  # what is copied stays small
            features, values = (array[start : start + ENTRIES] for array in (table.features, table.values))
            seen[features[values != 0]] = True
        return ~seen
    step = max(1, ENTRIES // d)
    for start in range(0, n, step):
        seen |= table.values.reshape(n, d)[start : start + step].any(axis=0)
    return ~seen


def feature_spread(table: Table) -> NDArray[np.float64]:
    """The standard deviation of each feature."""
    n, d = table.shape
    if not table.is_sparse:
        return table.values.reshape(n, d).std(axis=0, dtype=np.float64)
    mean, square = np.zeros(d), np.zeros(d)
    for start in range(0, len(table.values), ENTRIES):  # bincount copies what it is given
        features, values = (array[start : start + ENTRIES] for array in (table.features, table.values))
        mean += np.bincount(features, values, d) / n
        square += np.bincount(features, values.astype(np.float64) ** 2, d) / n
    return np.sqrt(np.maximum(square - mean**2, 0))
