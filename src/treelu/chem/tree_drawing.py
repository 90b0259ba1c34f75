"""A tree on fingerprints as a picture: each node with the substructures that weigh most in its decision."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import numpy as np

from treelu.chem.drawing import draw_column
from treelu.chem.features import MolecularFeatures
from treelu.chem.fingerprints import MorganFingerprint
from treelu.tree import ObliqueTree
from treelu.tree.names import shown_name
from treelu.tree.numbers import signed_number
from treelu.view.labels import cut, leaves_below, listed, strongest_terms
from treelu.view.layout import Children, TreeLayout, children_above, layout
from treelu.view.pictures import MAX_LEAVES

_PICTURE = (112, 92)
_HEAD, _CAPTION = 40, 34  # heights above and below the pictures of a node
_HEAD_WIDTH = 176  # room for the numbers above the pictures
_CAPTION_LETTERS = 17
_LEAF = (92, 58)
_GAP, _LEVEL_GAP, _MARGIN = 14, 46, 16
_YES, _NO, _INK, _PALE = "#1f5fbf", "#b3432b", "#222222", "#777777"


def draw_tree(
    tree: ObliqueTree,
    fingerprint: MolecularFeatures | MorganFingerprint,
    *,
    top: int = 3,
    max_depth: int | None = None,
    max_leaves: int | None = MAX_LEAVES,
) -> str:
    """Draw a tree with the substructures that decide, in the manner of the paper's Fig. 3.

    A node shows its ``top`` features by effect: absolute weight times the feature's spread, where the tree knows it.
    Weights and bias are divided by the sum of the node's absolute weights; the answer is yes where weights times
    features plus bias is at least 0, so a positive weight (blue) pulls molecules with the substructure to yes, a
    negative one (red) to no. Of a MorganFingerprint's bit the most frequent of the environments that set it is shown.
    A leaf shows its rank among all leaves (the higher, the larger the probability or value) and its prediction.

    Parameters
    ----------
    tree : ObliqueTree
        Its features are the columns of ``fingerprint``: all of them in order or, where the tree has feature
        names, those with the name of a column. Other features are shown by name.
    fingerprint : MolecularFeatures or MorganFingerprint
        Fitted.
    top : int, default 3
        Features shown at each node.
    max_depth : int, optional
        Nodes at this depth are shown without what is below them. None: as deep as ``max_leaves`` allows.
    max_leaves : int or None, default 32
        Ends of branches drawn at most when ``max_depth`` is None; the last line then says how many leaves are left
        out. None: all.

    Returns
    -------
    str
        An SVG document.

    Examples
    --------
    >>> import numpy as np
    >>> from treelu.chem import MolecularFeatures, draw_tree
    >>> from treelu.tree import ObliqueTree
    >>> features = MolecularFeatures().fit(["CCO", "CCN", "c1ccccc1O"])
    >>> weights = np.zeros((1, len(features.columns_)))
    >>> weights[0, [0, 1]] = -0.5, 1.0
    >>> svg = draw_tree(ObliqueTree(weights, [-0.6], [[1, 2]], [[0.0], [1.0]]), features)
    >>> svg[:4], "+0.67" in svg, "−0.33" in svg
    ('<svg', True, True)
    """
    for name, value, least in (("top", top, 1), ("max_depth", max_depth, 0)):
        if value is not None and value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")
    names = _bit_names(tree, fingerprint)
    max_depth, note = cut(tree, max_depth, max_leaves)
    page, below = _Page.of(tree, top, max_depth), leaves_below(tree)
    pictures = _Pictures(fingerprint, names)
    parts = [_edge(page, node, side) for node in page.children for side in (0, 1)]
    for node in sorted(page.sizes):
        corner = page.corner(node)
        if node in page.children:
            parts.append(_decision_box(tree, node, corner, page.sizes[node], top, pictures))
        elif node < tree.n_splits:
            parts.append(_box(corner, _LEAF, [f"{below[node]:,} leaves", "below"], "#f2f2f2"))
        else:
            parts.append(_leaf_box(tree, node, corner))
    width, height = page.size
    if note:
        parts.append(f'<text x="{_MARGIN}" y="{height:.0f}" fill="{_PALE}">{escape(note)}</text>')
        height += _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="12">\n'
        '<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


@dataclass(frozen=True)
class _Page:
    """Where the boxes are: levels from top to bottom."""

    places: TreeLayout
    children: Children  # of the decision nodes whose children are shown
    sizes: dict[int, tuple[float, float]]

    @classmethod
    def of(cls, tree: ObliqueTree, top: int, max_depth: int) -> _Page:
        children = children_above(tree.children, tree.node_depths(), max_depth)
        box = (max(top * _PICTURE[0] + 12.0, _HEAD_WIDTH), float(_HEAD + _PICTURE[1] + _CAPTION))
        leaf = (float(_LEAF[0]), float(_LEAF[1]))
        places = layout(children, lambda node: box[0] if node in children else leaf[0], _GAP)
        return cls(places, children, {node: box if node in children else leaf for node in places.level})

    def corner(self, node: int) -> tuple[float, float]:
        return self.centre(node) - self.sizes[node][0] / 2, self.top(node)

    def centre(self, node: int) -> float:
        return _MARGIN + self.places.centre[node]

    def top(self, node: int) -> float:
        return _MARGIN + self.places.level[node] * (_HEAD + _PICTURE[1] + _CAPTION + _LEVEL_GAP)

    @property
    def size(self) -> tuple[float, float]:
        bottom = max(self.top(node) + height for node, (_, height) in self.sizes.items())
        return self.places.extent + 2 * _MARGIN, bottom + _MARGIN


class _Pictures:
    """The picture and the caption of each feature."""

    def __init__(self, fingerprint: MolecularFeatures | MorganFingerprint, names: list[int | str]) -> None:
        self.fingerprint = fingerprint
        self.names = names

    def caption(self, feature: int) -> str:
        """As much of the feature's name as has room."""
        name = self.names[feature]
        return shown_name(self.fingerprint.caption(name) if isinstance(name, int) else name, _CAPTION_LETTERS)

    def svg(self, feature: int, x: float, y: float) -> str:
        """The feature's substructure with its corner at (x, y), or a word where there is none to show."""
        name = self.names[feature]
        document = draw_column(self.fingerprint, name, _PICTURE) if isinstance(name, int) else None
        if document is None:
            never = isinstance(name, int) and isinstance(self.fingerprint, MorganFingerprint)
            return _text(x + _PICTURE[0] / 2, y + _PICTURE[1] / 2, "never set" if never else "not drawn", _PALE)
        picture = document[document.index("<svg") :]
        return picture.replace("<svg", f"<svg x='{x:.1f}' y='{y:.1f}'", 1)


