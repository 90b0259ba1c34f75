"""ObliqueTree: an oblique decision tree as frozen NumPy arrays, and what can be done with it alone."""

from treelu.tree.oblique_tree import ObliqueTree

__all__ = ["ObliqueTree"]
