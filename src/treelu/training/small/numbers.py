"""Numbers to read in trees in training, as `treelu.tree.to_read` counts them."""

from __future__ import annotations

from treelu.training.small.path import Formula
from treelu.training.small.soft_tree import SoftTree
from treelu.tree.to_read import leaf_width


def numbers_of(tree: SoftTree, n_outputs: int, formula: Formula | None = None, *, is_classifier: bool) -> int:
    """Numbers to read in a tree of constant leaves, or of leaves with a formula."""
    outputs = leaf_width(n_outputs, is_classifier=is_classifier)
    slopes = 0 if formula is None else formula.terms * (tree.n_leaves if formula.own else 1)
    return tree.split_numbers + outputs * (tree.n_leaves + slopes)
