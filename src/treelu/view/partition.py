"""The partition of two features into leaves, and network, map and tree side by side as in the paper's Fig. 1."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from treelu.tree import ObliqueTree
from treelu.tree.numbers import shown_number
from treelu.view.colors import leaf_colors, text_color
from treelu.view.labels import feature_label, linear_form
from treelu.view.pictures import plot_tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from treelu.nn import LocallyConstantNetwork

_GRID = 300  # points a side where a picture is computed by evaluating a model
_PLUS, _MINUS, _INK = "#c2502e", "#2f62a8", "#1a1a1a"


def plot_partition(
    tree: ObliqueTree, *, bounds: Any = None, X: Any = None, y: Any = None, ax: Axes | None = None
) -> Axes:
    """Draw the regions of a tree on two features, coloured by leaf as in :func:`plot_tree`.

    The regions are exact polygons. Linear leaves are shaded by their first output. Up to 32 regions carry their
    leaf's node number.

    Parameters
    ----------
    tree : ObliqueTree
        With two features.
    bounds : pair (low, high), optional
        Each a number or two numbers. None: the range of X and a little more.
    X : array of shape (n_rows, 2), optional
        Rows to draw as points.
    y : array of shape (n_rows,), optional
        Labels or targets that colour the points.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> tree = ObliqueTree([[1.0, -1.0]], [0.5], [[1, 2]], [[0], [1]])
    >>> ax = plot_partition(tree, bounds=(-1, 1))
    >>> len(ax.patches)
    2
    """
    import matplotlib.pyplot as plt

    low, high = _rectangle(bounds, X)
    polygons = leaf_polygons(tree, low, high)
    if ax is None:
        ax = plt.figure(figsize=(4.5, 4.5), layout="constrained").add_subplot()
    if tree.leaf_weights is not None:
        _shade(ax, tree.decision_function(_grid(low, high)).reshape(_GRID * _GRID, -1)[:, 0], low, high)
    _draw_polygons(ax, tree, polygons, filled=tree.leaf_weights is None)
    if len(polygons) <= 32:
        _number_regions(ax, tree, polygons, float(np.prod(high - low)))
    if X is not None:
        _draw_rows(ax, X, y)
    _frame(ax, tree, low, high)
    return ax


def plot_network_and_tree(
    network: LocallyConstantNetwork,
    tree: ObliqueTree,
    *,
    bounds: Any = None,
    X: Any = None,
    y: Any = None,
    top: int = 2,
) -> Figure:
    """The paper's Fig. 1 for a network on two features: its neurons, the map it computes, and its tree.

    The map in the middle is the network's own output on a grid; the lines on it are the tree's boundaries. A
    tree that is not the network's would show.

    Parameters
    ----------
    network : LocallyConstantNetwork
        With two features and a piece-wise linear activation.
    tree : ObliqueTree
        The tree of the network, or a pruned one.
    bounds, X, y
        As for :func:`plot_partition`.
    top : int
        Weights shown at a node of the tree.

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> from treelu.convert import network_to_tree
    >>> from treelu.nn import LocallyConstantNetwork
    >>> network = LocallyConstantNetwork(2, depth=2, out_features=1, seed=0)
    >>> figure = plot_network_and_tree(network, network_to_tree(network), bounds=(-1, 1))
    >>> len(figure.axes) >= 3
    True
    """
    import matplotlib.pyplot as plt

    if network.in_features != 2 or tree.n_features != 2:
        raise ValueError(f"network and tree must have two features, got {network.in_features} and {tree.n_features}")
    if tree.leaf_weights is not None:
        raise ValueError("tree must have constant leaves; use plot_partition for linear ones")
    low, high = _rectangle(bounds, X)
    figure = plt.figure(figsize=(16, 4.6))
    left, middle, right = (figure.add_axes(box) for box in _PANELS)
    _draw_network(left, network, tree)
    outputs = network(_grid(low, high))
    _paint(middle, outputs, tree, low, high)
    _draw_polygons(middle, tree, leaf_polygons(tree, low, high), filled=False)
    if X is not None:
        _draw_rows(middle, X, y)
    _frame(middle, tree, low, high)
    plot_tree(tree, top=top, ax=right)
    for ax, title in ((left, "network"), (middle, "its output, and the tree's boundaries"), (right, "tree")):
        ax.set_title(title, size=10)
    return figure


_PANELS = ((0.01, 0.08, 0.21, 0.80), (0.255, 0.11, 0.225, 0.77), (0.49, 0.02, 0.505, 0.86))


def _rectangle(bounds: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """The corners of the picture."""
    if bounds is None and X is None:
        raise ValueError("bounds or X must be given: the rectangle to draw")
    if bounds is None:
        rows = np.asarray(X, dtype=float)
        low, high = rows.min(axis=0), rows.max(axis=0)
        margin = 0.05 * np.where(high > low, high - low, 1.0)
        return low - margin, high + margin
    low, high = (np.broadcast_to(np.asarray(side, dtype=float), (2,)) for side in bounds)
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ValueError(f"bounds must be finite with low < high, got {low.tolist()} and {high.tolist()}")
    return low, high


def _grid(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Centres of the picture's cells, of shape (_GRID², 2), row by row from below."""
    steps = (np.arange(_GRID) + 0.5) / _GRID
    x, y = np.meshgrid(low[0] + steps * (high[0] - low[0]), low[1] + steps * (high[1] - low[1]))
    return np.column_stack([x.ravel(), y.ravel()])


