"""`cv` and `groups`: rows that belong together are never on both sides of a split, in any estimator."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from treelu import (
    ALCNClassifier,
    ALCNRegressor,
    ELCNClassifier,
    ELCNRegressor,
    LCNClassifier,
    LCNRegressor,
    LLNClassifier,
    ObliqueTreeClassifier,
    ObliqueTreeRegressor,
    StackedClassifier,
    StackedRegressor,
)
from treelu.data.dataset import Dataset
from treelu.data.folds import Folding, fold_numbers, folds
from treelu.data.rows import read_folding
from treelu.data.targets import Targets
from treelu.estimators import small
from treelu.nn import Table
from treelu.persistence import load
from treelu.training.fit import hold_out

SMALL: dict[str, Any] = {"max_leaf_nodes": 4, "n_updates": 30, "teacher": None, "random_state": 0}
NETWORK: dict[str, Any] = {"depth": 3, "epochs": 3, "random_state": 0}
STACK: dict[str, Any] = {"n_estimators": 2, "n_trees": 10, "random_state": 0}
ESTIMATORS: list[Any] = [
    ObliqueTreeClassifier(**SMALL),
    ObliqueTreeRegressor(**SMALL),
    LCNClassifier(**NETWORK),
    LCNRegressor(**NETWORK),
    LLNClassifier(**NETWORK),
    ALCNClassifier(**NETWORK, early_stopping=True),
    StackedClassifier(ALCNClassifier(depth=3, epochs=3), **STACK),
    StackedRegressor(ALCNRegressor(depth=3, epochs=3), **STACK),
]
NAMES = [type(estimator).__name__ for estimator in ESTIMATORS]
OTHERS: dict[str, Any] = {
    "averaged": ELCNClassifier(ALCNClassifier(depth=3, epochs=3), combine="average", n_estimators=2, random_state=0),
    "boosted": ELCNRegressor(ALCNRegressor(depth=3, epochs=3), combine="boost", n_estimators=2, random_state=0),
    "linear leaves": ObliqueTreeRegressor(**{**SMALL, "teacher": "auto"}, linear_leaves=True),
}


def patients(n_patients: int = 60, n_visits: int = 10, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Visits of a patient are nearly the same row; the labels of patients are random."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_patients), n_visits)
    X = rng.normal(size=(n_patients, 5))[groups] + 0.01 * rng.normal(size=(len(groups), 5))
    return X, rng.permutation(np.arange(n_patients) % 2)[groups], groups


@pytest.mark.slow
def test_a_small_tree_does_not_learn_patients_by_heart() -> None:
    X, y, groups = patients()
    leaky = ObliqueTreeClassifier(teacher=None, n_updates=200, random_state=0).fit(X, y)
    held = clone(leaky).fit(X, y, groups=groups)
    chosen = {name: model.path_.loc[model.path_["chosen"]].iloc[0] for name, model in (("l", leaky), ("h", held))}
    assert chosen["l"]["score"] > 0.85  # near-duplicates of the rows held out were trained on
    assert chosen["h"]["score"] < 0.7
    assert held.tree_.n_leaves < leaky.tree_.n_leaves
    by_cv = clone(leaky).set_params(cv=GroupKFold(5)).fit(X, y, groups=groups)
    assert by_cv.path_.loc[by_cv.path_["chosen"], "score"].iloc[0] < 0.7


def test_probabilities_are_calibrated_for_new_patients() -> None:
    """Random labels: nothing is known of a new patient, and probabilities should say so."""
    X, y, groups = patients()
    new, y_new, _ = patients(seed=1)

    def log_loss(model: Any) -> float:
        return -float(np.log(model.predict_proba(new)[np.arange(len(y_new)), y_new]).mean())

    model = LCNClassifier(depth=8, drop_connect=0.05, random_state=0)
    by_row, by_group = log_loss(clone(model).fit(X, y)), log_loss(clone(model).fit(X, y, groups=groups))
    assert by_group < by_row
    assert by_group < np.log(2) + 0.1


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [*ESTIMATORS, *OTHERS.values()], ids=[*NAMES, *OTHERS])
@pytest.mark.parametrize("how", ["groups", "cv", "groups and cv"])
def test_no_group_is_on_both_sides(estimator: Any, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fold that any part of a fit asks for keeps groups together."""
    X, y, groups = patients(30, 4)
    seen: list[int] = []
    real = folds

    def watched(*args: Any, **options: Any) -> Any:
        parts = real(*args, **options)
        folding = args[3]
        assert folding is not None
        seen.append(len(parts))
        of = folding.groups
        if of is not None:
            assert all(not set(of[train]) & set(of[test]) for train, test in parts)
        return parts

    for module in ("treelu.data.targets", "treelu.training.small.rows"):
        monkeypatch.setattr(f"{module}.folds", watched)
    model = clone(estimator)
    if "cv" in how.split():
        model.set_params(cv=list(GroupKFold(3).split(X, y, groups)))
    y = y if hasattr(model, "predict_proba") else y + 0.1 * X[:, 0]
    with warnings.catch_warnings(action="ignore"):
        model.fit(X, y, **({"groups": groups} if "groups" in how else {}))
    assert seen


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=NAMES)
def test_metadata_routing(estimator: Any) -> None:
    X, y, groups = patients(20, 4)
    y = y if hasattr(estimator, "predict_proba") else y + 0.1 * X[:, 0]
    with config_context(enable_metadata_routing=True), warnings.catch_warnings(action="ignore"):
        model = clone(estimator).set_fit_request(groups=True)
        pipe = make_pipeline(StandardScaler(), model).fit(X, y, groups=groups)
        expected = clone(estimator).fit(StandardScaler().fit_transform(X), y, groups=groups)
    np.testing.assert_array_equal(pipe.predict(X), expected.predict(StandardScaler().fit_transform(X)))


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=NAMES)
@pytest.mark.parametrize("cv", [3, TimeSeriesSplit(3), ShuffleSplit(3, random_state=0)], ids=str)
def test_any_splitter(estimator: Any, cv: Any) -> None:
    X, y, _ = patients(20, 4)
    y = y if hasattr(estimator, "predict_proba") else y + 0.1 * X[:, 0]
    with warnings.catch_warnings(action="ignore"):
        model = clone(estimator).set_params(cv=cv).fit(X, y)
        assert np.isfinite(model.predict(X)).all()
        if not isinstance(cv, int):
            again = clone(estimator).set_params(cv=list(cv.split(X, y))).fit(X, y)
            np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=NAMES)
