"""Warnings about scores: too good, a class never predicted, rare classes, training rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treelu.report.scores import EVEN, Floats, decide

PERFECT = 0.9995
ENOUGH_ROWS = 20
RARE = 0.1  # a class with a smaller share of the rows; half of its rows should be found
LEAST_FOUND = 1 / 3  # of the rows of any class
ENOUGH_LEAF_ROWS = 15
CLEAR_SHARE = 0.7  # of a leaf's rows


def classification_cautions(
    target: NDArray[Any],
    probability: Floats,
    names: list[str],
    *,
    threshold: float,
    weighted: bool,
    strongest: str | None,
) -> list[str]:
    """Warnings about a classifier's scores.

    Of two classes, `threshold` is the probability from which the second is predicted. `weighted`: training gave classes
    weights. `strongest`: the feature that takes part most.
    """
    counts = np.bincount(target.astype(int), minlength=len(names))
    decided = decide(probability, threshold)
    lines = _few_rows(len(target))
    if (counts > 0).sum() == 1:
        whose = names[int(counts.argmax())]
        lines.append(f"all rows here are {whose!r}: the scores say nothing about the other classes; give more rows")
    if len(target) >= ENOUGH_ROWS and (decided == target).mean() >= PERFECT and (counts > 0).sum() > 1:
        lines.append(_perfect("every row is predicted right", strongest))
    remedy = "" if weighted else "; give each class the same weight (--balanced, class_weight='balanced')"
    lower = " or lower the threshold" if remedy else "; the threshold can be lowered"
    advice = remedy + (lower if len(names) == 2 else "")
    never = [k for k in range(len(names)) if counts[k] and not (decided == k).any()]
    for k in never[:3]:
        lines.append(
            f"{names[k]!r} is never predicted, although {counts[k]:,} of {len(target):,} rows "
            f"{'is' if counts[k] == 1 else 'are'} {names[k]!r}{advice}"
        )
    common = int(counts.argmax())
    always = f"always answering {names[common]!r} would be right in {counts[common] / len(target):.1%}"
    for k in _little_found(target, decided, counts)[:2]:
        found = (decided[target == k] == k).mean()
        lines.append(
            f"only {found:.0%} of the rows that are {names[k]!r} are found ({counts[k] / len(target):.1%} of all rows "
            f"are {names[k]!r}): {always} of the rows{advice}"
        )
    right = (decided == target).mean()
    if (
        len(target) >= ENOUGH_ROWS
        and not weighted
        and threshold in (0.5, EVEN)
        and right < counts[common] / len(target)
    ):
        lines.append(f"{right:.1%} of the rows are predicted right; {always}")
    return lines


def _little_found(target: NDArray[Any], decided: NDArray[Any], counts: NDArray[np.int64]) -> list[int]:
    """The classes that are predicted, but for less than a third of their rows (half of a rare one's), worst first.

    This is said whatever the class weights: the threshold can be lowered then.
    """
    found = {}
    for k in np.flatnonzero(counts):
        share = counts[k] / len(target)
        right = float((decided[target == k] == k).mean())
        if (decided == k).any() and share < 1 and right < (0.5 if share < RARE else LEAST_FOUND):
            found[int(k)] = right
    return sorted(found, key=lambda k: found[k])


def one_leaf_caution(tree: Mapping[str, Any] | None) -> list[str]:
    """A warning where the tree is one leaf that gives every row the same answer."""
    if tree is None or tree["n_splits"] or tree["leaf_weights"]:
        return []
    return ["the tree is one leaf: nothing was found that helps on rows held out; every row gets the same prediction"]


def _few_rows(n_rows: int) -> list[str]:
    if n_rows >= ENOUGH_ROWS:
        return []
    return [f"the scores come from {n_rows} row{'' if n_rows == 1 else 's'} only, and say little"]


def leaf_cautions(leaves: Sequence[Mapping[str, Any]], names: list[str], positive: int, threshold: float) -> list[str]:
    """Warnings of leaves that predict one class while most of their rows here are of another."""
    lines = []
    for leaf in sorted(leaves, key=lambda leaf: -(leaf["n"] or 0)):
        predicted, observed = leaf["prediction"], leaf["observed"]
        if predicted is None or observed is None or leaf["n"] < ENOUGH_LEAF_ROWS:
            continue
        decided = likely = int(np.argmax(predicted))
        if len(names) == 2 and threshold != 0.5:
            decided = positive if predicted[positive] >= threshold else 1 - positive
        common = int(np.argmax(observed))
        share = observed[common] / leaf["n"]
        if common in (decided, likely) or share < CLEAR_SHARE:  # another class than the likely one is meant
            continue
        remedy = ""
        if len(names) == 2 and common == positive:
            remedy = f"; a threshold of {np.floor(100 * predicted[positive]) / 100:g} would call them so"
        lines.append(
            f"leaf {leaf['node']} predicts {names[decided]!r} ({predicted[decided]:.0%}), although {share:.0%} of its "
            f"{leaf['n']:,} rows here are {names[common]!r}{remedy}"
        )
    return lines[:2]


def regression_cautions(target: Floats, prediction: Floats, *, strongest: str | None) -> list[str]:
    """Warnings about a regressor's scores."""
    spread = float(((target - target.mean()) ** 2).sum())
    if len(target) < ENOUGH_ROWS or spread == 0:
        return _few_rows(len(target))
    r2 = 1 - float(((target - prediction) ** 2).sum()) / spread
    if r2 < 0:
        return [f"R² is {r2:.3f}: the mean of the target would predict these rows better"]
    return [_perfect(f"R² is {r2:.4f}", strongest)] if r2 >= PERFECT else []


def _perfect(what: str, strongest: str | None) -> str:
    whose = f" ({strongest!r} takes part most)" if strongest else ""
    return f"{what}; is the answer among the features{whose}? Scores like this are rare"
