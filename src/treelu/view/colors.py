"""Colours and ranks of leaves, shared by the DOT and picture exports."""

from __future__ import annotations

import numpy as np

from treelu.tree import ObliqueTree

_LOW, _MIDDLE, _HIGH = (59, 111, 182), (243, 243, 240), (214, 96, 61)
_CLASS_COLORS = (
    (59, 111, 182), (214, 96, 61), (74, 153, 96), (142, 101, 174), (201, 158, 55),
    (77, 164, 176), (199, 110, 156), (122, 122, 122), (139, 98, 72), (150, 170, 60),
)  # fmt: skip
NEUTRAL = "#ececea"


def leaf_ranks(tree: ObliqueTree) -> np.ndarray | None:
    """Rank of each leaf by its output, 1 the lowest, equal outputs equal ranks; None where there is no order.

    There is one for constant leaves with a single output or two classes (the higher, the more likely the
    second class), as in the paper's Fig. 3.

    Examples
    --------
    >>> tree = ObliqueTree([[1.0], [1.0]], [0, 1], [[1, 2], [3, 4]], [[5.0], [7.0], [5.0]])
    >>> leaf_ranks(tree)
    array([1, 2, 1])
    """
    two_classes = tree.classes is not None and len(tree.classes) == 2
    if tree.leaf_weights is not None or (tree.n_outputs > 1 and not two_classes):
        return None
    outputs = tree.values[:, 0]
    if tree.n_outputs == 2:
        outputs = tree.values[:, 1] - tree.values[:, 0]
    return np.unique(outputs, return_inverse=True)[1] + 1


def leaf_colors(tree: ObliqueTree) -> list[str]:
    """A colour for each leaf as ``#rrggbb``: by class and its probability, or by rank from blue to red.

    Two leaves of the same class never differ in hue: the nearer its probability is to uniform, the paler a leaf is.

    Examples
    --------
    >>> values = [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
    >>> tree = ObliqueTree(
    ...     [[1.0], [1.0]], [0, 1], [[1, 2], [3, 4]], values, link="probability", classes=["no", "yes"]
    ... )
    >>> leaf_colors(tree)
    ['#3b6fb6', '#f3f3f0', '#d6603d']
    """
    if tree.leaf_weights is not None:
        return [NEUTRAL] * tree.n_leaves
    if tree.classes is not None:
        return [_class_color(probability) for probability in tree.link_outputs(tree.values)]
    ranks = leaf_ranks(tree)
    if ranks is None:
        return [NEUTRAL] * tree.n_leaves
    return [_ramp(0.5 if ranks.max() == 1 else (rank - 1) / (ranks.max() - 1)) for rank in ranks]


def _class_color(probability: np.ndarray) -> str:
    uniform = 1 / len(probability)
    best = int(probability.argmax())
    return _mix(_MIDDLE, _CLASS_COLORS[best % len(_CLASS_COLORS)], (probability[best] - uniform) / (1 - uniform))


def _ramp(share: float) -> str:
    """Blue at 0, pale in the middle, red at 1."""
    if share < 0.5:
        return _mix(_LOW, _MIDDLE, 2 * share)
    return _mix(_MIDDLE, _HIGH, 2 * share - 1)


def _mix(start: tuple[int, int, int], end: tuple[int, int, int], share: float) -> str:
    share = min(1.0, max(0.0, float(share)))
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(start, end, strict=True))


def text_color(background: str) -> str:
    """Black or white, whichever is easier to read on ``background`` (``#rrggbb``)."""
    red, green, blue = (int(background[i : i + 2], 16) for i in (1, 3, 5))
    return "#ffffff" if 0.299 * red + 0.587 * green + 0.114 * blue < 140 else "#1a1a1a"
