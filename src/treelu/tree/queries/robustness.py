"""How far rows are from the nearest other answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from treelu.tree.names import plain
from treelu.tree.oblique_tree import ObliqueTree
from treelu.tree.queries.counterfactual import answer, predicted
from treelu.tree.queries.permitted import Permitted, one_row
from treelu.tree.queries.search import Effort, NearestSearch
from treelu.tree.queries.wanted import wanted_answer
from treelu.tree.queries.words import count, html_text, number
from treelu.tree.rows import dense


@dataclass(frozen=True, eq=False)
class Robustness:
    """How far each row is from the nearest other answer.

    Attributes
    ----------
    distances : array of shape (n_rows,)
        No permitted row nearer than this gets another answer; infinite where none does.
    rows : array of shape (n_rows, n_features)
        Rows that far away (to within 1e-8 units) which do; NaN where there is none.
    predictions : array of shape (n_rows,)
        What the rows themselves are predicted.
    norm : str
    """

    distances: np.ndarray
    rows: np.ndarray
    predictions: np.ndarray
    norm: str

    def __float__(self) -> float:
        if len(self.distances) != 1:
            raise TypeError(f"only the robustness of one row is a number; distances has {len(self.distances)}")
        return float(self.distances[0])

    def __str__(self) -> str:
        if len(self.distances) == 1:
            now = answer(plain(self.predictions[0]))
            if np.isinf(self.distances[0]):
                return f"predicted {now}; no permitted row gets another answer"
            near = f"no permitted row nearer than {number(self.distances[0], 4)} ({self.norm}) gets another answer"
            return f"predicted {now}; {near}"
        finite = self.distances[np.isfinite(self.distances)]
        text = f"{count(len(self.distances), 'row')}, distance to the nearest other answer ({self.norm})"
        if len(finite):
            low, middle, high = np.quantile(finite, [0, 0.5, 1])
            text += f": least {number(low, 4)}, median {number(middle, 4)}, greatest {number(high, 4)}"
        if len(finite) < len(self.distances):
            text += f"; {count(len(self.distances) - len(finite), 'row')} without another answer"
        return text

    def _repr_html_(self) -> str:
        return html_text(str(self))


def robustness(
    permitted: Permitted,
    X: Any,
    norm: str = "l2",
    change: float | None = None,
    keep: Iterable[Any] = (),
    budget_seconds: float | None = None,
) -> Robustness:
    """Distances to the nearest other answer; in regression, to one that differs by ``change``."""
    tree = permitted.tree
    if not tree.is_classifier and (change is None or not change > 0):
        raise ValueError(
            f"change must be given for a tree that predicts numbers: the least difference that counts as another "
            f"answer, above 0; got {change}"
        )
    keep = list(keep) if not isinstance(keep, str) else [keep]
    rows = _rows(tree, X)
    searches: dict[Any, list[NearestSearch]] = {}
    distances, nearest, predictions = np.full(len(rows), np.inf), np.full(rows.shape, np.nan), []
    for i, row in enumerate(rows):
        before = predicted(tree, row)
        predictions.append(before)
        key = tuple(before) if isinstance(before, np.ndarray) else before
        if key not in searches:
            searches[key] = _searches(tree, before, change, norm, budget_seconds)
        around = permitted.around(row, keep)
        found = []
        for search in searches[key]:
            effort = Effort()
            first = next(search.run(row, around, effort), None)
            distances[i] = min(distances[i], effort.bound)
            found += [first] if first is not None else []
        if found:
            nearest[i] = min(found, key=lambda item: item.distance).row
    return Robustness(distances, nearest, np.array(predictions), norm)


def _rows(tree: ObliqueTree, X: Any) -> np.ndarray:
    if np.ndim(X) == 1 and not hasattr(X, "tocsr"):
        return one_row(tree, X)[None]
    return dense(tree.read_rows(X, every_column=True)).astype(np.float64)


def _searches(
    tree: ObliqueTree, before: Any, change: float | None, norm: str, budget_seconds: float | None
) -> list[NearestSearch]:
    """For another class; for a value that is higher or lower by ``change`` in some output."""
    if tree.is_classifier:
        if not set(_possible_labels(tree)) - {before}:
            return []
        return [NearestSearch(tree, wanted_answer(tree, other_than=before), norm, budget_seconds=budget_seconds)]
    assert change is not None
    values = np.atleast_1d(before)
    result = []
    for output, value in enumerate(values.tolist()):
        for limit in ({"at_least": value + change}, {"at_most": value - change}):
            if tree.leaf_weights is None and not _some_leaf(tree.values[:, output], **limit):
                continue
            wanted = wanted_answer(tree, output=output, **limit)
            result.append(NearestSearch(tree, wanted, norm, budget_seconds=budget_seconds))
    return result


def _possible_labels(tree: ObliqueTree) -> list[Any]:
    from treelu.tree.queries.wanted import leaf_classes

    assert tree.classes is not None
    return (tree.classes if tree.leaf_weights is not None else tree.classes[leaf_classes(tree)]).tolist()


def _some_leaf(values: np.ndarray, at_least: float = -np.inf, at_most: float = np.inf) -> bool:
    return bool(((values >= at_least) & (values <= at_most)).any())
