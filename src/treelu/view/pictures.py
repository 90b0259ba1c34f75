"""The tree in the style of the paper's Fig. 3: each split's strongest terms, leaves by the rank of their output."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from treelu.tree import ObliqueTree
from treelu.tree.names import shown_apart, shown_name
from treelu.tree.numbers import short_number, signed_short
from treelu.tree.one_hot import LevelSet, level_set, one_hot_groups, pairs_as_one_term
from treelu.view.colors import leaf_colors, leaf_ranks, text_color
from treelu.view.formulas import leaf_formulas, prediction_ranges
from treelu.view.labels import (
    FEW,
    Top,
    check_scale,
    cut,
    formula_terms,
    hidden_words,
    leaves_below,
    listed,
    range_words,
    rows_words,
)
from treelu.view.layout import layout
from treelu.view.score_card import Cards

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LEAVES = 32  # ends of branches in a picture
# Inches; the axes are laid out in them, so that text of a fixed size fits its box.
_LINE, _PAD, _GAP = 0.155, 0.05, 0.10
_CARD_WIDTH, _LEAF_WIDTH, _STEP = 2.35, 1.75, 0.5
_LETTER = 0.052  # of a band's words beside its branch
_FORMULAS = 4  # drawn of a linear leaf
_NAME = 19  # letters of a name
_LETTERS = 36  # of a whole line
_FIGURES = 9  # of a weight, beyond which it is shown to three digits
_CAPTION = 0.25
_FONT = 7.5  # points
_PLUS, _MINUS, _INK, _PALE, _RULE = "#c2502e", "#2f62a8", "#1a1a1a", "#6b6b68", "#9a9a96"


def plot_tree(
    tree: ObliqueTree,
    *,
    top: Top = None,
    max_depth: int | None = None,
    max_leaves: int | None = MAX_LEAVES,
    scale: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the tree from left to right; at each split "no" goes up and "yes" goes down.

    A node shows its split: the strongest terms with their weights, how many more there are, the threshold that
    their sum has to reach for a yes, and the rows that come here where known. The length of a bar is a term's
    effect (|weight| × spread) as a share of the effects of all the split's terms (the paper's Fig. 3). A leaf
    shows its class and a probability, or the rank of its output among all leaves (1 is the lowest) and the output; a
    linear leaf shows its formula as a split shows its terms. Neighbouring splits with the same weights are one box, a
    score card, from which a branch goes out for each band of the score.

    Parameters
    ----------
    tree : ObliqueTree
    top : int or "all", optional
        Terms shown of a formula, the strongest first. None: all where there are at most six, else three.
    max_depth : int, optional
        Cut the picture at this depth; a branch cut off becomes one box that counts its leaves. None: as deep as
        ``max_leaves`` allows.
    max_leaves : int or None
        Ends of branches drawn at most when ``max_depth`` is None; the first line then says how many leaves are left
        out. None: all.
    scale : array of shape (n_features,), optional
        The spread of each feature by which terms are compared. None: the tree's own ``spreads``, or all the same
        where it has none.
    ax : matplotlib Axes, optional
        Where to draw; a figure of fitting size is made if None.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> tree = ObliqueTree([[1.0, -1.0]], [0.5], [[1, 2]], [[0], [1]], feature_names=["height", "age"])
    >>> ax = plot_tree(tree)
    >>> sorted({text.get_text() for text in ax.texts} & {"height", "age", "≥ -0.5"})
    ['age', 'height', '≥ -0.5']
    """
    picture = _Picture.of(tree, top, max_depth, max_leaves, scale)
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.figure(figsize=picture.size, layout="none").add_axes((0, 0, 1, 1))
    picture.draw(ax)
    return ax


