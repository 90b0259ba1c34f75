"""The study of ensembles: how its files are read."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from experiments import ensembles
from experiments.runs import Run, Store


def test_the_mean_over_labels_is_on_the_rows_where_they_are_observed() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, (40, 2)).astype(float)
    scores = rng.normal(size=(40, 2))
    y[::3, 1] = np.nan
    seen = ~np.isnan(y[:, 1])
    wanted = (roc_auc_score(y[:, 0], scores[:, 0]) + roc_auc_score(y[seen, 1], scores[seen, 1])) / 2
    assert ensembles.mean_auc(y, scores) == pytest.approx(wanted)


def test_the_forest_counts_seeds_that_have_all_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    for seed, label, auc in ((1, "a", 0.7), (1, "b", 0.9), (2, "a", 0.6)):
        scores = {"best": {"valid": auc, "test": auc - 0.1}}
        store.write(Run("tox21", label, "rf", {"n_estimators": 500}, seed), {"config": {}, "scores": scores})
    monkeypatch.setattr(ensembles, "Store", lambda: store)
    assert ensembles.forest("tox21", "valid") == pytest.approx([0.8])
    assert ensembles.forest("tox21", "test") == pytest.approx([0.7])
    assert ensembles.forest("bace", "test") == []


def test_the_table_has_means_and_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ensembles, "RESULTS", tmp_path)
    monkeypatch.setattr(ensembles, "Store", lambda: Store(tmp_path))
    for seed, auc in ((1, 0.7), (2, 0.8)):
        result = {"data": "bace", "setting": "average", "seed": seed, "valid": {"8": 0.1, "16": auc, "scores": 0.2}}
        (tmp_path / f"bace-average-{seed}.json").write_text(json.dumps(result))
    ensembles.print_table()
    assert "| average | 0.7500 ± 0.0707 (2) | – | – |" in capsys.readouterr().out
