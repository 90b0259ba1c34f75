"""Molecules: fingerprints of a ChEMBL series that RDKit carries, a tree, and the substructures that decide."""

from pathlib import Path

import pandas as pd
from rdkit import RDConfig

from treelu import LCNRegressor
from treelu.chem import MorganFingerprint, draw_bit, draw_tree, random_split


def chembl_series() -> pd.DataFrame:
    """1,017 molecules of one series with measured activities: columns Name, smiles, Act."""
    folder = Path(RDConfig.RDContribDir) / "FreeWilson" / "data"
    smiles = pd.read_csv(folder / "CHEMBL2321810.smi", sep=" ", names=["smiles", "Name"])
    return smiles.merge(pd.read_csv(folder / "CHEMBL2321810_act.csv"), on="Name")


def main() -> None:
    table = chembl_series()
    train, valid, test = random_split(len(table), random_state=0)
    fingerprint = MorganFingerprint().fit(table["smiles"].iloc[train])
    X, y = fingerprint.transform(table["smiles"]), table["Act"].to_numpy()

    model = LCNRegressor(depth=4, drop_connect=0.25, learning_rate=0.003, random_state=0)
    model.fit(X[train], y[train], eval_set=(X[valid], y[valid]))
    print(f"R² on {len(test)} test molecules: {model.score(X[test], y[test]):.2f}")

    tree = model.tree_.prune(X[train], unvisited=True)
    print(tree)
    Path("molecules_tree.svg").write_text(draw_tree(tree, fingerprint, top=3), encoding="utf-8")
    for rank, bit in enumerate(model.feature_importances_.argsort()[::-1][:3].tolist(), start=1):
        example = fingerprint.examples(bit)[0]
        print(f"{rank}. bit {bit}: in {example.n_molecules} training molecules, for example {example.smiles}")
        Path(f"molecules_bit_{rank}.svg").write_text(draw_bit(fingerprint, bit), encoding="utf-8")
    print("wrote molecules_tree.svg and the pictures of three bits")


if __name__ == "__main__":
    main()
