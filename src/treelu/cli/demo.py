"""`treelu demo`: trees beside CART on a molecular series of RDKit's and a table of scikit-learn's."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treelu.cli.fit import tree_files
from treelu.cli.messages import InputError, Notes, say, tell
from treelu.cli.model import tree_text
from treelu.cli.options import ColumnOptions, DemoOptions, FitOptions
from treelu.cli.pages import add_queries, pages, score_lines, summarize_model
from treelu.cli.prepare import prepare
from treelu.cli.train import make_estimator, train
from treelu.persistence import save
from treelu.persistence.files import write_atomically
from treelu.persistence.table_model import TableModel

if TYPE_CHECKING:
    import pandas as pd

DRAWN_DEPTH = 3  # of a tree with substructures
# Chosen by cross-validation within the training rows, among depths that can still be read.
_SHORT: dict[str, Any] = {"epochs": 60, "learning_rate": 0.01, "training": {"batch_size": 64}}
MOLECULES: dict[str, Any] = {"depth": 4, "drop_connect": 0.25, **_SHORT}
# Trees that a person reads at a glance; a few hundred substructures, so that the demo takes about a minute.
SMALL: dict[str, Any] = {"max_leaf_nodes": 8, "max_terms": 3}
SUBSTRUCTURES = 256
TUMOURS: dict[str, Any] = {"max_leaf_nodes": 8, "max_terms": 4}


def run_demo(options: DemoOptions) -> None:
    """Fit, score, print and draw both data sets; say what to type next."""
    out, seed = options.out, options.seed
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; give a folder")
    out.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    if find_spec("rdkit") is None:
        say("molecules: left out, RDKit is not installed (pip install 'treelu[chem]')")
    else:
        tell("MOLECULES  1,017 of one chemical series (ChEMBL document 2321810), with measured activity")
        data = _write(molecules(), out / "molecules.csv")
        few, every = ColumnOptions(smiles="smiles", bits=SUBSTRUCTURES), ColumnOptions(smiles="smiles")
        tell(f"\na small tree on the {SUBSTRUCTURES} most frequent substructures")
        _show(_options(data, "activity", out / "molecules-small", seed, few), "tree", SMALL)
        tell("a large tree (LCN) on all substructures, with hundreds of terms in a question")
        _show(_options(data, "activity", out / "molecules", seed, every), "lcn", MOLECULES)
    tell("TUMOURS  569 breast tumours (scikit-learn's table), benign or malignant by the shapes of cell nuclei")
    data = _write(tumours(), out / "tumours.csv")
    _show(_options(data, "diagnosis", out / "tumours", seed), "tree", TUMOURS)
    tell(f"done in {time.perf_counter() - started:.0f} s; all of it is in {out}\n")
    tell("next:")
    if find_spec("rdkit") is not None:
        tell(f"  treelu fit {out / 'molecules.csv'} --smiles smiles --target activity --depth 6 --out depth-6")
    tell(f"  treelu fit {out / 'tumours.csv'} --target diagnosis --leaves 4 --terms 2 --out two-terms")
    tell(f"  treelu fit {out / 'tumours.csv'} --target diagnosis --method lcn --out large-tree")
    tell("  treelu fit YOUR.csv --target COLUMN --out your-model")


def _write(frame: pd.DataFrame, path: Path) -> Path:
    """The table as a CSV file, to be fitted again in other ways."""
    write_atomically(path, frame.to_csv(index=False, lineterminator="\n").encode())
    return path


def _options(data: Path, target: str, out: Path, seed: int, columns: ColumnOptions | None = None) -> FitOptions:
    columns = columns or ColumnOptions()
    return FitOptions(data=str(data), target=[target], out=out, seed=seed, columns=columns, quiet=True)


def _show(options: FitOptions, method: str, parameters: dict[str, Any]) -> None:
    """Fit one table as `treelu fit` would; print scores and a small tree, write the model, the report and a picture."""
    folder = options.out
    table = prepare(options, Notes(quiet=True))
    model = train(make_estimator(method, table.task, parameters, options.seed), table, options)
    summaries = summarize_model(model, table.held_out, title=folder.name, seed=options.seed)
    add_queries(model, table.held_out, summaries)
    save(model, folder, beside=tree_files(model) | pages(summaries))
    _draw(model, folder)
    for line in score_lines(summaries, model, table.held_out):
        tell(line)
    if method == "tree":
        tell('\nat each node a weighted sum of features decides; "yes" is where it reaches the number on the right\n')
        tell(tree_text(model, model.trees[0]))
    pictures = "tree.png and molecules.svg" if options.columns.smiles else "tree.png"
    tell(f"\nreport: {folder / 'report.html'}   pictures: {pictures} beside it\n")


def _draw(model: TableModel, folder: Path) -> None:
    """The tree as a picture; for molecules another one with the substructures that decide."""
    import matplotlib

    matplotlib.use("Agg")
    figure: Any = model.trees[0].plot(scale=model.spread).figure
    figure.savefig(folder / "tree.png", dpi=150)
    molecules = model.encoder.smiles_column
    if molecules is not None:
        from treelu.chem import draw_tree

        picture = draw_tree(model.trees[0], molecules.fingerprint, max_depth=DRAWN_DEPTH)
        write_atomically(folder / "molecules.svg", picture.encode())


def molecules() -> pd.DataFrame:
    """SMILES and activity (−log10 of the molar concentration) of the series in RDKit's wheel."""
    import pandas as pd
    import rdkit

    folder = Path(rdkit.__file__).parent / "Contrib" / "FreeWilson" / "data"
    structures = pd.read_csv(folder / "CHEMBL2321810.smi", sep=" ", header=None, names=["smiles", "Name"])
    activities = pd.read_csv(folder / "CHEMBL2321810_act.csv")
    frame = structures.merge(activities, on="Name")
    return pd.DataFrame({"smiles": frame["smiles"], "activity": frame["Act"]})


def tumours() -> pd.DataFrame:
    """scikit-learn's breast cancer table, with the diagnosis as text."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer(as_frame=True)
    return data.data.assign(diagnosis=[str(data.target_names[number]) for number in data.target])
