"""Words for nodes and leaves, shared by the text, DOT and picture exports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from treelu.tree import ObliqueTree
from treelu.tree.check import SAME_WEIGHT, float_array
from treelu.tree.names import LONGEST, shown_apart, shown_class, shown_name
from treelu.tree.numbers import short_number, shown_number, signed_short
from treelu.tree.one_hot import group_name, level_set, one_hot_groups
from treelu.tree.rows import node_totals
from treelu.view.formulas import leaf_formulas
from treelu.view.layout import depth_that_fits

MAX_LEAVES = 256  # ends of branches in a text
FEW = 6  # a split of so many terms is shown whole
STRONGEST = 3  # terms shown of a longer one
Top: TypeAlias = int | Literal["all"] | None


def strongest_terms(weights: np.ndarray, scale: np.ndarray, top: Top = None) -> list[int]:
    """Features whose weights are not zero, by effect (|weight| × scale), the strongest first.

    At most ``top`` of them; None: all where there are at most six, else the strongest three; "all": every one. Of equal
    effects the lower feature comes first.

    Examples
    --------
    >>> strongest_terms(np.array([0.1, -3.0, 0.0, 2.0]), np.ones(4))
    [1, 3, 0]
    >>> strongest_terms(np.array([0.1, -3.0, 0.0, 2.0]), np.array([100.0, 1, 1, 1]), top=2)
    [0, 1]
    """
    used = np.flatnonzero(weights)
    order = np.argsort(-np.abs(weights[used]) * scale[used], kind="stable")
    return [int(feature) for feature in used[order][: most_terms(top, len(used))]]


def most_terms(top: Top, n_terms: int) -> int:
    """How many of a formula's terms are shown."""
    if top is None:
        return FEW if n_terms <= FEW else STRONGEST
    if top == "all":
        return n_terms
    if isinstance(top, str):
        raise ValueError(f'top must be a number of terms, "all" or None, got {top!r}')
    return max(0, top)


@dataclass(frozen=True)
class Term:
    """A feature of a formula, or the categories of a column that carry weights in it.

    Attributes
    ----------
    features : tuple of int
        One feature; of a group the categories, the largest |weight| first.
    name : str
        The feature's name, or the column's.
    categories : tuple of str
        Names of a group's categories; empty for a feature alone.
    effect : float
        The sum of |weight| × scale.
    """

    features: tuple[int, ...]
    name: str
    categories: tuple[str, ...]
    effect: float


def formula_terms(
    tree: ObliqueTree, weights: np.ndarray, scale: np.ndarray, top: Top = None, longest: int = LONGEST
) -> tuple[list[Term], int]:
    """The strongest terms of a formula, and how many more there are; categories of one column are one term.

    Examples
    --------
    >>> names = ["age", "colour=red", "colour=blue", "colour=green"]
    >>> tree = ObliqueTree([[0.5, 2.0, -3.0, 0.0]], [0], [[1, 2]], [[0], [1]], feature_names=names)
    >>> [term.name for term in formula_terms(tree, tree.weights[0], np.ones(4))[0]]
    ['colour=blue', 'colour=red', 'age']
    """
    waiting = set(np.flatnonzero(weights).tolist())
    effects, terms = np.abs(weights) * scale, []
    for group in one_hot_groups(tree):
        members = sorted(waiting.intersection(group), key=lambda j: (-abs(weights[j]), j))
        named = group_name([tree.feature_name(j) for j in members]) if len(members) > 1 else None
        if named is not None:
            waiting -= set(members)
            categories = tuple(shown_apart(name, named[1], longest) for name in named[1])
            terms.append(Term(tuple(members), shown_name(named[0], longest), categories, float(effects[members].sum())))
    terms += [Term((j,), feature_label(tree, j, longest), (), float(effects[j])) for j in waiting]
    terms.sort(key=lambda term: (-term.effect, term.features))
    most = most_terms(top, len(terms))
    return terms[:most], max(0, len(terms) - most)


