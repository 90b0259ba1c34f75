"""Whether each column's substructure is in exactly the molecules whose count is not zero, by RDKit's own matching.

    TREELU_DATA=… python -m experiments.substructures bace
    TREELU_DATA=… python -m experiments.substructures tox21 --every 5     each fifth molecule

The pattern (`smarts`) of each of the 2,048 columns that `MolecularFeatures` makes of a set is sought in all molecules.
Molecules that differ are printed: what is known to differ is said in docs/guides/molecules.md.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from rdkit import Chem

from experiments.datasets import load_moleculenet
from treelu.chem import MolecularFeatures


def without_isotopes(smiles: str) -> Any:
    """A molecule as RDKit reads it, without marks of isotopes, which do not count."""
    molecule = Chem.MolFromSmiles(smiles)
    for atom in molecule.GetAtoms():
        atom.SetIsotope(0)
    return Chem.RemoveHs(molecule)


def disagreements(smiles: Any) -> tuple[int, int, list[tuple[str, str]]]:
    """Molecules, columns, and each molecule and column name where the count and the match differ."""
    features = MolecularFeatures(invalid="drop").fit(smiles)
    kept = np.asarray(smiles)[features.kept_]
    X = features.transform(kept).tocsc()
    molecules = [without_isotopes(text) for text in kept]
    differing = []
    for column in range(X.shape[1]):
        pattern = Chem.MolFromSmarts(features.smarts(column))
        here = np.zeros(len(kept), bool)
        here[X.indices[X.indptr[column] : X.indptr[column + 1]]] = True
        matched = np.array([molecule.HasSubstructMatch(pattern) for molecule in molecules])
        differing += [(kept[row], features.columns_[column].name) for row in np.flatnonzero(here != matched)]
    return len(kept), X.shape[1], differing


def main() -> None:
    """Count, and name what differs."""
    parser = argparse.ArgumentParser(prog="python -m experiments.substructures", description=__doc__.split("\n")[0])
    parser.add_argument("data", choices=("bace", "tox21", "sider", "hiv"))
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    n_molecules, n_columns, differing = disagreements(load_moleculenet(options.data).smiles[:: options.every])
    print(f"{options.data}: {n_molecules} molecules × {n_columns} columns, {len(differing)} of them differ")
    for molecule, name in differing:
        print(f"  {name} in {molecule}")


if __name__ == "__main__":
    main()
