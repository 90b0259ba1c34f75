"""A tree on fingerprints as a picture: each node with the substructures that weigh most in its decision."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import numpy as np

from treelu.chem.drawing import draw_substructure
from treelu.chem.fingerprints import MorganFingerprint
from treelu.tree import ObliqueTree

_PICTURE = (112, 92)
_HEAD, _CAPTION = 40, 34  # heights above and below the pictures of a node
_HEAD_WIDTH = 176  # room for the numbers above the pictures
_CAPTION_LETTERS = 17
_LEAF = (92, 58)
_GAP, _LEVEL_GAP, _MARGIN = 14, 46, 16
_RIGHT, _LEFT, _INK, _PALE = "#1f5fbf", "#b3432b", "#222222", "#777777"


def draw_tree(tree: ObliqueTree, fingerprint: MorganFingerprint, *, top: int = 3, max_depth: int | None = None) -> str:
    """Draw a tree with the substructures that decide, in the manner of the paper's Fig. 3.

    A node shows its ``top`` features by absolute weight. Weights and bias are divided by the sum of the
    node's absolute weights; a row goes right where weights times bits plus bias is at least 0, so a positive
    weight (blue) pulls molecules with the substructure to the right, a negative one (red) to the left. The
    picture of a bit is the most frequent of the environments that set it. A leaf shows its rank among all
    leaves (the higher, the larger the probability or value) and its prediction.

    Parameters
    ----------
    tree : ObliqueTree
        Its features are the bits of ``fingerprint``: all of them in order or, where the tree has feature
        names, those that bear a bit's name. Other features are shown by name.
    fingerprint : MorganFingerprint
        Fitted.
    top : int, default 3
        Features shown at each node.
    max_depth : int, optional
        Nodes at this depth are shown without what is below them.

    Returns
    -------
    str
        An SVG document.

    Examples
    --------
    >>> import numpy as np
    >>> from treelu.chem import MorganFingerprint, draw_tree
    >>> from treelu.tree import ObliqueTree
    >>> fingerprint = MorganFingerprint().fit(["CCO", "CCN", "c1ccccc1O"])
    >>> weights = np.zeros((1, 2048))
    >>> weights[0, [80, 807]] = -0.5, 1.0
    >>> svg = draw_tree(ObliqueTree(weights, [-0.6], [[1, 2]], [[0.0], [1.0]]), fingerprint)
    >>> svg[:4], "+0.67" in svg, "−0.33" in svg
    ('<svg', True, True)
    """
    for name, value, least in (("top", top, 1), ("max_depth", max_depth, 0)):
        if value is not None and value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")
    names = _bit_names(tree, fingerprint)
    layout = _Layout.of(tree, top, max_depth)
    pictures = _Pictures(fingerprint, names)
    parts = [_edge(layout, node, side) for node in layout.open_nodes for side in (0, 1)]
    for node in layout.shown:
        corner = layout.corner(node)
        if node in layout.open_nodes:
            parts.append(_decision_box(tree, node, corner, layout.sizes[node], top, pictures))
        elif node < tree.n_splits:
            parts.append(_box(corner, _LEAF, [f"{_leaves_below(tree, node)} leaves", "below"], "#f2f2f2"))
        else:
            parts.append(_leaf_box(tree, node, corner))
    width, height = layout.page
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="12">\n'
        '<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


@dataclass(frozen=True)
class _Layout:
    """Where the boxes are. A parent is centred over its two children; boxes of a level do not overlap."""

    children: np.ndarray
    shown: list[int]
    open_nodes: set[int]  # decision nodes whose children are shown
    sizes: dict[int, tuple[float, float]]
    centres: dict[int, float]
    tops: dict[int, float]

    @classmethod
    def of(cls, tree: ObliqueTree, top: int, max_depth: int | None) -> _Layout:
        depths = tree.node_depths()
        limit = depths.max() if max_depth is None else max_depth
        shown = np.flatnonzero(depths <= limit).tolist()
        open_nodes = {node for node in shown if node < tree.n_splits and depths[node] < limit}
        box = (max(top * _PICTURE[0] + 12.0, _HEAD_WIDTH), float(_HEAD + _PICTURE[1] + _CAPTION))
        sizes = {node: box if node in open_nodes else (float(_LEAF[0]), float(_LEAF[1])) for node in shown}
        centres = _centres(tree.children, shown, open_nodes, {node: size[0] for node, size in sizes.items()})
        level = box[1] + _LEVEL_GAP
        tops = {node: _MARGIN + float(depths[node]) * level for node in shown}
        return cls(tree.children, shown, open_nodes, sizes, centres, tops)

    def corner(self, node: int) -> tuple[float, float]:
        return self.centres[node] - self.sizes[node][0] / 2, self.tops[node]

    @property
    def page(self) -> tuple[float, float]:
        right = max(self.centres[node] + self.sizes[node][0] / 2 for node in self.shown)
        bottom = max(self.tops[node] + self.sizes[node][1] for node in self.shown)
        return right + _MARGIN, bottom + _MARGIN


def _centres(
    children: np.ndarray, shown: list[int], open_nodes: set[int], widths: dict[int, float]
) -> dict[int, float]:
    """Horizontal centres of the boxes."""
    left = {node: widths[node] / 2 for node in shown}  # how far a subtree reaches left of its root's centre
    right = dict(left)
    spread: dict[int, float] = {}  # distance of a node's children
    for node in sorted(open_nodes, reverse=True):  # children before parents
        first, second = children[node].tolist()
        spread[node] = right[first] + _GAP + left[second]
        left[node] = max(left[node], spread[node] / 2 + left[first])
        right[node] = max(right[node], spread[node] / 2 + right[second])
    centres = {0: _MARGIN + left[0]}
    for node in sorted(open_nodes):
        for child, sign in zip(children[node].tolist(), (-0.5, 0.5), strict=True):
            centres[child] = centres[node] + sign * spread[node]
    return centres


class _Pictures:
    """The picture and the caption of each feature."""

    def __init__(self, fingerprint: MorganFingerprint, names: list[int | str]) -> None:
        self.fingerprint = fingerprint
        self.names = names

    def caption(self, feature: int) -> str:
        """The bit, or as much of the feature's name as has room."""
        name = self.names[feature]
        if isinstance(name, int):
            return f"bit {name}"
        return name if len(name) <= _CAPTION_LETTERS else f"{name[: _CAPTION_LETTERS - 1]}…"

    def svg(self, feature: int, x: float, y: float) -> str:
        """The feature's substructure with its corner at (x, y), or a word where there is none to show."""
        name = self.names[feature]
        examples = self.fingerprint.examples(name) if isinstance(name, int) else []
        if not examples:
            word = "never set" if isinstance(name, int) else "no bit"
            return _text(x + _PICTURE[0] / 2, y + _PICTURE[1] / 2, word, _PALE)
        found = examples[0]
        document = draw_substructure(found.smiles, found.atom, found.radius, _PICTURE)
        picture = document[document.index("<svg") :]
        return picture.replace("<svg", f"<svg x='{x:.1f}' y='{y:.1f}'", 1)


