"""The formulas of linear leaves: what is added up in a leaf, and what the sum is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from treelu.tree import ObliqueTree
from treelu.tree.names import AFFIRMATIVE, LONGEST, plain, shown_class, shown_name
from treelu.tree.queries.goal import read_output
from treelu.tree.queries.limits import read_limits
from treelu.tree.queries.ranges import leaf_ranges

MOST_RANGES = 64  # leaves beyond which no ranges are computed
_SECONDS = 1.0  # for all of them


@dataclass(frozen=True)
class LeafFormula:
    """One sum of a linear leaf: ``weights @ x + constant``.

    Attributes
    ----------
    kind : {"value", "log-odds", "score"}
        The predicted value; the log-odds of one of two classes, log p / (1 − p); or the score of a class, of
        which the highest is predicted and all together give the probabilities by softmax.
    label : object
        The class; None for a value.
    weights : array of shape (n_features,)
    constant : float
    """

    kind: str
    label: Any
    weights: np.ndarray
    constant: float

    def title(self, most: int = LONGEST) -> str:
        """What the sum is, in words.

        Examples
        --------
        >>> LeafFormula("log-odds", "yes", np.ones(1), 0.0).title(), LeafFormula("value", None, np.ones(1), 0.0).title()
        ("log-odds of 'yes'", 'value')
        """
        if self.kind == "value":
            return "value"
        name = shown_class(self.label)
        return f"{self.kind} of {name if len(name) <= most else shown_name(self.label, most)}"


def leaf_formulas(tree: ObliqueTree, leaf: int) -> list[LeafFormula]:
    """The formulas of leaf ``leaf`` (counted from 0): one for two classes, else one for each output or class.

    Of softmax scores of two classes, which say the same with any number added to both, the difference is taken: like a
    single score it is log-odds: of the class that is named like a yes, else of the second one.

    Examples
    --------
    >>> tree = ObliqueTree(
    ...     np.zeros((0, 1)), [], np.zeros((0, 2)), [[1.0, 3.0]], leaf_weights=[[[0.5], [2.0]]], link="softmax",
    ...     classes=["no", "yes"],
    ... )
    >>> leaf_formulas(tree, 0)
    [LeafFormula(kind='log-odds', label='yes', weights=array([1.5]), constant=2.0)]
    """
    if tree.leaf_weights is None:
        raise ValueError("tree must have linear leaves; the leaves of this one are constant (see tree.values)")
    weights, constants = tree.leaf_weights[leaf], tree.values[leaf].tolist()
    if tree.classes is None:
        return [LeafFormula("value", None, row, constant) for row, constant in zip(weights, constants, strict=True)]
    labels = [plain(label) for label in tree.classes]
    if len(labels) == 2:
        k = affirmed(tree)
        if tree.link != "logistic":
            return [LeafFormula("log-odds", labels[k], weights[k] - weights[1 - k], constants[k] - constants[1 - k])]
        return [
            LeafFormula("log-odds", labels[k], *((weights[0], constants[0]) if k else (-weights[0], -constants[0])))
        ]
    return [
        LeafFormula("score", label, row, constant)
        for label, row, constant in zip(labels, weights, constants, strict=True)
    ]


def affirmed(tree: ObliqueTree) -> int:
    """Of two classes the number of the one whose log-odds are shown: the one named like a yes, else the second.

    Examples
    --------
    >>> tree = ObliqueTree(np.zeros((0, 1)), [], np.zeros((0, 2)), [[0.0]], link="logistic", classes=["ja", "nein"])
    >>> affirmed(tree)
    0
    """
    assert tree.classes is not None
    first, second = (str(label).strip().lower() in AFFIRMATIVE for label in tree.classes)
    return 0 if first and not second else 1


def prediction_ranges(tree: ObliqueTree, bounds: Any = None) -> list[tuple[float, float] | None]:
    """The least and the greatest value, or probability of the class of the log-odds, that each linear leaf predicts.

    That is for all rows of the leaf within bounds, by linear programmes, and not only for the training rows: a row that
    comes tomorrow may be another one. None for a leaf that no such row comes to; and for all leaves where there are no
    bounds, more than 64 leaves, several values, or more than two classes (probabilities monotone in no formula).

    Parameters
    ----------
    tree : ObliqueTree
    bounds : pair (low, high), optional
        Ranges of the features. None: what the training rows held, where the tree remembers it.

    Examples
    --------
    >>> tree = ObliqueTree([[1.0]], [-1.0], [[1, 2]], [[0.0], [5.0]], leaf_weights=[[[2.0]], [[-1.0]]])
    >>> [(round(low, 6), round(high, 6)) for low, high in prediction_ranges(tree, (0, 3))]
    [(0.0, 2.0), (2.0, 4.0)]
    """
    if bounds is None and tree.observed is not None:
        bounds = tree.observed.low, tree.observed.high
    several = tree.n_outputs > 1 if tree.classes is None else len(tree.classes) > 2
    if bounds is None or several or tree.leaf_weights is None or tree.n_leaves > MOST_RANGES:
        return [None] * tree.n_leaves
    target = None if tree.classes is None else tree.classes[affirmed(tree)]
    return leaf_ranges(read_limits(tree, bounds=bounds, limits=None), read_output(tree, target, 0), _SECONDS)
