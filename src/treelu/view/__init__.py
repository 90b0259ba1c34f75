"""Pictures with matplotlib: the tree, the partition of two features, network and tree side by side."""

from treelu.view.partition import plot_network_and_tree, plot_partition
from treelu.view.pictures import plot_tree

__all__ = ["plot_network_and_tree", "plot_partition", "plot_tree"]
