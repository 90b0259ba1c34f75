"""Runs: what is fitted, what is scored, what is kept."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score, root_mean_squared_error

import treelu
from experiments.choice import cell
from experiments.data import Dataset
from experiments.grids import DEPTHS, DROPS, QUICK, Extent, runs, settings
from experiments.methods import execute, halves, network_settings
from experiments.runs import Run
from experiments.tests.tiny import tiny_dataset
from treelu.training.settings import nested


def regression() -> Dataset:
    table = tiny_dataset("pdbbind")
    values = 5.0 + 3.0 * table.X[:, 0] + table.X[:, 1]
    return replace(table, task="regression", Y=values[:, None], labels=("affinity",), X=table.X * 10 + 40)


AS_IN_THE_PAPER = {"annealing": 1.0, "straight_through": False}


@pytest.mark.parametrize("method", ["lcn", "alcn", "lln"])
def test_the_last_epoch_is_what_training_without_validation_ends_with(method: str):
    dataset = tiny_dataset()
    setting = {"depth": 3, "epochs": 6}
    result = execute(Run("bace", "product", method, setting, 4), dataset)
    parts = dataset.parts("product")
    kind = getattr(treelu, f"{method.upper()}Classifier")
    paper = {"optimizer": "sgd", "batch_size": 64, "learning_rate": 0.1, "schedule": "step", "drop_connect": 0.0}
    paper = nested(paper | AS_IN_THE_PAPER | {"temper": False})
    model = kind(**paper, **setting, random_state=4).fit(*parts["train"])
    X, y = parts["test"]
    # The network of the last epoch is in float32, the model's in float64: of close scores two may change places.
    assert result["scores"]["last"]["test"] == pytest.approx(roc_auc_score(y, model.decision_function(X)), abs=0.02)
    assert result["last_epoch"] == 6
    assert 1 <= result["best_epoch"] <= 6
    judged = kind(**paper, **setting, random_state=4).fit(*parts["train"], eval_set=parts["valid"])
    assert result["scores"]["best"]["valid"] == pytest.approx(
        roc_auc_score(parts["valid"][1], judged.decision_function(parts["valid"][0])), abs=1e-6
    )


@pytest.mark.parametrize("method", ["lcn@scaled", "alcn@scaled"])
def test_scaled_targets_are_scored_in_their_own_units(method: str):
    dataset = regression()
    setting = {"depth": 3, "epochs": 6, "hidden_layers": 1}
    result = execute(Run("pdbbind", "affinity", method, setting, 4), dataset)
    parts = dataset.parts("affinity")
    kind = getattr(treelu, f"{method.partition('@')[0].upper()}Regressor")
    ours = {"optimizer": "amsgrad", "batch_size": 64, "learning_rate": 0.01, "schedule": "cosine", "drop_connect": 0.0}
    ours = nested(ours | {"annealing": 0.5, "straight_through": True, "temper": False, "smoothing": 0})
    model = kind(**ours, depth=3, epochs=6, hidden_layers=(256,), random_state=4).fit(*parts["train"])
    X, y = parts["test"]
    assert result["scores"]["last"]["test"] == pytest.approx(root_mean_squared_error(y, model.predict(X)), rel=0.02)


def test_the_papers_settings():
    classification = network_settings(Run("bace", "Class", "lcn", {"depth": 2}, 1), "classification")
    assert classification == {
        "optimizer": "sgd",
        "batch_size": 64,
        "epochs": 30,
        "learning_rate": 0.1,
        "schedule": "step",
        "drop_connect": 0.0,
        "annealing": 1.0,
        "straight_through": False,
        "depth": 2,
    }
    setting = {"depth": 11, "hidden_layers": 2}
    values = network_settings(Run("pdbbind", "affinity", "lcn", setting, 1), "regression")
    assert values["hidden_layers"] == (256, 256)
    assert values["standardize"] is False
    rates = [values["learning_rate"] * values["schedule"](epoch, values["epochs"]) for epoch in range(1, 61)]
    np.testing.assert_allclose(rates, [1e-4 * 0.1 ** (epoch // 30) for epoch in range(1, 61)])
    assert halves is values["schedule"]


def test_boosted_ensembles_are_scored_at_powers_of_two():
    dataset = tiny_dataset()
    result = execute(Run("bace", "sum", "gbdt", {"n_estimators": 8}, 1), dataset)
    assert list(result["stages"]) == ["1", "2", "4", "8"]
    valid = {int(size): scores["valid"] for size, scores in result["stages"].items()}
    assert valid[result["best_epoch"]] == max(valid.values())
    assert result["scores"]["last"] == result["stages"]["8"]
    short = execute(Run("bace", "sum", "gbdt", {"n_estimators": 4}, 1), dataset)
    assert short["scores"]["last"] == result["stages"]["4"]


@pytest.mark.parametrize(
    ("method", "setting"),
    [
        ("tao", {"max_depth": 2}),
        ("hhcart", {"max_depth": 2}),
        ("rf", {"n_estimators": 3}),
        ("hist-gbdt", {"max_iter": 4}),
        ("elcn", {"n_estimators": 2, "depth": 2, "epochs": 2}),
        ("ablation", {"depth": 2, "drop_connect": 0.5, "annealing": False}),
        ("patterns", {"depth": 3, "drop_connect": 0.0}),
        ("statistics", {}),
    ],
)
def test_every_result_is_json_with_the_same_fields(method: str, setting: dict):
    result = execute(Run("bace", "sum", method, setting, 1), tiny_dataset())
    assert json.loads(json.dumps(result)) == result
    assert {"config", "scores", "best_epoch", "last_epoch", "seconds", "cpu_seconds"} <= set(result)
    for scores in result["scores"].values():
        assert set(scores) == {"train", "valid", "test"}


def test_one_graph_network_for_all_labels():
    pytest.importorskip("torch_geometric")
    table = tiny_dataset("sider")
    molecules = np.array(["C" * (1 + row % 9) + "ON"[row % 2] for row in range(90)], dtype=object)
    dataset = replace(table, smiles=molecules)
    [run] = runs(dataset, "gcn", Extent(seeds=(1,), epochs=2))
    assert (run.label, run.setting) == ("all", {"epochs": 2})
    result = execute(run, dataset)
    assert list(result["by_label"]) == ["sum", "product"]
    assert result["scores"]["best"]["test"] == pytest.approx(
        np.mean([scores["test"] for scores in result["by_label"].values()])
    )
    ours = cell([run.to_dict() | result])
    assert ours is not None
    assert ours.mean == pytest.approx(result["scores"]["best"]["test"])
    one = execute(Run("bace", "sum", "gcn", {"epochs": 1}, 1), replace(dataset, name="bace"))
    assert set(one["scores"]["best"]) == {"train", "valid", "test"}


def test_training_that_diverges_is_a_result():
    setting = {"depth": 3, "learning_rate": 1e12, "hidden_layers": 1}
    result = execute(Run("pdbbind", "affinity", "lcn", setting, 1), regression())
    assert result["scores"] == {}
    assert "learning_rate" in result["error"]


def test_an_unknown_method_is_named():
    with pytest.raises(ValueError, match="'svm'"):
        execute(Run("bace", "sum", "svm", {}, 1), tiny_dataset())
    with pytest.raises(ValueError, match="'svm'"):
        list(settings("bace", "classification", "svm", Extent()))


def test_the_papers_grids():
    dataset = tiny_dataset()
    assert len(runs(dataset, "lcn", Extent())) == 2 * 11 * 4 * 10
    assert len(runs(dataset, "lln", Extent())) == 2 * 11 * 10
    assert len(runs(dataset, "hhcart", Extent())) == 2 * 11
    assert len(runs(regression(), "alcn", Extent())) == 11 * 4 * 5 * 10
    assert (DEPTHS[0], DEPTHS[-1], DROPS) == (2, 12, (0.0, 0.25, 0.5, 0.75))
    keys = [run.key for method in ("lcn", "gbdt", "elcn") for run in runs(dataset, method, Extent())]
    assert len(keys) == len(set(keys))


def test_quick_and_tuned_are_parts():
    dataset = tiny_dataset()
    whole = {run.key for run in runs(dataset, "lcn", Extent())}
    assert {run.key for run in runs(dataset, "lcn", QUICK)} < whole
    tuned = runs(dataset, "lcn", Extent(tuned=True, seeds=(1,)))
    assert {run.key for run in tuned} < whole
    assert tuned[0].setting == {"depth": 12, "drop_connect": 0.75}
