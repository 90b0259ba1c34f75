"""From results to tables and figures."""

from pathlib import Path

import numpy as np
import pytest

from experiments.__main__ import main
from experiments.analyses import fit_picture
from experiments.choice import Cell, cell, verdict
from experiments.data import Dataset, load_dataset
from experiments.figures import ablation_scores, figure1, figure2, figure3, picture_tree
from experiments.prose import claims_matrix, claims_table
from experiments.report import notes_text, page_text, write_report
from experiments.runs import Run, Store
from experiments.tables import settings_table, table2_cell, table3

pytestmark = pytest.mark.slow

NOTES = ("claims", "grids", "settings", "costs", "missing")


def result(dataset: str, label: str, seed: int, depth: int, valid: float, test: float) -> dict:
    scores = {"train": 1.0, "valid": valid, "test": test}
    return {
        "dataset": dataset,
        "label": label,
        "method": "lcn",
        "setting": {"depth": depth},
        "seed": seed,
        "scores": {"best": scores, "last": scores},
    }


def test_one_setting_for_all_seeds_by_mean_validation():
    results = [
        result("bace", "Class", 1, 2, valid=0.90, test=0.10),
        result("bace", "Class", 2, 2, valid=0.50, test=0.20),
        result("bace", "Class", 1, 3, valid=0.80, test=0.60),
        result("bace", "Class", 2, 3, valid=0.80, test=0.80),
        result("bace", "Class", 1, 4, valid=0.99, test=0.99),  # has not all seeds
    ]
    found = cell(results)
    assert found is not None
    assert found.setting == {"depth": 3}
    assert found.mean == pytest.approx(0.7)
    assert found.deviation == pytest.approx(np.std([0.6, 0.8], ddof=1))
    assert (found.n_seeds, found.n_settings) == (2, 2)


def test_a_setting_for_each_label_and_seed():
    results = [
        result("sider", "a", 1, 2, valid=0.9, test=0.5),
        result("sider", "a", 1, 3, valid=0.8, test=0.0),
        result("sider", "a", 2, 2, valid=0.1, test=0.0),
        result("sider", "a", 2, 3, valid=0.2, test=0.7),
        result("sider", "b", 1, 2, valid=0.9, test=0.9),
        result("sider", "b", 2, 2, valid=0.9, test=0.9),
    ]
    found = cell(results)
    assert found is not None
    assert found.mean == pytest.approx((0.6 + 0.9) / 2)
    assert found.deviation == pytest.approx(np.std([0.5, 0.7], ddof=1) / 2)
    assert found.setting is None


def test_lower_is_better_for_regression():
    results = [result("pdbbind", "y", 1, 2, valid=1.5, test=1.0), result("pdbbind", "y", 1, 3, valid=1.4, test=2.0)]
    assert cell(results) == Cell(2.0, 0.0, 1, 2, {"depth": 3})
    assert cell([], "best") is None
    assert cell(results, setting={"depth": 2}) == Cell(1.0, 0.0, 1, 1, {"depth": 2})


def test_verdicts():
    paper = (0.839, 0.013)
    assert verdict(Cell(0.826, 0.01, 3, 1), paper) == "within 1"
    assert verdict(Cell(0.860, 0.01, 3, 1), paper) == "within 2"
    assert verdict(Cell(0.811, 0.01, 3, 1), paper) == "outside 2, worse"
    assert verdict(Cell(0.735, 0.005, 3, 1), (0.734, 0.0)) == "within 1"
    assert verdict(Cell(1.4, 0.005, 3, 1), (1.5, 0.01), lower_is_better=True) == "outside 2, better"


def test_a_cell_says_ours_the_papers_and_how_far(tmp_path: Path):
    store = Store(tmp_path)
    for seed, test in ((1, 0.80), (2, 0.84)):
        one = result("bace", "Class", seed, 12, valid=0.7, test=test)
        store.write(Run("bace", "Class", "lcn", {"depth": 12, "drop_connect": 0.75}, seed), {"scores": one["scores"]})
    text = table2_cell(store, "bace", "lcn", "last")
    assert text == "**0.820 ± 0.028** (2 seeds)<br>paper 0.839 ± 0.013<br>within 2"
    assert "| Bace | LCN | authors' | 0.820 ± 0.028 (depth 12, p 0.75) |" in settings_table(store)
    assert table2_cell(store, "hiv", "lcn", "last") == ""


def test_table3_averages_over_seeds(tmp_path: Path):
    store = Store(tmp_path)
    names = ["n_possible", "n_train", "n_test", "n_test_only", "unobserved_share", "auc_observed", "auc_unobserved"]
    for seed, auc in ((1, None), (2, 0.5), (3, 0.7)):
        patterns = dict.fromkeys(names, 4) | {"auc_unobserved": auc}
        store.write(Run("bace", "Class", "patterns", {"depth": 8}, seed), {"patterns": patterns})
    assert "| AUC, unobserved patterns | **0.600** · 0.860 |" in table3(store)


def test_figure1(tmp_path: Path):
    assert [path.stat().st_size > 5000 for path in figure1(tmp_path)] == [True] * 3


