"""`treelu fit --groups`: rows of one group are held out together, and their column is not a feature."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import treelu
from tests.cli.conftest import QUICK, Type
from treelu.cli import tune as tuning
from treelu.cli.messages import InputError, Notes
from treelu.cli.options import ColumnOptions, FitOptions
from treelu.cli.prepare import TableRows, prepare, split_rows
from treelu.persistence import load_as_saved
from treelu.report.scores import REGRESSION, score_models
from treelu.tables import TableTargets


def visits(n_patients: int = 30, n_visits: int = 4) -> pd.DataFrame:
    """Visits of a patient are nearly the same row; the outcomes of patients are random."""
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(n_patients), n_visits)
    X = rng.normal(size=(n_patients, 3))[patient] + 0.01 * rng.normal(size=(len(patient), 3))
    outcome = rng.permutation(np.where(np.arange(n_patients) % 2, "well", "ill"))[patient]
    names = np.array([f"p{number}" for number in range(n_patients)])
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(patient=names[patient], outcome=outcome)
    return frame.sample(frac=1, random_state=0).reset_index(drop=True)


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    visits().to_csv(path, index=False)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), QUICK, ("--method", "lcn", "--tune", "--epochs", 1, "--depth", 1)])
def test_the_column_of_groups_is_not_a_feature(clinic: Path, tmp_path: Path, type_: Type, options: tuple) -> None:
    common = ("--target", "outcome", "--groups", "patient", "--json", *options)
    typed = type_("fit", clinic, *common, "--out", tmp_path / "model")
    assert typed.code == 0, typed.err
    assert "column 'patient' has 30 groups, whose rows are held out together; it is not a feature" in typed.err
    facts = json.loads(typed.out)
    assert facts["n_features"] == 3
    assert facts["n_hold_out_rows"] == 24  # six patients of four visits
    model = load_as_saved(tmp_path / "model")
    assert set(model.encoder.feature_names) == {"a", "b", "c"}
    new = tmp_path / "new.csv"
    visits().drop(columns=["patient", "outcome"]).to_csv(new, index=False)
    assert type_("predict", tmp_path / "model", new).code == 0


@pytest.mark.slow
def test_every_fit_is_given_the_groups(
    clinic: Path, tmp_path: Path, type_: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fit that is scored, the fit to all rows, and the large tree beside it."""
    given = []
    for kind in (treelu.ObliqueTreeClassifier, treelu.LCNClassifier):
        real = kind.fit

        def watched(self, X, y=None, *args, real=real, groups=None, **options):  # type: ignore[no-untyped-def]
            if groups is not None:
                given.append((type(self).__name__, len(groups), len(set(groups.tolist()))))
            return real(self, X, y, *args, groups=groups, **options)

        monkeypatch.setattr(kind, "fit", watched)
    command = ("fit", clinic, "--target", "outcome", "--groups", "patient", "--compare", "--out", tmp_path / "model")
    assert type_(*command, "--leaves", 2, "--terms", 1).code == 0
    tree = [("ObliqueTreeClassifier", 96, 24), ("ObliqueTreeClassifier", 120, 30)]
    assert [entry for entry in given if entry[0] != "LCNClassifier"] == tree
    assert ("LCNClassifier", 96, 24) in given


def test_no_group_is_on_both_sides_of_the_hold_out(clinic: Path) -> None:
    for seed in range(5):
        columns = ColumnOptions(groups="patient")
        options = FitOptions(data=str(clinic), target=["outcome"], out=Path("m"), columns=columns, seed=seed)
        table = prepare(options, Notes(quiet=True))
        assert table.held_out is not None
        training, held_out = table.training.groups, table.held_out.groups
        assert training is not None
        assert held_out is not None
        assert not set(training) & set(held_out)
        assert set(table.held_out.y) == {"ill", "well"}
        assert table.whole is not None
        assert len(np.unique(table.whole().training.groups)) == 30


