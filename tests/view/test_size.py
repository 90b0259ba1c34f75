"""Accuracy against size: every tree is there, the chosen one is marked."""

from __future__ import annotations

from itertools import pairwise

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from treelu.view import plot_sizes


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def points(ax):
    """The markers with error bars, their places along the axis rounded to whole leaves."""
    drawn = [bars.lines[0].get_xydata() for bars in ax.containers]
    return sorted((round(x), float(y)) for line in drawn for x, y in line)


def test_every_tree_is_drawn_once_and_the_chosen_one_is_marked():
    leaves, terms = [1, 2, 4, 4, 8, 8], [0, 1, 1, 3, 1, 3]
    scores, errors = [0.6, 0.8, 0.85, 0.9, 0.88, 0.91], [0.03, 0.02, 0.02, 0.02, 0.01, 0.01]
    ax = plot_sizes(leaves, terms, scores, errors, chosen=3)
    assert points(ax) == sorted(zip(leaves, scores, strict=True))
    assert {"no question", "1 term", "3 terms", "chosen: 4 leaves, 3 terms"} <= set(legend(ax))
    (mark,) = [line for line in ax.lines if line.get_label().startswith("chosen")]
    assert mark.get_xydata().tolist() == [[4, 0.9]]
    (bound,) = [line for line in ax.lines if line.get_label().startswith("one standard error")]
    np.testing.assert_allclose(bound.get_ydata(), 0.90)


def test_many_numbers_of_terms_share_lines():
    sizes = np.arange(1, 15)
    ax = plot_sizes(sizes, sizes - 1, 1 - 1 / sizes, np.full(14, 0.01))
    ranges = ["no question", "1 term", "2 terms", "3 to 4 terms", "5 to 8 terms", "9 to 13 terms"]
    assert legend(ax) == [*ranges, "one standard error below the best"]
    assert [y for _, y in points(ax)] == pytest.approx((1 - 1 / sizes).tolist())
    ax.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert all(first.x1 < second.x0 for first, second in pairwise(boxes))


def test_of_trees_that_share_a_line_the_best_of_each_size_is_drawn():
    leaves = [1, 2, 2, 2, 2, 2, 2, 4, 4]
    terms = [0, 1, 2, 3, 6, 9, 12, 10, 20]
    scores = [0.5, 0.6, 0.7, 0.75, 0.8, 0.95, 0.9, 0.85, 0.86]
    ax = plot_sizes(leaves, terms, scores, [0.01] * 9, chosen=6)
    (line,) = [bars.lines[0].get_xydata() for bars in ax.containers if bars.get_label() == "9 to 20 terms"]
    assert line[:, 1].tolist() == [0.95, 0.86]
    (mark,) = [line for line in ax.lines if line.get_label() == "chosen: 2 leaves, 12 terms"]
    assert mark.get_xydata().tolist() == [[2, 0.9]]


def test_given_axes_and_one_tree():
    figure, ax = plt.subplots()
    assert plot_sizes([1], [0], [0.5], [0.0], chosen=0, ax=ax, score_name="R$^2") is ax
    figure.canvas.draw()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (([], [], [], []), "at least one tree"),
        (([2], [1, 2], [0.5], [0.1]), r"terms must have shape \(1\)"),
        (([2.5], [1], [0.5], [0.1]), "leaves must be integers"),
        (([2], [1], [np.nan], [0.1]), "scores must be finite"),
    ],
)
def test_bad_arguments(arrays, message):
    with pytest.raises(ValueError, match=message):
        plot_sizes(*arrays)
