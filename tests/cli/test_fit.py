"""`treelu fit`: what it writes, what it says, and the mistakes it names."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem

import treelu
from tests.cli.conftest import QUICK, Type, people
from tests.fixed import predicted
from treelu.chem import MorganFingerprint
from treelu.cli import tune as tuning
from treelu.cli.messages import InputError, Notes
from treelu.cli.model import substructures
from treelu.cli.options import FitOptions, ModelOptions
from treelu.cli.pages import file_words
from treelu.cli.predict import predicted_table
from treelu.cli.prepare import Prepared, TableRows, prepare, split_rows
from treelu.cli.train import default_method
from treelu.persistence import load_as_saved
from treelu.persistence.table_model import TableModel
from treelu.report import fit_cart
from treelu.tables import TableEncoder, TableTargets
from treelu.tables.columns import SmilesColumn
from treelu.tree import ObliqueTree

pytestmark = pytest.mark.slow


def test_options_of_networks_choose_the_large_tree() -> None:
    options = FitOptions(data="", target=[], out=Path("m"))
    given = {"terms": 2}, {"balanced": True}, {"depth": 2}, {"tune": True}
    methods = [default_method(replace(options, model=ModelOptions(**one)), "regression") for one in given]  # type: ignore[arg-type]
    assert methods == ["tree", "tree", "lcn", "lcn"]
    assert default_method(options, "labels") == "lcn"


def prepared(path: Path, target: str = "survived", **options: object) -> Prepared:
    fit_options = FitOptions(data=str(path), target=[target], out=Path("m"), **options)  # type: ignore[arg-type]
    return prepare(fit_options, Notes(quiet=True))


def test_the_number_of_features_has_one_name_and_keeps_an_old_one(table: Path, tmp_path: Path, type_: Type) -> None:
    assert "--max-tree-features" in type_("fit", "--help").out
    fitted = []
    for option in ("--max-tree-features", "--max-features"):
        out = tmp_path / option.strip("-")
        assert type_("fit", table, "--target", "survived", "--out", out, *QUICK, option, 1).code == 0
        fitted.append(load_as_saved(out).estimator)
    assert [model.max_tree_features for model in fitted] == [1, 1]
    assert np.count_nonzero((fitted[0].network_.weight != 0).any(axis=1)) == 1


def test_a_table_becomes_a_model_a_tree_and_a_report(table: Path, tmp_path: Path, type_: Type) -> None:
    out = tmp_path / "new" / "model"
    typed = type_("fit", table, "--target", "survived", "--out", out, *QUICK)
    assert typed.code == 0
    lines = typed.err.splitlines()
    assert sum(re.fullmatch(r"  took \d+\.\d s", line) is not None for line in lines) == 6  # each step says how long
    assert [line for line in lines if not line.startswith("  took ")] == [
        f"reading {table}",
        f"  {table}: 80 rows, 4 columns",
        "  target 'survived': 2 classes (0, 1), so classification (--task regression if they are quantities)",
        *[line for line in typed.err.splitlines() if line.startswith("  column 'age': ")],
        "  column 'sex': text with 2 categories (female, male), one-hot encoded as 'sex=female', …",
        "  left out, 1 column:",
        "    name  text with 64 different values in 64 rows (names?); --text name keeps it",
        "training LCNClassifier (depth 2) on 64 rows, 4 features",
        "fitting scikit-learn's decision tree (CART) and a logistic regression, for comparison",
        "fitting it again, to all 80 rows; the scores are of the first fit",
        "fitting scikit-learn's decision tree (CART) and a logistic regression, for comparison",
        f"saving the model in {out}",
        "measuring scores",
        "writing the report (its queries may take 20 s of processor time)",
    ]
    assert "scores on 16 hold-out rows that training did not see (95 % interval)" in typed.out
    for word in (
        "ROC AUC",
        "Average precision",
        "  LCN  ",
        "  CART  ",
        "logistic",
        "  always ",
        "recall and precision are those of survived = 1",
        "leaves that rows reach, of 4; CART: ",
        f"wrote {out}: model.json",
    ):
        assert word in typed.out
    names = {path.name for path in out.iterdir() if not path.name.startswith("arrays-")}
    assert names == {"model.json", "tree.json", "tree.txt", "report.html"}
    model = load_as_saved(out)
    tree = ObliqueTree.from_json((out / "tree.json").read_text())
    assert tree == model.trees[0]
    assert tree.feature_names == ("age", "age=(missing)", "sex=female", "sex=male")
    assert tree.n_samples is not None
    assert tree.n_samples[0] == 80
    assert (out / "tree.txt").read_text() == tree.export_text(scale=model.estimator.spread_) + "\n"
    assert (out / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_scores_and_tree_are_those_of_the_saved_model(table: Path, tmp_path: Path, type_: Type) -> None:
    typed = type_("fit", table, "--target", "survived", "--out", tmp_path / "m", *QUICK, "--json", "--no-refit")
    result = json.loads(typed.out)
    model = load_as_saved(tmp_path / "m")
    held_out = prepared(table).held_out
    assert held_out is not None
    score = result["scores"]["survived"]["LCN"]["accuracy"]
    assert score["value"] == pytest.approx(np.mean(model.estimator.predict(held_out.encoded) == held_out.y))
    assert score["low"] <= score["value"] <= score["high"]
    assert np.array_equal(model.trees[0].predict(held_out.X), model.estimator.predict(held_out.encoded))
    assert (result["n_training_rows"], result["n_hold_out_rows"], result["task"]) == (64, 16, "classification")
    assert result["parameters"] == {
        "depth": 2,
        "drop_connect": model.estimator.drop_connect_,
        "weight_decay": 0.0,
        "epochs": 3,
        "random_state": 0,
    }
    assert result["notes"] == list(model.notes)


def test_a_model_fitted_twice_is_the_same(table: Path, tmp_path: Path, type_: Type) -> None:
    for name in ("a", "b"):
        type_("fit", table, "--target", "survived", "--out", tmp_path / name, *QUICK, "--quiet")
    first, second = (next((tmp_path / name).glob("arrays-*")) for name in ("a", "b"))
    assert first.name == second.name


def test_a_small_tree_is_what_a_table_becomes(table: Path, tmp_path: Path, type_: Type) -> None:
    words = ["fit", table, "--target", "survived", "--leaves", 4, "--terms", 2, "--leaf-kind", "constant"]
    typed = type_(*words, "--no-compare", "--out", tmp_path / "m")
    assert typed.code == 0
    assert "training ObliqueTreeClassifier on" in typed.err
    assert re.search(r"tree: \d lea(f|ves), at most \d terms? per question; CART", typed.out)
    assert "for the large tree, which may be more accurate:" in typed.out
    model = load_as_saved(tmp_path / "m")
    assert model.method == "tree"
    assert model.trees[0].n_leaves <= 4
    assert all(np.count_nonzero(model.trees[0].node_weights(n)) <= 2 for n in range(model.trees[0].n_splits))
    assert type_("predict", tmp_path / "m", table).code == 0
    assert type_("export", tmp_path / "m", "--format", "sql").code == 0


def test_options_of_a_small_tree_do_not_go_with_networks(table: Path, tmp_path: Path, type_: Type) -> None:
    typed = type_("fit", table, "--target", "survived", "--leaves", 4, "--depth", 2, "--out", tmp_path / "m")
    assert typed.code == 2
    assert "--leaves does not go with --method lcn; leave it out" in typed.err


@pytest.mark.parametrize("method", ["alcn", "lln", "elcn"])
def test_other_methods(method: str, table: Path, tmp_path: Path, type_: Type) -> None:
    members = ["--members", 2] if method == "elcn" else []
    typed = type_("fit", table, "--target", "survived", "--method", method, "--out", tmp_path / "m", *QUICK, *members)
    assert typed.code == 0, typed.err
    assert f"  {method.upper()}  " in typed.out
    assert (tmp_path / "m" / "tree.json").exists() == (method == "lln")
    model = load_as_saved(tmp_path / "m")
    assert model.method == method
    assert len(model.estimator.predict(people())) == 80


def test_an_ensemble_as_it_comes(table: Path, tmp_path: Path, type_: Type) -> None:
    """Without options: networks and trees, stacked, which are saved and predict."""
    typed = type_("fit", table, "--target", "survived", "--method", "stacked", "--out", tmp_path / "m", "--quiet")
    assert typed.code == 0, typed.err
    model = load_as_saved(tmp_path / "m")
    assert model.estimator.n_estimators_ == 5
    assert len(model.estimator.predict(people())) == 80


def test_regression_and_several_values(table: Path, tmp_path: Path, type_: Type) -> None:
    frame = people().drop(columns="name").assign(weight=lambda f: f["survived"] + 0.25 * np.arange(80))
    frame.to_csv(tmp_path / "t.csv", index=False)
    typed = type_("fit", tmp_path / "t.csv", "--target", "weight", "--out", tmp_path / "one", *QUICK)
    assert "RMSE" in typed.out
    typed = type_("fit", tmp_path / "t.csv", "--target", "weight,age", "--out", tmp_path / "two", *QUICK)
    assert typed.code == 0, typed.err
    assert "\n  weight  " in typed.out
    assert {path.name for path in (tmp_path / "two").glob("report*")} == {
        "report.html",
        "report-weight.html",
        "report-age.html",
    }
    assert 'href="report-age.html"' in (tmp_path / "two" / "report.html").read_text()


def test_labels_of_molecules(molecules: Path, labels_model: Path) -> None:
    model = load_as_saved(labels_model)
    assert (model.task, model.targets) == ("labels", ("toxic", "acid"))
    assert len(model.trees) == len(model.baselines) == 2
    assert any("left out, RDKit cannot read their SMILES (rows 6)" in note for note in model.notes)
    assert any("besides molecules, 'id', 'size' are not used; --features adds columns" in note for note in model.notes)
    for name in ("toxic", "acid"):
        page = (labels_model / f"report-{name}.html").read_text()
        assert "<svg" in page.replace("\\u003c", "<")
        assert (labels_model / f"tree-{name}.txt").exists()
    frame = pd.read_csv(molecules)
    result = predicted_table(model, model.encoder.encode(frame), len(frame))
    assert list(result.columns) == ["probability_toxic", "probability_acid"]
    assert result.isna().all(axis=1).to_numpy().nonzero()[0].tolist() == [5]


def test_text_trees_of_molecules_name_substructures(labels_model: Path, type_: Type) -> None:
    text = type_("export", labels_model, "--label", "toxic").out
    assert text == (labels_model / "tree-toxic.txt").read_text()
    features = load_as_saved(labels_model).encoder.smiles_column.fingerprint
    named = [name for name in features.get_feature_names_out() if f"{name} " in text]
    assert named
    for name in named:
        whole = Chem.MolFromSmiles(features.examples(name)[0].smiles)
        assert whole.HasSubstructMatch(Chem.MolFromSmarts(features.smarts(name)))


def test_hashed_bits_of_older_models_are_explained(labels_model: Path) -> None:
    fingerprint = MorganFingerprint(n_bits=64).fit(["CCO", "CCN.Cl"])
    column = SmilesColumn("smiles", fingerprint)
    older = load_as_saved(labels_model)
    older.estimator.encoder_ = TableEncoder((column,))
    set_bits = sorted(fingerprint.examples_)
    found = substructures(older, " ".join(f"bit_{bit:02d}" for bit in range(64)))
    assert list(found) == [f"bit_{bit:02d}" for bit in set_bits]
    assert all(Chem.MolFromSmarts(smarts) is not None for smarts in found.values())


def test_what_it_says_to_type_next_can_be_typed(molecules: Path, tmp_path: Path, type_: Type) -> None:
    out = tmp_path / "a folder"
    words = ["--smiles", "smiles", "--target", "toxic,acid", "--bits", 64, "--out", out, *QUICK]
    said = type_("fit", molecules, *words).out
    (following,) = [shlex.split(line)[1:] for line in said.splitlines() if line.startswith("  treelu export")]
    assert following == ["export", str(out), "--format", "text", "--label", "toxic"]
    assert type_(*following).code == 0


def test_the_model_is_fitted_to_all_rows_and_the_scores_are_those_of_the_first_fit(
    table: Path, tmp_path: Path, type_: Type
) -> None:
    words = ["fit", table, "--target", "survived", *QUICK]
    typed = type_(*words, "--out", tmp_path / "all")
    assert "the scores are of the fit to 64 rows; the model saved is fitted to all 80" in typed.out
    typed = type_(*words, "--out", tmp_path / "part", "--no-refit")
    assert "the model saved is this fit to 64 rows; those held out are not among them" in typed.out
    first = json.loads(type_(*words, "--out", tmp_path / "first", "--no-refit", "--json").out)
    again = json.loads(type_(*words, "--out", tmp_path / "again", "--json").out)
    assert again["scores"] == first["scores"]  # of the same fit on the same rows
    assert (again["n_rows"], again["n_training_rows"], again["n_hold_out_rows"]) == (80, 64, 16)
    saved = load_as_saved(tmp_path / "all")
    assert (saved.n_rows, saved.n_rows_scored) == (80, 64)
    encoder = TableEncoder.learn(people()[["age", "sex"]], note=lambda text: None)  # of all rows, too
    wanted = type(saved.estimator)(**saved.estimator.get_params(deep=False)).fit(
        encoder.encode(people()), people()["survived"]
    )
    assert np.array_equal(saved.estimator.predict_proba(people()), wanted.predict_proba(people()))
    page = (tmp_path / "all" / "report.html").read_text()
    assert (
        "The scores are of a model fitted to the other 64 rows; the tree shown here was then fitted to all 80." in page
    )
    assert "fitted to the other" not in (tmp_path / "first" / "report.html").read_text()


def test_all_rows_of_a_table_with_a_table_to_score_on_are_fitted_once(table: Path, tmp_path: Path, type_: Type) -> None:
    typed = type_("fit", table, "--target", "survived", "--out", tmp_path / "m", "--valid", table, *QUICK)
    assert "fitting it again" not in typed.err
    assert load_as_saved(tmp_path / "m").n_rows == load_as_saved(tmp_path / "m").n_rows_scored == 80


@pytest.mark.parametrize("target", ["toxic,acid", "size", "size,id"])
def test_labels_values_and_molecules_are_fitted_again(
    target: str, molecules: Path, tmp_path: Path, type_: Type
) -> None:
    typed = type_(
        "fit", molecules, "--smiles", "smiles", "--target", target, "--bits", 32, "--out", tmp_path / "m", *QUICK
    )
    assert typed.code == 0, typed.err
    assert load_as_saved(tmp_path / "m").n_rows == 39


def test_molecules_with_further_columns(molecules: Path, tmp_path: Path, type_: Type) -> None:
    words = ["--smiles", "smiles", "--features", "id", "--target", "size", "--bits", 32, "--out", tmp_path / "m"]
    assert type_("fit", molecules, *words, *QUICK, "--no-refit").code == 0
    assert load_as_saved(tmp_path / "m").encoder.feature_names[30:] == ("C(CCl)C[CH2]~*", "C(CN)C[CH2]~*", "id")


def test_choosing_columns(table: Path, tmp_path: Path, type_: Type) -> None:
    def names(*words: object) -> tuple[str, ...]:
        typed = type_("fit", table, "--target", "survived", "--out", tmp_path / "m", "--force", *QUICK, *words)
        assert typed.code == 0, typed.err
        model = load_as_saved(tmp_path / "m")
        assert isinstance(model, TableModel)
        return tuple(column.name for column in model.encoder.columns)

    assert names("--drop", "sex,name") == ("age",)
    assert names("--features", "sex", "--features", "age") == ("sex", "age")
    assert names("--text", "name") == ("name", "age", "sex")


# The rows


def test_a_table_for_the_scores(table: Path, tmp_path: Path, type_: Type) -> None:
    people().iloc[:30].to_csv(tmp_path / "valid.csv", index=False)
    typed = type_(
        "fit", table, "--target", "survived", "--valid", tmp_path / "valid.csv", "--out", tmp_path / "m", *QUICK
    )
    assert f"scores on 30 rows of {tmp_path / 'valid.csv'}" in typed.out
    assert "on 80 rows, 4 features" in typed.err
    people().assign(survived=5).to_csv(tmp_path / "odd.csv", index=False)
    typed = type_("fit", table, "--target", "survived", "--valid", tmp_path / "odd.csv", "--out", tmp_path / "n")
    assert typed.err.splitlines()[-1] == (
        f"treelu: {tmp_path / 'odd.csv'} has the class '5', which no training row has; leave those rows out"
    )
    people().drop(columns="age").to_csv(tmp_path / "less.csv", index=False)
    typed = type_("fit", table, "--target", "survived", "--valid", tmp_path / "less.csv", "--out", tmp_path / "n")
    assert typed.err.splitlines()[-1].startswith(f"treelu: {tmp_path / 'less.csv'}: the table has no column 'age'")


def test_without_hold_out_there_are_no_scores(table: Path, tmp_path: Path, type_: Type) -> None:
    typed = type_("fit", table, "--target", "survived", "--hold-out", 0, "--out", tmp_path / "m", *QUICK)
    assert typed.code == 0, typed.err
    assert "scores" not in typed.out.split("wrote")[0]


def test_the_hold_out_has_the_classes_in_like_shares_and_is_the_same_each_time() -> None:
    y = np.array(["a"] * 50 + ["b"] * 25 + ["lone"])
    targets = TableTargets("classification", y, np.arange(76))
    training, held_out = split_rows(targets, 0.2, seed=1)
    assert sorted([*training, *held_out]) == list(range(76))
    assert np.unique(y[held_out], return_counts=True)[1].tolist() == [10, 5]
    assert 75 in training
    assert np.array_equal(split_rows(targets, 0.2, seed=1)[0], training)
    assert not np.array_equal(split_rows(targets, 0.2, seed=2)[0], training)


def test_nothing_is_learned_from_held_out_rows(tmp_path: Path) -> None:
    """Medians and categories come from training rows: changing held-out rows does not change the encoder."""
    people().to_csv(tmp_path / "a.csv", index=False)
    first = prepared(tmp_path / "a.csv")
    assert first.held_out is not None
    changed = people()
    rows = [row for row in range(80) if row not in set(split_rows_of(changed))]
    changed.loc[rows, "age"] = 1000.0
    changed.loc[rows, "sex"] = "other"
    changed.to_csv(tmp_path / "b.csv", index=False)
    second = prepared(tmp_path / "b.csv")
    assert second.encoder == first.encoder
    assert second.training.X.equals(first.training.X)


def split_rows_of(frame: pd.DataFrame) -> list[int]:
    targets = TableTargets("classification", frame["survived"].to_numpy(), np.arange(80))
    return split_rows(targets, 0.2, 0)[0].tolist()


# Tuning


def test_tuning_searches_what_was_not_given(
    table: Path, tmp_path: Path, type_: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "DEPTHS", (1, 2))
    monkeypatch.setattr(tuning, "DROP_RATES", (0.0, 0.5))
    words = ["fit", table, "--target", "survived", "--epochs", 2, "--tune", "--folds", 2, "--no-cart"]
    typed = type_(*words, "--drop-connect", 0.25, "--out", tmp_path / "m")
    assert "tuned on 2 folds: depth " in typed.err
    assert "drop rate 0.25 (log-loss 0." in typed.err
    parameters = load_as_saved(tmp_path / "m").estimator.get_params()
    assert parameters["drop_connect"] == 0.25
    assert parameters["depth"] in (1, 2)
    typed = type_(*words[:-3], "--folds", 60, "--out", tmp_path / "n")
    assert typed.err.splitlines()[-1].startswith(
        "treelu: --tune with 60 folds needs 60 rows, but the smallest class has "
    )


def test_tuning_takes_the_smallest_good_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = TableRows(pd.DataFrame({"x": np.arange(20.0)}), np.arange(20.0))
    losses = iter([3.0, 1.0, 2.0, 3.1, 1.2, 2.1])  # of three drop rates on each of two folds
    monkeypatch.setattr(tuning, "fold_loss", lambda *arguments, **options: next(losses))
    options = FitOptions(data="", target=[], out=Path("m"), model=ModelOptions(folds=2))
    estimator = tuning.tune(treelu.LCNRegressor(), rows, "regression", options, fixed={"depth": 3})
    assert (estimator.depth, estimator.drop_connect) == (3, tuning.DROP_RATES[1])


def test_losses_of_a_fold() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    training, testing = np.arange(30), np.arange(30, 40)
    small = {"depth": 1, "epochs": 1, "random_state": 0}
    values = TableRows(X, X["a"].to_numpy())
    model = treelu.LCNRegressor(**small).fit(X[:30], values.y[:30])
    expected = np.sqrt(np.mean((model.predict(X[30:]) - values.y[30:]) ** 2))
    assert tuning.fold_loss(treelu.LCNRegressor(**small), (training, testing), values, "regression") == pytest.approx(
        expected
    )
    labels = np.column_stack([X["a"] > 0, X["b"] > 0]).astype(float)
    labels[::3, 1] = np.nan
    loss = tuning.fold_loss(treelu.LCNClassifier(**small), (training, testing), TableRows(X, labels), "labels")
    assert -1 <= loss <= 0
    lopsided = np.column_stack([np.arange(40) == 0, X["b"] > 0]).astype(float)
    with pytest.raises(InputError, match="a label has one value only in a fold"):
        tuning._parts(TableRows(X, lopsided), "labels", 3, 0)


# Mistakes


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--target", "survivd"], "treelu: --target: the table has no column 'survivd'; did you mean 'survived'?"),
        (["--target", "survived,agee"], "treelu: --target: the table has no column 'agee'; did you mean 'age'?"),
        (
            ["--target", "survived", "--smiles", "smile"],
            "treelu: --smiles: the table has no column 'smile'; it has 'name', 'age', 'sex', 'survived'",
        ),
        (
            ["--target", "survived", "--drop", "Sex"],
            "treelu: --drop: the table has no column 'Sex'; did you mean 'sex'?",
        ),
        (
            ["--target", "survived", "--features", "survived"],
            "treelu: column 'survived' is a --target and cannot be a feature too",
        ),
        (
            ["--target", "survived", "--members", "3"],
            "treelu: --members does not go with --method lcn; leave it out",
        ),
        (
            ["--target", "survived", "--method", "tree", "--max-features", "3"],
            "treelu: --max-tree-features does not go with --method tree; leave it out",
        ),
        (["--target", "age", "--balanced"], "treelu: --balanced does not go with regression; leave it out"),
        (["--target", "sex", "--task", "regression"], "treelu: target 'sex' holds text such as "),
        (["--target", "name"], "treelu: target 'name' has 80 different values in 80 rows, too many for classes; is it"),
        (["--target", "survived", "--delimiter", "ab"], "treelu: --delimiter must be one character, got 'ab'"),
        (["--target", "survived", "--decimal", "x"], "treelu: --decimal must be . or , got 'x'"),
        (["--target", "survived", "--smiles", "sex"], "treelu: RDKit can read none of the SMILES of "),
        (
            ["--target", "survived", "--features", "name"],
            "treelu: no column is left to learn from; see above what was left out, and why",
        ),
    ],
)
def test_messages_of_mistakes(words: list[str], message: str, table: Path, tmp_path: Path, type_: Type) -> None:
    typed = type_("fit", table, "--out", tmp_path / "m", *words)
    assert typed.code == 2
    assert typed.out == ""
    assert typed.err.splitlines()[-1].startswith(message)
    assert "Traceback" not in typed.err
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "treelu: {path} does not exist; check its name and folder"),
        ("", "treelu: {path} is empty; a table needs a line of column names and rows below it"),
        ("x,y\n", "treelu: {path} has a header but no rows; add rows below it"),
        ("x,y,x\n1,2,3\n", "treelu: {path} has two columns named 'x', columns 1 and 3; rename one of them"),
        (
            "x,y\n1,0\n2,0\n",
            "treelu: target 'y' is 0 in all 2 rows: there is nothing to learn; choose another --target",
        ),
        (
            'x,y\n1,"1,500"\n2,"2,500"\n3,"3,500"\n',
            "treelu: column 'y': '1,500' may be 1500 or 1.500; add --decimal . or --decimal ,",
        ),
    ],
)
def test_tables_that_cannot_be_used_get_one_line(
    content: str | None, message: str, tmp_path: Path, type_: Type
) -> None:
    path = tmp_path / "data.csv"
    if content is not None:
        path.write_text(content)
    typed = type_("fit", path, "--target", "y", "--out", tmp_path / "m", "--quiet")
    assert typed == (2, "", message.format(path=path) + "\n")


def test_a_class_that_training_rows_lack(tmp_path: Path, type_: Type) -> None:
    (tmp_path / "t.csv").write_text("x,a,b\n" + "1,0,1\n2,1,0\n" + "".join(f"{i},0,{i % 2}\n" for i in range(20)))
    for seed in range(8):
        typed = type_(
            "fit", tmp_path / "t.csv", "--target", "a,b", "--out", tmp_path / f"m{seed}", "--seed", seed, *QUICK
        )
        if typed.code:
            break
    assert typed.err.splitlines()[-1] == (
        "treelu: target 'a' has one value only in the training rows; give more rows, another --seed or a smaller "
        "--hold-out"
    )


def test_what_is_there_is_not_overwritten(table: Path, tmp_path: Path, type_: Type) -> None:
    out = tmp_path / "m"
    words = ["fit", table, "--target", "survived", "--out", out, *QUICK, "--quiet"]
    out.mkdir()
    assert type_(*words).code == 0  # an empty folder is fine
    (out / "mine.txt").write_text("mine")
    (out / "tree-old.txt").write_text("of another model")
    typed = type_(*words)
    again = "add --force to write there anyway, or choose another folder"
    assert typed == (2, "", f"treelu: --out {out} already holds a model; {again}\n")
    assert type_(*words, "--method", "alcn", "--force").code == 0
    names = {path.name for path in out.iterdir() if not path.name.startswith("arrays-")}
    # An ALCN has no tree: that of the model before is gone, but no file that it did not write.
    assert names == {"model.json", "report.html", "mine.txt", "tree-old.txt"}
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x").write_text("")
    words[words.index(out)] = tmp_path / "other"
    assert type_(*words).err == f"treelu: --out {tmp_path / 'other'} is not empty; {again}\n"
    words[words.index(tmp_path / "other")] = tmp_path / "other" / "x"
    assert type_(*words).err == f"treelu: --out {tmp_path / 'other' / 'x'} is a file; give a folder\n"
    (tmp_path / "other" / "model.json").write_text("{}")
    words[words.index(tmp_path / "other" / "x")] = tmp_path / "other"
    typed = type_(*words, "--force")
    assert typed.code == 2
    assert "has a model.json that treelu did not write; remove it or choose another folder" in typed.err


def test_many_notes_are_kept_short(tmp_path: Path, type_: Type) -> None:
    frame = people()[["survived"]].assign(**{f"c{i}": people()["sex"] for i in range(20)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    typed = type_("fit", tmp_path / "t.csv", "--target", "survived", "--out", tmp_path / "m", *QUICK)
    assert "  … and 10 more notes; the report lists them all" in typed.err
    assert len(load_as_saved(tmp_path / "m").notes) == 22


def test_files_of_others_are_neither_removed_nor_overwritten(table: Path, tmp_path: Path, type_: Type) -> None:
    out = tmp_path / "m"
    out.mkdir()
    mine = {"tree-notes.txt": "1", "trees.json": "2", "tree2.json": "3", "report-2023.html": "4", "reports.html": "5"}
    for name, text in mine.items():
        (out / name).write_text(text)
    words = ["fit", table, "--target", "survived", "--out", out, *QUICK, "--quiet", "--no-cart", "--force"]
    assert type_(*words).code == 0
    assert type_(*words, "--method", "alcn").code == 0
    assert not (out / "tree.txt").exists()
    (out / "tree.txt").write_text("mine, too")
    typed = type_(*words)
    wanted = f"{out / 'tree.txt'} is there and belongs to no model; move it away or choose another folder"
    assert typed == (2, "", f"treelu: {wanted}\n")
    assert type_("fit", table, "--target", "age", "--out", out, "--force", "--depth", 1, "--folds", "x").code == 2
    assert {name: (out / name).read_text() for name in mine} == mine
    assert (out / "tree.txt").read_text() == "mine, too"


def test_a_folder_of_version_0_1_is_replaced_with_what_it_wrote(table: Path, tmp_path: Path, type_: Type) -> None:
    """Its manifests do not list the files beside them."""
    out = tmp_path / "m"
    words = ["fit", table, "--target", "survived", "--out", out, *QUICK, "--quiet", "--no-cart", "--force"]
    assert type_(*words).code == 0
    manifest = json.loads((out / "model.json").read_text())
    del manifest["beside"], manifest["sha256"]
    manifest["model"] = {"kind": "TableModel", "targets": ["survived"]}
    (out / "model.json").write_text(json.dumps(manifest | {"treelu": "0.1.0"}))
    (out / "tree-of-mine.txt").write_text("mine")
    assert type_(*words, "--method", "alcn").code == 0
    assert not (out / "tree.txt").exists()
    assert (out / "tree-of-mine.txt").read_text() == "mine"


def test_targets_with_like_names_keep_their_own_files(tmp_path: Path, type_: Type) -> None:
    frame = people()[["age", "survived"]].dropna().rename(columns={"survived": "IC50 (a)"})
    frame = frame.assign(**{"IC50 [a]": 1 - frame["IC50 (a)"], "ic50 a": (frame["age"] > 40).astype(int)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    targets = ["IC50 (a)", "IC50 [a]", "ic50 a"]
    words = [word for target in targets for word in ("--target", target)]
    assert type_("fit", tmp_path / "t.csv", *words, "--out", tmp_path / "m", *QUICK, "--quiet", "--no-cart").code == 0
    stems = ["IC50-a", "IC50-a-2", "ic50-a-3"]
    for stem, target, tree in zip(stems, targets, load_as_saved(tmp_path / "m").trees, strict=True):
        assert treelu.ObliqueTree.from_json((tmp_path / "m" / f"tree-{stem}.json").read_text()) == tree
        assert target in (tmp_path / "m" / f"report-{stem}.html").read_text()
    links = (tmp_path / "m" / "report.html").read_text()
    assert all(f'href="report-{stem}.html"' in links for stem in stems)


def test_names_of_files_stay_short() -> None:
    words = file_words(["x" * 400, "x" * 401, "ü" * 300, "/", "..", "CON"])
    assert len(set(words.values())) == 6
    assert all(len(f"report-{word}.html".encode()) < 200 for word in words.values())
    targets = ["NR-AR / 2", "IC50 (a)", "IC50 [a]", "ic50-A"]
    assert file_words(targets) == dict(zip(targets, ["NR-AR-2", "IC50-a", "IC50-a-2", "ic50-A-3"], strict=True))


def test_a_folder_that_cannot_be_written_is_noticed_before_training(
    table: Path, tmp_path: Path, type_: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("treelu.cli.fit.prepare_files", refuse)  # not reached
    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    typed = type_("fit", table, "--target", "survived", "--out", tmp_path / "new" / "m")
    assert typed.code == 2
    assert typed.err == (
        f"treelu: --out {tmp_path / 'new' / 'm'}: nothing can be written to {tmp_path} (Permission denied)\n"
    )
    assert not (tmp_path / "new").exists()
    typed = type_("fit", table, "--target", "survived", "--out", table / "m")
    assert typed.code == 2
    assert "nothing can be written" in typed.err


# Scores that mislead


def rare(n: int = 600, seed: int = 0) -> pd.DataFrame:
    """A table with 2 % of frauds that the features hardly tell."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)).round(3), columns=["a", "b", "c"])
    return frame.assign(kind=np.where(rng.random(n) < 0.02, "fraud", "fine"))


