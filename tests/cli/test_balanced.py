"""`--balanced`: a rare class is found as with class weights, and probabilities stay probabilities."""

import io
import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import treelu
from tests.cli.conftest import Type
from tests.fixed import predicted
from treelu import ObliqueTreeClassifier
from treelu.cli.train import class_weights, corrected_tree, level_shift
from treelu.persistence import load_as_saved
from treelu.persistence.table_model import TableModel

pytestmark = pytest.mark.slow


def loans(n: int = 3000, seed: int = 0) -> pd.DataFrame:
    """A table with some 5 % of defaults, which two features and their product tell."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 4)).round(3), columns=list("abcd"))
    score = 1.5 * frame.a + 1.2 * frame.b - 0.8 * frame.a * frame.c - 4.1
    return frame.assign(default=np.where(rng.random(n) < 1 / (1 + np.exp(-score)), "yes", "no"))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("loans") / "loans.csv"
    loans().to_csv(path, index=False)
    return path


def fitted(type_: Type, table: Path, out: Path, *words: object) -> TableModel:
    typed = type_("fit", table, "--target", "default", "--out", out, "--quiet", "--no-cart", *words)
    assert typed.code == 0, typed.err
    return load_as_saved(out)


def found(model: TableModel, frame: pd.DataFrame) -> float:
    """The recall of defaults."""
    return float((predicted(model, frame)[frame.default == "yes"] == "yes").mean())


@pytest.mark.parametrize("method", [("--leaves", 8), ("--depth", 3, "--epochs", 20), ("--method", "lln", "--depth", 2)])
def test_probabilities_are_frequencies_and_the_rare_class_is_found(
    method: tuple, table: Path, tmp_path: Path, type_: Type
) -> None:
    plain = fitted(type_, table, tmp_path / "plain", *method)
    balanced = fitted(type_, table, tmp_path / "balanced", *method, "--balanced")
    frame, new = loans(), loans(seed=1)
    share = (frame.default == "yes").mean()
    assert balanced.threshold == pytest.approx(share, abs=0.002)
    chances = balanced.estimator.predict_proba(new)[:, 1]
    error = np.sqrt(share * (1 - share) / len(new))
    assert abs(chances.mean() - (new.default == "yes").mean()) < 6 * error  # weights alone: some 0.3
    assert found(balanced, new) > found(plain, new) + 0.2


def test_leaves_have_the_frequency_of_their_rows_and_decide_as_with_class_weights(
    table: Path, tmp_path: Path, type_: Type
) -> None:
    model = fitted(
        type_,
        table,
        tmp_path / "m",
        "--leaves",
        8,
        "--leaf-kind",
        "constant",
        "--balanced",
        "--no-refit",
        "--hold-out",
        0,
    )
    frame = loans()
    X = frame[list("abcd")]
    weighted = ObliqueTreeClassifier(max_leaf_nodes=8, leaves="constant", class_weight="balanced", random_state=0)
    weighted.fit(X, frame.default)
    assert np.array_equal(predicted(model, frame), weighted.predict(X))
    odds = [values[:, 1] / values[:, 0] for values in (weighted.predict_proba(X), model.estimator.predict_proba(frame))]
    low, high = class_weights(frame.default.to_numpy())
    np.testing.assert_allclose(odds[0] / odds[1], high / low)
    leaves = pd.DataFrame(
        {"leaf": weighted.apply(X), "y": frame.default == "yes", "p": model.estimator.predict_proba(frame)[:, 1]}
    )
    means = leaves.groupby("leaf").agg(n=("y", "size"), y=("y", "mean"), p=("p", "mean"))
    means = means[means.n >= 200]
    assert len(means) >= 2
    shrunk = 0.2 * (means.y - (frame.default == "yes").mean()).abs()  # at most: 100 pseudo-rows of parents with 400
    assert ((means.p - means.y).abs() <= shrunk + 0.003).all()


def test_the_saved_model_its_exports_and_its_page_agree(table: Path, tmp_path: Path, type_: Type) -> None:
    model = fitted(type_, table, tmp_path / "m", "--leaves", 4, "--balanced")
    said = pd.read_csv(io.StringIO(type_("predict", tmp_path / "m", table).out))
    assert said["prediction"].tolist() == predicted(model, loans()).tolist()
    data = sqlite3.connect(":memory:")
    loans().to_sql("data", data, index=False)
    query = type_("export", tmp_path / "m", "--format", "sql", "--dialect", "sqlite").out
    rows = pd.DataFrame(data.execute(query).fetchall(), columns=said.columns)
    assert rows["prediction"].tolist() == said["prediction"].tolist()
    np.testing.assert_allclose(rows["probability_yes"], said["probability_yes"])
    assert type_("export", tmp_path / "m", "--format", "python", "--out", tmp_path / "m.py").code == 0
    program: dict = {"__name__": "program"}
    exec((tmp_path / "m.py").read_text(), program)
    assert program["self_test"]() == 0
    row = loans().iloc[0].to_dict()
    assert program["predict"](row)["prediction"] == said["prediction"][0]
    assert f'"threshold":{model.threshold}' in (tmp_path / "m" / "report.html").read_text().replace(": ", ":")


def test_other_targets(table: Path, tmp_path: Path, type_: Type) -> None:
    """An ensemble is trained without weights and has the threshold; of three classes the weights stay, and it warns."""
    ensemble = ("--method", "elcn", "--members", 2, "--epochs", 2, "--balanced")
    model = fitted(type_, table, tmp_path / "elcn", *ensemble)
    assert model.threshold < 0.1
    assert model.estimator.estimator.class_weight is None
    three = loans(600).assign(kind=lambda frame: np.where(frame.a > 1, "c", np.where(frame.b > 0, "b", "a")))
    three.drop(columns="default").to_csv(tmp_path / "three.csv", index=False)
    typed = type_(
        "fit", tmp_path / "three.csv", "--target", "kind", "--out", tmp_path / "k", "--leaves", 3, "--balanced"
    )
    assert (
        "warning: --balanced: with more than two classes the probabilities are those of classes of equal" in typed.out
    )
    labels = loans(400).assign(one=lambda frame: (frame.a > 1.2) * 1, two=lambda frame: (frame.b > 1.2) * 1)
    labels.drop(columns="default").to_csv(tmp_path / "labels.csv", index=False)
    quick = ("--depth", 2, "--epochs", 5, "--quiet", "--no-cart", "--balanced")
    assert type_("fit", tmp_path / "labels.csv", "--target", "one,two", "--out", tmp_path / "l", *quick).code == 0
    chances = load_as_saved(tmp_path / "l").estimator.predict_proba(labels)
    assert (np.abs(chances.mean(axis=0) - labels[["one", "two"]].mean().to_numpy()) < 0.1).all()


def test_the_page_answers_by_the_threshold(table: Path, tmp_path: Path, type_: Type) -> None:
    model = fitted(type_, table, tmp_path / "m", "--leaves", 4, "--terms", 2, "--balanced")
    tree = model.whole_trees()[0]
    X = loans()[list("abcd")].to_numpy()
    assert np.array_equal(model.decided_tree(tree).predict(X), predicted(model, loans()))
    page = (tmp_path / "m" / "report.html").read_text()
    assert "would be yes if" in page
    assert "would be no if" in page
    told = type_("verify", tmp_path / "m", "--independent", "d")
    assert told.out.startswith(("proved", "refuted")), told.err


def test_probabilities_are_corrected_for_the_weights_of_the_classes() -> None:
    assert class_weights(np.array(["no", "no", "no", "yes"])).tolist() == pytest.approx([2 / 3, 2.0])
    assert class_weights(np.array([0.0, np.nan, 0.0, 0.0, 1.0])).tolist() == pytest.approx([2 / 3, 2.0])
    leaves = [[0.5, 0.5], [0.1, 0.9]]
    tree = treelu.ObliqueTree([[1.0]], [0.0], [[1, 2]], leaves, link="probability", classes=["no", "yes"])
    corrected = corrected_tree(tree, np.array([0.5, 4.5])).values
    assert corrected.ravel().tolist() == pytest.approx([0.9, 0.1, 0.5, 0.5])
    assert level_shift(np.zeros(10), 0.2) == pytest.approx(np.log(4))
