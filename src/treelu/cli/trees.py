"""Trees of table models: those that rows reach, and as text with the substructures behind bits of fingerprints."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.util import find_spec

from treelu.cli.messages import InputError
from treelu.cli.prepare import TableRows
from treelu.data.blocks import stacked_rows
from treelu.tables import TableModel
from treelu.tree import ObliqueTree


def target_of(model: TableModel, label: str | None) -> str:
    """The target that is asked for."""
    if label is not None and label not in model.targets:
        raise InputError(f"--label {label}: the model has {', '.join(model.targets)}")
    if label is None and len(model.targets) > 1:
        raise InputError(f"the model has several targets; add --label, one of {', '.join(model.targets)}")
    return label or model.targets[0]


def visited_trees(
    model: TableModel, rows: TableRows | None, others: TableRows | None = None
) -> tuple[ObliqueTree, ...]:
    """The estimator as trees with the branches that rows, or others, reach, and how many of `rows` reach each node.

    A small tree is whole, and without rows keeps its own counts; networks that are not trees give none.
    """
    if model.method == "tree":
        return tuple(tree if rows is None else tree.with_counts(rows.X) for tree in model.whole_trees())
    if not hasattr(type(model.members[0]), "to_tree"):
        return ()
    assert rows is not None
    reached = rows.X if others is None else stacked_rows([rows.X, others.X])
    trees = [member.to_tree(visited_by=reached) for member in model.members]
    return tuple(replace(tree, feature_names=model.encoder.feature_names).with_counts(rows.X) for tree in trees)


def tree_text(model: TableModel, tree: ObliqueTree) -> str:
    """A tree of a model as indented text, whole; below it, the substructure of each bit that it names."""
    text = tree.export_text(scale=model.spread, max_leaves=None)
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
