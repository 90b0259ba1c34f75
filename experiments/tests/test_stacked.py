"""The default ensemble beside forest and boosting: what the tables count, and what the check of substructures finds."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import paired, stacked


def row(name: str, part: int, method: str, accuracy: float) -> dict[str, Any]:
    return {
        "kind": "classification",
        "name": name,
        "part": part,
        "method": method,
        "accuracy": accuracy,
        "seconds": 1.0,
    }


def test_means_are_over_parts_that_all_methods_have() -> None:
    rows = [row("a", 0, method, value) for method, value in (("rf", 0.5), ("hgb", 0.6), ("elcn", 0.7))]
    rows += [row("b", part, method, 0.1 * part + 0.2) for part in (0, 1) for method in ("rf", "hgb", "elcn")]
    rows += [row("a", 1, "elcn", 0.9), row("c", 0, "rf", 0.4)]  # the others are missing
    found = stacked.means(rows, "classification", "accuracy")
    assert found == {
        "a": {"rf": 0.5, "hgb": 0.6, "elcn": 0.7},
        "b": {method: pytest.approx(0.25) for method in ("rf", "hgb", "elcn")},
    }
    error = np.std([0.2, 0.0], ddof=1) / np.sqrt(2)
    assert stacked.paired(found, "elcn", "rf") == f"+0.1000 ± {error:.4f}"


def test_tables_that_rules_were_chosen_on_are_left_out() -> None:
    rows = [
        row(name, 0, method, 0.5) | ({"chosen_on": True} if name == "b" else {})
        for name in "abc"
        for method in stacked.NAMES
    ]
    assert list(stacked.unseen(stacked.means(rows, "classification", "accuracy"), rows)) == ["a", "c"]


def test_losses_are_beside_members_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By more than a point, on the folds of the ensemble."""
    monkeypatch.setattr(stacked, "RESULTS", tmp_path / "stacked.json")
    monkeypatch.setattr(stacked, "TREES", tmp_path)
    scores = {"a": ("rf", 0.9), "b": ("alcn", 0.75), "c": ("hgb", 0.709)}
    rows = []
    for name, (ahead, score) in scores.items():
        rows += [row(name, 0, method, score if method == ahead else 0.7) for method in (*stacked.NAMES, "alcn")]
        of_lcn = {"parts": {"default": {"score": [0.72 if name == "a" else 0.6, 1.0]}}}
        (tmp_path / f"{name}-LCN.json").write_text(json.dumps(of_lcn))
    stacked.RESULTS.write_text(json.dumps(rows))
    lines = stacked.losses().splitlines()[2:]
    assert lines == [
        "| a, accuracy | 0.7000 | −0.2000 |  | −0.0200 |  |",
        "| b, accuracy | 0.7000 |  |  |  | −0.0500 |",
    ]


def test_scores_of_another_machine_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the same cell too, where its other methods were predicted here."""
    monkeypatch.setattr(paired, "PREDICTIONS", tmp_path)
    monkeypatch.setattr(paired, "SCORES", tmp_path / "paired.json")
    before = [
        {"data": "bace", "label": "Class", "seed": seed, "auc": {"rf": 0.75}, "seconds": {"rf": 3.0}} for seed in (0, 1)
    ]
    paired.SCORES.write_text(json.dumps(before))
    y = np.array([0, 1, 0, 1])
    np.savez(tmp_path / "bace-Class-0-elcn.npz", p=np.array([0.1, 0.9, 0.2, 0.8]), y=y, t=2.0)
    paired.collect()
    first, second = json.loads(paired.SCORES.read_text())
    assert first["auc"] == {"rf": 0.75, "elcn": 1.0}
    assert second == before[1]
    assert "| bace | 0.7500 | 1.0000 | +0.2500 | 1 of 1 | 3.0 | 2.0 |" in paired.default_table()


def test_substructures_are_where_rdkit_finds_them() -> None:
    pytest.importorskip("rdkit")
    from experiments.substructures import disagreements

    smiles = ["CCO", "CCCO", "c1ccccc1O", "CC(=O)O", "CC(=O)Nc1ccc(O)cc1", "[2H]OC"]
    n_molecules, n_columns, differing = disagreements(smiles)
    assert (n_molecules, differing) == (6, [])
    assert n_columns > 5
