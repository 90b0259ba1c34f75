"""The picture of a tree: what it shows, and that nothing sticks out of its box."""

from __future__ import annotations

import io
from dataclasses import replace

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch, Rectangle
from sklearn.datasets import load_diabetes
from sklearn.tree import DecisionTreeRegressor

from tests.tree.trees import KINDS, random_tree
from treelu.tree import ObliqueTree
from treelu.tree.observed import Observed
from treelu.view import plot_tree


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def full_tree(depth: int, n_features: int, **options) -> ObliqueTree:
    rng = np.random.default_rng(depth)
    n_splits = 2**depth - 1
    return ObliqueTree(
        rng.standard_normal((n_splits, n_features)), rng.standard_normal(n_splits),
        np.arange(1, 2 * n_splits + 1).reshape(-1, 2), rng.standard_normal((n_splits + 1, 1)), **options,
    )  # fmt: skip


def words(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def boxes(ax) -> list[FancyBboxPatch]:
    return [patch for patch in ax.patches if isinstance(patch, FancyBboxPatch)]


def check_text_stays_in_boxes(ax) -> None:
    """Each text lies in one box, or in none (captions and the words on the branches); no two texts overlap."""
    ax.figure.canvas.draw()
    frames = [patch.get_window_extent() for patch in boxes(ax)]
    extents = [text.get_window_extent() for text in ax.texts if text.get_text().strip()]
    for extent in extents:
        inside = [frame for frame in frames if frame.overlaps(extent)]
        assert len(inside) <= 1
        if inside and extent.x0 > inside[0].x0:
            assert extent.x1 <= inside[0].x1 + 1
            assert inside[0].y0 - 2 <= extent.y0
            assert extent.y1 <= inside[0].y1 + 2
    for i, first in enumerate(extents):
        for second in extents[i + 1 :]:
            overlap_x = min(first.x1, second.x1) - max(first.x0, second.x0)
            overlap_y = min(first.y1, second.y1) - max(first.y0, second.y0)
            assert overlap_x <= 1 or overlap_y <= 2.5
    figure = ax.figure.bbox
    assert all(figure.contains(*corner) for extent in extents for corner in ((extent.x0, extent.y0), extent.p1))


@pytest.mark.parametrize(("depth", "counts"), [(1, False), (3, True), (5, False), (5, True)])
def test_all_nodes_up_to_thirty_two_leaves(depth, counts):
    names = [f"feature with a long name, number {i}" for i in range(7)]
    tree = full_tree(depth, 7, feature_names=names)
    if counts:
        tree = tree.with_counts(np.random.default_rng(0).standard_normal((100_000, 7)))
    ax = plot_tree(tree, top=3)
    assert len(boxes(ax)) == tree.n_nodes
    ranks = sorted(int(text.removeprefix("rank ")) for text in words(ax) if text.startswith("rank "))
    assert ranks == list(range(1, tree.n_leaves + 1))
    assert words(ax).count("4 more") == tree.n_splits
    check_text_stays_in_boxes(ax)


def bars(ax) -> list[float]:
    return [patch.get_width() for patch in ax.patches if isinstance(patch, Rectangle)]


def test_questions_show_their_weights_and_bars_show_the_effects():
    tree = ObliqueTree([[2.0, -6.0, 1.0, 1.0]], [5.0], [[1, 2]], [[0.0], [1.0]], feature_names=list("abcd"))
    ax = plot_tree(tree, top=2)
    assert [text for text in words(ax) if text in "abcd"] == ["b", "a"]
    assert {"-6", "+2", "2 more", "20% of the effect", "≥ -5", "no", "yes"} <= set(words(ax))
    np.testing.assert_allclose(bars(ax), [0.4, 0.4 * 2 / 6])
    assert [text for text in words(plot_tree(tree)) if text in "abcd"] == ["b", "a", "c", "d"]
    scaled = words(plot_tree(tree, top=1, scale=[9.0, 1.0, 1.0, 1.0]))
    assert {"a", "+2", "≥ -5"} <= set(scaled)
    assert "b" not in scaled
    assert words(plot_tree(replace(tree, spreads=[9.0, 1.0, 1.0, 1.0]), top=1)) == scaled


@pytest.mark.parametrize(("n_terms", "n_shown"), [(1, 1), (6, 6), (7, 3)])
def test_questions_of_up_to_six_terms_are_shown_whole(n_terms, n_shown):
    tree = ObliqueTree([np.arange(1.0, n_terms + 1)], [0.0], [[1, 2]], [[0.0], [1.0]])
    ax = plot_tree(tree)
    assert sum(text.startswith("x") for text in words(ax)) == n_shown
    assert (f"{n_terms - n_shown} more" in words(ax)) == (n_terms > n_shown)
    check_text_stays_in_boxes(ax)


def test_hostile_names_stay_in_their_boxes():
    names = ["line\nbreak " * 30, "\x1b[31mred", "\u202eright to left", "<script>alert(1)</script>", "a\tb"]
    classes = ["no\n\x00" * 50, "yes"]
    tree = full_tree(2, 5, feature_names=names, link="logistic", classes=classes)
    ax = plot_tree(tree)
    assert all(text.isprintable() for text in words(ax))
    check_text_stays_in_boxes(ax)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_leaf(kind):
    ax = plot_tree(random_tree(np.random.default_rng(1), 6, 4, kind))
    assert len(boxes(ax)) == 13
    check_text_stays_in_boxes(ax)


def test_long_ranges_leave_the_rows_of_a_leaf_readable():
    tree = ObliqueTree(
        [[1.0]], [0.0], [[1, 2]], [[10.0], [-10.0]], leaf_weights=[[[20.0]], [[20.0]]], link="logistic",
        classes=["no", "yes"], n_samples=[4_000_000, 1_500_000, 2_500_000],
        observed=Observed.of([[-1.0], [0.5], [1.0]]),
    )  # fmt: skip
    ax = plot_tree(tree)
    assert sum(text.endswith(" to above 0.999") for text in words(ax)) == 2
    assert {"1,500,000 rows", "2,500,000 rows"} <= set(words(ax))
    check_text_stays_in_boxes(ax)


@pytest.mark.slow
def test_large_trees_are_cut_and_say_what_is_hidden():
    X, y = load_diabetes(return_X_y=True)
    tree = ObliqueTree.from_sklearn(DecisionTreeRegressor(random_state=0).fit(X, y))
    ax = plot_tree(tree)
    ends = [text for text in words(ax) if text.startswith(("rank ", "…"))]
    assert len(ends) <= 32
    hidden = sum(int(text.split(", ")[1].split()[0].replace(",", "")) for text in ends if text.startswith("…"))
    assert hidden + sum(text.startswith("rank ") for text in ends) == tree.n_leaves
    check_text_stays_in_boxes(ax)
    shown = tree.n_leaves - hidden
    assert words(ax)[0].endswith(f": {tree.n_leaves - shown} of 432 leaves not shown; max_leaves=None shows all")
    assert len(boxes(plot_tree(full_tree(6, 3), max_leaves=None))) == 127
    assert "… 431 splits, 432 leaves" in words(plot_tree(tree, max_depth=0))
    assert len(boxes(plot_tree(full_tree(12, 3), max_depth=2))) == 7


def test_a_tree_of_one_leaf():
    ax = plot_tree(ObliqueTree(np.zeros((0, 2)), [], [], [[3.5]]))
    assert len(boxes(ax)) == 1
    assert "3.5" in words(ax)


def test_given_axes_are_used_and_text_shrinks_with_them():
    tree = full_tree(3, 4)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3))
    assert tree.plot(ax=right) is right
    assert not left.patches
    assert right.texts[0].get_size() < tree.plot().texts[0].get_size()
    figure.savefig(io.BytesIO(), format="png")


def test_names_with_dollar_signs_are_not_mathematics():
    tree = ObliqueTree([[1.0, 2.0]], [0], [[1, 2]], [[0], [1]], feature_names=["cost $", "$\\frac{"])
    ax = tree.plot()
    ax.figure.canvas.draw()
    assert "$\\frac{" in words(ax)


def test_bad_arguments():
    with pytest.raises(ValueError, match="max_depth must be at least 0, got -1"):
        full_tree(1, 2).plot(max_depth=-1)
    with pytest.raises(ValueError, match=r"scale must have shape \(2\), got \(3,\)"):
        full_tree(1, 2).plot(scale=[1, 2, 3])
