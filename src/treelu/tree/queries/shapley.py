"""Shares of a prediction: interventional Shapley values of a tree.

The value of a set S of features is the mean over background rows b of f(x in S, b elsewhere). Exact where the tree
uses few features: a node's score at all 2^u mixtures is a table of subset sums. Otherwise by permutations, each
forwards and backwards; the shares of each sum to f(x) − f(b).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import factorial
from typing import Any

import numpy as np

from treelu.tree.oblique_tree import ObliqueTree
from treelu.tree.queries.columns import ColumnFeatures
from treelu.tree.queries.goal import find_class
from treelu.tree.queries.words import count, html_text, number
from treelu.tree.rows import dense

MAX_EXACT = 14  # features that the tree uses: 2^14 mixtures of each row with each background row


@dataclass(frozen=True, eq=False)
class ShapValues:
    """Shares of predictions, under the names that `shap.Explanation` has for them.

    Attributes
    ----------
    values : array of shape (n_rows, n_features), or (n_rows, n_features, n_classes) for more than two classes
        Sum over the features: the row's prediction less the base value.
    base_values : array of shape (n_rows,) or (n_rows, n_classes)
        The mean prediction of the background.
    data : array of shape (n_rows, n_features)
    feature_names : list of str
    standard_errors : array like values, or None
        None: exact. Otherwise how far permutations leave each share uncertain.
    output_names : list of str
    """

    values: np.ndarray
    base_values: np.ndarray
    data: np.ndarray
    feature_names: list[str]
    standard_errors: np.ndarray | None
    output_names: list[str]

    def explanation(self) -> Any:
        """The same as a `shap.Explanation`, for shap's plots; needs the package shap."""
        import shap

        names = None if self.values.ndim == 2 else self.output_names
        return shap.Explanation(
            self.values, base_values=self.base_values, data=self.data, feature_names=self.feature_names,
            output_names=names,
        )  # fmt: skip

    def __str__(self) -> str:
        text = f"shares of {count(len(self.values), 'row')} over {count(self.values.shape[1], 'feature')}"
        if self.standard_errors is None:
            return f"{text}, exact"
        return f"{text}, by permutations, standard error at most {number(self.standard_errors.max(initial=0.0), 2)}"

    def _repr_html_(self) -> str:
        return html_text(str(self))


def shap_values(
    output: Outputs, X: Any, background: Any, *, max_exact: int, n_permutations: int, random_state: int
) -> ShapValues:
    """Shares of predictions; see :meth:`treelu.tree.ObliqueTree.shap_values`."""
    tree = output.tree
    rows, behind = (dense(tree.read_rows(rows, every_column=True)).astype(float) for rows in (X, background))
    if not len(behind):
        raise ValueError("background must have at least one row")
    if n_permutations < 2:
        raise ValueError(f"n_permutations must be at least 2, to state a standard error; got {n_permutations}")
    own = None if tree.columns is None else ColumnFeatures(tree.columns)
    names = [tree.feature_name(j) for j in range(tree.n_features)] if own is None else list(own.columns)
    features = tree.used_features()
    players = features if own is None else np.array([names.index(own.owners[j]) for j in features], dtype=np.int64)
    used = np.unique(players)  # features, or the columns of a data frame, all of whose features change together
    shape = (len(rows), len(names), len(output.names))
    values, errors = np.zeros(shape), np.zeros(shape)
    rng = np.random.default_rng(random_state)
    exact = len(used) <= max_exact
    for i, x in enumerate(rows):
        game = _Game(tree, output, features, x, behind, None if own is None else players[:, None] == used)
        if exact:
            values[i, used] = shapley_of_sets(game.all_sets())
        else:
            values[i, used], errors[i, used] = game.by_permutations(n_permutations, rng)
    base = np.broadcast_to(output.of(behind).mean(axis=0), (len(rows), len(output.names)))
    if output.single:
        values, errors, base = values[:, :, 0], errors[:, :, 0], base[:, 0]
    data = rows if own is None else np.array([list(own.values(row).values()) for row in rows], dtype=object)
    return ShapValues(values, np.array(base), data, names, None if exact else errors, output.names)


class Outputs:
    """The numbers whose shares are asked for."""

    def __init__(self, tree: ObliqueTree, target: Any, raw: bool) -> None:
        self.tree, self.raw = tree, raw
        self.sign = 1  # -1 for the first of two classes, whose score is that of the second, negated
        if tree.classes is None:
            if target is not None:
                raise ValueError("target names a class, and this tree predicts numbers; leave it out")
            self.chosen = list(range(tree.n_outputs))
            self.names = [f"output {k}" for k in self.chosen]
        elif raw and tree.link == "logistic":
            label = 1 if target is None else find_class(tree, target)
            self.chosen, self.sign = [0], 2 * label - 1
            self.names = [str(tree.classes[label])]
        elif raw:
            self.chosen = list(range(tree.n_outputs)) if target is None else [find_class(tree, target)]
            self.names = [str(tree.classes[k]) for k in self.chosen]
        else:
            every = [1] if len(tree.classes) == 2 else list(range(len(tree.classes)))
            self.chosen = every if target is None else [find_class(tree, target)]
            self.names = [str(tree.classes[k]) for k in self.chosen]
        self.single = len(self.chosen) == 1

    def link(self, outputs: np.ndarray) -> np.ndarray:
        """From leaf outputs (n, n_outputs) to the chosen numbers."""
        return self.sign * (outputs if self.raw else self.tree.link_outputs(outputs))[:, self.chosen]

    def of(self, X: np.ndarray) -> np.ndarray:
        """The chosen numbers of rows, by the tree's own routing."""
        outputs = self.tree.decision_function(X)
        return self.link(outputs if outputs.ndim == 2 else outputs[:, None])


