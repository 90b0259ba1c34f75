"""Molecules: fingerprints, substructures, splits and drawings (``pip install 'treelu[chem]'``)."""

from treelu.chem._environments import environment_name
from treelu.chem.drawing import draw_bit, draw_column, draw_substructure
from treelu.chem.features import MolecularColumn, MolecularFeatures
from treelu.chem.fingerprints import Environment, MorganFingerprint
from treelu.chem.splits import Split, load_split, random_split, scaffold_groups, scaffold_split, time_split
from treelu.chem.tree_drawing import draw_tree

__all__ = [
    "draw_bit",
    "draw_column",
    "draw_substructure",
    "Environment",
    "environment_name",
    "MolecularColumn",
    "MolecularFeatures",
    "MorganFingerprint",
    "Split",
    "load_split",
    "random_split",
    "scaffold_groups",
    "scaffold_split",
    "time_split",
    "draw_tree",
]
