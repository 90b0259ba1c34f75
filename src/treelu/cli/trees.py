"""Trees of table models as text: where features are bits of fingerprints, with the substructures behind them."""

from __future__ import annotations

import re
from importlib.util import find_spec

from treelu.cli.messages import InputError
from treelu.tables import TableModel
from treelu.tree import ObliqueTree


def target_of(model: TableModel, label: str | None) -> str:
    """The target that is asked for."""
    if label is not None and label not in model.targets:
        raise InputError(f"--label {label}: the model has {', '.join(model.targets)}")
    if label is None and len(model.targets) > 1:
        raise InputError(f"the model has several targets; add --label, one of {', '.join(model.targets)}")
    return label or model.targets[0]


def tree_text(model: TableModel, tree: ObliqueTree, max_depth: int | None = None) -> str:
    """A tree of a model as indented text; below it, the substructure of each bit that it names."""
    text = tree.export_text(scale=model.spread, max_depth=max_depth)
    named = substructures(model, text)
    if not named:
        return text
    lines = [f"  {name}  {smiles}" for name, smiles in named.items()]
    return "\n".join([text, "", "bits, and the substructures that set them:", *lines])


def substructures(model: TableModel, text: str) -> dict[str, str]:
    """Bits that a text names → the SMILES of their most frequent substructure, the centre first."""
    molecules = model.encoder.smiles_column
    if molecules is None or find_spec("rdkit") is None:
        return {}
    numbers = {name: bit for bit, name in enumerate(molecules.features)}
    found = {}
    for name in dict.fromkeys(re.findall(r"\bbit_\d+\b", text)):
        examples = molecules.fingerprint.examples(numbers[name]) if name in numbers else []
        if examples:
            found[name] = fragment_smiles(examples[0].smiles, examples[0].atom, examples[0].radius)
    return found


def fragment_smiles(smiles: str, atom: int, radius: int) -> str:
    """The atoms within `radius` bonds of one, as SMILES that begin with it.

    Examples
    --------
    >>> fragment_smiles("c1ccccc1C(=O)O.Cl", atom=6, radius=1)
    'C(O)(=O)[C;R](~*)~*'
    """
    from rdkit import Chem

    from treelu.chem import environment_name

    return environment_name(Chem.MolFromSmiles(smiles), atom, radius)
