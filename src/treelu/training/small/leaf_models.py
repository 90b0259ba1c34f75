"""Linear functions in the leaves of a tree: softmax, logistic or ridge regression, shrunk along the tree.

    score_k(x) = b_lk + w_lk·x      in leaf l
    w_l = w + Σ δ_v                 over the nodes v on the path to l, below the root

The loss is the sum of the rows' weighted log-losses, or of half their squared errors, plus

    ½ ridge |w|² + ½ change Σ_v (|δ_v|² + OFFSET c_v²)

with c_v the changes of the intercept, whose value at the root is free. So a tree of one leaf is a logistic or ridge
regression, and a split must earn its change of slope. With slopes that are shared, all δ are 0 and leaves differ in
their intercept. Features have mean 0 and standard deviation 1; the last column of X is 1.

The score rises with some features, and falls with others, if shared slopes have the signs of these and intercepts are
in order (`monotone`): the former are constraints of the minimum, the latter are clipped after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dposv
from scipy.optimize import minimize

from treelu.training.small.monotone import ordered_values
from treelu.training.small.rows import TrainingRows
from treelu.training.small.soft_tree import leaves_below
from treelu.tree.terms import Group, members, strongest

Floats = NDArray[np.float64]
NO_SPLITS = np.zeros((0, 2), np.int64)  # the children of a tree of one leaf
OFFSET = 0.1  # the penalty of a change of the intercept, relative to that of a slope
NEWTON_STEPS = 30
TOLERANCE = 1e-5  # of a Newton step's decrease of the loss, relative to the weight of the rows
MOST_STEPS = 100  # of L-BFGS
LEAST = 1e-9  # added to the curvature's diagonal
SMALLEST = 1e-9  # of a penalty
EXCHANGES = 10  # rounds in which all slopes of the wrong sign change sides, before they do so one by one


class LeafRows(NamedTuple):
    """Rows with the leaf that each is in.

    Attributes
    ----------
    X : float64 array of shape (n, p + 1)
        Scaled features, and a 1.
    target : float64 array of shape (n, K)
        Class memberships (or their probabilities), or values.
    weight : float64 array of shape (n,)
    leaf : int array of shape (n,)
        From 0.
    children : int array of shape (S, 2)
        Of the tree.
    is_classifier : bool
    signs : float64 array of shape (p,), optional
        1 where slopes must not be negative, −1 where they must not be positive, 0 elsewhere; there is one score then,
        and leaves share their slopes.
    direction : float64 array of shape (S,), optional
        Of the splits, as of `ordered_values`, for the intercepts.
    """

    X: Floats
    target: Floats
    weight: Floats
    leaf: NDArray[np.int64]
    children: NDArray[np.int64]
    is_classifier: bool
    signs: Floats | None = None
    direction: Floats | None = None

    @classmethod
    def in_one_leaf(cls, rows: TrainingRows, columns: Any = slice(None)) -> LeafRows:
        """All rows in the tree without splits, with some columns of their table."""
        X, target, weight = (array.astype(np.float64) for array in (rows.X[:, columns], rows.target, rows.weight))
        return cls(X, target, weight, np.zeros(len(X), np.int64), NO_SPLITS, rows.is_classifier)

    @property
    def n_leaves(self) -> int:
        """Leaves of the tree."""
        return len(self.children) + 1

    @property
    def n_scores(self) -> int:
        """Scores of a leaf: one for two classes, otherwise one for each class or value."""
        return 1 if self.is_logistic else self.target.shape[1]

    @property
    def is_logistic(self) -> bool:
        """Whether there are two classes, and one score."""
        return self.is_classifier and self.target.shape[1] == 2


class Ridge(NamedTuple):
    """The penalties of the slopes at the root, and of changes of slopes below it."""

    root: float
    change: float = 1.0


@dataclass(frozen=True)
class Hierarchy:
    """How much leaves have in common: the number of nodes above both, the root left out."""

    common: Floats  # (L, L)

    @classmethod
    def of(cls, children: NDArray[np.int64]) -> Hierarchy:
        """Of a tree's leaves."""
        below = leaves_below(children)[1:]
        return cls(below.T @ below)

    @cached_property
    def free(self) -> Floats:
        """The precision of changes below the root that leaves the mean of all leaves free."""
        if len(self.common) == 1:
            return np.zeros((1, 1))
        inverse = np.linalg.inv(self.common)
        side = inverse.sum(axis=1, keepdims=True)
        return inverse - side @ side.T / side.sum()

    def precisions(self, ridge: Ridge) -> tuple[Floats, Floats]:
        """Matrices Q, R (L, L) such that the penalty of slopes w and intercepts b of the leaves is ½ wᵀQw + ½ bᵀRb.

        Q is an inverse covariance: leaves have in common the changes at the nodes above both.

        Examples
        --------
        >>> Q, R = Hierarchy.of(np.array([[1, 2]])).precisions(Ridge(root=1.0, change=2.0))
        >>> Q.round(2).tolist(), R.round(2).tolist()
        ([[1.2, -0.8], [-0.8, 1.2]], [[0.1, -0.1], [-0.1, 0.1]])
        """
        root, change = max(ridge.root, SMALLEST), max(ridge.change, SMALLEST)
        if len(self.common) == 1:
            return np.full((1, 1), root), self.free
        slopes: Any = np.linalg.inv(self.common / change + 1 / root)
        return slopes, OFFSET * change * self.free