def test_a_rare_class_stands_beside_its_baseline_with_hints(tmp_path: Path, type_: Type) -> None:
    rare().to_csv(tmp_path / "t.csv", index=False)
    typed = type_("fit", tmp_path / "t.csv", "--target", "kind", "--out", tmp_path / "m", *QUICK)
    assert "always fine" in typed.out
    assert "recall and precision are those of kind = fraud" in typed.out
    (line,) = [line for line in typed.out.splitlines() if line.startswith("warning: 'fraud' is never predicted")]
    assert "--balanced" in line
    assert "threshold" in line


def test_a_threshold_is_kept_with_the_model(tmp_path: Path, type_: Type) -> None:
    rare().to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", tmp_path / "t.csv", "--target", "kind", "--out", tmp_path / "m", *QUICK, "--threshold", 0.02]
    result = json.loads(type_(*words, "--json").out)
    assert result["scores"]["kind"]["LCN"]["recall"]["value"] is not None
    model = load_as_saved(tmp_path / "m")
    fraud = model.estimator.classes_.tolist().index("fraud")
    assert model.positive == fraud
    chances = model.estimator.predict_proba(rare())[:, fraud]
    assert ((predicted(model, rare()) == "fraud") == (chances >= 0.02)).all()
    told = type_("predict", tmp_path / "m", tmp_path / "t.csv").out.splitlines()[1:]
    assert [line.split(",")[0] for line in told] == predicted(model, rare()).tolist()
    refused = type_("fit", tmp_path / "t.csv", "--target", "a", "--out", tmp_path / "n", "--threshold", 0.3)
    assert refused.err.splitlines()[-1] == "treelu: --threshold is for a target of two classes; leave it out"


