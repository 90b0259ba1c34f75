"""From a fitted network to its tree: conversion on first access, row counts, importances."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from treelu.convert import network_to_tree
from treelu.estimators._output_methods import MOST_LEAVES
from treelu.estimators._rows import column_shares, feature_names
from treelu.nn.patterns import unpack_codes
from treelu.tables.encoder import TableEncoder
from treelu.training.fit import FittedNetwork
from treelu.training.hyper_parameters import MAX_DEPTH
from treelu.training.pattern_counts import column_importances, node_counts
from treelu.tree import ObliqueTree
from treelu.tree.missing import MissingValues
from treelu.tree.rows import node_totals


class TreeMixin:
    """`tree_` and what follows from it, for estimators whose network is piece-wise linear."""

    if TYPE_CHECKING:  # defined by the class this is mixed into: a body here would hide it

        def _model(self, name: str) -> FittedNetwork: ...
        def _rows(self, X: Any) -> Any: ...
        def _tree_settings(self) -> dict[str, Any]: ...

    @property
    def tree_(self) -> ObliqueTree:
        """The exact oblique tree on the raw features, built on first access, with training rows counted.

        It has all ``2^depth`` leaves of the network, to be exact for every row; training rows reach
        ``tree_.n_visited_leaves`` of them. `to_tree` with ``visited_by=X`` is the tree of the leaves that rows X reach.
        """
        check_is_fitted(self)
        fitted = self._model("tree_")
        depth = fitted.network.depth
        if depth > MAX_DEPTH:
            raise AttributeError(
                f"tree_ would have 2^{depth} leaves; to_tree(visited_by=X) builds the branches that rows X reach"
            )
        built = getattr(self, "_tree", None)
        if built is None or built[0] is not fitted.network:
            tree = self.to_tree()
            built = fitted.network, replace(tree, n_samples=node_counts(tree, fitted.patterns, depth))
            self._tree = built
        return built[1]

    def _tree_to_show(self) -> ObliqueTree | str | None:
        fitted = self.__dict__.get("fitted_")
        if not isinstance(fitted, FittedNetwork):
            return None if fitted is None else "one tree per label: estimators_[label].tree_"
        depth = fitted.network.depth
        if 2**depth > MOST_LEAVES:
            return f"a tree of up to 2^{depth} leaves: to_tree(visited_by=X) is the part that rows X reach"
        return self.tree_

    def to_tree(self, *, visited_by: Any = None) -> ObliqueTree:
        """The network as an `ObliqueTree` on the raw features.

        Parameters
        ----------
        visited_by : array, DataFrame or sparse matrix, optional
            Build only the branches that these rows reach, at any depth. The tree is then exact for rows whose
            activation pattern occurs among these. None: all ``2^depth`` leaves, exact for every row.
        """
        check_is_fitted(self)
        fitted = self._model("to_tree")
        return tree_of(self, fitted.network, fitted.spread, visited_by)

    def apply(self, X: Any) -> NDArray[np.int64]:
        """The leaf of `tree_` that each row reaches, as a node number."""
        self._model("apply")
        return self.tree_.apply(self._rows(X))

    def decision_path(self, X: Any) -> sparse.csr_array:
        """The nodes of `tree_` that each row passes: a CSR matrix (n, n_nodes)."""
        self._model("decision_path")
        return self.tree_.decision_path(self._rows(X))

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Each feature's |weight| × spread, summed over the nodes by the rows that reach them; they sum to 1."""
        check_is_fitted(self)
        fitted = self.__dict__["fitted_"]
        if not isinstance(fitted, FittedNetwork):  # several labels
            return np.mean([member.feature_importances_ for member in fitted.estimators], axis=0)
        depth = fitted.network.depth
        if depth <= MAX_DEPTH:
            return column_shares(self, column_importances(self.tree_, fitted.spread))
        patterns, order = np.unique(unpack_codes(fitted.patterns.codes, depth), axis=0, return_index=True)
        network: Any = fitted.network
        tree = network_to_tree(network, patterns=patterns, **self._tree_settings())
        counts = node_totals(tree.children, fitted.patterns.counts[order].astype(np.float64))
        tree = replace(tree, n_samples=counts, missing=missing_of(self), columns=columns_of(self))
        return column_shares(self, column_importances(tree, fitted.spread))


def tree_of(estimator: Any, network: Any, spread: NDArray[np.float64], visited_by: Any = None) -> ObliqueTree:
    """A fitted network of an estimator as a tree; of a deep one the branches that some rows reach."""
    tree = network_to_tree(
        network,
        feature_names=tree_features(estimator),
        visited_by=None if visited_by is None else estimator._rows(visited_by),
        max_depth=MAX_DEPTH,
        **estimator._tree_settings(),
    )
    observed = estimator.fitted_.reading.observed
    return replace(
        tree, spreads=spread, observed=observed, missing=missing_of(estimator), columns=columns_of(estimator)
    )


def tree_features(estimator: Any) -> list[str] | None:
    """Names of the features that a tree reads: the raw ones, and indicators of missing values."""
    names = feature_names(estimator)
    missing = missing_of(estimator)
    return names if missing is None else missing.names(names)


def columns_of(estimator: Any) -> TableEncoder | None:
    """The encoding of the columns of a data frame that an estimator was fitted to; None for numbers."""
    return vars(estimator).get("encoder_")


def missing_of(estimator: Any) -> MissingValues | None:
    """How a fitted estimator fills missing values; None where it does not."""
    return getattr(estimator, "missing_values_", None)