def test_rows_without_weight_are_as_good_as_removed(estimator: Any) -> None:
    """Also where the folds are those of groups or of a list, and where classes are balanced."""
    X, y, groups = patients(20, 4)
    weight = (np.arange(len(X)) % 4 > 0).astype(float)
    kept = np.flatnonzero(weight)
    y = y if hasattr(estimator, "predict_proba") else y + 0.1 * X[:, 0]
    models = [clone(estimator)]
    if "class_weight" in estimator.get_params():
        models.append(clone(estimator).set_params(class_weight="balanced"))
    with warnings.catch_warnings(action="ignore"):
        for model in models:
            weighted = clone(model).fit(X, y, sample_weight=weight, groups=groups)
            removed = clone(model).fit(X[kept], y[kept], groups=groups[kept])
            np.testing.assert_array_equal(weighted.predict(X), removed.predict(X))
        parts = list(GroupKFold(3).split(X, y, groups))
        inside = [tuple(np.searchsorted(kept, np.intersect1d(side, kept)) for side in part) for part in parts]
        weighted = clone(estimator).set_params(cv=parts).fit(X, y, sample_weight=weight)
        removed = clone(estimator).set_params(cv=inside).fit(X[kept], y[kept])
    np.testing.assert_array_equal(weighted.predict(X), removed.predict(X))


# Folds


@pytest.mark.parametrize("are_classes", [True, False])
def test_integer_weights_fold_as_repeated_rows_of_a_group(are_classes: bool) -> None:
    rng = np.random.default_rng(0)
    key, weight = rng.integers(0, 3, 60), rng.integers(1, 5, 60)
    of_weighted = fold_numbers(key, 4, np.random.default_rng(1), weight=weight, are_classes=are_classes)
    rows = np.repeat(np.arange(60), weight)
    of_repeated = fold_numbers(key[rows], 4, np.random.default_rng(1), rows, are_classes=are_classes)
    np.testing.assert_array_equal(of_weighted[rows], of_repeated)


def test_folds_by_group_have_like_sizes_and_classes() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(200), rng.integers(1, 20, 200))
    key = rng.permutation(np.arange(200) % 4 == 0).astype(int)[groups]
    parts = folds(key, 5, np.random.default_rng(0), Folding(groups), are_classes=True)
    assert sorted(np.concatenate([test for _, test in parts]).tolist()) == list(range(len(groups)))
    sizes = np.array([len(test) for _, test in parts])
    shares = np.array([key[test].mean() for _, test in parts])
    assert np.ptp(sizes) <= 20
    assert np.ptp(shares) < 0.1