def _shade(ax: Axes, values: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    extent = (low[0], high[0], low[1], high[1])
    image = values.reshape(_GRID, _GRID)
    ax.imshow(image, origin="lower", extent=extent, cmap="coolwarm", alpha=0.8, aspect="auto", zorder=0)


def _paint(ax: Axes, outputs: np.ndarray, tree: ObliqueTree, low: np.ndarray, high: np.ndarray) -> None:
    """Colour each cell as the leaf with the output nearest to the network's."""
    from matplotlib.colors import to_rgb

    order = np.lexsort(tree.values.T[::-1])
    nearest = np.empty(len(outputs), dtype=np.int64)
    if tree.n_outputs == 1:
        levels = tree.values[order, 0]
        middles = (levels[1:] + levels[:-1]) / 2
        nearest = order[np.searchsorted(middles, outputs[:, 0])]
    else:
        for start in range(0, len(outputs), 4096):
            part = outputs[start : start + 4096, None, :] - tree.values[None]
            nearest[start : start + 4096] = (part**2).sum(axis=2).argmin(axis=1)
    colors = np.array([to_rgb(color) for color in leaf_colors(tree)])
    image = colors[nearest].reshape(_GRID, _GRID, 3)
    ax.imshow(image, origin="lower", extent=(low[0], high[0], low[1], high[1]), aspect="auto", zorder=0)


def _draw_polygons(ax: Axes, tree: ObliqueTree, polygons: list[tuple[int, np.ndarray]], filled: bool) -> None:
    from matplotlib.patches import Polygon

    colors = leaf_colors(tree)
    for leaf, corners in polygons:
        face = colors[leaf] if filled else "none"
        ax.add_patch(Polygon(corners, facecolor=face, edgecolor=_INK, linewidth=0.7, joinstyle="round", zorder=1))


def _draw_rows(ax: Axes, X: Any, y: Any) -> None:
    """Rows as points, from white for the lowest target or first class to black."""
    points = np.asarray(X, dtype=float)
    shade = None if y is None else np.unique(np.asarray(y), return_inverse=True)[1]
    ax.scatter(points[:, 0], points[:, 1], c=shade, cmap="gray_r", s=14, edgecolors="#7a7a76", linewidths=0.6, zorder=2)


def _number_regions(ax: Axes, tree: ObliqueTree, polygons: list[tuple[int, np.ndarray]], whole: float) -> None:
    """Node numbers in the regions that have room for them."""
    colors = leaf_colors(tree)
    for leaf, corners in polygons:
        if area(corners) > 0.004 * whole:
            ink = text_color(colors[leaf]) if tree.leaf_weights is None else _INK
            words = str(leaf + tree.n_splits)
            x, y = corners.mean(axis=0)
            ax.text(x, y, words, ha="center", va="center", size=8, color=ink, zorder=3)


def _frame(ax: Axes, tree: ObliqueTree, low: np.ndarray, high: np.ndarray) -> None:
    ax.set_xlim(low[0], high[0])
    ax.set_ylim(low[1], high[1])
    ax.set_xlabel(feature_label(tree, 0), parse_math=False)
    ax.set_ylabel(feature_label(tree, 1), parse_math=False)


def _draw_network(ax: Axes, network: LocallyConstantNetwork, tree: ObliqueTree) -> None:
    """Inputs and neurons as circles, weights as lines (red positive, blue negative), and the equations below."""
    w, u, b = network.weight, network.connection, network.bias
    depth = network.depth
    places = {("x", d): (0.0, 1.0 - d) for d in range(2)}
    places |= {("a", i): (1.0 + i, 0.5) for i in range(depth)}
    widest = max(np.abs(w).max(), np.abs(np.tril(u, -1)).max(initial=0)) or 1.0
    for i in range(depth):
        for d in range(2):
            _arrow(ax, places["x", d], places["a", i], w[d, i] / widest, 0.0)
        for k in range(i):
            bend = 0.0 if k == i - 1 else (-0.35 if (i - k) % 2 else 0.35)
            _arrow(ax, places["a", k], places["a", i], u[i, k] / widest, bend)
    size = 9 if depth <= 6 else 6
    for (kind, index), place in places.items():
        words = feature_label(tree, index, 19) if kind == "x" else f"a{index + 1}"
        ax.plot(*place, "o", markersize=2.6 * size, color="white", markeredgecolor=_INK, zorder=3)
        ax.text(*place, words, ha="center", va="center", size=size - 1, zorder=4, parse_math=False)
    lines = []
    for i in range(depth):
        form = linear_form(tree, w[:, i], None, 2, 3)
        for k in np.flatnonzero(u[i, :i]).tolist():
            form += f" {'-' if u[i, k] < 0 else '+'} {shown_number(abs(u[i, k]), 3)}·a{k + 1}"
        equation = f"z{i + 1} = {form} {'-' if b[i] < 0 else '+'} {shown_number(abs(b[i]), 3)}"
        lines += textwrap.wrap(equation, 58 if depth <= 6 else 80, subsequent_indent="        ")
    slope = network.activation.negative_slope
    lines.append("a = max(0, z)" if slope == 0 else f"a = z where z ≥ 0, else {slope:g}·z")
    ax.text(0, 0.52, "\n".join(lines), size=7.5 if depth <= 6 else 5.5, va="top", parse_math=False,
            transform=ax.transAxes)  # fmt: skip
    ax.set_xlim(-0.5, depth + 0.5)
    ax.set_ylim(-2.5, 1.6)
    ax.set_axis_off()


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], weight: float, bend: float) -> None:
    if weight == 0:
        return
    style = {
        "arrowstyle": "-", "color": _PLUS if weight > 0 else _MINUS, "linewidth": 0.4 + 2.6 * abs(weight),
        "connectionstyle": f"arc3,rad={bend}", "alpha": 0.8, "zorder": 1,
    }  # fmt: skip
    ax.annotate("", xy=end, xytext=start, arrowprops=style)