def test_cart_gets_the_same_weights(tmp_path: Path, type_: Type) -> None:
    rare().to_csv(tmp_path / "t.csv", index=False)
    type_("fit", tmp_path / "t.csv", "--target", "kind", "--out", tmp_path / "m", *QUICK, "--balanced")
    model = load_as_saved(tmp_path / "m")
    (named,), fraud = model.baselines, 1
    cart = named["CART"]
    assert model.estimator.classes_.tolist() == ["fine", "fraud"]
    X, y = rare()[["a", "b", "c"]].to_numpy(), rare()["kind"].to_numpy()
    weighted = fit_cart(X, y, classifier=True, class_weight="balanced")
    assert cart.n_leaves == weighted.get_n_leaves()
    # and its probabilities are corrected for them: the share of the class in each leaf
    shares = pd.Series(y == "fraud").groupby(cart.apply(X)).transform("mean")
    np.testing.assert_allclose(cart.predict_proba(X)[:, fraud], shares, atol=1e-9)


@pytest.mark.parametrize("leaves", [2, 5])
def test_cart_beside_a_small_tree_has_no_more_leaves(leaves: int, tmp_path: Path, type_: Type) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)).round(3)
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=(X[:, 0] * X[:, 1] > 0).astype(int))
    table.to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", tmp_path / "t.csv", "--target", "y", "--out", tmp_path / "m", "--leaves", leaves, "--no-compare"]
    typed = type_(*words, "--task", "classification")
    assert typed.code == 0, typed.err
    model = load_as_saved(tmp_path / "m")
    ((tree,), (named,)) = model.trees, model.baselines
    assert list(named) == ["CART", "small CART", "logistic regression"]
    cart, small = named["CART"], named["small CART"]
    assert 2 <= small.n_leaves <= max(2, tree.n_leaves) <= leaves
    assert f"CART: {cart.n_leaves} leaves; small CART: {small.n_leaves} leaves\n" in typed.out


