"""How far rows are from the nearest other answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from treelu.tree.names import plain
from treelu.tree.oblique_tree import ObliqueTree
from treelu.tree.queries.counterfactual import answer, predicted
from treelu.tree.queries.goal import Goal, NoLeafError, read_goal
from treelu.tree.queries.limits import Limits, one_row
from treelu.tree.queries.nearest import nearest
from treelu.tree.queries.words import count, html_text, number, row_words
from treelu.tree.rows import dense, is_frame


@dataclass(frozen=True, eq=False)
class Robustness:
    """How far each row is from the nearest other answer.

    Attributes
    ----------
    distances : array of shape (n_rows,)
        No permitted row nearer than this gets another answer; infinite where none does.
    rows : array of shape (n_rows, n_features)
        Rows that far away (to within 1e-8 units) which do, or the nearest found where a search ended undecided; NaN
        where there is none.
    predictions : array of shape (n_rows,)
        What the rows themselves are predicted.
    norm : str
    within : str
        Which rows were looked among, in words: "within the training ranges"; empty where these were no limit.
    """

    distances: np.ndarray
    rows: np.ndarray
    predictions: np.ndarray
    norm: str
    within: str = ""

    def __float__(self) -> float:
        if len(self.distances) != 1:
            raise TypeError(f"only the robustness of one row is a number; distances has {len(self.distances)}")
        return float(self.distances[0])

    def __str__(self) -> str:
        if len(self.distances) == 1:
            now, row = answer(plain(self.predictions[0])), row_words(self.within)
            if np.isinf(self.distances[0]):
                return f"predicted {now}; no {row} gets another answer"
            near = f"no {row} nearer than {number(self.distances[0], 4)} ({self.norm}) gets another answer"
            return f"predicted {now}; {near}"
        finite = self.distances[np.isfinite(self.distances)]
        among = f" {self.within}" if self.within else ""
        text = f"{count(len(self.distances), 'row')}, distance to the nearest other answer{among} ({self.norm})"
        if len(finite):
            low, middle, high = np.quantile(finite, [0, 0.5, 1])
            text += f": least {number(low, 4)}, median {number(middle, 4)}, greatest {number(high, 4)}"
        if len(finite) < len(self.distances):
            text += f"; {count(len(self.distances) - len(finite), 'row')} without another answer"
        return text

    def _repr_html_(self) -> str:
        return html_text(str(self))


def robustness(
    limits: Limits,
    X: Any,
    norm: str = "l2",
    change: float | None = None,
    keep: Iterable[Any] = (),
    budget_seconds: float | None = None,
) -> Robustness:
    """Distances to the nearest other answer; in regression, to one that differs by ``change``."""
    tree = limits.tree
    if not tree.is_classifier and (change is None or not change > 0):
        raise ValueError(
            f"change must be given for a tree that predicts numbers: the least difference that counts as another "
            f"answer, above 0; got {change}"
        )
    keep = list(keep) if not isinstance(keep, str) else [keep]
    if not is_frame(X) and not hasattr(X, "tocsr") and np.ndim(X) == 1:
        rows = one_row(tree, X)[None]
    else:
        rows = dense(tree.read_rows(X, every_column=True)).astype(np.float64)
    goals: dict[Any, list[Goal]] = {}
    distances, nearest_rows, predictions = np.full(len(rows), np.inf), np.full(rows.shape, np.nan), []
    for i, row in enumerate(rows):
        before = predicted(tree, row)
        predictions.append(before)
        key = tuple(before) if isinstance(before, np.ndarray) else before
        if key not in goals:
            goals[key] = list(other_answers(tree, before, change))
        around = limits.around(row, keep)
        found = [nearest(row, goal, around, norm=norm, budget_seconds=budget_seconds) for goal in goals[key]]
        distances[i] = min((result.bound for result in found), default=np.inf)
        if any(found):
            nearest_rows[i] = min(found, key=lambda result: result.distance).row
    return Robustness(distances, nearest_rows, np.array(predictions), norm, limits.words)


def other_answers(tree: ObliqueTree, before: Any, change: float | None) -> Iterator[Goal]:
    """Another class; a value that is higher or lower by ``change`` in some output. Only such as some leaf may give."""
    asked: list[dict[str, Any]] = [{"other_than": before}]
    if not tree.is_classifier:
        assert change is not None
        asked = [{"output": output, **limit} for output, value in enumerate(np.atleast_1d(before).tolist())
                 for limit in ({"at_least": value + change}, {"at_most": value - change})]  # fmt: skip
    for what in asked:
        with suppress(NoLeafError):
            yield read_goal(tree, **what)