def test_figure2(tmp_path: Path):
    store = Store(tmp_path / "results")
    for annealing, drop, train in ((False, 0.0, 0.6), (True, 0.0, 0.8), (True, 0.75, 0.9)):
        for depth in (2, 3):
            scores = {"train": train, "valid": 0.5, "test": 0.7}
            setting = {"depth": depth, "annealing": annealing, "drop_connect": drop}
            fields = {"scores": {"last": scores}, "curve": [scores] * 3, "config": {}, "cpu_seconds": 1.0}
            store.write(Run("hiv", "HIV_active", "ablation", setting, 1), fields)
    (path,) = figure2(store, tmp_path)
    assert path.stat().st_size > 5000
    assert ablation_scores(store)[True, 0.75][3] == {"train": 0.9, "test": 0.7}
    assert figure2(Store(tmp_path / "nothing"), tmp_path) == []


def test_figure3_is_drawn_from_the_result_alone(tmp_path: Path):
    smiles = np.array(["CCO", "CCN", "c1ccccc1O", "c1ccccc1N", "CCCCO", "CCC(=O)O", "CC#N", "C1CC1"] * 6, dtype=object)
    from treelu.chem import MorganFingerprint

    X = MorganFingerprint().fit_transform(smiles)
    y = np.array(["O" in text for text in smiles], dtype=float)
    rows = np.arange(len(y))
    split = {"train": rows[:32], "valid": rows[32:40], "test": rows[40:]}
    dataset = Dataset("hiv", "classification", X, y[:, None], ("HIV_active",), split, smiles)
    run = Run("hiv", "HIV_active", "picture", {"depth": 3, "drop_connect": 0.0}, 1)
    found = fit_picture(run, dataset)
    store = Store(tmp_path)
    store.write(run, found)
    tree = picture_tree(store.results("hiv", "picture")[0])
    assert tree.n_leaves == 8
    assert tree.n_samples[0] == 32
    (path,) = figure3(store, tmp_path)
    assert path.read_text().count("P(1)") == 8
    # The stored network ranks the rows as the model did, to the digits that were kept.
    from sklearn.metrics import roc_auc_score

    score = roc_auc_score(y[split["train"]], tree.decision_function(X[split["train"]]))
    assert score == pytest.approx(found["scores"]["last"]["train"], abs=1e-6)


def test_the_command_runs_packs_and_reports(tmp_path: Path, shared_data: Path, capsys: pytest.CaptureFixture[str]):
    results, docs = str(tmp_path / "results"), tmp_path / "docs"
    some = ["--dataset", "bace", "--method", "cart", "--method", "statistics", "--seeds", "1-2", "--depths", "2,3"]
    main(["run", *some, "--results", results, "--data-home", str(shared_data)])
    assert "5 runs made, 0 were there" in capsys.readouterr().out
    main(["run", *some, "--results", results, "--data-home", str(shared_data)])
    assert "0 runs made, 5 were there" in capsys.readouterr().out
    main(["pack", "--results", results])
    main(["report", "--results", results, "--docs", str(docs)])
    text = (docs / "paper.md").read_text()
    assert "| Bace | classification | 1 | 1,513 | 1 / 1,513 | 2,048 | 1,210 / 151 / 152 |" in text
    assert "(2 seeds, 2 settings)<br>paper 0.652 ± 0.024" in text


def test_a_report_without_results_is_one(tmp_path: Path):
    assert (tmp_path / "paper.md") in write_report(Store(tmp_path / "none"), tmp_path)


def test_claims_have_a_cell_for_each_data_set(tmp_path: Path):
    store = Store(tmp_path)
    for seed in (1, 2, 3):
        for method, test in (("lcn", 0.8), ("cart", 0.7)):
            scores = dict.fromkeys(("train", "valid", "test"), test + seed / 100)
            fields = {"scores": {"last": scores, "best": scores}, "config": {}, "cpu_seconds": 1.0}
            store.write(Run("bace", "Class", method, {"depth": 2}, seed), fields)
    (line,) = [line for line in claims_matrix(store).splitlines() if line.startswith("| LCN is first")]
    assert line == "| LCN is first among the trees | held<br>+0.100 ± 0.000 (3) | – | – | – | – |"
    assert "| Bace | LCN 0.820, CART 0.720 | +0.100 ± 0.000 (3) | held |" in claims_table(store)


def test_notes_of_the_results_are_filled(tmp_path: Path):
    notes = tmp_path / "results" / "notes" / "paper.md"
    notes.parent.mkdir(parents=True)
    notes.write_text("".join(f"<!-- begin: {n} -->\n<!-- end: {n} -->\n" for n in NOTES))
    assert notes in write_report(Store(tmp_path / "results"), tmp_path / "docs")
    assert "| runs that are there |" in notes.read_text()


def test_the_committed_tables_are_those_of_the_results():
    store, docs = Store(), Path(__file__).resolve().parents[2] / "docs"
    notes = store.folder / "notes" / "paper.md"
    assert (docs / "paper.md").read_text(encoding="utf-8") == page_text(store), "run: python -m experiments report"
    assert notes.read_text(encoding="utf-8") == notes_text(store, notes)


def test_missing_labels_are_left_out(shared_data: Path):
    dataset = load_dataset("tox21", str(shared_data))
    label = dataset.labels[0]
    parts = dataset.parts(label)
    assert {part: len(y) for part, (_, y) in parts.items()} == {part: len(r) for part, r in dataset.rows(label).items()}
    assert sum(len(y) for _, y in parts.values()) < sum(map(len, dataset.split.values()))
    assert set(np.unique(parts["train"][1])) == {0, 1}
    with pytest.raises(ValueError, match="'zinc'"):
        load_dataset("zinc")
