"""Distances to the nearest other answer over a table, as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from treelu.tree.queries.robustness import Robustness

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINE, _PALE = "#2f62a8", "#6b6b68"


def plot_robustness(result: Robustness, ax: Axes | None = None, **style: Any) -> Axes:
    """For each distance the share of rows that keep their answer within it.

    Parameters
    ----------
    result : Robustness
        From :meth:`treelu.tree.ObliqueTree.robustness`.
    ax : matplotlib Axes, optional
    **style
        Of the line, for :meth:`matplotlib.axes.Axes.step`.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from treelu.tree import ObliqueTree
    >>> tree = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[-1.0], [1.0]], link="logistic", classes=[0, 1])
    >>> plot_robustness(tree.robustness([[-2.0], [1.0], [5.0]])).get_ylabel()
    'rows that keep their answer (%)'
    """
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
    distances = np.sort(result.distances)
    finite = distances[np.isfinite(distances)]
    at = np.concatenate([[0.0], finite])
    share = 100 * (1 - np.arange(len(at)) / max(1, len(distances)))
    line: dict[str, Any] = {"color": _LINE, "linewidth": 1.8} | style
    ax.step(at, share, where="post", **line)
    ax.set(ylim=(0, 102), xlabel=f"distance ({result.norm})", ylabel="rows that keep their answer (%)")
    ax.set_xlim(left=0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(colors=_PALE)
    return ax
