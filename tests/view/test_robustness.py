"""The picture of distances to another answer."""

import matplotlib.pyplot as plt
import numpy as np

from treelu.tree import ObliqueTree


def test_the_curve_counts_rows():
    plt.switch_backend("Agg")
    tree = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[-1.0], [1.0]], link="logistic", classes=[0, 1])
    ax = tree.plot_robustness([[-2.0], [1.0], [5.0], [-0.5]], norm="l1")
    (line,) = ax.get_lines()
    np.testing.assert_allclose(line.get_xdata(), [0, 0.5, 1, 2, 5], atol=1e-6)
    np.testing.assert_allclose(line.get_ydata(), [100, 75, 50, 25, 0])
    assert ax.get_xlabel() == "distance (l1)"
    never = tree.plot_robustness([[-2.0], [-1.0]], bounds=(-9, -1), ax=plt.subplots()[1])
    np.testing.assert_allclose(never.get_lines()[0].get_ydata(), [100])
    plt.close("all")