def test_training_rows_are_not_called_hold_out(table: Path, tmp_path: Path, type_: Type) -> None:
    rows = prepared(table).training.numbers
    assert rows is not None
    people().iloc[rows - 1].to_csv(tmp_path / "training.csv", index=False)
    words = ["fit", table, "--target", "survived", "--no-refit", "--quiet", *QUICK]
    model = tmp_path / "m"
    assert type_(*words, "--out", model).code == 0
    typed = type_("report", model, tmp_path / "training.csv", "--out", tmp_path / "r.html")
    assert "scores on 64 training rows (95 % interval)" in typed.out
    assert "warning: these are the training rows: the scores are too good" in typed.out
    typed = type_("report", model, table, "--out", tmp_path / "all.html")
    assert re.search(r"warning: (7|8)\d% of these rows were used in training", typed.out)


def test_suspicious_columns_and_targets_are_warned_of(tmp_path: Path, type_: Type) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    y = x + rng.normal(0, 0.1, 300)
    y[:3] = 1e6
    frame = pd.DataFrame({"id": range(300), "x": x, "smiles": rng.choice(["C", "CC"], 300), "y": y})
    frame.to_csv(tmp_path / "t.csv", index=False)
    typed = type_("fit", tmp_path / "t.csv", "--target", "y", "--out", tmp_path / "m", *QUICK)
    for words in (
        "column 'id' only rises from row to row; --drop id if it numbers the rows",
        "column 'smiles' seems to hold molecules; add --smiles smiles",
        "values lie far from the others, such as 1e+06",
    ):
        assert words in typed.err
        assert any(line.startswith("warning: ") and words in line for line in typed.out.splitlines())