class _Game:
    """One row against background rows."""

    def __init__(
        self,
        tree: ObliqueTree,
        output: Outputs,
        used: np.ndarray,
        x: np.ndarray,
        behind: np.ndarray,
        members: np.ndarray | None = None,  # (u, n_players): the player of each feature; None: each is one
    ) -> None:
        self.members = members
        self.n_players = len(used) if members is None else members.shape[1]
        self.tree, self.output, self.used, self.x, self.behind = tree, output, used, x, behind
        self.weights = dense(tree.weights[:, used])  # (n_splits, u)
        self.ends = output.of(np.vstack([behind, x]))  # what no mixture's rounding may change

    def _outputs(self, b: np.ndarray, sums: Any) -> np.ndarray:
        """The chosen numbers of mixtures of x and b; ``sums`` adds (k, u) steps up for each mixture: (k, n)."""
        step = self.x[self.used] - b[self.used]
        sums = self._by_player(sums)
        scores = sums(self.weights * step) + (self.tree.weights @ b + self.tree.biases)[:, None]
        leaves = route_scores(scores, self.tree.children) - self.tree.n_splits
        outputs = self.tree.values[leaves]
        if self.tree.leaf_weights is not None:
            outputs = outputs + self._linear(leaves, b, step, sums)
        return self.output.link(outputs)

    def _by_player(self, sums: Any) -> Any:
        """Sums over players from sums over features."""
        members = self.members
        return sums if members is None else lambda steps: sums(steps @ members)

    def _linear(self, leaves: np.ndarray, b: np.ndarray, step: np.ndarray, sums: Any) -> np.ndarray:
        assert self.tree.leaf_weights is not None
        result = np.zeros((len(leaves), self.tree.n_outputs))
        for leaf in np.unique(leaves):
            at = leaves == leaf
            weights = self.tree.leaf_weights[leaf]  # (n_outputs, n_features)
            result[at] = (sums(weights[:, self.used] * step) + (weights @ b)[:, None]).T[at]
        return result

    def all_sets(self) -> np.ndarray:
        """The value of each set of used features, of shape (2^u, n_outputs); bit j of its number is feature j."""
        total = np.zeros((1 << self.n_players, self.ends.shape[1]))
        for i, b in enumerate(self.behind):
            outputs = self._outputs(b, subset_sums)
            outputs[0], outputs[-1] = self.ends[i], self.ends[-1]
            total += outputs
        return total / len(self.behind)

    def by_permutations(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Shares and their standard errors from n pairs of permutations with each background row."""
        u, k = self.n_players, self.ends.shape[1]
        mean, variance = np.zeros((u, k)), np.zeros((u, k))
        for i, b in enumerate(self.behind):
            pairs = np.stack([self._permutation_pair(i, b, rng.permutation(u)) for _ in range(n)])
            mean += pairs.mean(axis=0)
            variance += pairs.var(axis=0, ddof=1) / n
        n_behind = len(self.behind)
        return mean / n_behind, np.sqrt(variance) / n_behind

    def _permutation_pair(self, i: int, b: np.ndarray, order: np.ndarray) -> np.ndarray:
        """The mean share of each feature in a permutation and its reverse."""
        shares = np.zeros((len(order), self.ends.shape[1]))
        for permutation in (order, order[::-1]):
            outputs = self._outputs(b, partial(_partial_sums, permutation=permutation))
            outputs[0], outputs[-1] = self.ends[i], self.ends[-1]
            shares[permutation] += np.diff(outputs, axis=0) / 2
        return shares


def _partial_sums(steps: np.ndarray, permutation: np.ndarray) -> np.ndarray:
    """Sums of the first 0, 1, …, u columns of a permutation."""
    return np.cumsum(np.pad(steps[:, permutation], ((0, 0), (1, 0))), axis=1)


def subset_sums(steps: np.ndarray) -> np.ndarray:
    """Sums over all subsets of the columns, of shape (k, 2^u): bit j of a column's number says that j is in.

    Examples
    --------
    >>> subset_sums(np.array([[1.0, 10.0]]))
    array([[ 0.,  1., 10., 11.]])
    """
    sums = np.zeros((len(steps), 1))
    for column in steps.T:
        sums = np.hstack([sums, sums + column[:, None]])
    return sums


def route_scores(scores: np.ndarray, children: np.ndarray) -> np.ndarray:
    """The node number of the leaf of each column of node scores (n_splits, n)."""
    n_splits = len(children)
    node = np.zeros(scores.shape[1], dtype=np.int64)
    places = np.arange(scores.shape[1])
    inside = places[node < n_splits]
    while len(inside):
        at = node[inside]
        node[inside] = children[at, (scores[at, inside] >= 0).astype(np.int64)]
        inside = inside[node[inside] < n_splits]
    return node


def shapley_of_sets(values: np.ndarray) -> np.ndarray:
    """Shapley values (u, k) of a game given by the value of each of its 2^u sets (2^u, k).

    φ_j = Σ over S without j of |S|! (u − |S| − 1)! / u! · (v(S ∪ j) − v(S)).

    Examples
    --------
    >>> shapley_of_sets(np.array([[0.0], [1.0], [2.0], [5.0]]))
    array([[2.], [3.]])
    """
    u = len(values).bit_length() - 1
    sizes = np.array([number.bit_count() for number in range(len(values))])
    weights = np.array([factorial(s) * factorial(u - s - 1) / factorial(u) for s in range(u)])
    result = np.zeros((u, values.shape[1]))
    for j in range(u):
        without = np.flatnonzero(~np.arange(len(values)) >> j & 1)
        gain = values[without | 1 << j] - values[without]
        result[j] = weights[sizes[without]] @ gain
    return result