def feature_label(tree: ObliqueTree, feature: int, most: int = LONGEST) -> str:
    """A feature's name on one line, cut so that it stays different from the others'.

    Examples
    --------
    >>> tree = ObliqueTree([[1.0, 2.0]], [0], [[1, 2]], [[0], [1]], feature_names=["age at start", "age at stop"])
    >>> feature_label(tree, 0, 8), feature_label(tree, 1, 8)
    ('age …art', 'age …top')
    """
    return shown_apart(tree.feature_name(feature), tree.feature_names or (), most)


def linear_form(
    tree: ObliqueTree,
    weights: np.ndarray,
    constant: float | None,
    top: Top = None,
    digits: int | None = None,
    scale: np.ndarray | None = None,
) -> str:
    """A linear form in the tree's feature names: its strongest terms, a count of the rest, the constant.

    Examples
    --------
    >>> tree = ObliqueTree([[1.0, -4.0, 0.5]], [2.0], [[1, 2]], [[0], [1]])
    >>> linear_form(tree, tree.weights[0], 2.0, top=2)
    '-4·x1 + x0 + (1 more) + 2'
    """
    text = ""
    terms, rest = formula_terms(tree, weights, tree.effect_scale() if scale is None else scale, top)
    for term in terms:
        words, negative = term_words(term, weights, digits, every=top == "all")
        text = _append(text, words, negative)
    if rest > 0:
        text = _append(text, f"({rest:,} more)", False)
    return text if constant is None else append_constant(text, constant, digits)


def term_words(term: Term, weights: np.ndarray, digits: int | None = None, *, every: bool = False) -> tuple[str, bool]:
    """A term without its sign, and whether that is minus; a group's points keep their own.

    Of a group the six categories with the largest points are named, or every one.

    Examples
    --------
    >>> term_words(Term((1,), "age", (), 1.0), np.array([0.0, -2.5])), term_words(Term((0,), "x", (), 1.0), np.ones(1))
    (('2.5·age', True), ('x', False))
    >>> term_words(Term((1, 0), "colour", ("red", "blue"), 1.0), np.array([-1.0, 2.0]))
    ('(colour: red +2, blue -1)', False)
    """
    if term.categories:
        points = [
            f"{name} {signed_short(weights[j], digits)}" for name, j in zip(term.categories, term.features, strict=True)
        ]
        named = points if every else points[:FEW]
        more = len(points) - len(named)
        return f"({term.name}: {', '.join(named)}{f', {more:,} more' if more else ''})", False
    weight = weights[term.features[0]]
    size = short_number(abs(weight), digits)
    return (term.name if size == "1" else f"{size}·{term.name}"), bool(weight < 0)


def set_words(tree: ObliqueTree, node: int) -> str | None:
    """A split by a set of a category's levels in words; None for any other split.

    Examples
    --------
    >>> from treelu.tree.observed import Observed
    >>> known = {"observed": Observed.of(np.eye(3)), "feature_names": ["colour=red", "colour=blue", "colour=green"]}
    >>> tree = ObliqueTree([[1.0, 0, 1], [0, -1, 0]], [-0.5, 0.5], [[1, 2], [3, 4]], [[0], [1], [2]], **known)
    >>> set_words(tree, 0), set_words(tree, 1)
    ('colour in {red, green}', 'colour is not blue')
    """
    parts = set_parts(tree, node)
    return None if parts is None else " ".join(parts)


def set_parts(tree: ObliqueTree, node: int) -> tuple[str, str] | None:
    """The same in two parts: the column, and which of its levels."""
    found = level_set(tree, node)
    if found is None:
        return None
    column, levels = shown_name(found.column), [shown_apart(name, found.levels) for name in found.levels]
    if len(levels) == 1:
        return column, f"{'is' if found.inside else 'is not'} {levels[0]}"
    return column, f"{'in' if found.inside else 'not in'} {{{', '.join(levels)}}}"


