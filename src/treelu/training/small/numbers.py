"""Numbers to read in trees in training, as `treelu.tree.to_read` counts them."""

from __future__ import annotations

from treelu.training.small.soft_tree import SoftTree
from treelu.tree.to_read import leaf_width


def numbers_of(tree: SoftTree, n_outputs: int, n_slopes: int = 0, *, is_classifier: bool) -> int:
    """Numbers to read in a tree; `n_slopes` are the weights of an output in all formulas of the leaves."""
    outputs = leaf_width(n_outputs, is_classifier=is_classifier)
    return tree.split_numbers + outputs * (tree.n_leaves + n_slopes)
