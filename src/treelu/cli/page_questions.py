"""Questions of the report page, in the columns of a saved model's table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from treelu.cli.asked import Asked
from treelu.cli.messages import InputError
from treelu.report.questions import Asking, page_answers
from treelu.tables import TableModel
from treelu.tables.columns import NumberColumn
from treelu.tables.questions import short_numbers


def page_questions(model: TableModel, target: str, X: Any, summary: dict[str, Any]) -> dict[str, Any] | None:
    """Answers for the rows that a summary lists; None where the model is no tree, or one too large."""
    if model.encoder.smiles_column is not None or model.threshold != 0.5:
        return None  # molecules do not change bit by bit; the tree's own class is not the one decided by a threshold
    try:
        asked = Asked(model, target)
    except InputError:
        return None
    columns = asked.columns
    options = columns.options()
    discrete = {*options["whole"], *(place for group in options["groups"] for place in group)}

    def speak(before: np.ndarray, after: np.ndarray) -> list[str]:
        row = short_numbers(before, after, discrete, _same_answer(asked, before, after))
        return [str(change) for change in columns.changes(before, row)]

    asking = Asking(
        asked.tree,
        {name: options[name] for name in ("bounds", "whole", "groups")},
        lambda row: [*options["keep"], *columns.missing(row)],
        speak,
        [name for name, places in columns.places.items() for _ in places],
        {name: columns.places[name][0] for name, column in columns.columns.items() if isinstance(column, NumberColumn)},
        asked.output,
    )
    return page_answers(asking, X, summary)


def _same_answer(asked: Asked, before: np.ndarray, after: np.ndarray) -> Callable[[np.ndarray], bool]:
    """Whether a row may stand for ``after``: it has the same class, or a value that changed as much."""
    if asked.tree.is_classifier:
        label = asked.tree.predict(after[None])[0]
        return lambda row: bool(asked.tree.predict(row[None])[0] == label)

    def value(row: np.ndarray) -> float:
        return float(asked.tree.decision_function(row[None])[0, asked.output])

    there, change = value(after), value(after) - value(before)
    return lambda row: abs(value(row) - there) <= 1e-3 * abs(change)