def test_a_group_that_has_all_of_a_class_is_never_held_out() -> None:
    groups, key = np.repeat(np.arange(10), 3), np.zeros(30, int)
    key[4] = 1
    number = fold_numbers(key, 3, np.random.default_rng(0), groups, are_classes=True)
    assert set(number[groups == 1]) == {3}
    assert set(number[groups != 1]) == {0, 1, 2}


@pytest.mark.parametrize("with_groups", [False, True])
def test_early_stopping_holds_out_both_classes(with_groups: bool) -> None:
    for seed in range(5):
        y = np.array([0] * 40 + [1] * 4, np.float32)
        folding = Folding(np.arange(44) // 2) if with_groups else None
        sample = Dataset(Table(np.zeros((44, 1))), Targets("binary", y[:, None], 1, folding=folding))
        train, valid = hold_out(sample, seed)
        assert set(y[train.rows]) == set(y[valid.rows]) == {0, 1}
        if with_groups:
            assert not set(train.rows // 2) & set(valid.rows // 2)


# Invalid input


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=NAMES)
@pytest.mark.parametrize(
    ("cv", "groups", "message"),
    [
        (None, lambda g: g[:-1], "groups must have one value for each of the 80 rows"),
        (None, lambda g: g * 0, "groups must have at least two different values"),
        (None, lambda g: np.where(g == 3, np.nan, g), "groups has a missing value in row 12"),
        (25, lambda g: g, "cv=25 needs at least 25 groups, got 20"),
        (81, lambda g: None, "cv=81 needs at least 81 rows, got 80"),
        (KFold(2, shuffle=True, random_state=0), lambda g: g, "rows of one group on both sides"),
        ([(range(40), range(40, 81))], lambda g: None, "row 80 does not exist; X has 80 rows"),
        ([(range(41), range(40, 80))], lambda g: None, "row 40 in both"),
        ([], lambda g: None, "cv has 0 splits"),
        ([(range(80), [])], lambda g: None, "none with rows to train on and rows to hold out"),
        ([range(80)], lambda g: None, "iterable of pairs"),
    ],
)
def test_errors_name_the_argument(estimator: Any, cv: Any, groups: Any, message: str) -> None:
    X, y, of = patients(20, 4)
    model = clone(estimator) if cv is None else clone(estimator).set_params(cv=cv)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, groups=groups(of))


def test_a_tree_of_groups_of_one_class_each() -> None:
    X, _, groups = patients(2, 20)
    with pytest.raises(ValueError, match="no group can be held out"):
        ObliqueTreeClassifier(**SMALL).fit(X, groups, groups=groups)


def test_groups_of_rows_outside_memory() -> None:
    X, y, groups = patients(20, 4)
    with pytest.raises(ValueError, match="groups needs the rows in memory"):
        LCNClassifier(**NETWORK).fit(iter([(X, y)]), groups=groups)
    with pytest.raises(ValueError, match="cv needs the rows in memory"):
        ObliqueTreeClassifier(**SMALL, cv=KFold(2)).fit(iter([(X, y)]))


def test_cv_of_a_member_is_refused() -> None:
    X, y, _ = patients(20, 4)
    with pytest.raises(ValueError, match="set cv of the ensemble"):
        ELCNClassifier(ALCNClassifier(cv=3)).fit(X, y)


def test_a_model_with_a_splitter_is_saved(tmp_path: Any) -> None:
    X, y, groups = patients(20, 4)
    model = ObliqueTreeClassifier(**SMALL, cv=GroupKFold(3)).fit(X, y, groups=groups)
    with pytest.warns(UserWarning, match="cv"):
        model.save(tmp_path / "model")
    assert load(tmp_path / "model").cv is None
    kept = ObliqueTreeClassifier(**SMALL, cv=3).fit(X, y)
    kept.save(tmp_path / "other")
    assert load(tmp_path / "other").cv == 3


def test_groups_by_any_label() -> None:
    X, y, groups = patients(5, 4)
    names = np.array(["a", "b", "c", "d", "e"], object)[groups]
    folding = read_folding(None, names, X, y, are_classes=True)
    assert folding is not None
    assert folding.groups is not None
    np.testing.assert_array_equal(folding.groups, groups)


def test_one_function_divides_rows() -> None:
    """No estimator calls a splitter of its own: what does not go through `folds` would not see groups."""
    from pathlib import Path

    package = Path(small.__file__).parents[1]
    named = ("KFold", "ShuffleSplit(", "train_test_split", "check_cv")
    users = {
        path.relative_to(package).as_posix()
        for folder in ("data", "estimators", "training")
        for path in (package / folder).rglob("*.py")
        if any(
            f"import {name}" in line or f", {name}" in line
            for line in path.read_text().splitlines()
            if "import" in line
            for name in named
        )
    }
    assert users == {"data/rows.py"}