def test_folds_of_molecules_keep_ring_skeletons_together() -> None:
    rings = ["c1ccccc1", "C1CCCCC1", "c1ccncc1", "c1ccoc1", "C1CC1", "c1ccsc1"]
    smiles = [ring + "C" * tail for tail in range(8) for ring in rings]
    y = np.array(["a", "b"] * 24)
    for task in ("classification", "regression"):
        rows = TableRows(np.zeros((48, 1)), y if task == "classification" else np.arange(48.0), smiles)
        for training, testing in tuning._parts(rows, task, 3, 0):
            kept, held_out = ({smiles[row].rstrip("C") for row in part} for part in (training, testing))
            assert not kept & held_out
            assert sorted([*training, *testing]) == list(range(48))
    alike = TableRows(np.zeros((48, 1)), y, ["CC"] * 48)  # one skeleton: folds at random
    assert len(tuning._parts(alike, "classification", 3, 0)) == 3


def test_training_on_molecules_is_as_long_as_does_best_on_other_skeletons(tmp_path: Path, type_: Type) -> None:
    rings = ["c1ccccc1", "C1CCCCC1", "c1ccncc1", "c1ccoc1", "C1CC1", "c1ccsc1"]
    smiles = [ring + "C" * tail + end for tail in range(5) for ring in rings for end in ("O", "Cl")]
    acts = ["yes" if text.endswith("O") else "no" for text in smiles]
    pd.DataFrame({"smiles": smiles, "acts": acts}).to_csv(tmp_path / "mols.csv", index=False)
    words = ["fit", tmp_path / "mols.csv", "--smiles", "smiles", "--target", "acts", "--no-cart"]
    typed = type_(*words, "--out", tmp_path / "chosen")
    assert ", chosen on ring skeletons held out (AUC " in typed.err
    chosen = load_as_saved(tmp_path / "chosen").estimator
    assert chosen.get_params()["epochs"] in {setting["epochs"] for setting in tuning.MOLECULE_SETTINGS}
    assert "chosen on" not in type_(*words, "--epochs", 3, "--out", tmp_path / "given").err
