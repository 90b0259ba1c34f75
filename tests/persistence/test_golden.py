"""Models that earlier versions saved still load and predict what they did."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.persistence.models import outputs
from treelu.persistence import FORMAT_VERSION, ModelFileError, dumps, load_as_saved

GOLDEN = Path(__file__).parents[1] / "golden"
MODELS = sorted(path.parent for path in GOLDEN.glob("version-*/*/model.json"))


@pytest.mark.parametrize("folder", MODELS, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_old_models_load_and_predict_as_they_did(folder: Path) -> None:
    expected = json.loads((folder.parent / "expected.json").read_text())[folder.name]
    found = outputs(load_as_saved(folder))
    assert len(found) == len(expected)
    for result, wanted in zip(found, expected, strict=True):
        if result.dtype.kind == "f":  # other machines add up in other orders
            single = folder.name.startswith("gcn")  # graph networks run in single precision
            np.testing.assert_allclose(result, wanted, rtol=1e-4 if single else 1e-9, atol=1e-12)
        else:
            assert result.tolist() == wanted


@pytest.mark.parametrize("kind", ["HHCARTClassifier", "TAORegressor", "GCNClassifier"])
@pytest.mark.parametrize("absent", ["experiments", "experiments.baselines"])
def test_a_baseline_says_where_it_lives_outside_a_clone(
    kind: str, absent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("experiments")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, absent, None)
    folder = next(path for path in MODELS if json.loads((path / "model.json").read_text())["model"]["kind"] == kind)
    with pytest.raises(ModelFileError, match=rf"is a {kind}, a baseline .* experiments/baselines: .* clone"):
        load_as_saved(folder)
    namesake = type(kind, (), {})()
    with pytest.raises(TypeError, match=f"cannot save a {kind}"):
        dumps(namesake)


def test_there_is_a_golden_model_of_every_kind_in_the_current_version() -> None:
    names = {folder.name for folder in MODELS if folder.parent.name == f"version-{FORMAT_VERSION}"}
    assert len(names) == 40
    kinds = {json.loads((folder / "model.json").read_text())["model"]["kind"] for folder in MODELS}
    assert kinds >= {"LCNClassifier", "ALCNRegressor", "LLNRegressor", "ELCNClassifier", "TAOClassifier", "TableModel"}
    assert kinds >= {"LCNClassifierCV", "LCNRegressorCV", "GCNClassifier", "GCNRegressor", "HHCARTRegressor"}