def append_constant(text: str, constant: float, digits: int | None = None) -> str:
    """A linear form and its constant, which is left out where it is 0.

    Examples
    --------
    >>> append_constant("2·x0", -1.5), append_constant("x0", 0.0), append_constant("", 0.0)
    ('2·x0 - 1.5', 'x0', '0')
    """
    if constant == 0 and text:
        return text
    return _append(text, short_number(abs(constant), digits), constant < 0)


def _append(text: str, term: str, negative: bool) -> str:
    if not text:
        return f"-{term}" if negative else term
    return f"{text} {'-' if negative else '+'} {term}"


def leaf_words(
    tree: ObliqueTree, leaf: int, top: Top = None, digits: int | None = None, scale: np.ndarray | None = None
) -> str:
    """The prediction of leaf ``leaf`` (counted from 0): a value, a class with its probability, or a linear form.

    Examples
    --------
    >>> tree = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[-2.0], [1.0]], link="logistic", classes=["no", "yes"])
    >>> leaf_words(tree, 0)
    "class 'no', probability 0.881"
    """
    if tree.leaf_weights is not None:
        return formula_words(tree, leaf, top, digits, scale)
    if tree.classes is None:
        return "value " + listed(tree.values[leaf].tolist(), digits)
    probability = tree.link_outputs(tree.values[leaf : leaf + 1])[0]
    best = int(probability.argmax())
    return f"class {shown_class(tree.classes[best])}, probability {shown_number(probability[best], digits or 3)}"


def formula_words(
    tree: ObliqueTree,
    leaf: int,
    top: Top = None,
    digits: int | None = None,
    scale: np.ndarray | None = None,
    terms: str | None = None,
) -> str:
    """The formulas of a linear leaf; ``terms`` stands in place of their terms.

    Examples
    --------
    >>> tree = ObliqueTree(
    ...     np.zeros((0, 2)), [], np.zeros((0, 2)), [[-1.0]], leaf_weights=[[[0.5, 2.0]]], link="logistic",
    ...     classes=["no", "yes"],
    ... )
    >>> formula_words(tree, 0)
    "log-odds of 'yes' = 2·x1 + 0.5·x0 - 1"
    """
    formulas = leaf_formulas(tree, leaf)
    forms = [
        linear_form(tree, each.weights, each.constant, top, digits, scale) if terms is None
        else append_constant(terms, each.constant, digits)
        for each in formulas
    ]  # fmt: skip
    if tree.classes is None:
        return "value " + "; ".join(forms)
    return "; ".join(f"{each.title()} = {form}" for each, form in zip(formulas, forms, strict=True))


def range_words(tree: ObliqueTree, ends: tuple[float, float] | None, digits: int | None = None) -> str:
    """The range of a linear leaf's predictions; nothing where it is not known.

    Examples
    --------
    >>> tree = ObliqueTree(np.zeros((0, 1)), [], np.zeros((0, 2)), [[0.0]], leaf_weights=[[[2.0]]])
    >>> range_words(tree, (-0.5, 2.25)), range_words(tree, None)
    ('from -0.5 to 2.25', '')
    """
    if ends is None:
        return ""
    if tree.classes is None:
        return f"from {short_number(ends[0], digits)} to {short_number(ends[1], digits)}"
    low, high = (shown_probability(end, digits) for end in ends)
    return f"probability {low}" + (f" to {high}" if high != low else "")


def shown_probability(value: float, digits: int | None = None) -> str:
    """A probability to so many digits; by default to three, and nothing closer than 0.001 to the ends.

    Examples
    --------
    >>> shown_probability(0.4567), shown_probability(7e-7), shown_probability(0.99996), shown_probability(7e-7, 2)
    ('0.457', 'below 0.001', 'above 0.999', '7e-07')
    """
    if digits is None and (0 < value < 0.001 or 0.999 < value < 1):
        return "below 0.001" if value < 0.5 else "above 0.999"
    return shown_number(value, digits or 3)