def draw_figure(tree: ObliqueTree) -> Figure:
    """The tree as a figure that no window and no notebook shows by itself."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    picture = _Picture.of(tree)
    figure = Figure(figsize=picture.size)
    FigureCanvasAgg(figure)
    picture.draw(figure.add_axes((0, 0, 1, 1)))
    return figure


class _Picture:
    """The boxes and lines of one picture, in inches from its upper left corner."""

    def __init__(self, tree: ObliqueTree, top: Top, max_depth: int, scale: np.ndarray, note: str) -> None:
        self.tree = tree
        self.words = caption(tree) + (f"; {note}" if note else "")
        cards = Cards(tree, max_depth)
        self.shown = cards.shown()
        self.boxes = {node: _split_box(tree, node, top, scale, cards.at(node) is not None) for node in self.shown}
        if tree.leaf_weights is not None:
            ranges = prediction_ranges(tree)
            leaves = {child for branches in self.shown.values() for _, child in branches} or {0}
            for node in (node for node in leaves if node >= tree.n_splits):
                leaf = node - tree.n_splits
                self.boxes[node] = _leaf_box(tree, leaf, top, scale, range_words(tree, ranges[leaf]))
        letters = max((len(line.right) for box in self.boxes.values() for line in box if line.share), default=0)
        self.numbers = max(0.63, 0.05 + 0.068 * letters)  # the room of weights beside the bars
        self.leaf_height = (2 if rows_words(tree, 0) else 1) * _LINE + 2 * _PAD
        self.places = layout(
            {node: tuple(child for _, child in branches) for node, branches in self.shown.items()}, self.height_of, _GAP
        )
        self.longest = max((line.share for box in self.boxes.values() for line in box), default=0.0) or 1.0
        self.ranks, self.colors, self.below = leaf_ranks(tree), leaf_colors(tree), leaves_below(tree)
        self.lefts = self._lefts()
        last = self.lefts[-1] + (_CARD_WIDTH if tree.leaf_weights is not None else _LEAF_WIDTH)
        self.size = (last + 0.15, self.places.extent + 0.3 + _CAPTION)

    @classmethod
    def of(
        cls,
        tree: ObliqueTree,
        top: Top = None,
        max_depth: int | None = None,
        max_leaves: int | None = MAX_LEAVES,
        scale: Any = None,
    ) -> _Picture:
        """The picture of a tree, cut at a depth or where so many ends of branches fit."""
        if max_depth is not None and max_depth < 0:
            raise ValueError(f"max_depth must be at least 0, got {max_depth}")
        tree = pairs_as_one_term(tree, one_hot_groups(tree))
        max_depth, note = cut(tree, max_depth, max_leaves)
        return cls(tree, top, max_depth, check_scale(tree, scale), note)

    def height_of(self, node: int) -> float:
        """The height of a node's box."""
        return len(self.boxes[node]) * _LINE + 2 * _PAD if node in self.boxes else self.leaf_height

    def _lefts(self) -> list[float]:
        """The left edges of the levels, so far apart that the answers at the branches between them have room."""
        levels = self.places.level
        steps = [_STEP] * max(levels.values(), default=0)
        for node, branches in self.shown.items():
            room = 0.25 + _LETTER * max(len(words) for words, _ in branches)
            steps[levels[node]] = max(steps[levels[node]], room)
        return np.cumsum([0.15, *(_CARD_WIDTH + step for step in steps)]).tolist()

    def draw(self, ax: Axes) -> None:
        """Draw everything in the middle of the axes, as large as they allow; text keeps its size in its box."""
        width, height = self.size
        figure = ax.get_figure(root=True)
        assert figure is not None
        box = ax.get_window_extent().transformed(figure.dpi_scale_trans.inverted())
        scale = min(1.25, box.width / width, box.height / height)
        self.font = _FONT * scale
        ax.set_xlim((width - box.width / scale) / 2, (width + box.width / scale) / 2)
        ax.set_ylim((height + box.height / scale) / 2, (height - box.height / scale) / 2)
        ax.set_axis_off()
        self._text(ax, 0.15, 0.2, self.words, color=_PALE)
        for node, branches in self.shown.items():
            for place, (words, child) in enumerate(branches):
                self._edge(ax, node, child, words, lower=2 * place >= len(branches))
        for node in self.places.level:
            if node in self.boxes:
                self._box(ax, node)
            elif node < self.tree.n_splits:
                self._hidden(ax, node)
            else:
                self._leaf(ax, node)

    def _place(self, node: int) -> tuple[float, float]:
        """Left edge and vertical centre of a node's box."""
        return self.lefts[self.places.level[node]], _CAPTION + 0.15 + self.places.centre[node]

    def _text(self, ax: Axes, x: float, y: float, words: str, **options: Any) -> None:
        if words:
            style = {"va": "center", "size": self.font, "color": _INK, "parse_math": False}
            ax.text(x, y, words, **{**style, **options})

    def _frame(self, ax: Axes, x: float, y: float, width: float, height: float, **style: Any) -> None:
        from matplotlib.patches import FancyBboxPatch

        rounding = "round,pad=0,rounding_size=0.05"
        style = {"facecolor": "white", "edgecolor": _RULE, "linewidth": 0.8, **style}
        ax.add_patch(FancyBboxPatch((x, y - height / 2), width, height, boxstyle=rounding, zorder=2, **style))

    def _edge(self, ax: Axes, node: int, child: int, words: str, lower: bool) -> None:
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path

        (x0, y0), (x1, y1) = self._place(node), self._place(child)
        x0 += _CARD_WIDTH
        middle = (x0 + x1) / 2
        curve = Path([(x0, y0), (middle, y0), (middle, y1), (x1, y1)], [1, 4, 4, 4])
        share = 0.3
        if self.tree.n_samples is not None and self.tree.n_samples[0] > 0:
            share = float(self.tree.n_samples[child] / self.tree.n_samples[0])
        ax.add_patch(PathPatch(curve, facecolor="none", edgecolor=_RULE, linewidth=0.6 + 3.4 * share, zorder=1))
        y = y1 + (0.05 if lower else -0.05)
        align = "top" if lower else "bottom"
        self._text(ax, x1 - 0.04, y, words, ha="right", va=align, size=0.85 * self.font, color=_PALE)

    def _box(self, ax: Axes, node: int) -> None:
        """A formula: its strongest terms with bars, what share the others hold, and what becomes of the sum."""
        x, y = self._place(node)
        height = self.height_of(node)
        self._frame(ax, x, y, _CARD_WIDTH, height)
        left, right = x + 0.07, x + _CARD_WIDTH - 0.07
        at = y - height / 2 + _PAD + _LINE / 2
        for line in self.boxes[node]:
            if line.share:
                self._bar(ax, right, at, line)
            self._text(ax, left, at, line.left, weight="bold" if line.bold else "normal", color=line.ink)
            self._text(ax, right, at, line.right, ha="right", color=line.color)
            at += _LINE

    def _bar(self, ax: Axes, right: float, y: float, line: _Line) -> None:
        from matplotlib.patches import Rectangle

        bar = 0.4 * line.share / self.longest
        corner = (right - self.numbers - bar, y - 0.3 * _LINE)
        ax.add_patch(Rectangle(corner, bar, 0.6 * _LINE, color=line.color, alpha=0.75, zorder=3, lw=0))

    def _leaf(self, ax: Axes, node: int) -> None:
        leaf = node - self.tree.n_splits
        x, y = self._place(node)
        color = self.colors[leaf]
        self._frame(ax, x, y, _LEAF_WIDTH, self.leaf_height, facecolor=color, edgecolor="none")
        ink = text_color(color)
        rows = rows_words(self.tree, node)
        line = y - _LINE / 2 if rows else y
        first, second = leaf_lines(self.tree, leaf, self.ranks)
        self._text(ax, x + 0.08, line, first, color=ink, weight="bold")
        self._text(ax, x + _LEAF_WIDTH - 0.08, line, second, color=ink, ha="right")
        if rows:
            self._text(ax, x + 0.08, line + _LINE, rows, color=ink)

    def _hidden(self, ax: Axes, node: int) -> None:
        x, y = self._place(node)
        self._frame(ax, x, y, _LEAF_WIDTH, self.leaf_height, facecolor="#f7f7f5", linestyle=(0, (3, 2)))
        rows = rows_words(self.tree, node)
        line = y - _LINE / 2 if rows else y
        self._text(ax, x + 0.08, line, hidden_words(self.below[node]), color=_PALE)
        if rows:
            self._text(ax, x + 0.08, line + _LINE, rows, color=_PALE)


