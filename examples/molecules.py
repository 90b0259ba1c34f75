"""Molecules: substructures of a ChEMBL series that RDKit carries, a tree, and the substructures that decide."""

from pathlib import Path

import pandas as pd
from rdkit import RDConfig

from treelu import LCNRegressor
from treelu.chem import MolecularFeatures, draw_bit, draw_tree, random_split


def chembl_series() -> pd.DataFrame:
    """1,017 molecules of one series with measured activities: columns Name, smiles, Act."""
    folder = Path(RDConfig.RDContribDir) / "FreeWilson" / "data"
    smiles = pd.read_csv(folder / "CHEMBL2321810.smi", sep=" ", names=["smiles", "Name"])
    return smiles.merge(pd.read_csv(folder / "CHEMBL2321810_act.csv"), on="Name")


def main() -> None:
    table = chembl_series()
    train, valid, test = random_split(len(table), random_state=0)
    features = MolecularFeatures().fit(table["smiles"].iloc[train])
    X, y = features.transform(table["smiles"]), table["Act"].to_numpy()

    model = LCNRegressor(depth=4, drop_connect=0.25, learning_rate=0.003, random_state=0)
    model.fit(X[train], y[train], eval_set=(X[valid], y[valid]))
    print(f"R² on {len(test)} test molecules: {model.score(X[test], y[test]):.2f}")

    tree = model.tree_.prune(X[train], unvisited=True)
    print(tree)
    Path("molecules_tree.svg").write_text(draw_tree(tree, features, top=3), encoding="utf-8")
    for rank, number in enumerate(model.feature_importances_.argsort()[::-1][:3].tolist(), start=1):
        column = features.columns_[number]
        print(f"{rank}. {column.name}: in {column.n_molecules} training molecules, for example {column.smiles}")
        Path(f"molecules_substructure_{rank}.svg").write_text(draw_bit(features, number), encoding="utf-8")
    print("wrote molecules_tree.svg and the pictures of three substructures")


if __name__ == "__main__":
    main()