def _bit_names(tree: ObliqueTree, fingerprint: MorganFingerprint) -> list[int | str]:
    """For each feature of the tree its bit, or its name where it is no bit."""
    if tree.feature_names is None:
        if tree.n_features != fingerprint.n_bits:
            raise ValueError(
                f"the tree has {tree.n_features} features without names, the fingerprint {fingerprint.n_bits} "
                "bits; pass the fingerprint that the tree was trained on, or a tree with feature_names"
            )
        return list(range(tree.n_features))
    bits = {name: bit for bit, name in enumerate(fingerprint.get_feature_names_out().tolist())}
    # A ColumnTransformer calls the bits "<its name for the transformer>__bit_0042".
    names: list[int | str] = [bits.get(name.rpartition("__")[2], name) for name in tree.feature_names]
    if not any(isinstance(name, int) for name in names):
        raise ValueError(
            f"no feature of the tree bears the name of a bit such as {next(iter(bits))!r}; its features are "
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
    # Of equal weights the lower feature comes first.
    largest = np.argsort(-np.abs(weights), kind="stable")[:top].tolist()
    chosen = [feature for feature in largest if weights[feature] != 0]
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
            _text(middle, below + 12, _signed(weight), _RIGHT if weight > 0 else _LEFT, bold=True),
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
    """What leaves are ranked by: the second class's probability, or the value; None where there is none."""
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
        return ", ".join(f"{value:.3g}" for value in outputs).replace("-", "−")
    best = 1 if len(tree.classes) == 2 else int(outputs.argmax())
    return f"P({tree.classes[best]}) {outputs[best]:.3f}"


def _shade(rank: int, tree: ObliqueTree) -> str:
    """White for the lowest rank, blue for the highest."""
    share = (rank - 1) / max(tree.n_leaves - 1, 1)
    red, green, blue = (round(255 + share * (end - 255)) for end in (150, 190, 245))
    return f"#{red:02x}{green:02x}{blue:02x}"


def _rows(tree: ObliqueTree, node: int) -> str:
    return "" if tree.n_samples is None else f"{tree.n_samples[node]:,.0f} rows · "


def _leaves_below(tree: ObliqueTree, node: int) -> int:
    open_nodes, leaves = [node], 0
    while open_nodes:
        for child in tree.children[open_nodes.pop()].tolist():
            if child < tree.n_splits:
                open_nodes.append(child)
            else:
                leaves += 1
    return leaves


def _edge(layout: _Layout, node: int, side: int) -> str:
    child = int(layout.children[node, side])
    x, y = layout.centres[node], layout.tops[node] + layout.sizes[node][1]
    end, below = layout.centres[child], layout.tops[child]
    colour, label = (_RIGHT, "≥ 0") if side else (_LEFT, "< 0")
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
    return f"{value:+.2g}".replace("-", "−")
