"""What the page says of questions: the nearest change, margin and shares of listed rows, and properties of the tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treelu.report.rows import Floats
from treelu.tree import ObliqueTree
from treelu.tree.questions.counterfactual import answer, predicted
from treelu.tree.questions.geometry import Splits
from treelu.tree.questions.properties import Verdict

MAX_LEAVES = 64  # of a tree that is asked
MAX_USED = 100  # features
MAX_ROWS = 24  # listed rows that are asked about
MAX_PROPERTIES = 6  # features whose direction is looked into
N_BACKGROUND = 20
N_SHARES = 8  # largest shares shown of a row
Speak = Callable[[Floats, Floats], Sequence[str]]


@dataclass(frozen=True)
class Asking:
    """How a tree is asked on behalf of a table.

    Attributes
    ----------
    tree : ObliqueTree
        With all its leaves, not only those that some rows reach.
    options : mapping
        ``bounds``, ``whole`` and ``groups`` of :meth:`ObliqueTree.counterfactual`.
    stay : callable
        A row → the features that stay as they are.
    speak : callable
        Two rows of features → what changes, in the words of the table: ``"income were 2,100 lower (…)"``.
    owners : sequence of str
        For each feature the column that it belongs to; a column's share is the sum over its features.
    columns : mapping of str to int
        Columns of numbers whose direction is looked into, and their features.
    output : int
        Which value, in a regression of several.
    """

    tree: ObliqueTree
    options: Mapping[str, Any]
    stay: Callable[[Floats], Sequence[int]]
    speak: Speak
    owners: Sequence[str]
    columns: Mapping[str, int]
    output: int = 0


def plain_asking(tree: ObliqueTree) -> Asking:
    """Questions to a tree without a table: in its own features."""

    def speak(before: Floats, after: Floats) -> list[str]:
        changed = np.flatnonzero(before != after).tolist()
        return [f"{tree.feature_name(j)} were {after[j]:.6g} instead of {before[j]:.6g}" for j in changed]

    names = [tree.feature_name(j) for j in range(tree.n_features)]
    return Asking(tree, {}, lambda row: (), speak, names, {name: j for j, name in enumerate(names)})


def answer_questions(asking: Asking, listed: Floats, X: Floats, importances: Sequence[int]) -> dict[str, Any] | None:
    """Answers about the listed rows and about the whole tree, as plain JSON values; None for too large a tree.

    Parameters
    ----------
    asking : Asking
    listed : array of shape (n, n_features)
        The rows that the page lists.
    X : array of shape (n_rows, n_features)
        All rows: their ranges are those of the properties, some of them are the background of the shares.
    importances : sequence of int
        Features, the most important first.
    """
    tree = asking.tree
    if tree.n_leaves > MAX_LEAVES or np.count_nonzero(Splits(tree).used) > MAX_USED or not len(X):
        return None
    asked = listed[:MAX_ROWS]
    rng = np.random.default_rng(0)
    background = X[rng.permutation(len(X))[:N_BACKGROUND]]
    return {
        "rows": [_about_row(asking, row, background) for row in asked],
        "properties": _properties(asking, X, importances),
    }


def _about_row(asking: Asking, row: Floats, background: Floats) -> dict[str, Any]:
    """The nearest change, the margin and the largest shares of one row."""
    tree = asking.tree
    now = predicted(tree, row)
    result: dict[str, Any] = {"change": _change_words(asking, row, now)}
    margin = np.inf
    if tree.is_classifier:
        margin = float(tree.robustness(row, "l2", keep=asking.stay(row), **asking.options).distances[0])
    result["margin"] = margin if np.isfinite(margin) else None
    target = now if tree.is_classifier else None
    shares = tree.shap_values(row[None], background, target=target, max_exact=10, n_permutations=2)
    values = shares.values[0] if shares.values.ndim == 2 else shares.values[0, :, asking.output]
    base = shares.base_values[0] if shares.values.ndim == 2 else shares.base_values[0, asking.output]
    sums: dict[str, float] = {}
    for name, share in zip(asking.owners, values.tolist(), strict=True):
        sums[name] = sums.get(name, 0.0) + share
    largest = sorted(sums, key=lambda name: -abs(sums[name]))[:N_SHARES]
    result["base"] = float(base)
    result["shares"] = [{"name": name, "share": sums[name]} for name in largest if sums[name]]
    result["exact"] = shares.standard_errors is None
    return result


def _change_words(asking: Asking, row: Floats, now: Any) -> str:
    """ "would be no if income were 2,100 lower (…)", or why there is no such change."""
    tree = asking.tree
    if not tree.is_classifier:
        return ""
    try:
        found = tree.counterfactual(row, keep=asking.stay(row), **asking.options)
    except ValueError:  # every leaf answers the same
        return f"is predicted {_label(now)} wherever it lies"
    if not found:
        return f"is predicted {_label(now)} whatever may change"
    words = " and ".join(asking.speak(row, found.row))
    return f"would be {_label(found.prediction)} if {words}"


def _label(label: Any) -> str:
    return label if isinstance(label, str) else answer(label)


# Properties


def _properties(asking: Asking, X: Floats, importances: Sequence[int]) -> list[dict[str, Any]]:
    """Which way the prediction goes with the most important columns of numbers, within the ranges of the rows."""
    tree = asking.tree
    if tree.is_classifier and len(tree.classes) != 2:  # type: ignore[arg-type]
        return []
    ends = (X.min(axis=0), X.max(axis=0))
    names = {place: name for name, place in asking.columns.items()}
    chosen = [place for place in importances if place in names and ends[0][place] < ends[1][place]][:MAX_PROPERTIES]
    options = {"bounds": ends, "whole": asking.options.get("whole", ()), "groups": asking.options.get("groups", ())}
    what = f"probability of {tree.classes[1]}" if tree.is_classifier else "prediction"  # type: ignore[index]
    result = []
    for place in chosen:
        rising: Verdict = tree.rises(place, output=asking.output, **options)
        falling = tree.falls(place, output=asking.output, **options)
        result.append({"column": names[place], "proved": bool(rising) or bool(falling),
                       "words": property_words(what, names[place], bool(rising), bool(falling))})  # fmt: skip
    return result


def property_words(what: str, column: str, rises: bool, falls: bool) -> str:
    """What was proved of a column, in a sentence.

    Examples
    --------
    >>> property_words("probability of yes", "income", True, False)
    'proved: the probability of yes never falls when income rises'
    """
    if rises and falls:
        return f"proved: the {what} never depends on {column}"
    if rises or falls:
        return f"proved: the {what} never {'falls' if rises else 'rises'} when {column} rises"
    return f"refuted: the {what} goes one way with {column}; it rises for some rows and falls for others"
