"""The formulas of linear leaves: what is added up in a leaf, and what the sum is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from treelu.tree import ObliqueTree
from treelu.tree.names import LONGEST, plain, shown_class, shown_name


@dataclass(frozen=True)
class LeafFormula:
    """One sum of a linear leaf: ``weights @ x + constant``.

    Attributes
    ----------
    kind : {"value", "log-odds", "score"}
        The predicted value; the log-odds of the second of two classes, log p / (1 − p); or the score of a class, of
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
    single score it is the log-odds of the second class.

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
    if tree.link == "logistic":
        return [LeafFormula("log-odds", labels[1], weights[0], constants[0])]
    if len(labels) == 2:
        return [LeafFormula("log-odds", labels[1], weights[1] - weights[0], constants[1] - constants[0])]
    return [
        LeafFormula("score", label, row, constant)
        for label, row, constant in zip(labels, weights, constants, strict=True)
    ]
