"""The paper's data sets: MoleculeNet's tables, PDBbind, and features of protein–ligand complexes."""

from experiments.datasets.complexes import Complex, ComplexFeatures, contact_counts, pair_fingerprint, read_complex
from experiments.datasets.moleculenet import MOLECULENET_NAMES, MOLECULENET_URL, MoleculeTable, load_moleculenet
from experiments.datasets.pdbbind import ComplexTable, GridFeatures, load_pdbbind, read_grid_features

__all__ = [
    "Complex",
    "ComplexFeatures",
    "contact_counts",
    "pair_fingerprint",
    "read_complex",
    "MOLECULENET_NAMES",
    "MOLECULENET_URL",
    "MoleculeTable",
    "load_moleculenet",
    "ComplexTable",
    "GridFeatures",
    "load_pdbbind",
    "read_grid_features",
]
