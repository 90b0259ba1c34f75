"""Smaller trees with the same outputs: each rule of pruning and what it keeps exact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from treelu.tree.oblique_tree import ObliqueTree

_MARGIN = 1e-9  # a region narrower than this, in units of the bounds, counts as empty
_OPTIONS: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def prune(tree: ObliqueTree, X: Any = None, *, bounds: Any = None, unvisited: bool = False) -> ObliqueTree:
    """A smaller tree with the same outputs.

    Three rules, each with what it keeps. The new tree's ``notes`` say which were at work.

    - *Unreachable branches* are left out: those that no row within the bounds can come to, decided by linear
      programmes. Outputs stay exact for all rows within the bounds (a region that is narrower than 1e-9 of the
      bounds, or of the features' spreads where there are none, and holds no row of X counts as empty).
    - *Equal siblings*: two leaves of one node with the same outputs become one. Exact for all rows.
    - *Unvisited branches*, on request: those that no row of X comes to. Exact on the rows of X and on all that
      follow the branches they take.

    A node that keeps one branch only is left out, and the branch takes its place.

    Parameters
    ----------
    tree : ObliqueTree
    X : array, DataFrame or sparse matrix of shape (n_rows, n_features), optional
        Rows whose range gives the bounds, unless these are given, and whose branches stay.
    bounds : pair (low, high), optional
        Each a number or an array of shape (n_features,); may be infinite. None: the range of X, or no bounds at
        all without X.
    unvisited : bool
        Leave out all branches that no row of X comes to.

    Returns
    -------
    ObliqueTree

    Examples
    --------
    >>> tree = ObliqueTree([[1.0], [1.0]], [0.0, -5.0], [[2, 1], [3, 4]], [[0.0], [1.0], [2.0]])
    >>> small = prune(tree, bounds=(-1, 1))
    >>> small
    ObliqueTree(2 leaves, depth 1, 1 features, regression)
    >>> small.notes
    ('1 branch that no row within the given bounds reaches left out: exact within these bounds',)
    """
    if unvisited and X is None:
        raise ValueError("X must be given for unvisited=True: the rows whose branches stay")
    visited = None
    if X is not None:
        rows = tree.read_rows(X)
        if rows.shape[0] == 0:
            raise ValueError("X must have at least one row, got none")
        if unvisited or bounds is None:
            visited = np.asarray(tree.decision_path(rows).sum(axis=0)).ravel() > 0
    if unvisited:
        assert visited is not None
        return _without(tree, visited, "that no given row visits", "exact on rows that follow the branches of these")
    if X is not None and bounds is None:
        low, high, whose = *_range(rows), "the range of the given rows"
    else:
        low, high = _check_bounds(bounds, tree.n_features)
        whose = "the given bounds"
    reachable = reachable_nodes(tree, low, high, visited)
    everywhere = not np.isfinite(low).any() and not np.isfinite(high).any()
    if everywhere:
        return _without(tree, reachable, "that no row reaches", "exact everywhere")
    return _without(tree, reachable, f"that no row within {whose} reaches", "exact within these bounds")


def _range(rows: Any) -> tuple[np.ndarray, np.ndarray]:
    low, high = rows.min(axis=0), rows.max(axis=0)
    if not isinstance(rows, np.ndarray):
        low, high = low.toarray().ravel(), high.toarray().ravel()
    return low.astype(np.float64), high.astype(np.float64)


def _check_bounds(bounds: Any, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Bounds as two float arrays of shape (n_features,)."""
    low, high = (-np.inf, np.inf) if bounds is None else bounds
    sides = []
    for name, side in (("low", low), ("high", high)):
        array = np.asarray(side, dtype=np.float64)
        if array.shape not in ((), (n_features,)):
            raise ValueError(f"bounds: {name} must be a number or have shape ({n_features},), got {array.shape}")
        sides.append(np.broadcast_to(array, (n_features,)))
    if not (sides[0] <= sides[1]).all():
        feature = int(np.flatnonzero(~(sides[0] <= sides[1]))[0])
        raise ValueError(
            f"bounds: low must not exceed high, got {sides[0][feature]} and {sides[1][feature]} for feature {feature}"
        )
    return sides[0], sides[1]


# Which nodes can be reached


def reachable_nodes(
    tree: ObliqueTree, low: np.ndarray, high: np.ndarray, visited: np.ndarray | None = None
) -> np.ndarray:
    """Which nodes some row with ``low <= x <= high`` can come to: bool (n_nodes,).

    Goes from the root down and only through nodes that can be reached. Each carries a point of its region, so
    that one of its two branches is known to be reachable; the other takes a linear programme, unless
    ``visited`` (bool, n_nodes) says so or the bounds alone decide.
    """
    box = _Box(tree, low, high)
    reachable = np.zeros(tree.n_nodes, dtype=bool)
    reachable[0] = True
    stack: list[tuple[int, list[tuple[int, int]], np.ndarray | None]] = [(0, [], box.centre())]
    while stack:
        node, path, point = stack.pop()
        if node >= tree.n_splits:
            continue
        for side, child, child_point in box.branches(node, path, point, visited):
            reachable[child] = True
            stack.append((child, [*path, (node, side)], child_point))
    return reachable


class _Box:
    """The bounds as a box, and the nodes' tests on it as linear constraints of unit length."""

    def __init__(self, tree: ObliqueTree, low: np.ndarray, high: np.ndarray) -> None:
        self.tree = tree
        finite = np.isfinite(low) & np.isfinite(high)
        # x = origin + width * y, so that margins are in units of the bounds, or of the features where there are none
        self.width = np.where(finite, high - low, 1.0 if finite.all() else _units(tree))
        self.origin = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0.0))
        width = np.where(self.width > 0, self.width, 1.0)
        self.low, self.high = (low - self.origin) / width, (high - self.origin) / width

    def centre(self) -> np.ndarray:
        """A point of the box: a bounded side starts at 0."""
        bounded = np.isfinite(self.low) & np.isfinite(self.high)
        return np.where(bounded, self.high, 0.0) / 2

    def test(self, node: int) -> tuple[np.ndarray, float]:
        """A node's weights and bias on the box, scaled to unit length."""
        weights = self.tree.node_weights(node)
        bias = float(self.tree.biases[node] + weights @ self.origin)
        weights = weights * self.width
        length = float(np.linalg.norm(weights))
        return (weights / length, bias / length) if length > 0 else (weights, bias)

    def branches(
        self, node: int, path: list[tuple[int, int]], point: np.ndarray | None, visited: np.ndarray | None
    ) -> Iterator[tuple[int, int, np.ndarray | None]]:
        """The branches of a reachable node that can be reached: side, child, and a point there where known."""
        weights, bias = self.test(node)
        here = None if point is None else int(weights @ point + bias >= 0)
        possible = self._possible(weights, bias)
        for side, child in enumerate(self.tree.children[node].tolist()):
            if visited is not None and visited[child]:
                yield side, child, point if here == side else None
            elif not possible[side]:
                continue
            elif here == side:
                yield side, child, point
            else:
                inside, child_point = self._solve([*path, (node, side)])
                if inside:
                    yield side, child, child_point

    def _possible(self, weights: np.ndarray, bias: float) -> tuple[bool, bool]:
        """Whether the box alone leaves room on the left and on the right of a test."""
        used = weights != 0
        ends = np.stack([self.low[used] * weights[used], self.high[used] * weights[used]])
        smallest, largest = ends.min(axis=0).sum() + bias, ends.max(axis=0).sum() + bias
        # Sums round; within that the linear programme decides.
        slack = 1e-12 * (1 + abs(bias)) if used.any() else 0.0
        return bool(smallest < slack), bool(largest >= -slack)

    def _solve(self, path: list[tuple[int, int]]) -> tuple[bool, np.ndarray | None]:
        """Whether all decisions of a path can be taken within the box, and a point where they are.

        First the point with the largest distance to all hyperplanes of the path, which may be negative. If it is
        near zero the region has no inside, but may still hold points: going right includes the hyperplane,
        going left does not. So then only the left turns have to keep a distance.
        """
        tests = [self.test(node) for node, _ in path]
        signs = np.array([1.0 if side else -1.0 for _, side in path])
        rows = -signs[:, None] * np.array([weights for weights, _ in tests])
        limits = signs * np.array([bias for _, bias in tests])
        distance, point = self._farthest(rows, limits, np.ones(len(path)), None)
        if abs(distance) <= _MARGIN:
            distance, point = self._farthest(rows, limits, (signs < 0).astype(float), 0.0)
        return distance > _MARGIN, point

    def _farthest(
        self, rows: np.ndarray, limits: np.ndarray, keeps: np.ndarray, least: float | None
    ) -> tuple[float, np.ndarray | None]:
        """Maximise t <= 1 with rows @ y + keeps * t <= limits in the box; (−inf, None) if there is no such y."""
        n_features = rows.shape[1]
        cost = np.zeros(n_features + 1)
        cost[-1] = -1.0
        low, high = np.append(self.low, -np.inf if least is None else least), np.append(self.high, 1.0)
        bounds: Any = np.column_stack([low, high])
        result = linprog(
            cost, A_ub=np.column_stack([rows, keeps]), b_ub=limits, bounds=bounds, method="highs", options=_OPTIONS
        )
        if result.status == 2:  # infeasible
            return -np.inf, None
        if result.x is None:
            raise RuntimeError(f"the linear programme of a branch failed: {result.message}")
        return float(result.x[-1]), result.x[:-1]