class LeafProblem:
    """The parameters of the leaves as one array (P, K) for the solver.

    Parameters
    ----------
    rows : LeafRows
    own : bool
        Whether each leaf has slopes of its own; otherwise all share them.
    """

    def __init__(self, rows: LeafRows, own: bool, hierarchy: Hierarchy | None = None) -> None:
        self.hierarchy = hierarchy or Hierarchy.of(rows.children)
        self.rows, self.own = rows, own and rows.n_leaves > 1
        self.p = rows.X.shape[1] - 1
        n_leaves = rows.n_leaves
        order = np.argsort(rows.leaf, kind="stable") if self.own else np.arange(len(rows.X))
        self.weight, self.target = rows.weight[order][:, None], rows.target[order]
        if rows.is_logistic:
            self.target = self.target[:, 1:]
        X = rows.X[order]
        if self.own:  # parameters leaf by leaf, each with its intercept last
            ends = np.searchsorted(rows.leaf[order], np.arange(n_leaves + 1))
            width = self.p + 1
            self.blocks = [
                (
                    slice(ends[leaf], ends[leaf + 1]),
                    slice(leaf * width, (leaf + 1) * width),
                    X[ends[leaf] : ends[leaf + 1]],
                )
                for leaf in range(n_leaves)
            ]
            self.size = n_leaves * width
        else:
            table = np.hstack([X[:, :-1], rows.leaf[order, None] == np.arange(n_leaves)])
            self.blocks = [(slice(None), slice(None), table)]
            self.size = self.p + n_leaves
        self.signs = None if rows.signs is None else np.append(rows.signs, np.zeros(n_leaves))

    def penalty(self, ridge: Ridge) -> Floats:
        """The penalty's matrix (P, P)."""
        Q, R = self.hierarchy.precisions(ridge)
        total = LEAST * np.eye(self.size)
        n_leaves, p = self.rows.n_leaves, self.p
        if self.own:
            by_feature = np.einsum("ajbj->jab", total.reshape(n_leaves, p + 1, n_leaves, p + 1))
            by_feature[:p] += Q
            by_feature[p] += R
        else:
            total[np.arange(p), np.arange(p)] += ridge.root
            total[p:, p:] += R
        return total

    def scores(self, theta: Floats) -> Floats:
        """Scores (n, K) of the rows, in the order of the blocks."""
        return np.concatenate([table @ theta[columns] for _, columns, table in self.blocks])

    def transposed(self, residual: Floats) -> Floats:
        """Aᵀ residual (P, K), with A the design matrix of the rows."""
        return np.concatenate([table.T @ residual[rows] for rows, _, table in self.blocks])

    def curvature(self, weight: Floats) -> Floats:
        """Aᵀ diag(weight) A (P, P), of weights (n, 1)."""
        total = np.zeros((self.size, self.size))
        for rows, columns, table in self.blocks:
            total[columns, columns] = table.T @ (weight[rows] * table)
        return total

    def start(self) -> Floats:
        """Parameters with slopes of 0, and intercepts of the class frequencies or means of all rows."""
        theta = np.zeros((self.size, self.target.shape[1]))
        mean = np.average(self.target, axis=0, weights=self.weight[:, 0])
        if self.rows.is_classifier:
            mean = np.clip(mean, 1e-6, 1 - 1e-6)
            mean = np.log(mean / (1 - mean)) if self.rows.is_logistic else np.log(mean)
        theta[self.intercepts] = mean
        return theta

    @property
    def intercepts(self) -> NDArray[np.int64]:
        """The positions of the leaves' intercepts."""
        if self.own:
            return np.arange(self.rows.n_leaves) * (self.p + 1) + self.p
        return np.arange(self.p, self.size)

    @property
    def slopes(self) -> NDArray[np.int64]:
        """The positions of all slopes."""
        return np.setdiff1d(np.arange(self.size), self.intercepts)

    def of_feature(self, feature: int) -> NDArray[np.int64]:
        """The positions of a feature's slopes."""
        return np.arange(self.rows.n_leaves) * (self.p + 1) + feature if self.own else np.array([feature])

    def models(self, theta: Floats) -> Floats:
        """Slopes and intercept of each score in each leaf: (L, K, p + 1)."""
        n_leaves = self.rows.n_leaves
        if self.own:
            return theta.reshape(n_leaves, self.p + 1, -1).transpose(0, 2, 1).copy()
        slopes = np.broadcast_to(theta[: self.p].T, (n_leaves, theta.shape[1], self.p))
        return np.concatenate([slopes, self.in_order(theta[self.p :])[:, :, None]], axis=2)

    def in_order(self, intercepts: Floats) -> Floats:
        """Intercepts (L, K), clipped where splits have a direction."""
        children, direction = self.rows.children, self.rows.direction
        if direction is None:
            return intercepts
        mass = np.bincount(self.rows.leaf, self.rows.weight, self.rows.n_leaves).astype(np.float64)
        return ordered_values(children, direction, intercepts[:, 0], mass)[:, None]

    def solve(self, ridge: Ridge, theta: Floats | None = None) -> Floats:
        """The parameters (P, K) of least loss, from a start."""
        theta = self.start() if theta is None else theta
        penalty = self.penalty(ridge)
        if not self.rows.is_classifier:
            curvature, right = self.curvature(self.weight) + penalty, self.transposed(self.weight * self.target)
            return solve_signed(curvature, right, self.signs)
        return self._newton(theta, penalty) if self.rows.is_logistic else self._lbfgs(theta, penalty)

    def _newton(self, theta: Floats, penalty: Floats) -> Floats:
        """Newton's method with steps halved until the loss falls."""

        def loss(theta: Floats, z: Floats) -> float:
            rows = (np.logaddexp(0, z) - self.target * z) * self.weight
            return float(rows.sum() + 0.5 * (theta * (penalty @ theta)).sum())

        if self.signs is not None:
            theta = np.where(self.signs[:, None] * theta < 0, 0.0, theta)
        z = self.scores(theta)
        now, least = loss(theta, z), TOLERANCE * float(self.weight.sum())
        for _ in range(NEWTON_STEPS):
            probability = _expit(z)
            gradient = self.transposed(self.weight * (probability - self.target)) + penalty @ theta
            curvature = self.curvature(self.weight * probability * (1 - probability)) + penalty
            if self.signs is None:
                step = solve_positive(curvature, gradient)
            else:
                step = theta - solve_signed(curvature, curvature @ theta - gradient, self.signs)
            decrease, of_step, share = float((step * gradient).sum()), self.scores(step), 1.0
            while share > 1e-6 and (after := loss(theta - share * step, z - share * of_step)) > now:
                share /= 2
            theta, z, now = theta - share * step, z - share * of_step, min(now, after)
            if decrease < least:
                break
        return theta

    def _lbfgs(self, theta: Floats, penalty: Floats) -> Floats:
        """L-BFGS in coordinates in which Böhning's bound of the curvature is the identity."""
        root = np.linalg.cholesky(self.bound(penalty))
        inverse = solve_triangular(root, np.eye(self.size), lower=True)

        def loss(flat: Floats) -> tuple[float, Floats]:
            theta = inverse.T @ flat.reshape(self.size, -1)
            z = self.scores(theta)
            z -= z.max(axis=1, keepdims=True)
            exp = np.exp(z)
            total = exp.sum(axis=1, keepdims=True)
            by_penalty = penalty @ theta
            rows = self.weight[:, 0] * (np.log(total[:, 0]) * self.target.sum(axis=1) - (self.target * z).sum(axis=1))
            gradient = self.transposed(self.weight * (exp / total - self.target)) + by_penalty
            return float(rows.sum() + 0.5 * (theta * by_penalty).sum()), (inverse @ gradient).ravel()

        how: Any = {"jac": True, "method": "L-BFGS-B", "options": {"maxiter": MOST_STEPS, "ftol": 1e-8, "gtol": 1e-5}}
        best = minimize(loss, (root.T @ theta).ravel(), **how)
        return np.asarray(inverse.T @ best.x.reshape(self.size, -1))

    def bound(self, penalty: Floats) -> Floats:
        """An upper bound of the loss's curvature for each score, the same at all parameters."""
        share = 1.0 if not self.rows.is_classifier else 0.25 if self.rows.is_logistic else 0.5
        return self.curvature(share * self.weight) + penalty

    def importances(self, theta: Floats, inverse: Floats, group: Group = None) -> Floats:
        """By how much the loss would rise, to second order, without each of the terms: features (p,) or groups."""
        if group is not None:
            places = [np.concatenate([self.of_feature(j) for j in part.tolist()]) for part in members(group)]
            return np.array([(theta[at] * np.linalg.solve(inverse[np.ix_(at, at)], theta[at])).sum() for at in places])
        if not self.own:
            return np.asarray((theta[: self.p] ** 2).sum(axis=1) / np.diag(inverse)[: self.p])
        n_leaves, width = self.rows.n_leaves, self.p + 1
        blocks = np.einsum("ajbj->jab", inverse.reshape(n_leaves, width, n_leaves, width))[: self.p]
        slopes = theta.reshape(n_leaves, width, -1).transpose(1, 0, 2)[: self.p]
        return np.asarray((slopes * np.linalg.solve(blocks, slopes)).sum(axis=(1, 2)))

    def with_fewer(
        self, theta: Floats, ridge: Ridge, n_terms: int, group: Group = None
    ) -> tuple[NDArray[np.int64], LeafProblem, Floats]:
        """The features of the terms whose loss costs most, the problem with these, its parameters to second order."""
        inverse: Any = np.linalg.inv(self.bound(self.penalty(ridge)))
        kept = strongest(self.importances(theta, inverse, group), group, n_terms)
        signs = None if self.rows.signs is None else self.rows.signs[kept]
        rows = self.rows._replace(X=self.rows.X[:, [*kept, self.p]], signs=signs)
        part = LeafProblem(rows, self.own, self.hierarchy)
        stays = np.zeros(self.size, bool)
        stays[np.concatenate([*(self.of_feature(feature) for feature in kept.tolist()), self.intercepts])] = True
        correction = np.linalg.solve(inverse[np.ix_(~stays, ~stays)], theta[~stays])
        return kept, part, theta[stays] - inverse[np.ix_(stays, ~stays)] @ correction