def _bit_names(tree: ObliqueTree, fingerprint: MolecularFeatures | MorganFingerprint) -> list[int | str]:
    """For each feature of the tree its column, or its name where it is none."""
    columns = {name: number for number, name in enumerate(fingerprint.get_feature_names_out().tolist())}
    if tree.feature_names is None:
        if tree.n_features != len(columns):
            raise ValueError(
                f"the tree has {tree.n_features} features without names, the fingerprint {len(columns)} "
                "columns; pass the fingerprint that the tree was trained on, or a tree with feature_names"
            )
        return list(range(tree.n_features))
    # A ColumnTransformer calls the columns "<its name for the transformer>__<column>".
    names: list[int | str] = [
        columns.get(name, columns.get(name.partition("__")[2], name)) for name in tree.feature_names
    ]
    if not any(isinstance(name, int) for name in names):
        raise ValueError(
            f"no feature of the tree has the name of a column, such as {next(iter(columns))!r}; its features are "
            f"{', '.join(tree.feature_names[:3])}, …"
        )
    return names


def _decision_box(
    tree: ObliqueTree,
    node: int,
    corner: tuple[float, float],
    size: tuple[float, float],
    top: int,
    pictures: _Pictures,
) -> str:
    x, y = corner
    weights = tree.node_weights(node)
    total = float(np.abs(weights).sum()) or 1.0  # a node without weights decides by its bias alone
    chosen = strongest_terms(weights, tree.effect_scale(), top)
    about = f"{_rows(tree, node)}bias {_signed(tree.biases[node] / total)}"
    parts = [
        _rectangle(corner, size, "#fbfbf7"),
        _text(x + size[0] / 2, y + 16, f"node {node}", bold=True),
        _text(x + size[0] / 2, y + 31, about, _PALE),
    ]
    start = x + (size[0] - len(chosen) * _PICTURE[0]) / 2
    for place, feature in enumerate(chosen):
        left = start + place * _PICTURE[0]
        middle, below = left + _PICTURE[0] / 2, y + _HEAD + _PICTURE[1]
        weight = weights[feature] / total
        parts += [
            pictures.svg(feature, left, y + _HEAD),
            _text(middle, below + 12, _signed(weight), _YES if weight > 0 else _NO, bold=True),
            _text(middle, below + 26, pictures.caption(feature), _PALE),
        ]
    return "\n".join(parts)


