"""Smoke test of an installed treelu: `python release/smoke.py`, outside the clone, with no network.

It needs nothing but the core dependencies: it fits, asks, exports, saves and loads, in Python and by the command line.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

import treelu
from treelu import LCNClassifier, ObliqueTreeClassifier
from treelu.kernels import level


def main() -> None:
    """Raise an error at the first thing that does not work."""
    print(f"treelu {treelu.__version__} in {Path(treelu.__file__).parent}, kernels {level()}")
    assert "site-packages" in treelu.__file__, "this is not an installed copy"
    cancer = load_breast_cancer(as_frame=True)
    X, y = cancer.data, cancer.target_names[cancer.target]
    model = ObliqueTreeClassifier(max_leaf_nodes=4, max_terms=3, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.tree_.counterfactual(X.iloc[0]) is not None
    assert "SELECT" in model.tree_.to_sql()
    print(model.tree_.export_text())
    assert LCNClassifier(random_state=0).fit(X, y).score(X, y) > 0.9
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model.save(folder / "model")
        assert np.array_equal(treelu.load(folder / "model").predict(X), model.predict(X))
        X.assign(diagnosis=y).to_csv(folder / "tumours.csv", index=False)
        for command in (
            ["fit", "tumours.csv", "--target", "diagnosis", "--leaves", "4", "--out", "fitted"],
            ["predict", "fitted", "tumours.csv", "--out", "scores.csv"],
            ["export", "fitted", "--format", "sql", "--out", "tree.sql"],
        ):
            subprocess.run(
                [sys.executable, "-m", "treelu", *command], cwd=folder, check=True, stdout=subprocess.DEVNULL
            )
        made = [folder / "fitted" / "report.html", folder / "scores.csv", folder / "tree.sql"]
        assert all(file.stat().st_size for file in made)
    print("smoke test passed")


if __name__ == "__main__":
    main()
