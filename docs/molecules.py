"""Pictures of the guide on molecules: ``python -m docs.molecules`` from the project's root."""

from html import escape
from pathlib import Path

from sklearn.model_selection import train_test_split

from treelu import ObliqueTreeClassifier
from treelu.chem import MolecularFeatures, draw_column, draw_tree
from treelu.cli.demo import molecules

IMAGES = Path(__file__).parent / "images"
CELL, PICTURE, ACROSS = (215, 185), (205, 140), 4


def columns(features: MolecularFeatures, numbers: list[int]) -> str:
    """A grid of columns, each with its name and the number of training molecules that have it."""
    cells = []
    for place, number in enumerate(numbers):
        x, y = place % ACROSS * CELL[0], place // ACROSS * CELL[1]
        picture = draw_column(features, number, PICTURE) or ""
        known = features.columns_[number]
        cells += [
            picture[picture.index("<svg") :].replace("<svg", f"<svg x='{x + 5}' y='{y + 4}'", 1),
            f'<text x="{x + CELL[0] / 2}" y="{y + 158}" font-size="10">{escape(known.name)}</text>',
            f'<text x="{x + CELL[0] / 2}" y="{y + 173}" fill="#777777">{known.n_molecules} molecules</text>',
        ]
    width, height = ACROSS * CELL[0], -(-len(numbers) // ACROSS) * CELL[1]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12" text-anchor="middle">\n'
        '<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(cells) + "\n</svg>\n"
    )


def main() -> None:
    """The guide's columns and its small tree."""
    table = molecules()
    train, _ = train_test_split(table, random_state=0)
    features = MolecularFeatures()
    X = features.fit_transform(train["smiles"])
    active = (train["activity"] >= 7).map({True: "yes", False: "no"})
    small = ObliqueTreeClassifier(max_leaf_nodes=6, max_terms=2, leaves="constant", random_state=0).fit(X, active)
    shown = [0, 3, 20, 40, 60, 90, 120, 200]
    (IMAGES / "molecules-columns.svg").write_text(columns(features, shown), encoding="utf-8")
    (IMAGES / "molecules-tree.svg").write_text(draw_tree(small.tree_, features, top=2), encoding="utf-8")


if __name__ == "__main__":
    main()
