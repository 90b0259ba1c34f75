"""Real tables that several tests of this room share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from scipy import sparse


class Part(NamedTuple):
    """Rows of one part of a split."""

    X: sparse.csr_array
    y: np.ndarray
    smiles: list[str]


@pytest.fixture(scope="session")
def bace(shared_data: Path) -> dict[str, Part]:
    """Bace with the paper's split: Morgan fingerprints of radius 2 in 2,048 bits, labels, SMILES."""
    pytest.importorskip("rdkit")
    from rdkit import Chem
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    table = pd.read_csv(shared_data / "moleculenet" / "bace.csv.gz")
    generator = GetMorganGenerator(radius=2, fpSize=2048)
    bits = np.array([generator.GetFingerprintAsNumPy(Chem.MolFromSmiles(one)) for one in table["smiles"]], float)
    split = json.loads((shared_data / "splits" / "bace.json").read_text())
    return {
        part: Part(sparse.csr_array(bits[rows]), table["Class"].to_numpy()[rows], table["smiles"].iloc[rows].tolist())
        for part, rows in split.items()
    }