def _leaf_box(tree: ObliqueTree, node: int, corner: tuple[float, float]) -> str:
    leaf = node - tree.n_splits
    rows = _rows(tree, node).rstrip(" ·")
    scores = _leaf_scores(tree)
    if scores is None:
        return _box(corner, _LEAF, [f"leaf {node}", _prediction(tree, leaf), rows], "#eef3fb")
    rank = int((scores < scores[leaf]).sum()) + 1
    return _box(corner, _LEAF, [f"{rank} of {tree.n_leaves}", _prediction(tree, leaf), rows], _shade(rank, tree))


def _leaf_scores(tree: ObliqueTree) -> np.ndarray | None:
    """The values that rank the leaves: the second class's probability, or the value; None where there is none."""
    if tree.leaf_weights is not None:
        return None
    if tree.link == "logistic" or (tree.classes is None and tree.n_outputs == 1):
        return tree.values[:, 0]
    if tree.classes is not None and len(tree.classes) == 2:
        return tree.link_outputs(tree.values)[:, 1]
    return None


def _prediction(tree: ObliqueTree, leaf: int) -> str:
    if tree.leaf_weights is not None:
        return "linear"
    outputs = tree.link_outputs(tree.values[leaf : leaf + 1])[0]
    if tree.classes is None:
        return listed(outputs.tolist(), 3).replace("-", "−")
    best = 1 if len(tree.classes) == 2 else int(outputs.argmax())
    return f"P({shown_name(tree.classes[best], 6)}) {outputs[best]:.3f}"


def _shade(rank: int, tree: ObliqueTree) -> str:
    """White for the lowest rank, blue for the highest."""
    share = (rank - 1) / max(tree.n_leaves - 1, 1)
    red, green, blue = (round(255 + share * (end - 255)) for end in (150, 190, 245))
    return f"#{red:02x}{green:02x}{blue:02x}"


def _rows(tree: ObliqueTree, node: int) -> str:
    return "" if tree.n_samples is None else f"{tree.n_samples[node]:,.0f} rows · "


def _edge(page: _Page, node: int, side: int) -> str:
    child = page.children[node][side]
    x, y = page.centre(node), page.top(node) + page.sizes[node][1]
    end, below = page.centre(child), page.top(child)
    colour, label = (_YES, "yes") if side else (_NO, "no")
    middle = (y + below) / 2
    curve = f"M {x:.1f} {y:.1f} C {x:.1f} {middle:.1f} {end:.1f} {middle:.1f} {end:.1f} {below:.1f}"
    beside = _text(end + (8 if side else -8), below - 5, label, colour, anchor="start" if side else "end")
    return f'<path d="{curve}" fill="none" stroke="{colour}" stroke-width="1.5"/>{beside}'


def _box(corner: tuple[float, float], size: tuple[int, int], lines: list[str], colour: str) -> str:
    """A small box with lines of text, the first one bold; empty lines are left out."""
    x, y = corner[0] + size[0] / 2, corner[1] + 18
    texts = [line for line in lines if line]
    return _rectangle(corner, size, colour) + "".join(
        _text(x, y + 16 * index, text, bold=index == 0) for index, text in enumerate(texts)
    )


def _text(x: float, y: float, text: str, colour: str = _INK, *, anchor: str = "middle", bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"{weight}>{escape(text)}</text>'


def _rectangle(corner: tuple[float, float], size: tuple[float, float], colour: str) -> str:
    return (
        f'<rect x="{corner[0]:.1f}" y="{corner[1]:.1f}" width="{size[0]:.1f}" height="{size[1]:.1f}" rx="6" '
        f'fill="{colour}" stroke="#bbbbbb"/>'
    )


def _signed(value: float) -> str:
    return signed_number(value, 2).replace("-", "−")
