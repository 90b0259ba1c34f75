"""Pictures with matplotlib: the tree, the partition of two features, network and tree, score by size, robustness."""

from treelu.view.partition import plot_network_and_tree, plot_partition
from treelu.view.pictures import plot_tree
from treelu.view.robustness import plot_robustness
from treelu.view.size import plot_sizes

__all__ = ["plot_network_and_tree", "plot_partition", "plot_robustness", "plot_sizes", "plot_tree"]
