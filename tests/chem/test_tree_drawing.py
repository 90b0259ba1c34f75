"""Trees drawn with substructures: layout, weights, ranks and pictures."""

from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treelu.chem import MorganFingerprint, draw_tree
from treelu.chem.tree_drawing import _Page
from treelu.tree import ObliqueTree

SMILES = ["CCO", "CCN", "c1ccccc1O", "CC(=O)Nc1ccc(O)cc1", "[NH3+]C(C)C(=O)[O-]"]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def fingerprint():
    return MorganFingerprint(n_bits=256).fit(SMILES)


def tree_of(shape, n_features=256, seed=0, **options):
    """A tree by the order in which leaves are split: ``shape[i]`` says which of the open leaves."""
    children, leaves = [], [(-1, 0)]
    for pick in shape:
        parent, side = leaves.pop(pick % len(leaves))
        node = len(children)
        children.append([0, 0])
        if parent >= 0:
            children[parent][side] = node
        leaves += [(node, 0), (node, 1)]
    for leaf, (parent, side) in enumerate(leaves):
        if parent >= 0:
            children[parent][side] = len(children) + leaf
    rng = np.random.default_rng(seed)
    values = options.pop("values", rng.normal(size=(len(leaves), 1)))
    weights = rng.normal(size=(len(shape), n_features))
    pairs = np.array(children, dtype=int).reshape(-1, 2)
    return ObliqueTree(weights, rng.normal(size=len(shape)), pairs, values, **options)


def texts(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 20), max_size=25), st.integers(1, 5), st.integers(0, 30))
def test_boxes_lie_apart_and_on_the_page(shape, top, max_depth):
    page = _Page.of(tree_of(shape, n_features=3), top, max_depth)
    boxes = [(*page.corner(node), *page.sizes[node]) for node in page.sizes]
    width, height = page.size
    for x, y, w, h in boxes:
        assert 0 <= x < x + w <= width + 1e-9
        assert 0 <= y < y + h <= height
    for index, (x, y, w, h) in enumerate(boxes):
        for x2, y2, w2, h2 in boxes[:index]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


def test_nodes_show_their_largest_weights_normalised(fingerprint):
    weights = np.zeros((1, 256))
    weights[0, [3, 80, 90, 200]] = 1.0, -4.0, 2.0, 3.0
    tree = ObliqueTree(weights, [-5.0], [[1, 2]], [[0.0], [1.0]])
    shown = texts(draw_tree(tree, fingerprint, top=3))
    assert [text for text in shown if text.startswith("bit ")] == ["bit 80", "bit 200", "bit 90"]
    assert [text for text in shown if text[0] in "+−"] == ["−0.4", "+0.3", "+0.2"]
    assert "bias −0.5" in shown


def test_sparse_and_dense_weights_look_the_same(fingerprint):
    from scipy import sparse

    tree = tree_of([0, 1])
    same = ObliqueTree(sparse.csr_array(tree.weights), tree.biases, tree.children, tree.values)
    assert draw_tree(tree, fingerprint) == draw_tree(same, fingerprint)


def test_pictures_are_those_of_the_bits(fingerprint):
    bit = next(iter(fingerprint.examples_))
    found = fingerprint.examples(bit)[0]
    unset = next(bit for bit in range(256) if bit not in fingerprint.examples_)
    weights = np.zeros((1, 256))
    weights[0, [bit, unset]] = 2.0, 1.0
    svg = draw_tree(ObliqueTree(weights, [0.0], [[1, 2]], [[0.0], [1.0]]), fingerprint)
    root = ElementTree.fromstring(svg)
    titles = [element.text for element in root.iter(f"{SVG}title")]
    assert titles == [f"atoms within {found.radius} bonds of atom {found.atom} in {found.smiles}"]
    assert "never set" in texts(svg)