# Geometry


def leaf_polygons(tree: ObliqueTree, low: np.ndarray, high: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """The part of the rectangle ``low <= x <= high`` that belongs to each leaf, where that has an area.

    Returns
    -------
    list of (leaf counted from 0, corners of shape (n, 2) in order)

    Examples
    --------
    >>> tree = ObliqueTree([[1.0, -1.0]], [0.0], [[1, 2]], [[0], [1]])
    >>> [len(corners) for _, corners in leaf_polygons(tree, np.zeros(2), np.array([2.0, 1.0]))]
    [3, 4]
    """
    if tree.n_features != 2:
        raise ValueError(f"tree must have two features for a picture of its regions, got {tree.n_features}")
    corners = np.array([[low[0], low[1]], [high[0], low[1]], [high[0], high[1]], [low[0], high[1]]])
    least = 1e-14 * float(np.prod(high - low))
    found, stack = [], [(0, corners)]
    while stack:
        node, polygon = stack.pop()
        if node >= tree.n_splits:
            found.append((node - tree.n_splits, polygon))
            continue
        score = polygon @ tree.node_weights(node) + tree.biases[node]
        for side, child in enumerate(tree.children[node].tolist()):
            part = clipped(polygon, score if side else -score)
            if len(part) >= 3 and area(part) > least:
                stack.append((child, part))
    return sorted(found, key=lambda item: item[0])


def clipped(polygon: np.ndarray, score: np.ndarray) -> np.ndarray:
    """The part of a convex polygon where a linear function, given by its values at the corners, is not negative."""
    following, next_score = np.roll(polygon, -1, axis=0), np.roll(score, -1)
    corners = []
    for here, there, a, b in zip(polygon, following, score, next_score, strict=True):
        if a >= 0:
            corners.append(here)
        if min(a, b) < 0 < max(a, b):
            corners.append(here + a / (a - b) * (there - here))
    return np.array(corners)


def area(polygon: np.ndarray) -> float:
    """The area of a polygon (shoelace formula)."""
    x, y = (polygon - polygon[0]).T
    return float(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)
