"""Tree alternating optimisation: the nodes of a tree refitted in turn, so that its training loss never rises."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from treelu.data.scaling import Scaling
from treelu.data.spread import Matrix, spread
from treelu.tree import ObliqueTree
from treelu.tree.prune import prune
from treelu.tree.rows import linear_form


@dataclass(frozen=True)
class Problem:
    """The rows to fit.

    Attributes
    ----------
    X : array or CSR array of shape (n_rows, n_features)
    targets : array of shape (n_rows, n_targets)
        One-hot classes, or real values.
    sample_weight : array of shape (n_rows,)
        Positive weights.
    hard : bool
        Whether a leaf predicts one class instead of the mean of its targets. Half the squared distance
        between targets and prediction is then the 0/1 loss.
    """

    X: Matrix
    targets: NDArray[np.float64]
    sample_weight: NDArray[np.float64]
    hard: bool

    def loss(self, rows: NDArray[np.int64], predictions: NDArray[np.float64]) -> NDArray[np.float64]:
        """The loss of one prediction for each of some rows."""
        return 0.5 * ((self.targets[rows] - predictions) ** 2).sum(axis=1)


class Alternation:
    """A tree while it is being optimised, with the side that every row would take at every node.

    Parameters
    ----------
    tree : ObliqueTree
        Where to start; its leaf values are not used.
    problem : Problem
    C : float
        Inverse strength of the ℓ1 penalty of each node's logistic regression.
    seed : int
        For the order in which liblinear visits the features.

    Examples
    --------
    >>> import numpy as np
    >>> from treelu.tree import ObliqueTree
    >>> X = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 2.0]])
    >>> problem = Problem(X, np.eye(2)[[0, 0, 1, 1]], np.ones(4), hard=True)
    >>> start = ObliqueTree([[0.0, 1.0]], [-1.5], [[1, 2]], np.eye(2))  # along the second axis
    >>> alternation = Alternation(start, problem, C=100.0, seed=0)
    >>> alternation.loss(), alternation.sweep(), alternation.loss()
    (0.25, True, 0.0)
    """

    def __init__(self, tree: ObliqueTree, problem: Problem, *, C: float, seed: int) -> None:
        self.tree, self.problem, self.C, self.seed = tree, problem, C, seed
        self.children, self.depths = tree.children, tree.node_depths()
        self.weights = [tree.node_weights(node) for node in range(tree.n_splits)]
        self.biases = tree.biases.copy()
        self.scaling = _scaling(problem.X, problem.sample_weight)
        self.goes_right = np.empty((tree.n_splits, problem.X.shape[0]), dtype=bool)
        for node, (weights, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            self.goes_right[node] = self._sides(weights, bias)
        self.predictions: NDArray[np.float64] | None = None
        self._refit_leaves()

    def loss(self) -> float:
        """The weighted mean loss over the training rows."""
        rows = np.arange(self.problem.X.shape[0])
        loss = self.problem.loss(rows, self._predict_from(rows, np.zeros_like(rows)))
        return float(np.average(loss, weights=self.problem.sample_weight))

    def sweep(self) -> bool:
        """Refit the nodes of each depth, deepest first, then the leaves; whether any node changed.

        Nodes of one depth do not see the same rows, and what a node does changes only the depths below it.
        """
        places = self._places()
        changed = False
        for depth in range(len(places) - 1, -1, -1):
            rows = np.flatnonzero(places[depth] < self.tree.n_splits)
            nodes = places[depth][rows]
            left, right = (
                self.problem.loss(rows, self._predict_from(rows, self.children[nodes, side])) for side in (0, 1)
            )
            gain = left - right
            # The rows that a node should care about: those whose loss depends on the side they take.
            care = np.flatnonzero(gain)
            care = care[np.argsort(nodes[care], kind="stable")]
            present, starts = np.unique(nodes[care], return_index=True)
            for node, own in zip(present, np.split(care, starts[1:]), strict=False):
                changed |= self._refit_node(int(node), rows[own], gain[own])
        self._refit_leaves()
        return changed

    def finish(self, **describe: Any) -> ObliqueTree:
        """The tree without dead branches; leaf values are the weighted means of the targets.

        ``describe`` is what else the tree takes: link, classes, feature names.
        """
        matrix = np.array(self.weights).reshape(self.tree.n_splits, self.tree.n_features)
        tree = ObliqueTree(
            sparse.csr_array(matrix) if sparse.issparse(self.problem.X) else matrix,
            self.biases,
            self.children,
            self._leaf_means()[1],
            **describe,
        )
        tree = prune(tree.with_counts(self.problem.X, self.problem.sample_weight), self.problem.X, unvisited=True)
        return replace(tree, notes=())  # the training rows are not rows given to prune a tree that was finished

    def _places(self) -> list[NDArray[np.int64]]:
        """The node of each row at each depth; a row that has met its leaf stays there."""
        rows = np.arange(self.problem.X.shape[0])
        places = [np.zeros(len(rows), dtype=np.int64)]
        for _ in range(int(self.depths.max()) - 1):
            places.append(self._step(rows, places[-1]))
        return places

    def _step(self, rows: NDArray[np.int64], nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        moved = nodes.copy()
        inner = nodes < self.tree.n_splits
        side = self.goes_right[nodes[inner], rows[inner]].astype(np.int64)
        moved[inner] = self.children[nodes[inner], side]
        return moved

    def _leaves_from(self, rows: NDArray[np.int64], nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        while (nodes < self.tree.n_splits).any():
            nodes = self._step(rows, nodes)
        return nodes

    def _predict_from(self, rows: NDArray[np.int64], nodes: NDArray[np.int64]) -> NDArray[np.float64]:
        assert self.predictions is not None
        return self.predictions[self._leaves_from(rows, nodes) - self.tree.n_splits]

    def _refit_leaves(self) -> None:
        """The best prediction of each leaf for its rows; one without rows keeps its own, or has the overall one."""
        counts, means = self._leaf_means()
        best = np.eye(means.shape[1])[means.argmax(axis=1)] if self.problem.hard else means
        reached = counts > 0
        self.predictions = best if self.predictions is None else np.where(reached[:, None], best, self.predictions)

    def _leaf_means(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The weight of each leaf's rows and the mean of their targets; the overall mean where there are none."""
        rows = np.arange(self.problem.X.shape[0])
        leaves = self._leaves_from(rows, np.zeros_like(rows)) - self.tree.n_splits
        weight, n_leaves = self.problem.sample_weight, self.tree.n_leaves
        counts = np.bincount(leaves, weight, n_leaves).astype(np.float64)
        sums = np.column_stack([np.bincount(leaves, weight * t, n_leaves) for t in self.problem.targets.T])
        sums[counts == 0] = sums.sum(axis=0) / counts.sum()
        return counts, sums / np.where(counts > 0, counts, 1.0)[:, None]

    def _refit_node(self, node: int, rows: NDArray[np.int64], gain: NDArray[np.float64]) -> bool:
        """Take the refitted node if it does not raise the loss of the rows that it can change."""
        wanted = gain > 0  # the right side loses less
        cost = np.abs(gain) * self.problem.sample_weight[rows]
        before = cost[self.goes_right[node, rows] != wanted].sum()
        if wanted.all() or not wanted.any():
            if before == 0:
                return False
            weights, bias = np.zeros(self.tree.n_features), 1.0 if wanted[0] else -1.0
        else:
            weights, bias = self._logistic_regression(rows, wanted, cost)
        goes_right = self._sides(weights, bias)
        after = cost[goes_right[rows] != wanted].sum()
        if after > before or (bias == self.biases[node] and (weights == self.weights[node]).all()):
            return False
        self.weights[node], self.biases[node], self.goes_right[node] = weights, bias, goes_right
        return True

    def _logistic_regression(
        self, rows: NDArray[np.int64], wanted: NDArray[np.bool_], cost: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], float]:
        # liblinear penalises the intercept too; on a longer scale that matters little.
        settings = {"solver": "liblinear", "intercept_scaling": 10, "tol": 1e-3, "max_iter": 200}
        model = LogisticRegression(C=self.C, l1_ratio=1, random_state=self.seed, **settings)
        with warnings.catch_warnings():
            # A solution short of the optimum is as good a proposal: what counts is the loss it leaves.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(self.scaling.transform(self.problem.X[rows]), wanted, sample_weight=cost)
        raw = model.coef_[0] / self.scaling.scale
        return raw, float(model.intercept_[0] - raw @ self.scaling.center)

    def _sides(self, weights: NDArray[np.float64], bias: float) -> NDArray[np.bool_]:
        X = self.problem.X
        return linear_form(X, np.arange(X.shape[0]), weights) + bias >= 0  # as the tree adds, to the last bit


def _scaling(X: Matrix, sample_weight: NDArray[np.float64]) -> Scaling:
    """Weighted mean and deviation of dense columns that are not bits; sparse columns and bits stay as they are."""
    if sparse.issparse(X):
        return Scaling.identity(X.shape[1])
    bits = ((X == 0) | (X == 1)).all(axis=0)
    center, deviation = np.average(X, axis=0, weights=sample_weight), spread(X, sample_weight)
    constant = deviation <= 1e-12 * np.abs(center)
    return Scaling(np.where(bits, 0.0, center), np.where(bits | constant, 1.0, deviation))
