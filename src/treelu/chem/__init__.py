"""Molecules: fingerprints, public tables, splits and drawings (``pip install 'treelu[chem]'``)."""

from treelu.chem._environments import environment_name
from treelu.chem.complexes import Complex, ComplexFeatures, contact_counts, pair_fingerprint, read_complex
from treelu.chem.drawing import draw_bit, draw_column, draw_substructure
from treelu.chem.features import MolecularColumn, MolecularFeatures
from treelu.chem.fingerprints import Environment, MorganFingerprint
from treelu.chem.moleculenet import MOLECULENET_NAMES, MOLECULENET_URL, MoleculeTable, load_moleculenet
from treelu.chem.pdbbind import ComplexTable, GridFeatures, load_pdbbind, read_grid_features
from treelu.chem.splits import Split, load_split, random_split, scaffold_groups, scaffold_split, time_split
from treelu.chem.tree_drawing import draw_tree

__all__ = [
    "Complex",
    "ComplexFeatures",
    "contact_counts",
    "pair_fingerprint",
    "read_complex",
    "draw_bit",
    "draw_column",
    "draw_substructure",
    "Environment",
    "environment_name",
    "MolecularColumn",
    "MolecularFeatures",
    "MorganFingerprint",
    "MOLECULENET_NAMES",
    "MOLECULENET_URL",
    "MoleculeTable",
    "load_moleculenet",
    "ComplexTable",
    "GridFeatures",
    "load_pdbbind",
    "read_grid_features",
    "Split",
    "load_split",
    "random_split",
    "scaffold_groups",
    "scaffold_split",
    "time_split",
    "draw_tree",
]