@dataclass(frozen=True)
class _Line:
    """A line of a box: words to the left and to the right, perhaps with a bar."""

    left: str
    right: str
    share: float = 0.0  # of the effects |weight| × scale of all terms
    ink: str = _INK
    color: str = _PALE
    bold: bool = False


def _terms(tree: ObliqueTree, weights: np.ndarray, top: Top, scale: np.ndarray) -> list[_Line]:
    """The strongest terms of a formula, and how much of the effect the others have."""
    whole = float((np.abs(weights) * scale).sum()) or 1.0
    terms, more = formula_terms(tree, weights, scale, top, _NAME)
    lines = []
    for term in terms:
        share = term.effect / whole
        points = [_points(float(weights[feature])) for feature in term.features]
        if not term.categories:
            lines.append(_Line(term.name, points[0][0], share, color=points[0][1]))
            continue
        lines.append(_Line(term.name, "", share, color=_PALE))
        named = len(points) if top == "all" else FEW
        for name, (text, color) in list(zip(term.categories, points, strict=True))[:named]:
            lines.append(_Line(f"    {name}", text, color=color))
        if len(points) > named:
            lines.append(_Line(f"    {len(points) - named:,} more", "", ink=_PALE))
    if more:
        others = max(0.0, 1.0 - sum(term.effect for term in terms) / whole)
        lines.append(_Line(f"{more:,} more", f"{others:.0%} of the effect", ink=_PALE))
    return lines


