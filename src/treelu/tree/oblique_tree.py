"""ObliqueTree: an oblique decision tree as plain NumPy arrays; routing, predicting, explaining."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from treelu.tree import check, rows, terms
from treelu.tree.columns import FrameColumns
from treelu.tree.missing import MissingValues
from treelu.tree.observed import Observed
from treelu.tree.one_hot import categories
from treelu.tree.output_methods import OutputMethods
from treelu.tree.queries.methods import QueryMethods


@dataclass(frozen=True, eq=False, repr=False)
class ObliqueTree(OutputMethods, QueryMethods):
    """A binary decision tree whose nodes test linear combinations of the features.

    A row x goes right at a node where ``weights @ x + bias >= 0`` and left elsewhere. Decision nodes
    are numbered 0 to ``n_splits - 1`` (0 is the root, a parent has a lower number than its children); leaves
    follow, leaf j is node ``n_splits + j``. The arrays are taken over without a copy and are read-only.

    Parameters
    ----------
    weights : array or sparse matrix of shape (n_splits, n_features)
        A row holds a node's weights. Sparse weights are kept as CSR.
    biases : array of shape (n_splits,)
    children : integer array of shape (n_splits, 2)
        The node numbers of the left and the right child.
    values : array of shape (n_leaves, n_outputs)
        Outputs of the leaves, before ``link``.
    leaf_weights : array of shape (n_leaves, n_outputs, n_features), optional
        For linear leaves: the output is ``values + leaf_weights @ x``.
    link : {"identity", "logistic", "softmax", "probability"}
        How outputs become predictions: regression; one score, two classes; a score for each class; or
        leaf values that already are class probabilities.
    classes : array of shape (n_classes,), optional
        Labels; None for regression.
    feature_names : sequence of str, optional
    n_samples : array of shape (n_nodes,), optional
        The number of rows that reach each node, where known; rows of weight 0 do not count. Fractions, which earlier
        versions stored for weighted rows, become ``weighted_n_samples``.
    weighted_n_samples : array of shape (n_nodes,), optional
        The total weight of these rows; None where it is their number.
    spreads : array of shape (n_features,), optional
        How far each feature spreads over the training rows (its standard deviation), where known. Not used to
        predict: texts and pictures rank a split's terms by |weight| × spread, their effect.
    observed : Observed, optional
        What the training rows held: ranges, integers, one-hot groups. Not used to predict: queries that look for rows
        stay within it unless ``limits=None`` is given.
    missing : MissingValues, optional
        How missing values are filled, where the tree accepts them. The tree's last features are then indicators of
        missing values, computed from the columns before them: rows are given either with these columns alone, in
        which NaN is a missing value, or with all features.
    columns : FrameColumns, optional
        The columns of the data frame that the features were made of, and how: the tree then reads such frames, and
        its queries and exports speak of these columns. Set by `fit`.
    notes : sequence of str
        What was done to the tree and what that kept exact, such as by :meth:`prune`. Plays no part in equality.

    Examples
    --------
    The tree of the paper's Fig. 1 with two layers; its leaves carry their numbers.

    >>> from treelu.tree import ObliqueTree
    >>> tree = ObliqueTree(
    ...     weights=[[1, -1], [-4, 1], [0, -3]], biases=[1, 4, 8],
    ...     children=[[1, 2], [3, 4], [5, 6]], values=[[0.0], [1.0], [2.0], [3.0]],
    ... )
    >>> tree
    ObliqueTree(4 leaves, depth 2, 2 features, regression)
    >>> tree.predict([[0, 0], [0, 3]])
    array([3., 1.])
    """

    weights: np.ndarray | sparse.csr_array
    biases: np.ndarray
    children: np.ndarray
    values: np.ndarray
    leaf_weights: np.ndarray | None = field(default=None, kw_only=True)
    link: str = field(default="identity", kw_only=True)
    classes: np.ndarray | None = field(default=None, kw_only=True)
    feature_names: tuple[str, ...] | None = field(default=None, kw_only=True)
    n_samples: np.ndarray | None = field(default=None, kw_only=True)
    weighted_n_samples: np.ndarray | None = field(default=None, kw_only=True)
    spreads: np.ndarray | None = field(default=None, kw_only=True)
    observed: Observed | None = field(default=None, kw_only=True)
    missing: MissingValues | None = field(default=None, kw_only=True)
    columns: FrameColumns | None = field(default=None, kw_only=True)
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        weights = check.node_weights(self.weights)
        n_splits, n_features = weights.shape
        values = check.float_array("values", self.values, (n_splits + 1, None))
        n_outputs = values.shape[1]
        leaf_weights = self.leaf_weights
        if leaf_weights is not None:
            leaf_weights = check.float_array("leaf_weights", leaf_weights, (n_splits + 1, n_outputs, n_features))
        classes = None if self.classes is None else check.read_only(check.labels(self.classes))
        check.check_outputs(self.link, classes, n_outputs, leaf_weights is not None)
        n_samples, weighted = check.node_counts(self.n_samples, self.weighted_n_samples, 2 * n_splits + 1)
        fields = {
            "weights": weights,
            "biases": check.float_array("biases", self.biases, (n_splits,)),
            "children": check.node_children(self.children, n_splits),
            "values": values,
            "leaf_weights": leaf_weights,
            "classes": classes,
            "feature_names": check.names_tuple(
                self.feature_names if self.columns is None else self.columns.feature_names, n_features
            ),
            "n_samples": n_samples,
            "weighted_n_samples": weighted,
            "spreads": check.feature_spreads(self.spreads, n_features),
            "observed": check.observed_rows(self.observed, n_features),
            "missing": check.missing_values(self.missing, n_features),
            "columns": check.frame_columns(self.columns, n_features, self.missing),
            "notes": tuple(self.notes),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @cached_property
    def _terms(self) -> rows.Terms:
        """The weights that are not 0, as the kernel takes them."""
        return rows.Terms.of(self.weights)

    @cached_property
    def _leaf_terms(self) -> rows.Terms:
        """The same of linear leaves, with a row for each leaf and output."""
        assert self.leaf_weights is not None
        return rows.Terms.of(self.leaf_weights.reshape(-1, self.n_features))

    @cached_property
    def _leaf_predictions(self) -> np.ndarray:
        """The prediction of each leaf whose value is a constant."""
        return self._decide(self.values[:, 0] if self.link == "logistic" else self.values)

    def __getstate__(self) -> dict[str, Any]:
        cached = ("_terms", "_leaf_terms", "_leaf_predictions")
        return {name: value for name, value in self.__dict__.items() if name not in cached}

    # Shape

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.weights.shape[1])

    @property
    def n_outputs(self) -> int:
        """Number of outputs of a leaf, before ``link``."""
        return int(self.values.shape[1])

    @property
    def n_splits(self) -> int:
        """Number of decision nodes."""
        return int(self.weights.shape[0])

    @property
    def n_leaves(self) -> int:
        """Number of leaves, those that no row reaches included."""
        return self.n_splits + 1

    @property
    def n_visited_leaves(self) -> int | None:
        """Number of leaves that rows reach; None where the tree has not counted them (``n_samples``)."""
        return None if self.n_samples is None else int(np.count_nonzero(self.n_samples[self.n_splits :]))

    @property
    def n_nodes(self) -> int:
        """Number of nodes, leaves included."""
        return 2 * self.n_splits + 1

    @property
    def depth(self) -> int:
        """Decisions on the longest path; 0 for a tree of one leaf."""
        return int(self.node_depths().max())

    @property
    def is_classifier(self) -> bool:
        """Whether the tree predicts classes."""
        return self.classes is not None

    def node_depths(self) -> np.ndarray:
        """Decisions above each node: an int64 array of shape (n_nodes,).

        Examples
        --------
        >>> from treelu.tree import ObliqueTree
        >>> ObliqueTree([[1.0], [2.0]], [0, 0], [[1, 2], [3, 4]], [[0], [1], [2]]).node_depths()
        array([0, 1, 1, 2, 2])
        """
        depths = np.zeros(self.n_nodes, dtype=np.int64)
        for node, pair in enumerate(self.children):
            depths[pair] = depths[node] + 1
        return depths

    def node_weights(self, node: int) -> np.ndarray:
        """The weights of one decision node as a dense vector of shape (n_features,)."""
        return rows.dense_row(self.weights, node)

    def feature_name(self, feature: int) -> str:
        """The name of a feature, ``x0``, ``x1``, … where the tree has none."""
        return f"x{feature}" if self.feature_names is None else self.feature_names[feature]

    def effect_scale(self) -> np.ndarray:
        """The factors that turn weights into effects: the features' spreads, or ones where they are not known.

        Examples
        --------
        >>> from treelu.tree import ObliqueTree
        >>> ObliqueTree([[1.0, 2.0]], [0.0], [[1, 2]], [[0], [1]], spreads=[3.0, 0.5]).effect_scale()
        array([3. , 0.5])
        """
        return np.ones(self.n_features) if self.spreads is None else self.spreads

    def used_features(self) -> np.ndarray:
        """The features that some split, or some linear leaf, weighs: their indices, in order.

        Examples
        --------
        >>> from treelu.tree import ObliqueTree
        >>> ObliqueTree([[0.0, 2.0, 1.0], [0.0, 0.0, 3.0]], [0, 0], [[1, 2], [3, 4]], [[0], [1], [2]]).used_features()
        array([1, 2])
        """
        if isinstance(self.weights, np.ndarray):
            used = (self.weights != 0).any(axis=0)
        else:
            used = np.zeros(self.n_features, dtype=bool)
            used[self.weights.indices[self.weights.data != 0]] = True
        if self.leaf_weights is not None:
            used |= (self.leaf_weights != 0).any(axis=(0, 1))
        return np.flatnonzero(used)

    @property
    def max_terms(self) -> int:
        """Terms of the longest split; 0 for a tree of one leaf. The levels of a category are one term."""
        weights: Any = self.weights
        group = terms.of_groups(categories(self), self.n_features)
        if group is not None:
            return terms.most_terms(rows.dense(weights), group)
        return int(np.asarray((weights != 0).sum(axis=1)).max(initial=0))

    # Routing

    def read_rows(self, X: Any, *, every_column: bool = False) -> rows.Rows:
        """X as rows of numbers, dense or CSR, of shape (n_rows, n_features); missing values are filled.

        The columns of a DataFrame are found by the tree's feature names, in any order. Those that no split uses
        may be missing and are set to 0; columns that the tree does not know are left aside. With ``every_column`` all
        of the tree's columns must be there.
        """
        if self.columns is not None and self.columns.are_in(X):
            return self.columns.features(X, unused=() if every_column else self.unused_columns())
        names, n_features, missing = self.feature_names, self.n_features, self.missing
        fills = missing is not None and not self._has_indicators(X)
        if missing is not None and fills:
            n_features = len(missing.fills)
            names = None if names is None else names[:n_features]
        if names is None or not rows.is_frame(X):
            given = rows.as_rows(X, n_features, None)
        else:
            read = np.arange(n_features) if every_column else self._columns_read(n_features)
            given = rows.named_rows(X, names, read)
        if missing is None or not fills:
            return given
        return missing.fill(given if sparse.issparse(given) else np.asarray(given, np.float64))

    def unused_columns(self) -> frozenset[str]:
        """The columns of the data frame that no split and no linear leaf reads; none for a tree on plain features."""
        if self.columns is None:
            return frozenset()
        used = set(self.used_features().tolist())
        return frozenset(name for name, places in self.columns.places.items() if used.isdisjoint(places))

    def _columns_read(self, n_columns: int) -> np.ndarray:
        """Which of the first columns are used, by themselves or for their indicators of missing values."""
        used = self.used_features()
        if n_columns == self.n_features or self.missing is None:
            return used
        return np.union1d(used[used < n_columns], self.missing.gaps[np.isin(self.missing.indicators, used)])

    def _has_indicators(self, X: Any) -> bool:
        """Whether rows are given with the indicators of missing values, already filled."""
        assert self.missing is not None
        if not len(self.missing.gaps):
            return False
        if self.feature_names is None or not rows.is_frame(X):
            return np.ndim(X) == 2 and np.shape(X)[1] == self.n_features
        columns = rows.column_names(X)
        return any(self.feature_names[feature] in columns for feature in self.missing.indicators)

    def apply(self, X: Any) -> np.ndarray:
        """The leaf of each row, as a node number.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        int64 array of shape (n_rows,)

        Examples
        --------
        >>> from treelu.tree import ObliqueTree
        >>> ObliqueTree([[1.0, 1.0]], [-1.0], [[1, 2]], [[0], [1]]).apply([[0, 0.5], [0.5, 0.5]])
        array([1, 2])
        """
        X = self.read_rows(X)
        return rows.route(X, self.weights, self._terms, self.biases, self.children)

    def decision_path(self, X: Any) -> sparse.csr_array:
        """The nodes each row passes, its leaf included: a CSR matrix of ones of shape (n_rows, n_nodes).

        Examples
        --------
        >>> from treelu.tree import ObliqueTree
        >>> ObliqueTree([[1.0]], [0.0], [[1, 2]], [[0], [1]]).decision_path([[-1], [1]]).toarray()
        array([[1, 1, 0], [1, 0, 1]])
        """
        return rows.leaf_paths(self.children)[self.apply(X) - self.n_splits]

    # Predicting

    def decision_function(self, X: Any) -> np.ndarray:
        """Outputs before ``link``, of shape (n_rows, n_outputs); (n_rows,) for link "logistic"."""
        X = self.read_rows(X)
        leaves = rows.route(X, self.weights, self._terms, self.biases, self.children) - self.n_splits
        if self.leaf_weights is None:
            outputs = self.values[leaves]
        else:
            outputs = rows.linear_outputs(X, leaves, self.values, self.leaf_weights, self._leaf_terms)
        return outputs[:, 0] if self.link == "logistic" else outputs

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities, of shape (n_rows, n_classes).

        Examples
        --------
        >>> from treelu.tree import ObliqueTree
        >>> tree = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[-2.0], [0.0]], link="logistic", classes=[0, 1])
        >>> tree.predict_proba([[-1], [1]]).round(3)
        array([[0.881, 0.119], [0.5 , 0.5 ]])
        """
        if self.classes is None:
            raise ValueError("predict_proba needs a classification tree; this one has classes=None")
        return self.link_outputs(self.decision_function(X))

    def link_outputs(self, outputs: np.ndarray) -> np.ndarray:
        """Predictions from outputs of leaves: probabilities (n, n_classes), or the outputs in regression."""
        if self.link == "logistic":
            scores = np.asarray(outputs).reshape(-1)
            # log(1 + exp(∓z)) neither overflows nor loses the small probability.
            return np.exp(-np.logaddexp(0.0, np.column_stack([scores, -scores])))
        if self.link == "softmax":
            shifted = np.exp(outputs - outputs.max(axis=1, keepdims=True))
            return shifted / shifted.sum(axis=1, keepdims=True)
        return outputs

    def predict(self, X: Any) -> np.ndarray:
        """Class labels; in regression values, of shape (n_rows,), for several outputs (n_rows, n_outputs)."""
        if self.leaf_weights is None:
            return self._leaf_predictions[self.apply(X) - self.n_splits]
        return self._decide(self.decision_function(X))

    def _decide(self, outputs: np.ndarray) -> np.ndarray:
        """Predictions from the outputs of `decision_function`."""
        if self.classes is None:
            return outputs[:, 0] if self.n_outputs == 1 else outputs
        # Of two equal scores the first class wins, as with argmax over probabilities.
        return self.classes.take(outputs > 0 if self.link == "logistic" else outputs.argmax(axis=1))

    # Reading

    def with_counts(self, X: Any, sample_weight: Any = None) -> ObliqueTree:
        """The same tree with ``n_samples`` set to the number of rows of X that reach each node.

        With ``sample_weight``, rows of weight 0 do not count, and ``weighted_n_samples`` is the weight of the others.

        Examples
        --------
        >>> from treelu.tree import ObliqueTree
        >>> tree = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[0], [1]])
        >>> tree.with_counts([[-1], [1], [2]]).n_samples
        array([3., 1., 2.])
        >>> weighted = tree.with_counts([[-1], [1], [2]], sample_weight=[0.5, 0, 1.25])
        >>> weighted.n_samples, weighted.weighted_n_samples
        (array([2., 1., 1.]), array([1.75, 0.5 , 1.25]))
        """
        leaves = self.apply(X) - self.n_splits
        weight = np.ones(len(leaves))
        if sample_weight is not None:
            weight = check.float_array("sample_weight", sample_weight, (len(leaves),))
        return self.with_leaf_counts(*rows.leaf_counts(leaves, weight, self.n_leaves))

    def with_leaf_counts(self, counts: np.ndarray, weights: np.ndarray) -> ObliqueTree:
        """The same tree with the number and the weight of the rows of each leaf, both of shape (n_leaves,)."""
        at_nodes, weighted = (rows.node_totals(self.children, of_leaves) for of_leaves in (counts, weights))
        return replace(self, n_samples=at_nodes, weighted_n_samples=weighted)

    def feature_importances(self, scale: Any = None) -> np.ndarray:
        """How much each feature takes part in splits and formulas: an array of shape (n_features,) with sum 1.

        A split's |weights| times the features' spreads are normalised to sum 1, weighted by the rows that reach
        the node (``weighted_n_samples``, or else ``n_samples``) and averaged; and so is the formula of a linear leaf,
        with the sum of |weights| over the outputs (for scores of classes, less their mean). All zero where no row meets
        a weight that is not zero.

        Parameters
        ----------
        scale : array of shape (n_features,), optional
            The spread of each feature. None: the tree's own ``spreads``, or weights as they are where it has none.
        """
        mass = self.n_samples if self.weighted_n_samples is None else self.weighted_n_samples
        if mass is None:
            raise ValueError("feature_importances needs n_samples; use tree.with_counts(X) first")
        spread = self.effect_scale() if scale is None else check.float_array("scale", scale, (self.n_features,))
        total = np.zeros(self.n_features)
        for node in np.flatnonzero(mass[: self.n_splits]).tolist():
            part = np.abs(self.node_weights(node)) * spread
            if part.any():
                total += part * (mass[node] / part.sum())
        if self.leaf_weights is not None:
            weights = self.leaf_weights
            if self.link == "softmax":
                weights = weights - weights.mean(axis=1, keepdims=True)
            parts = np.abs(weights).sum(axis=1) * spread
            total += (mass[self.n_splits :] / np.maximum(parts.sum(axis=1), np.finfo(float).tiny)) @ parts
        return total / total.sum() if total.any() else total

    def __repr__(self) -> str:
        leaves = "1 leaf" if self.n_leaves == 1 else f"{self.n_leaves} leaves"
        if self.n_visited_leaves not in (None, self.n_leaves):
            leaves += f", {self.n_visited_leaves} visited"
        kind = "regression" if self.classes is None else f"{len(self.classes)} classes"
        linear = ", linear leaves" if self.leaf_weights is not None else ""
        return f"ObliqueTree({leaves}, depth {self.depth}, {self.n_features} features, {kind}{linear})"

    def __eq__(self, other: object) -> bool:
        """Whether both trees hold exactly the same numbers, labels and names (dense and CSR may be equal)."""
        if not isinstance(other, ObliqueTree):
            return NotImplemented
        if (self.link, self.feature_names, self.observed) != (other.link, other.feature_names, other.observed):
            return False
        names = ("biases", "children", "values", "leaf_weights", "classes", *check.NODE_COUNTS, "spreads")
        mine, others = (_missing_arrays(tree.missing) for tree in (self, other))
        return (
            _same_matrix(self.weights, other.weights)
            and self.columns == other.columns
            and all(_same_array(getattr(self, name), getattr(other, name)) for name in names)
            and all(_same_array(first, second) for first, second in zip(mine, others, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]

    # Smaller trees, and trees of others; imported when asked for, because they import this module.

    def prune(self, X: Any = None, *, bounds: Any = None, unvisited: bool = False) -> ObliqueTree:
        """A smaller tree with the same outputs; see :func:`treelu.tree.prune.prune`."""
        from treelu.tree.prune import prune

        return prune(self, X, bounds=bounds, unvisited=unvisited)

    @classmethod
    def from_sklearn(cls, estimator: Any, *, feature_names: Any = None, X: Any = None) -> ObliqueTree:
        """The tree of a fitted estimator or pipeline; see :func:`treelu.tree.from_sklearn.from_sklearn`."""
        from treelu.tree.from_sklearn import from_sklearn

        return from_sklearn(estimator, feature_names=feature_names, X=X)


def _same_array(first: np.ndarray | None, second: np.ndarray | None) -> bool:
    if first is None or second is None:
        return first is second
    return bool(np.array_equal(first, second, equal_nan=first.dtype.kind == "f"))


def _missing_arrays(missing: MissingValues | None) -> tuple[np.ndarray | None, np.ndarray | None]:
    return (None, None) if missing is None else (missing.fills, missing.gaps)


def _same_matrix(first: Any, second: Any) -> bool:
    if first.shape != second.shape:
        return False
    if not sparse.issparse(first) and not sparse.issparse(second):
        return bool(np.array_equal(first, second))
    difference: Any = sparse.csr_array(first) != sparse.csr_array(second)
    return difference.nnz == 0