def _units(tree: ObliqueTree) -> np.ndarray:
    """A size of each feature (n_features,): its spread where the tree knows it, else one that makes weights alike.

    Weights times these sizes have the geometric mean 1 in each column, up to a factor of each node.
    """
    if tree.spreads is not None:
        return np.where(tree.spreads > 0, tree.spreads, 1.0)
    entries = sparse.coo_array(tree.weights)
    nodes, features = (place[entries.data != 0] for place in entries.coords)
    sizes = np.log(np.abs(entries.data[entries.data != 0]))
    column = np.zeros(tree.n_features)
    for _ in range(10):
        row = -_mean(nodes, sizes + column[features], tree.n_splits)
        column = -_mean(features, sizes + row[nodes], tree.n_features)
    return np.exp(column)


def _mean(places: np.ndarray, values: np.ndarray, n: int) -> np.ndarray:
    """The mean of the values of each place (n,); 0 where there are none."""
    return np.bincount(places, values, minlength=n) / np.maximum(1, np.bincount(places, minlength=n))


# The tree that is left


def _without(tree: ObliqueTree, kept: np.ndarray, whose: str, exact: str) -> ObliqueTree:
    """The tree with only the ``kept`` nodes (bool, n_nodes), single branches moved up and equal siblings joined."""
    stands_for = np.arange(tree.n_nodes)  # the node that takes a node's place
    counts = None if tree.n_samples is None else tree.n_samples.copy()
    n_cut = n_joined = 0
    for node in range(tree.n_splits - 1, -1, -1):  # children before parents
        if not kept[node]:
            continue
        left, right = tree.children[node]
        if kept[left] and kept[right]:
            left, right = stands_for[left], stands_for[right]
            if not _equal_leaves(tree, left, right):
                continue
            n_joined += 1
            stands_for[node] = left
        else:
            n_cut += 1
            stands_for[node] = stands_for[left if kept[left] else right]
        if counts is not None and tree.n_samples is not None:
            counts[stands_for[node]] = tree.n_samples[node]
    small = rebuilt(tree, stands_for, counts)
    notes = list(tree.notes)
    if n_cut:
        notes.append(f"{n_cut} branch{'' if n_cut == 1 else 'es'} {whose} left out: {exact}")
    if n_joined:
        notes.append(f"{n_joined} pair{'' if n_joined == 1 else 's'} of equal siblings joined: exact everywhere")
    return replace(small, notes=tuple(notes))


