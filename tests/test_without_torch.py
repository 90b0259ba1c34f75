"""All but torch modules, other devices and the graph network runs in a process in which importing torch fails."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

BLOCK = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "torch_geometric"):
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, Blocked())
"""


def run(code: str, *arguments: str) -> str:
    script = BLOCK + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_fit_predict_tree_save_and_load(tmp_path: Path) -> None:
    out = run(
        """
        import numpy as np, treelu
        from treelu import (
            ALCNClassifier, ALCNRegressor, ELCNClassifier, LCNClassifier,
            LCNRegressor, LLNClassifier, load
        )
        rng = np.random.default_rng(0)
        X = rng.normal(size=(80, 4))
        y = (X[:, 0] > 0).astype(int)
        quick = {"depth": 2, "epochs": 2, "random_state": 0}
        models = [
            LCNClassifier(**quick), LCNClassifier(**quick, hidden_layers=(3,)), LCNRegressor(**quick),
            ALCNRegressor(**quick), LLNClassifier(**quick), ELCNClassifier(ALCNClassifier(**quick), n_estimators=2),
        ]
        for number, model in enumerate(models):
            model.fit(X, y)
            model.save(f"{sys.argv[1]}/{number}")
            assert np.array_equal(load(f"{sys.argv[1]}/{number}").predict(X), model.predict(X))
        tree = models[0].tree_
        assert np.abs(tree.decision_function(X) - models[0].decision_function(X)).max() < 1e-9
        labels = LCNClassifier(**quick).fit(X, np.column_stack([y, 1 - y]))
        assert labels.predict(X).shape == (80, 2)
        models[0].partial_fit(X, y)
        from treelu.convert import canonical_to_standard, network_to_tree, tree_to_network
        network = tree_to_network(tree)
        assert np.allclose(network(X), tree.decision_function(X)[:, None])
        assert network_to_tree(network).n_leaves <= 4
        print("torch" in sys.modules)
        """,
        str(tmp_path),
    )
    assert out.strip() == "False"


def test_baselines_command_line_and_report(tmp_path: Path) -> None:
    run(
        """
        import numpy as np, pandas as pd
        from experiments.baselines import HHCARTClassifier, TAOClassifier
        from treelu.cli import main
        folder = sys.argv[1]
        rng = np.random.default_rng(0)
        X = rng.normal(size=(120, 3))
        y = (X[:, 0] + X[:, 1] > 0).astype(int)
        for kind in (HHCARTClassifier, TAOClassifier):
            assert kind().fit(X, y).score(X, y) > 0.8
        table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
        table.to_csv(f"{folder}/t.csv", index=False)
        fit = ["fit", f"{folder}/t.csv", "--target", "y", "--out", f"{folder}/m", "--depth", "2"]
        for words in (fit, ["predict", f"{folder}/m", f"{folder}/t.csv"]):
            sys.argv[1:] = words
            try:
                main()
            except SystemExit as end:
                assert not end.code, end.code
        """,
        str(tmp_path),
    )
    assert (tmp_path / "m" / "report.html").exists()


def test_what_needs_torch_says_how_to_get_it() -> None:
    out = run(
        """
        import numpy as np
        from treelu import LCNClassifier
        X = np.zeros((4, 1))

        def device():
            LCNClassifier(device="cuda").fit(X, [0, 1, 0, 1])

        def modules():
            from treelu.nn.torch import to_torch

        def graphs():
            from experiments.baselines import GCNClassifier

        for ask in (device, modules, graphs):
            try:
                ask()
            except ImportError as error:
                print(error)
        """
    )
    lines = out.strip().split("\n")
    assert lines == [
        "device= other than 'cpu' needs PyTorch: pip install 'treelu[torch]'",
        "treelu.nn.torch needs PyTorch: pip install 'treelu[torch]'",
        "GCNClassifier needs PyTorch and torch_geometric: pip install -e '.[experiments]'",
    ]