def listed(values: Sequence[float], digits: int | None = None) -> str:
    """Several numbers; thousands are not marked with the comma that stands between them.

    Examples
    --------
    >>> listed([1470.0]), listed([1470.0, 2.5])
    ('1,470', '1470, 2.5')
    """
    texts = [short_number(value, digits) for value in values]
    return texts[0] if len(texts) == 1 else ", ".join(text.replace(",", "") for text in texts)


def check_scale(tree: ObliqueTree, scale: Any) -> np.ndarray:
    """The spread of each feature by which weights are compared: as given, or else the tree's own."""
    return tree.effect_scale() if scale is None else float_array("scale", scale, (tree.n_features,))


def rows_words(tree: ObliqueTree, node: int) -> str:
    """How many rows reach the node and, where it is not their number, their weight; nothing where not known.

    Examples
    --------
    >>> tree = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[0.0], [1.0]])
    >>> rows_words(tree.with_counts([[-1], [1], [2]]), 2)
    '2 rows'
    >>> rows_words(tree.with_counts([[-1], [1], [2]], sample_weight=[0.5, 1.0, 1.25]), 1)
    '1 row, weight 0.5'
    """
    words, count = [], None
    if tree.n_samples is not None:
        count = tree.n_samples[node]
        words.append(f"{count:,.0f} row" + ("" if count == 1 else "s"))
    if tree.weighted_n_samples is not None:
        weight = tree.weighted_n_samples[node]
        if count is None or not np.isclose(weight, count, rtol=SAME_WEIGHT, atol=0):
            words.append(f"weight {weight:{',.0f' if weight >= 1000 else '.4g'}}")
    return ", ".join(words)


def hidden_words(n_leaves: int) -> str:
    """The contents of a collapsed branch.

    Examples
    --------
    >>> hidden_words(2), hidden_words(1024)
    ('… 1 split, 2 leaves', '… 1,023 splits, 1,024 leaves')
    """
    return f"… {n_leaves - 1:,} split{'' if n_leaves == 2 else 's'}, {n_leaves:,} leaves"


def leaves_below(tree: ObliqueTree) -> np.ndarray:
    """Leaves under each node, itself included: an int64 array of shape (n_nodes,)."""
    return node_totals(tree.children, np.ones(tree.n_leaves, dtype=np.int64))


def cut(tree: ObliqueTree, max_depth: int | None, max_leaves: int | None) -> tuple[int, str]:
    """The depth at which a tree is cut, and a note where ``max_leaves`` ends of branches do not show all of it."""
    if max_depth is not None:
        return max_depth, ""
    if max_leaves is not None and max_leaves < 1:
        raise ValueError(f"max_leaves must be at least 1, or None for all leaves, got {max_leaves}")
    depths = tree.node_depths()
    if max_leaves is None or tree.n_leaves <= max_leaves:
        return int(depths.max()), ""
    depth = depth_that_fits(depths, np.arange(tree.n_nodes) >= tree.n_splits, max_leaves)
    return depth, cut_words(tree, depth)


def cut_words(tree: ObliqueTree, depth: int) -> str:
    """The note about a tree that is cut at a depth, and how to get the rest; nothing where it is whole.

    Examples
    --------
    >>> tree = ObliqueTree([[1.0], [2.0]], [0, 0], [[1, 2], [3, 4]], [[0], [1], [2]])
    >>> cut_words(tree, 1)
    'cut at depth 1: 2 of 3 leaves not shown; max_leaves=None shows all'
    >>> cut_words(tree, 2)
    ''
    """
    hidden = int((tree.node_depths()[tree.n_splits :] > depth).sum())
    if not hidden:
        return ""
    words = f"cut at depth {depth}: {hidden:,} of {tree.n_leaves:,} leaves not shown; max_leaves=None shows all"
    if tree.n_visited_leaves in (None, tree.n_leaves):
        return words
    return f"{words}, prune(X, unvisited=True) keeps those that rows X reach"