def _equal_leaves(tree: ObliqueTree, left: int, right: int) -> bool:
    if left < tree.n_splits or right < tree.n_splits:
        return False
    first, second = left - tree.n_splits, right - tree.n_splits
    if not np.array_equal(tree.values[first], tree.values[second]):
        return False
    return tree.leaf_weights is None or np.array_equal(tree.leaf_weights[first], tree.leaf_weights[second])


def rebuilt(tree: ObliqueTree, stands_for: np.ndarray, counts: np.ndarray | None = None) -> ObliqueTree:
    """The nodes that can still be reached when each child is replaced by the node that stands for it."""
    found, stack = [], [int(stands_for[0])]
    while stack:
        node = stack.pop()
        found.append(node)
        if node < tree.n_splits:
            stack += stands_for[tree.children[node]].tolist()
    nodes = np.sort(found)
    splits, leaves = nodes[nodes < tree.n_splits], nodes[nodes >= tree.n_splits] - tree.n_splits
    number = np.zeros(tree.n_nodes, dtype=np.int64)
    number[nodes] = np.arange(len(nodes))
    return replace(
        tree,
        weights=tree.weights[splits],
        biases=tree.biases[splits],
        children=number[stands_for[tree.children[splits]]],
        values=tree.values[leaves],
        leaf_weights=None if tree.leaf_weights is None else tree.leaf_weights[leaves],
        n_samples=None if counts is None else counts[nodes],
    )
