"""Drawings of molecules and of the substructures that are features, where RDKit is installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from treelu.report.summary import Draw

SUBSTRUCTURE = (104, 100)  # size of a drawing: the shape that it has on a card
MOLECULE = (240, 180)


def drawings(encoder: Any, smiles: Sequence[str]) -> tuple[Draw | None, Draw | None]:
    """How to draw a feature and a row, where an encoder reads molecules; `smiles` are those of the rows."""
    molecules = encoder.smiles_column
    if molecules is None or find_spec("rdkit") is None:
        return None, None
    from treelu.chem import draw_column

    names = encoder.feature_names
    columns = {name: number for number, name in enumerate(molecules.features)}

    def draw_feature(feature: int) -> str | None:
        column = columns.get(names[feature])
        picture = None if column is None else draw_column(molecules.fingerprint, column, SUBSTRUCTURE)
        return None if picture is None else _inline(picture)

    def draw_row(row: int) -> str:
        return _inline(_draw_molecule(smiles[row]))

    return draw_feature, draw_row if smiles else None


def _draw_molecule(smiles: str) -> str:
    from rdkit import Chem, rdBase
    from rdkit.Chem.Draw import rdMolDraw2D

    drawer = rdMolDraw2D.MolDraw2DSVG(*MOLECULE)
    drawer.drawOptions().clearBackground = False  # type: ignore[assignment]
    with rdBase.BlockLogs():
        drawer.DrawMolecule(rdMolDraw2D.PrepareMolForDrawing(Chem.MolFromSmiles(smiles)))
    drawer.FinishDrawing()
    return drawer.GetDrawingText()


def _inline(svg: str) -> str:
    return svg[svg.index("<svg") :]
