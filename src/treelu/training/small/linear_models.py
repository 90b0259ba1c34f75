"""Trees that predict as one linear model of all rows does: a softmax regression of classes, or a ridge regression.

On small noisy tables the boundaries of a linear model, fitted to all rows, are better than those of splits that are
trained one by one, and a tree of a few leaves follows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from treelu.training.parallel import check_not_stopped
from treelu.training.small.growth import NodeSplit, best_of, growing
from treelu.training.small.leaf_models import LeafRows, Ridge, fitted_leaves
from treelu.training.small.rows import TrainingRows
from treelu.training.small.soft_tree import SoftTree
from treelu.tree import terms

MOST_ROWS = 12_000  # to which a linear model is fitted: more hardly change it


def linear_scores(rows: TrainingRows, ridge: float, used: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """Scores (D + 1, K) of a logistic, softmax or ridge regression on the features that are `used` (None: all).

    The loss is the mean over the rows plus `ridge` / 2 times the squared weights.
    """
    check_not_stopped()
    used = np.arange(rows.n_features) if used is None else used
    rows = rows.some(MOST_ROWS)
    in_one_leaf = LeafRows.in_one_leaf(rows, [*used, -1])
    total = ridge * float(in_one_leaf.weight.sum())
    (model,) = fitted_leaves(in_one_leaf, Ridge(total / 2 if in_one_leaf.is_logistic else total), own=False)
    if in_one_leaf.is_logistic:  # two scores with half of the weights each
        model = np.vstack([-model, model]) / 2
    found = np.zeros((rows.X.shape[1], rows.target.shape[1]))
    found[[*used, -1]] = model.T
    return found


def strongest(
    scores: NDArray[np.float64], most: int, is_classifier: bool, group: terms.Group = None
) -> NDArray[np.int64]:
    """The features (of spread 1) of the terms with the largest weights; of classes, of those that differ most."""
    weights = scores[:-1] - scores[:-1].mean(axis=1, keepdims=True) if is_classifier else scores[:-1]
    squares = (weights**2).sum(axis=1)
    strength = squares if group is None else terms.strengths(np.sqrt(squares), group)
    return terms.strongest(strength, group, most)


def score_trees(
    rows: TrainingRows, scores: NDArray[np.float64], sizes: Sequence[int], max_depth: int | None = None
) -> Iterator[SoftTree]:
    """Trees of some numbers of leaves, smallest first, that find the class with the largest score, or the levels of a
    regression.

    For classes, a node asks which of two scores is larger: of the two classes that have the largest one on most of its
    rows. Where one class has it on all of them, it asks how much larger it is than that of the next class, which sets
    surer rows apart from others and changes no row's class. The former come first, those by which most rows come to
    another class before others. For values, a node asks on which side of the best threshold a regression is.
    """
    weights, biases = scores[:-1], scores[-1]
    before_others = float(rows.weight.sum() * len(biases))  # more than any threshold gains

    def find_split(
        X: NDArray[np.float64], target: NDArray[np.float64], weight: NDArray[np.float64], is_classifier: bool
    ) -> NodeSplit | None:
        if not is_classifier:
            return best_of(weights.T, X, target, weight, is_classifier)
        won = np.bincount((X @ weights + biases).argmax(axis=1), weight, len(biases))
        first, second = np.argsort(-won, kind="stable")[:2]
        if won[second] > 0:
            return NodeSplit(before_others + won[second], between(first, second))
        others = weight @ target
        others[first] = -1
        lead = between(first, others.argmax())[:-1]
        return best_of(lead[None], X, target, weight, is_classifier, keep_class=True)

    def between(one: np.int64, other: np.int64) -> NDArray[np.float64]:
        """Of two classes, the score of the later less that of the earlier, so that both orders ask the same."""
        low, high = sorted((one, other))
        return scores[:, high] - scores[:, low]

    return growing(rows, sizes, max_depth, find_split)