def test_leaves_show_their_rank_and_probability(fingerprint):
    values = np.array([[2.0], [-1.0], [0.0], [2.0]])
    tree = tree_of([0, 0, 0], values=values, link="logistic", classes=["no", "yes"])
    shown = texts(draw_tree(tree, fingerprint))
    assert [text for text in shown if "of 4" in text] == ["3 of 4", "1 of 4", "2 of 4", "3 of 4"]
    assert [text for text in shown if text.startswith("P(")] == [
        f"P(yes) {1 / (1 + np.exp(-value)):.3f}" for value in values[:, 0]
    ]


def test_other_kinds_of_leaves(fingerprint):
    regression = texts(draw_tree(tree_of([0], values=[[-1.5], [2.0]]), fingerprint))
    assert "−1.5" in regression
    assert "2 of 2" in regression
    three = tree_of([0], values=[[0.2, 0.7, 0.1], [0.5, 0.3, 0.2]], link="probability", classes=[0, 1, 2])
    assert {"P(1) 0.700", "P(0) 0.500", "leaf 1"} <= set(texts(draw_tree(three, fingerprint)))
    two = tree_of([0], values=[[0.2, 0.8], [0.5, 0.5]], link="probability", classes=[0, 1])
    assert {"P(1) 0.800", "2 of 2"} <= set(texts(draw_tree(two, fingerprint)))
    linear = tree_of([0], leaf_weights=np.ones((2, 1, 256)))
    assert texts(draw_tree(linear, fingerprint)).count("linear") == 2
    assert texts(draw_tree(tree_of([]), fingerprint))[0] == "1 of 1"


def test_numbers_of_rows(fingerprint):
    tree = tree_of([0], n_samples=[1513.0, 1000.0, 513.0])
    shown = texts(draw_tree(tree, fingerprint))
    assert "1,000 rows" in shown
    assert any(text.startswith("1,513 rows · bias") for text in shown)


def test_a_large_tree_is_cut_with_a_note(fingerprint):
    tree = tree_of([0] * 40)
    svg = draw_tree(tree, fingerprint)
    shown = texts(svg)
    (note,) = [text for text in shown if "cut at depth" in text]
    hidden = sum(int(text.split()[0]) for text in shown if text.endswith(" leaves"))
    assert f"{hidden} of 41 leaves not shown; max_leaves=None shows all" in note
    whole = texts(draw_tree(tree, fingerprint, max_leaves=None))
    assert not [text for text in whole if "cut at depth" in text]


def test_max_depth_folds_what_is_below(fingerprint):
    tree = tree_of([0, 0, 0, 0, 0])
    shown = texts(draw_tree(tree, fingerprint, max_depth=1))
    folded = [int(text.split()[0]) for text in shown if text.endswith("leaves")]
    assert sum(folded) + sum("of 6" in text for text in shown) == 6
    assert draw_tree(tree, fingerprint, max_depth=tree.depth) == draw_tree(tree, fingerprint)


def test_features_by_name(fingerprint):
    names = ["bit_090", "molecular weight & more", "morgan__bit_003"]
    tree = ObliqueTree([[1.0, 3.0, -2.0]], [0.0], [[1, 2]], [[0.0], [1.0]], feature_names=names)
    shown = texts(draw_tree(tree, fingerprint))
    captions = [text for text in shown if text.startswith(("bit", "molec"))]
    assert captions == ["molecula…t & more", "bit 3", "bit 90"]


def test_errors(fingerprint):
    with pytest.raises(ValueError, match="3 features without names, the fingerprint 256 columns"):
        draw_tree(tree_of([0], n_features=3), fingerprint)
    named = tree_of([0], n_features=2, feature_names=["a", "b"])
    with pytest.raises(ValueError, match="no feature of the tree has the name of a column, such as 'bit_000'"):
        draw_tree(named, fingerprint)
    with pytest.raises(ValueError, match="top must be at least 1, got 0"):
        draw_tree(tree_of([0]), fingerprint, top=0)
    with pytest.raises(ValueError, match="max_depth must be at least 0, got -1"):
        draw_tree(tree_of([0]), fingerprint, max_depth=-1)
