"""The scripts in examples/ run, say what they should and write what they announce."""

import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from treelu.training import config

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
# what a script prints, and the files it writes
EXPECTED = {
    "first_tree": ("accuracy on", ["first_tree.png"]),
    "molecules": ("test molecules", ["molecules_tree.svg", *(f"molecules_substructure_{k}.svg" for k in (1, 2, 3))]),
    "missing_labels": ("is it above four?", []),
    "ensemble": ("add up to the ensemble's", []),
    "deploy_onnx": ("n_unexplained=0", ["tree.onnx"]),
    "prune_and_plot": ("visited by X", ["pruned.png", "pruned.dot", "map.png", "report.html"]),
    "prediction_sets": ("calibrated by class", []),
    "sparse_tree": ("uses  4 features", []),
}


def test_every_example_is_known() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_example_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words, files = EXPECTED[name]
    if name == "prediction_sets":
        pytest.importorskip("mapie")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config, "MIN_UPDATES", 180)  # they must run; how well they train is no matter here
    monkeypatch.setattr(config, "PASSES", 2)
    plt.switch_backend("Agg")
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    plt.close("all")
    assert words in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == set(files)
    assert all(path.stat().st_size > 500 for path in tmp_path.iterdir())
