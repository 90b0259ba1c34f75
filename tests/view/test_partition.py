"""The partition of two features: polygons that agree with the tree, and the paper's Fig. 1."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.path import Path

from tests.convert.networks import fill
from tests.tree.trees import random_tree
from treelu.convert import network_to_tree
from treelu.nn import LocallyConstantNetwork, LocallyLinearNetwork
from treelu.tree import ObliqueTree
from treelu.view import plot_network_and_tree, plot_partition
from treelu.view.partition import area, leaf_polygons


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@given(seed=st.integers(0, 2**32 - 1), n_splits=st.integers(0, 30))
@settings(max_examples=40, deadline=None)
def test_polygons_tile_the_rectangle_and_agree_with_the_tree(seed, n_splits):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, n_splits, 2, "identity")
    low, high = np.array([-2.0, -1.0]), np.array([1.0, 3.0])
    polygons = leaf_polygons(tree, low, high)
    assert sum(area(corners) for _, corners in polygons) == pytest.approx(12.0)
    rows = rng.uniform(low, high, (200, 2))
    leaves = tree.apply(rows) - tree.n_splits
    for leaf, corners in polygons:
        inside = Path(corners).contains_points(rows, radius=-1e-9) | Path(corners).contains_points(rows, radius=1e-9)
        assert inside[leaves == leaf].all()


def network_on_two_features(kind, depth=4):
    network = kind(2, depth, 1)
    fill(network, np.random.default_rng(0))
    return network


def test_partition_draws_each_region_once():
    tree = network_to_tree(network_on_two_features(LocallyConstantNetwork))
    ax = plot_partition(tree, bounds=(-3, 3))
    assert len(ax.patches) == tree.prune(bounds=(-3, 3)).n_leaves
    assert ax.get_xlim() == (-3, 3)
    rows = np.random.default_rng(0).standard_normal((20, 2))
    ax = plot_partition(tree, X=rows, y=rows[:, 0] > 0, ax=plt.figure().add_subplot())
    assert ax.get_xlim()[0] < rows[:, 0].min()
    assert len(ax.collections[0].get_offsets()) == 20


def test_linear_leaves_are_shaded():
    ax = plot_partition(network_to_tree(network_on_two_features(LocallyLinearNetwork)), bounds=([-1, -2], [1, 2]))
    assert len(ax.images) == 1
    assert ax.get_ylim() == (-2, 2)


def test_network_map_and_tree_side_by_side():
    network = network_on_two_features(LocallyConstantNetwork, depth=3)
    tree = network_to_tree(network, feature_names=["x1", "x2"])
    figure = plot_network_and_tree(network, tree, bounds=(-2, 2))
    left, middle, right = figure.axes
    assert [ax.get_title() for ax in figure.axes] == ["network", "its output, and the tree's boundaries", "tree"]
    assert any("z3 = " in text.get_text() for text in left.texts)
    assert len(right.texts) > 8
    # the network's colours are those of the tree's leaf, cell by cell
    image = middle.images[0].get_array()
    colors = {tuple(np.round(color, 6)) for color in np.asarray(image).reshape(-1, 3)}
    assert len(colors) == tree.prune(bounds=(-2, 2)).n_leaves
    figure.canvas.draw()


def test_bad_arguments():
    three = random_tree(np.random.default_rng(0), 3, 3, "identity")
    two = random_tree(np.random.default_rng(0), 3, 2, "identity")
    with pytest.raises(ValueError, match=r"tree must have two features.*got 3"):
        plot_partition(three, bounds=(0, 1))
    with pytest.raises(ValueError, match="bounds or X must be given"):
        plot_partition(two)
    for bounds in ((1, 0), (0, np.inf)):
        with pytest.raises(ValueError, match="bounds must be finite with low < high"):
            plot_partition(two, bounds=bounds)
    with pytest.raises(ValueError, match="network and tree must have two features, got 3 and 2"):
        plot_network_and_tree(LocallyConstantNetwork(3, 2, 1), two, bounds=(0, 1))
    linear = ObliqueTree([[1.0, 0]], [0], [[1, 2]], [[0], [1]], leaf_weights=np.ones((2, 1, 2)))
    with pytest.raises(ValueError, match="constant leaves"):
        plot_network_and_tree(LocallyConstantNetwork(2, 1, 1), linear, bounds=(0, 1))
