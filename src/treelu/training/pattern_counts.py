"""Statistics of the training rows that a fit keeps: rows per activation pattern, standard deviations of features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treelu.data.dataset import Dataset
from treelu.nn import NeuronChain, Table
from treelu.nn.patterns import n_words, pack_pattern, unpack_codes
from treelu.tree import ObliqueTree
from treelu.tree.rows import node_totals

ENTRIES = 2**18  # of a sparse table, summed at once
MAX_PATTERNS = 100_000  # the most frequent patterns of the training rows are remembered


@dataclass(frozen=True)
class PatternCounts:
    """How many training rows have each activation pattern."""

    codes: NDArray[np.int64]  # (K, words), patterns as `treelu.nn` packs them
    counts: NDArray[np.int64]  # (K,)


def count_patterns(network: NeuronChain, sample: Dataset) -> PatternCounts:
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
    return PatternCounts(codes, counts)


def node_counts(tree: ObliqueTree, patterns: PatternCounts, depth: int) -> NDArray[np.float64]:
    """Rows at each node of the full tree of a network, whose leaves stand in lexicographic order of patterns."""
    leaf = pack_pattern(unpack_codes(patterns.codes, depth)[:, ::-1])[:, 0]  # the first neuron decides first
    leaves = np.zeros(tree.n_leaves)
    leaves[leaf] = patterns.counts
    return node_totals(tree.children, leaves)


def unseen_features(table: Table) -> NDArray[np.bool_]:
    """Which features are 0 in every row, as constant ones are once they are scaled: training learns nothing of them.

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


def column_importances(tree: ObliqueTree, scale: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Importances of the columns that an estimator is given; that of an indicator counts for its column."""
    importances = tree.feature_importances(scale)
    if tree.columns is not None:
        return tree.columns.per_column(importances)
    return importances if tree.missing is None else tree.missing.per_column(importances)