def _points(weight: float) -> tuple[str, str]:
    """A weight as it is written, and its colour."""
    text = signed_short(weight)
    return text if len(text) <= _FIGURES else signed_short(weight, 3), _PLUS if weight > 0 else _MINUS


def _split_box(tree: ObliqueTree, node: int, top: Top, scale: np.ndarray, is_card: bool) -> list[_Line]:
    found = None if is_card else level_set(tree, node)
    if found is not None:
        return _set_box(found, rows_words(tree, node))
    words = "score" if is_card else f"≥ {short_number(-float(tree.biases[node]))}"
    terms = _terms(tree, tree.node_weights(node), top, scale)
    return [*terms, _Line(words, rows_words(tree, node), bold=True)]


def _set_box(found: LevelSet, rows: str) -> list[_Line]:
    """The levels of a split by a set."""
    one = len(found.levels) == 1
    question = ("is" if one else "is one of") if found.inside else ("is not" if one else "is none of")
    levels = [_Line(f"    {shown_apart(name, found.levels, _NAME)}", "") for name in found.levels]
    return [_Line(shown_name(found.column, _NAME), question), *levels, _Line("", rows, bold=True)]


def _leaf_box(tree: ObliqueTree, leaf: int, top: Top, scale: np.ndarray, ends: str) -> list[_Line]:
    """The formulas of a linear leaf, and the rows that come there."""
    formulas, lines = leaf_formulas(tree, leaf), []
    if len(formulas) > 1 and top is None:
        top = 2
    for formula in formulas[:_FORMULAS]:
        lines += _terms(tree, formula.weights, top, scale)
        if formula.constant or not formula.weights.any():
            lines.append(_Line("constant", signed_short(formula.constant), ink=_PALE))
        lines.append(_Line(f"= {formula.title(16)}", "", bold=True))
    more = len(formulas) - _FORMULAS
    if more > 0:
        lines.append(_Line(f"{more:,} more {'values' if tree.classes is None else 'classes'}", "", ink=_PALE))
    if ends:
        lines.append(_Line(ends, ""))
    rows = rows_words(tree, tree.n_splits + leaf)
    if len(lines[-1].left) + len(rows) > _LETTERS:
        return [*lines, _Line("", rows)]
    return [*lines[:-1], replace(lines[-1], right=rows)]


def caption(tree: ObliqueTree) -> str:
    """The legend of the leaves."""
    leaves = "1 leaf" if tree.n_leaves == 1 else f"{tree.n_leaves:,} leaves"
    if tree.n_visited_leaves not in (None, tree.n_leaves):
        leaves += f" ({tree.n_visited_leaves:,} visited)"
    if tree.leaf_weights is not None:
        return f"{leaves}, each with a formula"
    if leaf_ranks(tree) is None:
        return leaves if tree.classes is None else f"{leaves}, each with its likeliest class and the probability"
    if tree.classes is None:
        return f"{leaves} by the rank of their output; rank 1 is the lowest"
    return f"{leaves}, each with its class and the probability p of class {shown_name(tree.classes[1], 30)}"


def leaf_lines(tree: ObliqueTree, leaf: int, ranks: np.ndarray | None) -> tuple[str, str]:
    """Two words for a leaf: its rank and output, or its class and a probability."""
    if tree.classes is None:
        output = listed(tree.values[leaf][:3].tolist())
        return ("", output) if ranks is None else (f"rank {ranks[leaf]}", output)
    probability = tree.link_outputs(tree.values[leaf : leaf + 1])[0]
    best = int(probability.argmax())
    second = f"p = {probability[1]:.3f}" if len(tree.classes) == 2 else f"{probability[best]:.3f}"
    return shown_name(tree.classes[best], 14), second