def test_folds_of_tune_keep_groups_together() -> None:
    groups = np.arange(60) // 4
    for y, task in ((groups % 2, "classification"), (np.arange(60.0), "regression")):
        parts = tuning._folds(TableRows(np.zeros((60, 1)), y, groups=groups), task, 3, 0)
        assert len(parts) == 3
        assert all(not set(groups[train]) & set(groups[test]) for train, test in parts)
    with pytest.raises(InputError, match="needs 3 groups with rows of each class"):
        tuning._folds(
            TableRows(np.zeros((60, 1)), np.arange(60) // 30, groups=np.arange(60) // 30), "classification", 3, 0
        )


@pytest.mark.parametrize("task", ["classification", "regression", "labels"])
@pytest.mark.parametrize("n_groups", [3, 5, 40])
@pytest.mark.parametrize("share", [0.1, 0.2, 0.5, 0.9])
def test_groups_are_held_out_in_about_the_share(task, n_groups: int, share: float) -> None:  # type: ignore[no-untyped-def]
    groups = np.repeat(np.arange(n_groups), 6)
    y = {"classification": groups * 0 + np.arange(len(groups)) % 2, "regression": np.arange(len(groups)) * 0.5}
    targets = TableTargets(task, y.get(task, np.zeros((len(groups), 2))), np.arange(len(groups)))
    training, held_out = split_rows(targets, share, 0, groups)
    assert sorted([*training, *held_out]) == list(range(len(groups)))
    assert not set(groups[training]) & set(groups[held_out])
    n_held_out = len(set(groups[held_out]))
    assert 1 <= n_held_out <= n_groups - 2
    assert abs(n_held_out - share * n_groups) <= 2 + n_groups / 20


def test_intervals_of_grouped_rows_are_those_of_groups() -> None:
    """Ten copies of each row say no more than one: the interval is that of the rows before they were copied."""
    rng = np.random.default_rng(0)
    target = rng.normal(size=30)
    wrong = target + rng.normal(size=30)
    rows = np.repeat(np.arange(30), 10)
    single = score_models(target, {"model": wrong}, REGRESSION, 0)["scores"]["model"]["rmse"]
    copied = score_models(target[rows], {"model": wrong[rows]}, REGRESSION, 0, groups=rows)["scores"]["model"]["rmse"]
    assert copied == pytest.approx({**single})


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda t: t, ("--groups", "person"), "person"),
        (lambda t: t, ("--groups", "outcome"), "column 'outcome' has the --groups and cannot be a target or a feature"),
        (lambda t: t, ("--groups", "a", "--features", "a,b"), "column 'a' has the --groups"),
        (lambda t: t.assign(patient=t.patient.where(t.index != 4)), ("--groups", "patient"), "no value in row 5"),
        (lambda t: t.assign(patient="p1"), ("--groups", "patient"), "has a single group"),
        (lambda t: t.assign(patient=np.arange(len(t)) % 2), ("--groups", "patient"), "2 groups are too few"),
        (
            lambda t: t.assign(
                patient=t.outcome + (t.index % 2).astype(str), outcome=t.outcome + (t.index % 2).astype(str)
            ),
            ("--groups", "patient"),
            "each class has all its rows in one group",
        ),
    ],
)
def test_mistakes_are_named(change, options: tuple, message: str, tmp_path: Path, type_: Type) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "visits.csv"
    change(visits()).to_csv(path, index=False)
    typed = type_("fit", path, "--target", "outcome", "--out", tmp_path / "model", *options)
    assert typed.code == 2
    assert message in typed.err


def test_groups_of_a_table_larger_than_memory(clinic: Path, tmp_path: Path, type_: Type) -> None:
    typed = type_(
        "fit", clinic, "--target", "outcome", "--groups", "patient", "--out", tmp_path / "m", "--scheduler", "local"
    )
    assert typed.code != 0
    assert "--groups: a cluster takes none" in typed.err
