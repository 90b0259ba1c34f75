"""Score or loss against size: the path of trees of a fit, and the chosen one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from treelu.tree.check import float_array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LegendPlace = Literal["lower right", "upper right"]
_INK, _PALE, _CHOSEN = "#1a1a1a", "#6b6b68", "#c2502e"
_COLORS = ("#2f62a8", "#4a9960", "#8e65ae", "#c99e37", "#4da4b0", "#7a7a7a")
_MOST_LINES = 6
_RANGES = (0, 1, 2, 4, 8)  # the most terms of each line, where numbers of terms share one


def plot_sizes(
    leaves: Any,
    terms: Any,
    scores: Any,
    standard_errors: Any,
    *,
    chosen: int | None = None,
    eligible: Any = None,
    score_name: str = "cross-validated score",
    greater_is_better: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the scores of trees of several sizes, with one standard error to each side.

    Trees with the same number of terms are joined by a line; where there are more than six such numbers, those from 3
    to 4, from 5 to 8 and above share one. Of trees of a line with the same leaves the best is drawn. Where `eligible`
    tells which trees count as good as the best, these are filled and the others hollow. Otherwise a dashed line marks
    one standard error from the best score: a smaller tree on its good side is as good as the best, as far as the rows
    can tell.

    Parameters
    ----------
    leaves : array of shape (n_trees,)
        Leaves of each tree.
    terms : array of shape (n_trees,)
        The most terms that a split of the tree has.
    scores, standard_errors : array of shape (n_trees,)
        Cross-validated score and its standard error.
    chosen : int, optional
        Which of the trees was chosen; it is marked.
    eligible : bool array of shape (n_trees,), optional
        Trees among which the choice was.
    score_name : str
        What the scores are, for the axis.
    greater_is_better : bool
        False for losses.
    ax : matplotlib Axes, optional
        Where to draw; a figure is made if None.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> ax = plot_sizes([2, 4, 8], [2, 2, 3], [0.90, 0.95, 0.96], [0.02, 0.015, 0.012], chosen=1)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['2 terms', '3 terms', 'one standard error below the best', 'chosen: 4 leaves, 2 terms']
    """
    import matplotlib.pyplot as plt

    leaves, terms = _whole("leaves", leaves, None), _whole("terms", terms, len(np.atleast_1d(leaves)))
    scores = float_array("scores", scores, (len(leaves),))
    errors = float_array("standard_errors", standard_errors, (len(leaves),))
    if not len(leaves):
        raise ValueError("leaves must name at least one tree, got none")
    if ax is None:
        ax = plt.figure(figsize=(6.4, 4.0), layout="constrained").add_subplot()
    sign = 1 if greater_is_better else -1
    filled = None
    if eligible is not None:
        filled = _whole("eligible", eligible, len(leaves)).astype(bool)
    _draw_lines(ax, leaves, terms, scores, errors, sign, filled)
    if filled is None:
        best = int((sign * scores).argmax())
        ax.axhline(scores[best] - sign * errors[best], color=_PALE, linestyle=(0, (4, 3)), linewidth=0.9, zorder=1,
                   label=f"one standard error {'below' if greater_is_better else 'above'} the best")  # fmt: skip
    else:
        ax.plot([], [], "o", color=_PALE, markersize=4.5, label="filled: as good as the best")
    if chosen is not None:
        words = f"chosen: {_plural(leaves[chosen], 'leaf', 'leaves')}, {_plural(terms[chosen], 'term', 'terms')}"
        ax.plot(leaves[chosen], scores[chosen], "o", markersize=13, markerfacecolor="none", markeredgecolor=_CHOSEN,
                markeredgewidth=1.8, zorder=4, label=words)  # fmt: skip
    _label_axes(ax, leaves, score_name, "lower right" if greater_is_better else "upper right")
    return ax


def _whole(name: str, value: Any, length: int | None) -> np.ndarray:
    array = float_array(name, value, (length,))
    if (array != np.round(array)).any() or (array < 0).any():
        raise ValueError(f"{name} must be integers from 0, got {array.tolist()}")
    return array.astype(np.int64)


def _draw_lines(
    ax: Axes,
    leaves: np.ndarray,
    terms: np.ndarray,
    scores: np.ndarray,
    errors: np.ndarray,
    sign: int,
    filled: np.ndarray | None,
) -> None:
    """A line for each number of terms; where there are many, for ranges of them; hollow points where not `filled`."""
    shared = len(np.unique(terms)) > _MOST_LINES
    kind_of = np.searchsorted(_RANGES, terms) if shared else terms
    kinds = np.unique(kind_of)
    for number, kind in enumerate(kinds):
        part = np.flatnonzero(kind_of == kind)
        words = _terms_words(int(terms[part].min()), int(terms[part].max()))
        part = part[np.lexsort((sign * scores[part], leaves[part]))]
        part = part[np.append(np.diff(leaves[part]) > 0, True)]  # the last of each size is the best
        # Bars of several lines stand beside each other: sizes are drawn by their logarithm.
        shift = 1 + 0.02 * (number - (len(kinds) - 1) / 2)
        ax.errorbar(leaves[part] * shift, scores[part], errors[part], fmt="o-", color=_COLORS[number], markersize=4.5,
                    linewidth=1.2, elinewidth=0.8, capsize=2, zorder=3, label=words)  # fmt: skip
        if filled is not None:
            hollow = part[~filled[part]]
            ax.plot(leaves[hollow] * shift, scores[hollow], "o", markersize=4.5, markerfacecolor="white",
                    markeredgecolor=_COLORS[number], zorder=3.5)  # fmt: skip


def _terms_words(least: int, most: int) -> str:
    """The terms of a line's splits.

    Examples
    --------
    >>> _terms_words(0, 0), _terms_words(1, 1), _terms_words(3, 4)
    ('no question', '1 term', '3 to 4 terms')
    """
    if not most:
        return "no question"
    return _plural(most, "term", "terms") if least == most else f"{least} to {most:,} terms"


def _plural(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"


def _label_axes(ax: Axes, leaves: Sequence[int] | np.ndarray, score_name: str, legend_place: LegendPlace) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

    ax.set_xscale("log", base=2)
    sizes = np.unique(leaves)
    named: list[int] = []  # numbers that have room beside each other
    for size in sizes.tolist():
        if not named or size >= 1.12 * named[-1]:
            named.append(size)
    ax.xaxis.set_major_locator(FixedLocator(named))
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlim(max(0.5, sizes[0]) / 1.2, max(1, sizes[-1]) * 1.2)
    ax.set_xlabel("leaves")
    ax.set_ylabel(score_name, parse_math=False)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.grid(axis="y", color="#e4e4e0", linewidth=0.7)
    ax.set_axisbelow(True)
    handles, words = ax.get_legend_handles_labels()
    order = sorted(range(len(words)), key=lambda i: handles[i] not in ax.containers)  # trees first, then the marks
    ax.legend([handles[i] for i in order], [words[i] for i in order], frameon=False, fontsize=8.5, loc=legend_place)