def solve_positive(matrix: Floats, right: Floats) -> Floats:
    """The solution of a system with a symmetric positive matrix."""
    _, solution, info = dposv(matrix, right, lower=1)
    return np.asarray(solution if info == 0 else np.linalg.lstsq(matrix, right)[0])


def solve_signed(matrix: Floats, right: Floats, signs: Floats | None) -> Floats:
    """The minimum (P, 1) of ½ xᵀ matrix x − rightᵀ x with signs · x ≥ 0, by block principal pivoting.

    Parameters of the wrong sign are held at 0, and those that are held are let go where the loss falls on the right
    side. Murty's rule, one parameter at a time, makes it finite.

    Examples
    --------
    >>> matrix, right = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([[3.0], [0.0]])
    >>> solve_positive(matrix, right).ravel().round(9).tolist()
    [2.0, -1.0]
    >>> solve_signed(matrix, right, np.ones(2)).ravel().round(9).tolist()
    [1.5, 0.0]
    """
    if signs is None:
        return solve_positive(matrix, right)
    free, tolerance = np.ones(len(right), bool), 1e-12 * np.abs(right).max()
    for exchange in range(100 * len(right)):
        x = np.zeros_like(right)
        if free.any():
            x[free] = solve_positive(matrix[np.ix_(free, free)], right[free])
        wrong = signs * np.where(free, x[:, 0], (matrix @ x - right)[:, 0] + signs * tolerance) < 0
        if not wrong.any():
            break
        if exchange >= EXCHANGES:
            wrong[: np.flatnonzero(wrong)[-1]] = False
        free ^= wrong
    return np.where(signs[:, None] * x < 0, 0.0, x)


def _expit(z: Floats) -> Floats:
    """1 / (1 + exp(−z)) without overflow."""
    return 0.5 * (1 + np.tanh(0.5 * z))


def fitted_leaves(rows: LeafRows, ridge: Ridge, *, own: bool) -> Floats:
    """Slopes and intercept of each score in each leaf, (L, K, p + 1)."""
    problem = LeafProblem(rows, own)
    return problem.models(problem.solve(ridge))
